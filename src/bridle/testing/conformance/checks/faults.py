"""Checks of failures: each ends by itself, in bounded time, with the right error."""

import calendar
import time

from bridle.core import events as ev
from bridle.testing.conformance.checks.registry import Check, Seen
from bridle.testing.conformance.lab import Outcome
from bridle.testing.conformance.report import Failed, Unsupported, need, shown
from bridle.testing.conformance.scenarios import RESETS_IN

KINDS = {
    "error_401": "not_authenticated",
    "error_403": "not_authenticated",
    "error_429": "rate_limited",
    "error_429_reset": "rate_limited",
    "error_500": "unavailable",
    "error_529": "overloaded",
    "error_context_overflow": "context_overflow",
    "error_refused_connection": "unavailable",
    "error_cut_stream": "unavailable",
}
"""The kind of error that each fault must become."""
_TIME_SLACK = 300.0


def _kind_is(outcome: Outcome, wanted: str) -> str:
    need(outcome.refusal is None, f"refused to start: {shown(outcome.refusal)}")
    result = outcome.result
    assert result is not None
    need(result.status != "timed_out", f"did not end by itself within {outcome.seconds:.0f} s")
    need(result.error is not None, f"the run ended {result.status} without an error")
    assert result.error is not None
    error = result.error
    need(error.kind == wanted, f"{error.kind}, not {wanted}: {shown(error.message)}")
    need(bool(error.message), "the error has no message")
    need(result.status == "failed", f"the status is {result.status}")
    return f"{error.kind} after {outcome.seconds:.1f} s"


def _fault(name: str) -> Check:
    def judge(seen: Seen) -> str:
        return _kind_is(seen.one(name), KINDS[name])

    what = name.removeprefix("error_").replace("_", " ")
    return Check(name, f"{what} becomes {KINDS[name]}, in bounded time", (name,), judge)


def _reset(seen: Seen) -> str:
    outcome = seen.one("error_429_reset")
    detail = _kind_is(outcome, KINDS["error_429_reset"])
    assert outcome.result is not None
    assert outcome.result.error is not None
    until = outcome.result.error.until
    if until is None and not seen.lab.features.limit_end:
        raise Unsupported("rate_limited, but the agent does not pass on when the limit ends")
    if until is None:
        raise Failed("claims to report when a limit ends, but reported no time")
    reported = calendar.timegm(time.strptime(until[:19], "%Y-%m-%dT%H:%M:%S"))
    # The kit judges some time after the fault was served.
    off = reported - (time.time() + RESETS_IN)
    need(-_TIME_SLACK * 4 < off < _TIME_SLACK, f"reported {until}, which is {off:.0f} s off")
    return f"{detail}, until {until}"


def _retry(seen: Seen) -> str:
    outcome = seen.one("retried")
    outcome.completed()
    retries = outcome.of(ev.Retry)
    if not retries and not seen.lab.features.retries:
        raise Unsupported("the agent does not report each call that it makes again")
    need(bool(retries), "a failed call was made again and no retry was shown")
    kind = retries[0].error.kind
    if kind == "unavailable" and not seen.lab.features.retry_cause:
        raise Unsupported("the agent reports that a call is made again, but not how it failed")
    need(kind == "overloaded", f"the retry reports {kind}, not overloaded")
    return f"{len(retries)} retry events"


CHECKS = (
    *(_fault(name) for name in KINDS if name != "error_429_reset"),
    Check(
        "error_429_reset",
        "a limit's end is reported as a time",
        ("error_429_reset",),
        _reset,
    ),
    Check("retry", "a failed model call that is made again is shown", ("retried",), _retry),
)
