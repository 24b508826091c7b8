"""The events of one process as they are made: numbered, stamped and kept until somebody takes them.

Everything that a `Recorder` and its parts tell goes through one `EventTape`, so that the numbers
have no gap and nothing is told after the end.
"""

import time
from collections.abc import Callable
from typing import Any

import msgspec

from bridle.core import events as ev

_shown_ms = -1
_shown_second = -1
_second_text = ""
_ms_text = ""


def utc_now() -> str:
    """The present moment as RFC 3339 in UTC, to the millisecond."""
    # Written once a millisecond: a stream of events asks far more often than that.
    global _shown_ms, _shown_second, _second_text, _ms_text
    now = time.time_ns() // 1_000_000
    if now != _shown_ms:
        second, rest = divmod(now, 1000)
        if second != _shown_second:
            _second_text = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(second))
            _shown_second = second
        text = f"{_second_text}.{rest:03d}Z"
        _ms_text, _shown_ms = text, now
        return text
    return _ms_text


class EventTape:
    """Numbers and stamps events.

    Contract: `seq` is the number of the last event; `raw` is the wire message that the next ones
    come from, unset when nobody asked for it. After `close` nothing more is recorded. Events are
    made by `emit`; only what is made for every piece of a stream may append to `out` itself.
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
        """Record an event of `cls`."""
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
        """The session is in the state `new`, as `evidence` shows. No effect when it was."""
        if new != self.state:
            old, self.state = self.state, new
            self.emit(ev.StateChange, old=old, new=new, evidence=evidence)

    def take(self) -> list[ev.Event]:
        """The events since the last call, oldest first."""
        out, self.out = self.out, []
        return out

    def close(self) -> None:
        """Record nothing any more; what is there can still be taken."""
        self.closed = True
