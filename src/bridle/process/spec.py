"""What a process holder needs to know: what to start, how to stop it, how it ended."""

import signal
from collections.abc import Callable
from typing import Any, Literal, Protocol, runtime_checkable

import msgspec

from bridle.core.errors import AgentError, WrongUse


class StopStep(msgspec.Struct, frozen=True, kw_only=True):
    """One step of ending an agent: send a signal, then wait up to `grace` seconds."""

    signal: int
    grace: float
    to: Literal["process", "group"] = "process"


POLITE_STOP = (
    StopStep(signal=signal.SIGTERM, grace=3.0),
    StopStep(signal=signal.SIGKILL, grace=2.0, to="group"),
)
"""For an agent that cleans up on SIGTERM. Whatever the sequence, the holder at last kills the
group and every process that carries the session's mark in its environment."""


class ProcessSpec(msgspec.Struct, frozen=True, kw_only=True):
    """A process to start in a session and process group of its own."""

    argv: tuple[str, ...]
    env: dict[str, str]
    """The whole environment of the child; it must hold the session's mark (`SESSION_MARK`)."""
    cwd: str
    stdin: bytes | None = None
    """What to feed; None gives it /dev/null."""
    keep_stdin: bool = False
    """Leave stdin open after feeding, for an agent that asks questions on its stdout. It is closed
    when the adapter says so (`Recorder.input_done`), or when the agent is stopped."""
    watch_stderr: bool = False
    """Hand each line of standard error to the normalizer too (`StderrReader`), for an agent that
    says only there what its stdout keeps quiet about."""
    stop: tuple[StopStep, ...] = POLITE_STOP


SESSION_MARK = "BRIDLE_SESSION_ID"
"""The variable by which processes that an agent left behind are found again: tools run in
sessions and groups of their own, so neither a group nor a parent leads to them."""

MAX_LINE = 64 * 1024 * 1024
"""Longest line that is taken from an agent; a longer one is a `ProtocolDrift`."""


_COMPLAINT = 300
"""Characters of its last words that stand in an error's message."""
_COMPLAINT_LINES = 3


class ProcessExit(msgspec.Struct, frozen=True, kw_only=True):
    """How a process ended."""

    code: int | None
    """Exit status; negative when a signal killed it; None when it could not be learned."""
    stderr_tail: str = ""
    """The end of its standard error, or of its screen in a terminal, redacted."""
    stdout_tail: str = ""
    """The end of what it printed on stdout that was no protocol, redacted."""

    @property
    def last_words(self) -> str:
        """What it printed last for people: the end of its standard error, else of its stdout."""
        return self.stderr_tail if self.stderr_tail.strip() else self.stdout_tail

    @property
    def complaint(self) -> str:
        """The part of its last words that most likely says what is wrong, as one short line: the
        first line that speaks of an error, else the last lines; empty when there are none."""
        said = f"{self.stderr_tail}\n{self.stdout_tail}"
        lines = [" ".join(line.split()) for line in said.splitlines()]
        lines = [line for line in lines if any(letter.isalpha() for letter in line)]
        blamed = [line for line in lines if "error" in line.lower() or "failed" in line.lower()]
        return " / ".join(blamed[:1] or lines[-_COMPLAINT_LINES:])[:_COMPLAINT]

    @property
    def signal_name(self) -> str | None:
        """Name of the signal that killed it, None when it exited by itself."""
        if self.code is None or self.code >= 0:
            return None
        try:
            return signal.Signals(-self.code).name
        except ValueError:
            return f"SIG{-self.code}"

    @property
    def words(self) -> str:
        """How it ended, to follow the word `process`."""
        if self.code is None:
            return "is gone"
        return f"was killed by {self.signal_name}" if self.code < 0 else f"exited {self.code}"


class Patience(msgspec.Struct, frozen=True, eq=False):
    """How long the driver waits before it stops the agent, counted from when it sees this.

    A clock of the adapter's: it is wound up again by setting a new one (`Recorder.expect`), so it
    measures silence or one step, never the whole run.
    """

    seconds: float
    error: AgentError | None
    """Why the run then fails; None when the agent's work is done and it merely does not leave."""


class Question(msgspec.Struct, frozen=True, kw_only=True):
    """A permission request of an agent, with the way to answer it on its wire."""

    request_id: str
    """Names the request; `session permit` and `Session.answer` take it."""
    tool_name: str
    """The tool, by the agent's own name."""
    args: Any
    """The tool's arguments, as the agent gives them."""
    answer: Callable[[bool, str], bytes]
    """`answer(allowed, reason)` gives the bytes to write to the agent's stdin."""
    tool_call_id: str | None = None
    """The call that waits for the answer, where the agent names it."""


class Allow(msgspec.Struct, frozen=True):
    """A permission callback's yes. `by` names who decided; events carry it."""

    reason: str = ""
    by: str = "caller"


class Deny(msgspec.Struct, frozen=True):
    """A permission callback's no. The agent reads `reason`; `by` names who decided."""

    reason: str = "the caller refused it"
    by: str = "caller"


PermissionAnswer = bool | Allow | Deny | tuple[bool, str, str]
"""What a permission callback returns; the tuple is (allowed, who decided, reason)."""


def decision_of(answer: object) -> tuple[bool, str, str]:
    """A callback's answer as (allowed, who decided, reason); `WrongUse` for anything else.

    Nothing but the documented answers counts: a truthy value must not become a yes by accident.
    """
    match answer:
        case Allow(reason, by):
            return True, by, reason
        case Deny(reason, by):
            return False, by, reason
        case bool():
            return decision_of(Allow() if answer else Deny())
        case (bool() as allowed, str() as by, str() as reason):
            return allowed, by, reason
    raise WrongUse(
        f"the permission callback returned {type(answer).__name__}",
        hint="return True, False, bridle.Allow(), or bridle.Deny(reason)",
    )


class Normalizer(Protocol):
    """Translates one runtime's wire into calls on a `Recorder`, which it was made with.

    Contract: pure (no input or output of its own), never raises on anything an agent may print;
    what it does not know goes to `Recorder.unknown`.
    """

    def feed(self, line: bytes) -> None:
        """Take one line of the agent's stdout, without its newline, secrets already removed."""

    def finish(self, exit: ProcessExit) -> None:
        """The process is gone: judge by all the evidence whether the turn failed (`fail`), fill in
        what only files tell, and call `Recorder.finish`."""


@runtime_checkable
class StderrReader(Protocol):
    """What the normalizer of a process with `watch_stderr` can do beside its contract."""

    def feed_stderr(self, line: bytes) -> None:
        """Take one line of the agent's standard error, secrets already removed. Its place among the
        lines of stdout is not certain: the two are different pipes."""
