"""Model calls that an agent retries by itself: reported as events, and never waited for too long.

A service may ask for a pause of an hour, and some agents obey without a word on their wire. A
`RetryReader` for each such agent reads its log; a `RetryClock` then shows each retry and ends the
run when the pause is longer than the caller allows.
"""

from typing import Protocol

import msgspec

from bridle.core.errors import AgentError, RateLimited
from bridle.runtimes.errors import until_in
from bridle.turns.recorder import Recorder

LONGEST_PAUSE = 60.0
"""Seconds that a run waits for the next try, where the caller does not say otherwise."""


class Retry(msgspec.Struct, frozen=True, kw_only=True):
    """A model call failed and will be made again."""

    attempt: int
    error: AgentError
    delay_ms: int | None = None
    """The pause before the next try, if the agent reports it."""
    told: bool = False
    """Whether the agent's own wire reports it too: then it is not shown twice."""


class RetryReader(Protocol):
    """Finds retries in what an agent logs."""

    def feed(self, line: bytes) -> Retry | None:
        """Take one line; returns a retry when it is complete. Never raises."""


class RetryClock:
    """Shows retries and bounds the pauses between them.

    Contract: `again` for each retry, `progress` whenever the model answered. A pause longer than
    `longest` seconds ends the run at once, with the error that caused it; if no answer follows a
    pause, the run ends too.
    """

    def __init__(self, recorder: Recorder, longest: float = LONGEST_PAUSE) -> None:
        self._recorder = recorder
        self._longest = longest
        self.error: AgentError | None = None
        """Why the last model call failed; None while the model answers."""

    def again(self, retry: Retry) -> None:
        """The agent announced another try."""
        recorder, pause = self._recorder, (retry.delay_ms or 0) / 1000
        error = self.error = _with_end(retry.error, pause)
        if pause > self._longest:
            recorder.request_stop(error)
            return
        if not retry.told:
            recorder.retrying(retry.attempt, retry.delay_ms, error)
        recorder.expect(self._longest + pause, error)

    def progress(self) -> None:
        """The model answered: stop the clock."""
        if self.error is not None:
            self.error = None
            self._recorder.expect(None)


def _with_end(error: AgentError, pause: float) -> AgentError:
    """A limit's error with the time from which the service accepts calls again."""
    if not isinstance(error, RateLimited) or error.until is not None or not pause:
        return error
    return RateLimited(error.message, hint=error.hint, until=until_in(pause))
