"""Records a session whose agent has a process for each turn and none between them."""

from typing import Any

import msgspec

from bridle.core import events as ev
from bridle.core.errors import Aborted, AgentError, BudgetExceeded, Crashed, ResumeRefused, TimedOut
from bridle.core.usage import NO_USAGE
from bridle.drives.recorder import Before, Recorder
from bridle.drives.spec import ProcessExit

AT_REST = "no process: each prompt starts one"


class Overstayed(TimedOut):
    """The agent's work is done and its process does not leave. It is ended, and not blamed."""


class TurnRecorder(Recorder):
    """A recorder under which processes come and go, and which the session outlives.

    Contract: as `Recorder`, and `process_began` before the lines of each process. What a normalizer
    then calls `finish` with is the end of that process alone: it ends the turn, and the session is
    ready when the process is gone, not before. `finish` while there is none ends the session.
    """

    def __init__(self, **settings: Any) -> None:
        """Made with what `Recorder` is made with."""
        super().__init__(**settings)
        self._live = True
        self._given = self.options
        self._has_process = False
        self.may_begin_anew = False
        """Whether a turn whose conversation could not be taken up stays open, to try without."""
        self._calls_before = 0
        self._cost_before = 0.0

    # -- processes ------------------------------------------------------------------------------

    @property
    def has_process(self) -> bool:
        """Whether a process was begun and is not told to have ended."""
        return self._has_process

    def process_began(self, resume: str | None, model: str | None) -> None:
        """The next process begins, in the turn that is open, to go on with conversation
        `resume`."""
        self._fold()
        self.options = msgspec.structs.replace(
            self._given, resume=resume, model=model or self._given.model
        )
        self._has_process = True
        self._calls_before = self._model_calls
        if self.guard is not None:
            # Each process has to show anew that its guard fires.
            self.guard = self.guard.renewed()

    @property
    def completed(self) -> bool:
        """Whether the last turn was completed."""
        return self._last_status == "completed"

    def turn_ended(self, *, text: str | None = None) -> None:
        """As `Recorder.turn_ended`, unless the turn begins anew (`may_begin_anew`)."""
        if not (self.may_begin_anew and isinstance(self.error, ResumeRefused)):
            super().turn_ended(text=text)

    def finish(self, exit: ProcessExit) -> None:
        """A process is gone; if none was there, the session is over."""
        if not self._has_process:
            super().finish(exit)
            return
        self.take_hook_notes()
        self._exit = exit
        if self.turn_open:
            if self.error is None:
                self.fail(_death(exit))
            self.turn_ended()
        self._exit = None
        self.process_ended(f"process {exit.words}; {AT_REST}")

    def process_ended(self, evidence: str) -> None:
        """No process is there any more, or none could be started: the next prompt may come."""
        self._has_process = False
        self.error = self.stop_requested = self.patience = None
        self.input_done = False
        if not self.turn_open and self.leaving is None:
            self._change_state("ready", evidence)

    def settle(self, total: Before, native_session_id: str | None, model: str | None) -> None:
        """Go on from what the session had come to when a turn was over, as it was written down
        then: a turn that is played again may find files of the agent's changed."""
        self._fold()
        self._before = total
        self._seq = total.seq
        self.turn = total.turn
        self.native_session_id = native_session_id
        self.model = model

    def _fold(self) -> None:
        """Count what was used so far as that of earlier processes."""
        self._before = self.total()
        self._cost_before += self.cost_usd or 0.0
        self.usage = self._turn_usage_base = NO_USAGE
        self.cost_usd = None
        self._turn_cost_base = 0.0

    # -- what is different with such processes --------------------------------------------------

    def ready(self, evidence: str) -> None:
        """The next prompt may come. A guard is proved by the process of each turn."""
        if not self.turn_open and not self._finished and not self._has_process:
            if not self._session_started:
                self.session_started(None, synthetic=True)
            self._change_state("ready", evidence)

    def fail(self, error: AgentError) -> None:
        """As `Recorder.fail`; who merely stays too long has not failed."""
        if not isinstance(error, Overstayed):
            super().fail(error)

    def _change_state(self, new: ev.SessionState, evidence: str) -> None:
        if new == "ready" and self._has_process:
            # The turn is over, but its process would get in the way of the next one.
            return
        super()._change_state(new, evidence)

    def _check_turns(self) -> None:
        limit = self.options.max_turns
        calls = self._model_calls - self._calls_before
        if limit is not None and calls >= limit and not self.agent_counts_turns:
            self.request_stop(BudgetExceeded(f"reached the limit of {limit} turns"))

    def _check_budget(self) -> None:
        limit, cost = self.options.budget_usd, self._cost_before + (self.cost_usd or 0.0)
        if limit is not None and cost > limit:
            self.request_stop(
                BudgetExceeded(f"cost {cost:.4f} USD is over the budget of {limit:.4f} USD")
            )


def _death(exit: ProcessExit) -> AgentError:
    if exit.signal_name == "SIGINT":
        return Aborted("the agent was interrupted")
    return Crashed(f"the agent's process {exit.words} without finishing its turn")
