"""What becomes of the messages that were sent to Codex."""

from bridle.core.errors import AgentError, Unavailable
from bridle.turns.recorder import Recorder


class Outbox:
    """Messages between being sent and being read.

    Codex answers a request before the message is read; a message is part of the conversation only
    when it comes back as an item. Between the two an interrupt makes Codex forget it.
    """

    def __init__(self, recorder: Recorder, *, told_ids: bool, shared: bool) -> None:
        self._recorder = recorder
        self._shared = shared
        """Whether a person can join the session, and type."""
        self._told_ids = told_ids
        """Whether items tell our ids; else they come back in the order of sending, each in the
        turn it was meant for."""
        self._waiting: dict[str, bool] = {}
        """Message id -> whether its request was accepted."""
        self._turns: dict[str, str | None] = {}

    def sent(self, message_id: str, turn_id: str | None) -> None:
        """A message went out, for a turn that runs or to begin one."""
        self._waiting[message_id] = False
        self._turns[message_id] = turn_id

    def accepted(self, message_id: str, *, turn_runs: bool) -> None:
        """Its request was answered well; without a turn that could read it, that means nothing."""
        if message_id in self._waiting:
            self._waiting[message_id] = True
            if not turn_runs:
                self.refused(message_id)

    def read(self, told_id: str | None, turn_id: str, text: str) -> None:
        """A message came back in a turn; in a shared session one that was never sent here was
        typed by a person."""
        meant = (each for each in self._waiting if self._turns[each] in (None, turn_id))
        message_id = told_id if self._told_ids else next(meant, None)
        if message_id is not None and message_id in self._waiting:
            del self._waiting[message_id]
            self._recorder.message_taken(message_id)
        elif self._shared and self._told_ids and message_id not in self._turns:
            self._recorder.typed(text)

    def refused(self, message_id: str, error: AgentError | None = None) -> None:
        """Codex does not have the message and will not get it."""
        self._waiting.pop(message_id, None)
        self._recorder.message_refused(message_id, error or _too_late())

    def turn_over(self) -> None:
        """What was accepted and not read is forgotten; the others' answers are still to come."""
        for message_id, accepted in list(self._waiting.items()):
            if accepted:
                self.refused(message_id)

    def gone(self, error: AgentError) -> None:
        """The process is gone."""
        for message_id in list(self._waiting):
            self.refused(message_id, error)


def _too_late() -> AgentError:
    return Unavailable("the turn ended before codex read the message", hint="send it as a prompt")
