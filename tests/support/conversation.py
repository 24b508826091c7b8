"""A wire over pipes, without a session around it: a conversation that ends with its holder."""

import time
from collections.abc import Callable

from bridle.core.errors import Aborted, AgentError, ProtocolDrift, TimedOut, WrongUse
from bridle.core.events import Event
from bridle.drives.print_run import PermissionPolicy, refuse_all
from bridle.process.attached import AttachedProcess
from bridle.process.private_folders import remove_folders
from bridle.process.spec import ProcessExit, ProcessSpec
from bridle.turns.recorder import Recorder
from bridle.turns.wire import Delivery, LiveWire, Outgoing, Patience, Question, decision_of

_SHOWN = 2000


class AttachedConversation:
    """One agent process that takes prompt after prompt.

    Contract: `start`, then `pump` whenever something may have happened; `events` collects all that
    did. `close` ends the agent whatever its state, and must be called. One thread uses it.
    """

    def __init__(
        self,
        spec: ProcessSpec,
        wire: LiveWire,
        recorder: Recorder,
        *,
        private_dirs: tuple[str, ...] = (),
        permission: PermissionPolicy = refuse_all,
    ) -> None:
        self.wire = wire
        self.recorder = recorder
        self.events: list[Event] = []
        self.deliveries: dict[str, Delivery] = {}
        self.process = AttachedProcess(spec, recorder.redactor)
        self._permission = permission
        self._private_dirs = private_dirs
        self._patience: Patience | None = None
        self._patient_until = 0.0
        self._over = False

    def start(self) -> None:
        """Start the agent and say the first words; raises what keeps it from starting."""
        self.process.start()
        self.wire.begin()
        self._settle()

    def prompt(self, message: Outgoing) -> None:
        """Begin a turn; `WrongUse` when the agent is not ready."""
        if not self.recorder.is_ready:
            raise WrongUse(
                f"the agent is {self.recorder.state}, not ready", hint="wait until it is"
            )
        self.wire.prompt(message)
        self._settle()

    def steer(self, message: Outgoing) -> None:
        """Reach the running turn; `WrongUse` when there is none."""
        if not self.recorder.turn_open:
            raise WrongUse("no turn is open", hint="send a prompt instead")
        self.wire.steer(message)
        self._settle()

    def abort(self, reason: str = "aborted by the caller") -> None:
        """Bring the open turn to its end; no effect when there is none."""
        if self.recorder.turn_open:
            self.recorder.fail(Aborted(reason))
            self.wire.abort()
            self._settle()

    def leave(self, reason: str = "done") -> None:
        """Bring the agent to leave by itself."""
        self.recorder.leaving = reason
        self.wire.leave()
        self._settle()

    def pump(self, until: float) -> bool:
        """Take what the agent says until `until` (monotonic) at the latest; False when it is gone.

        Returns early when something came.
        """
        if self._over:
            return False
        patience = self.recorder.patience
        if patience is not self._patience:
            self._patience = patience
            self._patient_until = time.monotonic() + (patience.seconds if patience else 0.0)
        limit = until if patience is None else min(until, self._patient_until)
        lines = self.process.next_lines(limit)
        if lines is None:
            self._finish(self.process.exit or ProcessExit(code=None))
            return False
        for line in lines:
            self._feed(line)
        if patience is not None and patience is self.recorder.patience:
            self._look_at_clock(patience)
        self._settle()
        return True

    def wait(self, done: Callable[[], bool], seconds: float) -> None:
        """Pump until `done()`; raises `TimedOut` when it is not in time, the turn's way of ending
        notwithstanding."""
        until = time.monotonic() + seconds
        while not done():
            if time.monotonic() > until:
                raise TimedOut(f"waited {seconds:g} s in vain", hint=f"state {self.recorder.state}")
            if not self.pump(until) and not done():
                raise TimedOut("the agent is gone", hint=f"state {self.recorder.state}")

    def wait_ready(self, seconds: float) -> None:
        """Pump until the agent can take a prompt."""
        self.wait(lambda: self.recorder.is_ready, seconds)

    def close(self) -> None:
        """End the agent and remove what was made for it. Safe in any state."""
        try:
            self.process.close()
            self._finish(self.process.exit or ProcessExit(code=None))
        finally:
            remove_folders(self._private_dirs)

    # -- inside ---------------------------------------------------------------------------------

    def _feed(self, line: bytes) -> None:
        line = self.recorder.redactor.line(line)
        try:
            self.wire.feed(line)
        except Exception as problem:
            # As in a run: one message we cannot read must not cost all the others.
            self.recorder.unknown(
                {"line": line[:_SHOWN].decode(errors="replace"), "problem": repr(problem)[:_SHOWN]}
            )
        self._settle()

    def _look_at_clock(self, patience: Patience) -> None:
        if time.monotonic() >= self._patient_until:
            self.recorder.patience = None
            if patience.error is not None:
                self.recorder.request_stop(patience.error)
            self.process.request_stop()

    def _settle(self) -> None:
        """Carry out what the wire asked for."""
        recorder = self.recorder
        while recorder.replies:
            self.process.write(recorder.replies.pop(0))
        while recorder.questions:
            self._answer(recorder.questions.pop(0))
        self._collect_deliveries()
        if recorder.input_done:
            self.process.close_input()
        if recorder.stop_requested is not None:
            self.process.request_stop()
        self.events += recorder.drain()

    def _answer(self, question: Question) -> None:
        allowed, by, reason = decision_of(self._permission(question))
        self.process.write(question.answer(allowed, reason))
        self.recorder.permission_decided(
            question.request_id,
            tool_name=question.tool_name,
            tool_call_id=question.tool_call_id,
            decision="allow" if allowed else "deny",
            by=by,
            reason=reason,
        )

    def _finish(self, exit: ProcessExit) -> None:
        if self._over:
            return
        self._over = True
        if self.process.failure is not None:
            self.recorder.fail(self.process.failure)
        try:
            self.wire.finish(exit)
        except Exception as problem:
            self.recorder.fail(_adapter_failed(problem))
        self.recorder.finish(exit)
        self._collect_deliveries()
        self.events += self.recorder.drain()

    def _collect_deliveries(self) -> None:
        for delivery in self.recorder.deliveries:
            self.deliveries[delivery.id] = delivery
        self.recorder.deliveries.clear()


def _adapter_failed(problem: Exception) -> AgentError:
    return ProtocolDrift(f"the adapter failed at the end: {problem!r}")
