"""Checks of stopping: the status says who ended it, and nothing is left behind."""

import signal

from bridle.process.process_tree import send_signal
from bridle.testing.conformance.checks.registry import Check, Seen
from bridle.testing.conformance.lab import Outcome
from bridle.testing.conformance.report import need, shown
from bridle.testing.conformance.scenarios import sleep_word
from bridle.testing.contract import check_event_order


def _abort(seen: Seen) -> str:
    outcome = seen.one("aborted")
    result = outcome.result
    need(result is not None, f"refused to start: {shown(outcome.refusal)}")
    assert result is not None
    need(result.status == "aborted", f"the status is {result.status}")
    need(outcome.error_kind == "aborted", f"the error is {outcome.error_kind}")
    problems = check_event_order(outcome.events)
    need(not problems, "; ".join(problems[:3]))
    return f"ended after {outcome.seconds:.1f} s"


def _nothing_left(seen: Seen) -> str:
    outcome = seen.one("aborted")
    need(outcome.result is not None, f"refused to start: {shown(outcome.refusal)}")
    sleeping = _end_sleeping()
    need(not outcome.left, f"{len(outcome.left)} processes of the session were left")
    need(not sleeping, f"its tool still ran: process {sleeping}")
    for name in ("talk", "tools", "timed_out"):
        left = seen.one(name).left
        need(not left, f"{len(left)} processes of the session were left ({name})")
    return "no process of four sessions"


def _end_sleeping() -> list[int]:
    """Find and end the remaining processes of the sleeping tool."""
    import psutil

    word, found = sleep_word(), []
    for process in psutil.process_iter(["cmdline", "status"]):
        words = process.info["cmdline"] or []
        if word in words and process.info["status"] != psutil.STATUS_ZOMBIE:
            found.append(process.pid)
            send_signal(process.pid, signal.SIGKILL)
    return found


def _timeout(seen: Seen) -> str:
    outcome: Outcome = seen.one("timed_out")
    result = outcome.result
    need(result is not None, f"refused to start: {shown(outcome.refusal)}")
    assert result is not None
    need(result.status == "timed_out", f"the status is {result.status}")
    need(outcome.error_kind == "timeout", f"the error is {outcome.error_kind}")
    problems = check_event_order(outcome.events)
    need(not problems, "; ".join(problems[:3]))
    return f"ended after {outcome.seconds:.1f} s"


CHECKS = (
    Check("abort", "a run that is aborted says so", ("aborted",), _abort),
    Check("timeout", "a run out of time is stopped and says so", ("timed_out",), _timeout),
    Check(
        "nothing_left",
        "no process outlives its run, tools included",
        ("aborted", "timed_out", "talk", "tools"),
        _nothing_left,
    ),
)
