"""A session's events on disk: one JSON object a line, append-only, complete from the first."""

import os
from collections.abc import Iterator

import msgspec

from bridle.core.events import AnyEvent, Event, decode_event, encode_event

_TAIL = 1 << 16


class EventLog:
    """The event file of one session.

    Contract: one driver appends, anybody reads. Event numbers only grow. The next driver cuts off a
    line that a crash left incomplete, and makes the event again.
    """

    def __init__(self, folder: str) -> None:
        self.path = os.path.join(folder, "events.jsonl")
        self._handle = -1

    def last_seq(self) -> int:
        """The number of the last event, 0 when there is none; cuts off an incomplete line."""
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
        """Append events; raises `OSError` when that fails, and then none of them was written."""
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
        """Close the file until the next event, which may be far off."""
        if self._handle >= 0:
            os.close(self._handle)
            self._handle = -1

    def read(self, after: int = 0) -> Iterator[AnyEvent]:
        """The events with a number above `after` that are in the file now."""
        for line in self.lines(self._offset(after) if after > 0 else 0):
            event = decode_event(line)
            if event.seq > after:
                yield event

    def _offset(self, after: int) -> int:
        """The start of a line at or before the first event above `after`. Found by bisection, so
        that a reader that continues does not read the whole file again."""
        try:
            with open(self.path, "rb") as file:
                low, high = 0, os.fstat(file.fileno()).st_size
                while high - low > _TAIL:
                    middle = (low + high) // 2
                    file.seek(middle)
                    file.readline()
                    start = file.tell()
                    line = file.readline()
                    if start >= high or not line.endswith(b"\n"):
                        high = middle
                    elif decode_event(line).seq <= after:
                        low = start
                    else:
                        high = middle
                return low
        except (FileNotFoundError, msgspec.MsgspecError):
            return 0

    def lines(self, start: int = 0) -> Iterator[bytes]:
        """The complete lines that are in the file now, from the byte `start` on."""
        try:
            with open(self.path, "rb") as file:
                file.seek(start)
                for line in file:
                    if not line.endswith(b"\n"):
                        # The rest may be written at this moment and would look like a line.
                        return
                    yield line[:-1]
        except FileNotFoundError:
            return
