"""What a session can be told to do. Each command is on disk when it returns."""

from collections.abc import Callable

import msgspec

from bridle.core.errors import UnsupportedOption, WrongUse
from bridle.runtimes.supporting import compacting_runtimes
from bridle.sessions.decisions import Decisions
from bridle.sessions.ledger import (
    Abort,
    AbortCompaction,
    Accept,
    Answer,
    Compact,
    Drop,
    Leave,
    MessageKind,
    Model,
)
from bridle.sessions.lock import SessionOver
from bridle.sessions.replay import MessageState
from bridle.sessions.store import SessionRecord
from bridle.turns.wire import CompactionControl, ModelSwitch, TurnByTurn


class Commands:
    """The commands of one session.

    Contract: one that cannot be carried out now raises, and has no effect; `poll` of the driver
    follows each that has one.
    """

    def __init__(
        self,
        record: Callable[[], SessionRecord],
        decisions: Decisions,
        known: set[str],
        poll: Callable[[], bool],
    ) -> None:
        self._record = record
        self._decisions = decisions
        self._player = decisions.player
        self._known = known
        """The messages that any process of the session was given."""
        self._poll = poll

    def accept(
        self, message_id: str, kind: MessageKind, text: str, images: tuple[str, ...] = ()
    ) -> MessageState:
        """Take a message; it is on disk when this returns. The same id again changes nothing."""
        known = self._player.messages.get(message_id)
        if known is not None:
            return known
        if message_id in self._known:
            raise WrongUse(f"message {message_id} belongs to an earlier process of this session")
        self._refuse_if_over()
        entry = Accept(id=message_id, kind=kind, text=text, images=images, **self._decisions.now())
        self._decisions.make(entry, durable=True)
        self._known.add(message_id)
        self._poll()
        return self._player.messages[message_id]

    def abort(self, reason: str) -> bool:
        """Bring the open turn to its end; False when there is none."""
        self._refuse_if_over()
        if not self._player.recorder.turn_open:
            return False
        self._decisions.make(Abort(reason=reason, **self._decisions.now()))
        self._poll()
        return True

    def clear_queue(self, reason: str) -> list[str]:
        """Drop the messages that wait; returns their ids."""
        dropped = [message.id for message in self._player.queue]
        for message_id in dropped:
            self._decisions.make(Drop(id=message_id, reason=reason, **self._decisions.now()))
        return dropped

    def answer(self, request_id: str, allowed: bool, by: str, reason: str = "") -> None:
        """Answer a permission request; `WrongUse` when none of that id waits."""
        if request_id not in self._player.questions:
            raise WrongUse(
                f"no permission request {request_id} waits",
                hint="it was answered, or the agent did not wait for it",
            )
        entry = Answer(
            request_id=request_id, allowed=allowed, by=by, reason=reason, **self._decisions.now()
        )
        self._decisions.make(entry)
        self._poll()

    def set_model(self, model: str) -> None:
        """Use another model from the next turn on."""
        self._refuse_if_over()
        if not isinstance(self._player.wire, ModelSwitch):
            raise WrongUse(f"{self._record().runtime} cannot change its model in a session")
        wire = self._player.wire
        if isinstance(wire, TurnByTurn) and wire.is_spent:
            raise WrongUse(
                f"this session has had its one turn: {self._record().runtime} cannot resume it",
                hint="start a new session with that model",
            )
        self._refuse_unless_idle()
        self._decisions.make(Model(model=model, **self._decisions.now()))
        self._poll()

    def compact(self) -> None:
        """Have the agent shorten its context; events tell how that goes."""
        self._refuse_if_over()
        self._refuse_unless_compacts()
        self._refuse_unless_idle()
        self._decisions.make(Compact(**self._decisions.now()))
        self._poll()

    def abort_compaction(self) -> bool:
        """Give up the compaction that runs; False when there is none. One in the midst of a turn
        may take the turn with it."""
        self._refuse_if_over()
        if self._player.recorder.state != "compacting":
            return False
        self._refuse_unless_compacts()
        self._decisions.make(AbortCompaction(**self._decisions.now()))
        self._poll()
        return True

    def _refuse_unless_idle(self) -> None:
        if not self._player.is_idle:
            raise WrongUse("the agent works", hint="wait until it is idle")

    def _refuse_unless_compacts(self) -> None:
        if not isinstance(self._player.wire, CompactionControl):
            name = self._record().runtime
            raise UnsupportedOption(
                name,
                "compact",
                compacting_runtimes(name),
                reason=f"not over the drive {self._record().drive}",
            )

    def leave(self, reason: str) -> None:
        """End the session; politely when it is idle. No effect when it is over."""
        if self._player.finished or self._player.recorder.leaving is not None:
            return
        self._decisions.make(Leave(reason=reason, **self._decisions.now()))
        self._poll()

    def _refuse_if_over(self) -> None:
        if self._player.finished:
            raise SessionOver(self._record())
        if self._player.recorder.leaving is not None:
            raise SessionOver(msgspec.structs.replace(self._record(), state="stopped"))
