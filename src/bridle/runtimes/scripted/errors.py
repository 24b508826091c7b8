"""From what the scripted agent says of a failure to the error that calls for the same reaction."""

from bridle.core.errors import (
    AGENT_ERRORS,
    AgentError,
    NotInstalled,
    ProtocolDrift,
    Unavailable,
    error_for_status,
)
from bridle.process.spec import ProcessExit
from bridle.runtimes.scripted.wire import Error, WireError


def error_of(told: Error | WireError) -> AgentError:
    """The error for a failure that the wire tells, by its HTTP status or by its kind."""
    if told.status is not None:
        return error_for_status(told.status, told.message, until=told.until)
    cls = AGENT_ERRORS.get(told.kind or "", Unavailable)
    return cls(told.message, until=told.until)


def error_of_exit(exit: ProcessExit) -> AgentError | None:
    """The error for an agent that ended before it said anything; None when nothing is known."""
    if exit.code == 2 and "unknown argument" in exit.stderr_tail:
        line = next(line for line in exit.stderr_tail.splitlines() if "unknown argument" in line)
        return ProtocolDrift(line, hint="the scripted agent takes no raw arguments")
    if exit.code in (126, 127):
        return NotInstalled(exit.stderr_tail.strip()[-200:] or "the agent could not be started")
    return None
