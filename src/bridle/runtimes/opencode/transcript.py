"""OpenCode's database of conversations: where it is, which models worked, what was used.

One SQLite file contains all sessions. `…/opencode.db#ses_ID` names one of them; the file alone
means all. What `opencode export` prints is read too. OpenCode records a call for the session's
title nowhere: neither in a message nor in the session's own sum.
"""

import os
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import msgspec

from bridle.core import structs
from bridle.core.results import TranscriptSummary, transcript_summary
from bridle.core.usage import NO_USAGE
from bridle.runtimes.history import Spent
from bridle.runtimes.opencode.wire import Tokens

_BUSY_SECONDS = 2.0
_MESSAGES = """
select message.data from message
join session on session.id = message.session_id and session.time_created <= message.time_created
{} order by message.time_created, message.id
"""
"""A copy of a session ("fork") contains all messages of its source, which are older than the copy
and not its own work."""

_PROMPTS = """
SELECT message.data, EXISTS (
    SELECT 1 FROM part WHERE part.message_id = message.id
    AND json_extract(part.data, '$.type') IN ('text', 'file', 'compaction')
    AND json_extract(part.data, '$.synthetic') IS NOT TRUE
    AND json_extract(part.data, '$.auto') IS NOT TRUE
) FROM message WHERE message.session_id = ? ORDER BY message.id
"""
"""Every message, and whether it contains something that a user gave: OpenCode writes user messages
itself when it shortens a context."""


class _Time(msgspec.Struct, frozen=True):
    created: float = 0.0


class Message(msgspec.Struct, frozen=True):
    """A stored message, as far as its usage is concerned."""

    role: str = ""
    provider_id: str = msgspec.field(name="providerID", default="")
    model_id: str = msgspec.field(name="modelID", default="")
    tokens: Tokens = Tokens()
    cost: float = 0.0
    time: _Time = _Time()


class _Exported(msgspec.Struct, frozen=True):
    info: Message = Message()


class _Session(msgspec.Struct, frozen=True):
    time: _Time = _Time()


class _Export(msgspec.Struct, frozen=True):
    messages: list[_Exported]
    info: _Session = _Session()


_decode_message = structs.decoder(Message).decode


def data_dir(env: Mapping[str, str]) -> str:
    """The folder where OpenCode keeps its sessions and logins."""
    home = env.get("HOME") or os.path.expanduser("~")
    base = env.get("XDG_DATA_HOME") or os.path.join(home, ".local", "share")
    return os.path.join(base, "opencode")


def database_path(env: Mapping[str, str]) -> str:
    """The database of all sessions."""
    chosen = env.get("OPENCODE_DB")
    return os.path.join(data_dir(env), chosen or "opencode.db")


def model_of(database: str, session_id: str) -> str | None:
    """The model that last worked in a session, as `provider/id`; None if that cannot be read."""
    models = [_name(message) for message in _stored(database, session_id) or ()]
    return models[-1] if models else None


def parse_transcript(path: str) -> TranscriptSummary | None:
    """What the sessions at `path` used; None if it is missing or unreadable."""
    file, marked, session_id = path.partition("#")
    if marked or file.endswith(".db"):
        messages = _stored(file, session_id or None)
    else:
        messages = _exported(file)
    if not messages:
        return None
    usage, cost = NO_USAGE, 0.0
    for message in messages:
        cost += message.cost
        usage += message.tokens.usage
    return transcript_summary(usage, model=_name(messages[-1]), cost_usd=cost if cost > 0 else None)


def prompt_history(path: str) -> list[Spent]:
    """What each prompt of the session at `path` used; empty if it cannot be read."""
    database, _, session_id = path.partition("#")
    prompts: list[Spent] = []
    for data, is_given in _rows(database, _PROMPTS, (session_id,)) or ():
        try:
            message = _decode_message(data)
        except msgspec.MsgspecError:
            return []
        if message.role == "user" and is_given:
            prompts.append(Spent())
        elif message.role == "assistant" and prompts:
            model = _name(message) or None
            spent = Spent(usage=message.tokens.usage, model=model, cost_usd=message.cost)
            prompts[-1] += spent
    return prompts


def _name(message: Message) -> str:
    return f"{message.provider_id}/{message.model_id}" if message.provider_id else message.model_id


def _exported(path: str) -> list[Message] | None:
    try:
        with open(path, "rb") as file:
            export = structs.decode(file.read(), _Export)
    except (OSError, msgspec.MsgspecError, UnicodeDecodeError):
        return None
    born = export.info.time.created
    messages = [each.info for each in export.messages if each.info.role == "assistant"]
    return [message for message in messages if message.time.created >= born]


def _stored(database: str, session_id: str | None) -> list[Message] | None:
    """The assistant's messages of one session, or of all, oldest first."""
    where = "where message.session_id = ?" if session_id else ""
    rows = _rows(database, _MESSAGES.format(where), (session_id,) if session_id else ())
    return None if rows is None else list(_answers(rows))


def _rows(database: str, query: str, values: tuple[str, ...]) -> list[tuple[Any, ...]] | None:
    """The rows of a query; None if the database is missing or unreadable."""
    if not os.path.isfile(database):
        return None
    # Imported here: it costs every start of Bridle twelve milliseconds otherwise.
    import sqlite3
    from urllib.parse import quote

    try:
        connection = sqlite3.connect(
            f"file:{quote(database)}?mode=ro", uri=True, timeout=_BUSY_SECONDS
        )
        try:
            return connection.execute(query, values).fetchall()
        finally:
            connection.close()
    except sqlite3.Error:
        return None


def _answers(rows: Iterable[tuple[Any, ...]]) -> Iterator[Message]:
    for (data,) in rows:
        try:
            message = _decode_message(data)
        except msgspec.MsgspecError:
            continue
        if message.role == "assistant":
            yield message
