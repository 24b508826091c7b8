"""Tells a person at the command line what a session asks, and why its turn failed."""

import sys
import time
from typing import Any

from bridle.cli.output import one_line
from bridle.cli.run_view import gist
from bridle.core.errors import TimedOut
from bridle.sessions.manager import SessionManager
from bridle.sessions.store import SessionRecord
from bridle.sessions.verbs import TurnReport

_SHOWN = 100


def wait_idle(manager: SessionManager, name: str, timeout: float | None) -> TurnReport:
    """As `SessionManager.wait`; each request that the agent makes meanwhile is printed at once."""
    until = None if timeout is None else time.monotonic() + timeout
    told: set[str] = set()
    while True:
        left = None if until is None else max(0.0, until - time.monotonic())
        try:
            report = manager.wait(name, left, known_questions=told)
        except TimedOut as problem:
            waits = bool(told) and bool(manager.show(name).questions)
            raise TimedOut(
                f"session {name} still {'waits for an answer' if waits else 'works'}"
                f" after {timeout:g} s",
                hint="answer it with `bridle session permit`" if waits else problem.hint,
            ) from None
        if not report.questions:
            return report
        told |= tell_questions(manager, manager.show(name), told)


def tell_failure(error: dict[str, Any]) -> None:
    """Say on stderr why a turn or its session failed: kind and message, then the hint."""
    sys.stderr.write(f"bridle: error: {error.get('kind')}: {one_line(error.get('message', ''))}\n")
    if error.get("hint"):
        sys.stderr.write(f"hint: {one_line(error['hint'])}\n")


def tell_questions(
    manager: SessionManager, record: SessionRecord, told: set[str] | None = None
) -> set[str]:
    """Say on stderr what a session asks and how it is answered, but for what was `told`; returns
    the ids of all that it asks."""
    name = record.name or record.session_id
    for asked in record.questions:
        if asked.request_id not in (told or ()):
            sys.stderr.write(
                f"it asks: {one_line(asked.tool_name)} {one_line(gist(asked.args), _SHOWN)}\n"
                f"hint: `bridle session permit {name} {asked.request_id} allow` or `deny`,"
                " or attach\n"
            )
    sys.stderr.flush()
    return {asked.request_id for asked in record.questions}
