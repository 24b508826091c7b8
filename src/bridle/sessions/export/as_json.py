"""The whole session as one JSON document: the record, the user's messages, the unchanged events.

{"format": "bridle-session", "v": 1, "session": {…}, "messages": […], "events": […]}
"""

from typing import BinaryIO

import msgspec

from bridle.sessions.event_log import EventLog
from bridle.sessions.history import damaged
from bridle.sessions.home import StateHome
from bridle.sessions.store import SessionRecord
from bridle.sessions.user_messages import TextCleaner, user_messages


def write(home: StateHome, record: SessionRecord, cleaner: TextCleaner, out: BinaryIO) -> None:
    """Write the document; each event is on its own line, byte for byte as in the event file."""
    encode = msgspec.json.encode
    out.write(b'{"format":"bridle-session","v":1,\n"session":' + encode(record))
    out.write(b',\n"messages":[')
    between = b"\n"
    for message in user_messages(home, record, cleaner):
        out.write(between + encode(message))
        between = b",\n"
    out.write(b'],\n"events":[')
    between = b"\n"
    for number, line in enumerate(EventLog(home.folder(record.session_id)).lines(), 1):
        try:
            msgspec.json.decode(line)
        except msgspec.MsgspecError:
            raise damaged(record, number) from None
        out.write(between + line)
        between = b",\n"
    out.write(b"]}\n")
