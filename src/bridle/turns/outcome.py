"""How turns and processes end: the error of a failure, and the final state of the session."""

import msgspec

from bridle.core import events as ev
from bridle.core.errors import STDOUT_TAIL, Aborted, AgentError, Crashed, ErrorInfo
from bridle.core.redaction import Redactor
from bridle.core.results import STATUS_OF_KIND
from bridle.process.spec import ProcessExit
from bridle.turns.event_writer import EventWriter


def crash_error(exit: ProcessExit, *, in_turn: bool = True) -> AgentError:
    """The error of an agent whose process ended although nothing asked it to."""
    if exit.signal_name == "SIGINT":
        return Aborted("the agent was interrupted")
    when = "without finishing its turn" if in_turn else "while no turn was open"
    complaint = f": {exit.complaint}" if exit.complaint else ""
    return Crashed(f"the agent's process {exit.words} {when}{complaint}")


class StrayOutput:
    """The end of what a process printed on stdout outside its protocol, bounded."""

    def __init__(self) -> None:
        self._lines: list[str] = []
        self._size = 0

    def add(self, line: str) -> None:
        """Keep a line; drop the oldest lines when there are too many."""
        line = line[-STDOUT_TAIL:]
        self._lines.append(line)
        self._size += len(line) + 1
        while self._size - len(self._lines[0]) - 1 >= STDOUT_TAIL:
            self._size -= len(self._lines.pop(0)) + 1

    def clear(self) -> None:
        """Forget everything: another process begins."""
        self._lines.clear()
        self._size = 0

    @property
    def text(self) -> str:
        """The last characters."""
        return "\n".join(self._lines)[-STDOUT_TAIL:]


class Outcome:
    """How the last turn and the process ended; writes the error events.

    Contract: `status` is None until a turn has ended, `exit` until the process has. Errors are
    shown without secrets; the exit of the process is added once it is known.
    """

    def __init__(
        self, writer: EventWriter, redactor: Redactor, *, runtime: str, version: str
    ) -> None:
        self.status: ev.RunStatus | None = None
        self.error: AgentError | None = None
        """Why the last turn failed."""
        self.exit: ProcessExit | None = None
        self.version = version
        """The runtime's version, as errors name it."""
        self._runtime = runtime
        self._writer = writer
        self._redactor = redactor

    def shown(self, error: AgentError) -> ErrorInfo:
        """The error as events and results show it."""
        info, exit, redactor = error.info(), self.exit, self._redactor
        return msgspec.structs.replace(
            info,
            message=redactor.text(info.message),
            hint=redactor.text(info.hint),
            runtime=self._runtime,
            runtime_version=self.version,
            exit_status=exit.code if exit and exit.code is not None else info.exit_status,
            stderr_tail=(exit.stderr_tail if exit else "") or redactor.text(info.stderr_tail),
            stdout_tail=exit.stdout_tail if exit and exit.code != 0 else "",
        )

    def turn_ended(self, error: AgentError | None) -> ErrorInfo | None:
        """Set the turn's status from its error, and write the error."""
        self.error = error
        info = None if error is None else self._write(error)
        self.status = "completed" if info is None else STATUS_OF_KIND.get(info.kind, "failed")
        return info

    def conversation_ended(
        self, exit: ProcessExit, *, why: AgentError | None, asked_for: bool
    ) -> None:
        """Write why a live conversation ended between turns, unless the end was requested.

        `why` is the cause, if known; it is not written again if the last turn reported it.
        """
        if why is None and not asked_for:
            why = crash_error(exit, in_turn=False)
        if why is not None and why is not self.error:
            self._write(why)

    def last_state(self, exit: ProcessExit, *, live: bool, asked_for: bool) -> ev.SessionState:
        """The session's state after its process has ended.

        A run is judged by its last turn, a live conversation by whether its end was requested.
        """
        if not live:
            return "stopped" if self.status == "completed" else "failed"
        if asked_for:
            return "stopped"
        return "lost" if exit.code is None else "failed"

    def _write(self, error: AgentError) -> ErrorInfo:
        info = self.shown(error)
        self._writer.emit(
            ev.ErrorRaised,
            kind=info.kind,
            message=info.message,
            retryable=info.retryable,
            hint=info.hint,
            last_words=info.stderr_tail if info.stderr_tail.strip() else info.stdout_tail,
        )
        return info
