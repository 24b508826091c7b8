"""Records a session whose agent has a process for each turn and none between them."""

from typing import Any

import msgspec

from bridle.core.errors import AgentError, ResumeRefused, TimedOut
from bridle.process.spec import ProcessExit
from bridle.turns.outcome import crash_error
from bridle.turns.recorder import Recorder
from bridle.turns.usage_totals import Before

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
        super().__init__(**settings, live=True)
        self._given = self.options
        self._has_process = False
        self.may_begin_anew = False
        """Whether a turn whose conversation could not be taken up stays open, to try without."""

    # -- processes ------------------------------------------------------------------------------

    @property
    def has_process(self) -> bool:
        """Whether a process was begun and is not told to have ended."""
        return self._has_process

    def process_began(self, resume: str | None, model: str | None) -> None:
        """The next process begins, in the turn that is open, to go on with conversation
        `resume`."""
        self._totals.begin_process()
        self._stray.clear()
        self.options = msgspec.structs.replace(
            self._given, resume=resume, model=model or self._given.model
        )
        self._has_process = True
        if self.guard is not None:
            # Each process has to show anew that its guard fires.
            self.guard = self.guard.renewed()

    @property
    def completed(self) -> bool:
        """Whether the last turn was completed."""
        return self._outcome.status == "completed"

    def turn_ended(self, *, text: str | None = None) -> None:
        """As `Recorder.turn_ended`, unless the turn begins anew (`may_begin_anew`)."""
        if not (self.may_begin_anew and isinstance(self.error, ResumeRefused)):
            super().turn_ended(text=text)

    def finish(self, exit: ProcessExit) -> None:
        """A process is gone; if none was there, the session is over."""
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
        """No process is there any more, or none could be started: the next prompt may come."""
        self._has_process = False
        self.error = self.stop_requested = self.patience = None
        self.input_done = False
        if not self.turn_open and self.leaving is None:
            self._become_ready(evidence)

    def settle(self, total: Before, native_session_id: str | None, model: str | None) -> None:
        """Go on from what the session had come to when a turn was over, as it was written down
        then: a turn that is played again may find files of the agent's changed."""
        self._totals.go_on_from(total)
        self._writer.seq = total.seq
        self.turn = total.turn
        self.native_session_id = native_session_id
        self.model = model

    # -- what is different with such processes --------------------------------------------------

    def ready(self, evidence: str) -> None:
        """The next prompt may come. A guard is proved by the process of each turn."""
        if not self.turn_open and not self._writer.closed and not self._has_process:
            if not self._session_started:
                self.session_started(None, synthetic=True)
            self._become_ready(evidence)

    def fail(self, error: AgentError) -> None:
        """As `Recorder.fail`; who merely stays too long has not failed."""
        if not isinstance(error, Overstayed):
            super().fail(error)

    def _become_ready(self, evidence: str) -> None:
        # With the turn over its process may still be there, and get in the way of the next one.
        if not self._has_process:
            super()._become_ready(evidence)
