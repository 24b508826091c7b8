"""Numbers and timestamps the events of one process, and keeps them until the driver takes them.

A `Recorder` and its parts write all their events through one `EventWriter`, so that the sequence
numbers have no gap and no event follows the end.
"""

import time
from collections.abc import Callable
from typing import Any

import msgspec

from bridle.core import events as ev

_cached_ms = -1
_cached_second = -1
_second_text = ""
_ms_text = ""


def utc_now() -> str:
    """The current time as RFC 3339 in UTC, to the millisecond."""
    # Formatted once a millisecond: a stream of events asks far more often than that.
    global _cached_ms, _cached_second, _second_text, _ms_text
    now = time.time_ns() // 1_000_000
    if now != _cached_ms:
        second, rest = divmod(now, 1000)
        if second != _cached_second:
            _second_text = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(second))
            _cached_second = second
        text = f"{_second_text}.{rest:03d}Z"
        _ms_text, _cached_ms = text, now
        return text
    return _ms_text


class EventWriter:
    """Numbers and timestamps events.

    Contract: `seq` is the number of the last event. `raw` is the wire message that the next events
    come from, unset if the caller did not ask for raw messages. After `close` no event is written.
    Events are made by `emit`; only the code for pieces of streamed text appends to `out` directly.
    """

    def __init__(
        self, *, runtime: str, session_id: str, seq: int = 0, clock: Callable[[], str] = utc_now
    ) -> None:
        self.seq = seq
        self.raw: Any = msgspec.UNSET
        self.closed = False
        self.state: ev.SessionState = "starting"
        self.runtime = runtime
        self.session_id = session_id
        self.clock = clock
        self.out: list[ev.Event] = []

    def emit(self, cls: type[ev.Event], **fields: Any) -> None:
        """Write an event of type `cls`."""
        if self.closed:
            return
        self.seq += 1
        self.out.append(
            cls(
                seq=self.seq,
                ts=self.clock(),
                session_id=self.session_id,
                runtime=self.runtime,
                raw=self.raw,
                **fields,
            )
        )

    def change_state(self, new: ev.SessionState, evidence: str) -> None:
        """Move the session to the state `new` because of `evidence`. No effect if it is there."""
        if new != self.state:
            old, self.state = self.state, new
            self.emit(ev.StateChange, old=old, new=new, evidence=evidence)

    def take(self) -> list[ev.Event]:
        """The events since the last call, oldest first."""
        out, self.out = self.out, []
        return out

    def close(self) -> None:
        """Write no more events; those already written can still be taken."""
        self.closed = True
