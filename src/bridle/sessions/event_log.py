"""A session's events on disk: one JSON object a line, append-only, complete from the first."""

import os
from collections.abc import Iterator

from bridle.core.events import AnyEvent, Event, decode_event, encode_event

_TAIL = 1 << 16


class EventLog:
    """The event file of one session.

    Contract: one driver appends, anybody reads. A line that a crash left unfinished is cut off by
    the next driver, who makes the event anew.
    """

    def __init__(self, folder: str) -> None:
        self.path = os.path.join(folder, "events.jsonl")
        self._handle = -1

    def last_seq(self) -> int:
        """The number of the last event, 0 when there is none; an unfinished line is cut off."""
        try:
            size = os.stat(self.path).st_size
        except FileNotFoundError:
            return 0
        with open(self.path, "r+b") as file:
            tail = b""
            at = size
            while at > 0 and tail.count(b"\n") < 2:
                step = min(_TAIL, at)
                at -= step
                file.seek(at)
                tail = file.read(step) + tail
            whole = tail.rfind(b"\n") + 1
            if whole < len(tail):
                file.truncate(at + whole)
            lines = tail[:whole].split(b"\n")
        return decode_event(lines[-2]).seq if len(lines) > 1 else 0

    def append(self, events: list[Event]) -> None:
        """Write events; raises `OSError` when they cannot be, and then none of them was."""
        data = b"".join(encode_event(event) + b"\n" for event in events)
        if self._handle < 0:
            flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
            self._handle = os.open(self.path, flags, 0o600)
        size = os.fstat(self._handle).st_size
        try:
            view = memoryview(data)
            while view:
                view = view[os.write(self._handle, view) :]
        except OSError:
            os.ftruncate(self._handle, size)
            raise

    def rest(self) -> None:
        """Let the file go until the next event: nothing is to be expected for a while."""
        if self._handle >= 0:
            os.close(self._handle)
            self._handle = -1

    def read(self, after: int = 0) -> Iterator[AnyEvent]:
        """The events with a number above `after`, as they stand in the file now."""
        for line in self.lines():
            event = decode_event(line)
            if event.seq > after:
                yield event

    def lines(self) -> Iterator[bytes]:
        """The finished lines that stand in the file now."""
        try:
            with open(self.path, "rb") as file:
                for line in file:
                    if not line.endswith(b"\n"):
                        # Its rest may be written at this moment; it would look like a line.
                        return
                    yield line[:-1]
        except FileNotFoundError:
            return
