"""The recorder of a session whose agent has one process for each turn."""

from typing import Any

import msgspec

from bridle.core.errors import AgentError, ResumeRefused, TimedOut
from bridle.process.spec import ProcessExit
from bridle.turns.outcome import crash_error
from bridle.turns.recorder import Recorder
from bridle.turns.usage_totals import Before

AT_REST = "no process: each prompt starts one"


class Overstayed(TimedOut):
    """The agent's work is done but its process does not exit. The turn does not fail."""


class TurnRecorder(Recorder):
    """A recorder for many processes, one after another.

    Contract: as `Recorder`, and `process_began` is called before the lines of each process. Then
    `finish` ends only that process and its turn; the session is ready after it. `finish` without a
    process ends the session.
    """

    def __init__(self, **settings: Any) -> None:
        """Takes the arguments of `Recorder`."""
        super().__init__(**settings, live=True)
        self._given = self.options
        self._has_process = False
        self.may_begin_anew = False
        """Whether a turn whose conversation could not be resumed stays open for a new one."""

    # -- processes ------------------------------------------------------------------------------

    @property
    def has_process(self) -> bool:
        """Whether a process began and has not ended."""
        return self._has_process

    def process_began(self, resume: str | None, model: str | None) -> None:
        """The next process begins in the open turn, and resumes the conversation `resume`."""
        self._totals.begin_process()
        self._stray.clear()
        self.options = msgspec.structs.replace(
            self._given, resume=resume, model=model or self._given.model
        )
        self._has_process = True
        if self.guard is not None:
            # Each process must prove its guard again.
            self.guard = self.guard.renewed()

    @property
    def completed(self) -> bool:
        """Whether the last turn was completed."""
        return self._outcome.status == "completed"

    def turn_ended(self, *, text: str | None = None) -> None:
        """As `Recorder.turn_ended`, unless the turn starts again (`may_begin_anew`)."""
        if not (self.may_begin_anew and isinstance(self.error, ResumeRefused)):
            super().turn_ended(text=text)

    def finish(self, exit: ProcessExit) -> None:
        """The process has ended; without a process, the session has."""
        if not self._has_process:
            super().finish(exit)
            return
        self.verdicts.take_notes()
        self._outcome.exit = exit = self.with_last_words(exit)
        if self.turn_open:
            if self.error is None:
                self.fail(crash_error(exit))
            self.turn_ended()
        self._outcome.exit = None
        self.process_ended(f"process {exit.words}; {AT_REST}")

    def process_ended(self, evidence: str) -> None:
        """No process runs, or none could be started: the session is ready for a prompt."""
        self._has_process = False
        self.error = self.stop_requested = self.patience = None
        self.input_done = False
        if not self.turn_open and self.leaving is None:
            self._become_ready(evidence)

    def settle(self, total: Before, native_session_id: str | None, model: str | None) -> None:
        """Continue from the totals that were recorded at the end of a turn: in a replay the agent's
        files may have changed."""
        self._totals.go_on_from(total)
        self._writer.seq = total.seq
        self.turn = total.turn
        self.native_session_id = native_session_id
        self.model = model

    # -- differences from `Recorder` ------------------------------------------------------------

    def ready(self, evidence: str) -> None:
        """The session is ready for a prompt. The process of each turn proves the guard."""
        if not self.turn_open and not self._writer.closed and not self._has_process:
            if not self._session_started:
                self.session_started(None, synthetic=True)
            self._become_ready(evidence)

    def fail(self, error: AgentError) -> None:
        """As `Recorder.fail`; a process that merely does not exit has not failed."""
        if not isinstance(error, Overstayed):
            super().fail(error)

    def _become_ready(self, evidence: str) -> None:
        # After the turn its process may still run, and would disturb the next one.
        if not self._has_process:
            super()._become_ready(evidence)
