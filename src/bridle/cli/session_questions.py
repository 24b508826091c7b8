"""Tells a person at the command line which permission requests of a session wait for an answer."""

import sys
import time

from bridle.cli.output import one_line
from bridle.core.errors import TimedOut
from bridle.core.events import AgentEnd, PermissionDecision, PermissionRequest
from bridle.sessions.desk import SessionDesk
from bridle.sessions.service import TurnReport
from bridle.sessions.store import SessionRecord

_LOOK = 2.0
"""Seconds between looks whether the agent asks something."""
_SHOWN = 100


def wait_idle(desk: SessionDesk, name: str, timeout: float | None) -> TurnReport:
    """As `SessionDesk.wait`; what the agent asks meanwhile is told, each request once."""
    until = None if timeout is None else time.monotonic() + timeout
    told: set[str] = set()
    while True:
        left = _LOOK if until is None else max(0.0, until - time.monotonic())
        try:
            return desk.wait(name, min(left, _LOOK))
        except TimedOut as problem:
            if left < _LOOK:
                raise TimedOut(
                    f"session {name} still works after {timeout:g} s", hint=problem.hint
                ) from None
        told |= tell_questions(desk, desk.show(name), told)


def tell_questions(
    desk: SessionDesk, record: SessionRecord, told: set[str] | None = None
) -> set[str]:
    """Say on stderr what a session asks and how it is answered, but for what was `told`; returns
    the ids of all that it asks."""
    if record.state != "waiting_permission":
        return set()
    questions = open_questions(desk, record)
    name = record.name or record.session_id
    for request_id, asked in questions.items():
        if request_id not in (told or ()):
            sys.stderr.write(
                f"it asks: {asked.tool_name} {one_line(str(asked.args))[:_SHOWN]}\n"
                f"hint: `bridle session permit {name} {request_id} allow` or `deny`, or attach\n"
            )
    sys.stderr.flush()
    return set(questions)


def open_questions(desk: SessionDesk, record: SessionRecord) -> dict[str, PermissionRequest]:
    """The permission requests of a session that wait, by their ids."""
    found: dict[str, PermissionRequest] = {}
    for event in desk.events(record.session_id):
        if isinstance(event, PermissionRequest):
            found[event.request_id] = event
        elif isinstance(event, PermissionDecision):
            found.pop(event.request_id, None)
        elif isinstance(event, AgentEnd):
            found.clear()
    return found
