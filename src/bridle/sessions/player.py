"""Plays a session: journal lines and ledger entries in, events and bytes for the agent out.

It reads no clock and no file, so the same lines and entries give the same events and bytes again;
see `ledger`. What happens when is the driver's business.
"""

from collections.abc import Callable
from typing import Literal

import msgspec

from bridle.core.errors import Aborted, AgentError, ProtocolDrift, TimedOut
from bridle.core.events import Event
from bridle.process.spec import ProcessExit, Question
from bridle.sessions.ledger import (
    Abort,
    AbortCompaction,
    Accept,
    Answer,
    Compact,
    Drop,
    Entry,
    Expire,
    Leave,
    Model,
    Send,
    Settled,
    Told,
)
from bridle.turns.recorder import Recorder
from bridle.turns.wire import CompactionControl, LiveWire, ModelSwitch, Outgoing, TurnByTurn

_SHOWN = 2000
_HUNG = {
    "first_progress": "the agent said nothing for {:g} s after the prompt",
    "inactivity": "the agent was silent for {:g} s",
    "turn": "the turn did not end within {:g} s",
}

MessageStatus = Literal["queued", "sent", "taken", "refused", "dropped"]


class MessageState(msgspec.Struct, kw_only=True):
    """A message on its way to the agent."""

    message: Accept
    status: MessageStatus = "queued"
    turn: int = 0
    error: AgentError | None = None
    steered: bool = False
    """Whether it was given to a turn that was open."""

    @property
    def is_open(self) -> bool:
        """Whether it may still reach the agent."""
        return self.status in ("queued", "sent")


class Player:
    """One process of a session, played from its begin.

    Contract: `begin` once; then `feed` and `apply` in the order things happened; `finish` when the
    process is gone. After each, `take_bytes` and `take_events` hand over what came of it.
    """

    def __init__(self, wire: LiveWire, recorder: Recorder) -> None:
        self.recorder = recorder
        self.wire = wire
        self.lines = 0
        """How many lines were fed."""
        self.messages: dict[str, MessageState] = {}
        self.questions: dict[str, Question] = {}
        """Permission requests that wait for an answer."""
        self.finished = False
        self.cut_off: tuple[Accept, ...] = ()
        """The messages of the turn that the agent died in, though nobody had ended it."""
        self._bytes = bytearray()
        self._events: list[Event] = []

    # -- what came of it ------------------------------------------------------------------------

    def take_bytes(self) -> bytes:
        """The bytes for the agent since the last call."""
        taken, self._bytes = bytes(self._bytes), bytearray()
        return taken

    def take_events(self) -> list[Event]:
        """The events since the last call."""
        taken, self._events = self._events, []
        return taken

    @property
    def has_output(self) -> bool:
        """Whether there is anything to take."""
        return bool(self._bytes or self._events)

    @property
    def queue(self) -> list[Accept]:
        """The messages that wait, steers first, else in the order they came."""
        waiting = [each.message for each in self.messages.values() if each.status == "queued"]
        return sorted(waiting, key=lambda message: message.kind != "steer")

    def next_message(self, can_steer: bool) -> Accept | None:
        """The message whose time has come: a steer while a turn is open, where the agent can be
        steered, any while it waits for one; None while it has yet to take the last."""
        queue, recorder = self.queue, self.recorder
        if not queue or self.awaited:
            return None
        if recorder.turn_open:
            return queue[0] if can_steer and queue[0].kind == "steer" else None
        return queue[0] if recorder.is_ready else None

    @property
    def awaited(self) -> bool:
        """Whether a message was sent that the agent has neither taken nor refused."""
        return any(each.status == "sent" for each in self.messages.values())

    @property
    def is_idle(self) -> bool:
        """Whether the agent waits for a prompt and none is on its way."""
        return self.recorder.is_ready and not any(m.is_open for m in self.messages.values())

    # -- what happened --------------------------------------------------------------------------

    def begin(self, carried: tuple[Accept, ...] = ()) -> None:
        """The process was started. `carried` are messages that the one before did not take."""
        for message in carried:
            self.messages[message.id] = MessageState(message=message)
        self._do(self.wire.begin)

    def feed(self, line: bytes) -> None:
        """The agent said a line, secrets already removed."""
        self.lines += 1
        try:
            self.wire.feed(line)
        except Exception as problem:
            # One message we cannot read must not cost the user all the others.
            self.recorder.unknown(
                {"line": line[:_SHOWN].decode(errors="replace"), "problem": repr(problem)[:_SHOWN]}
            )
        self._settle()

    def apply(self, entry: Entry) -> None:
        """The driver decided something."""
        self.recorder.source_unknown()
        match entry:
            case Accept():
                self.messages.setdefault(entry.id, MessageState(message=entry))
            case Send():
                self._send(entry)
            case Drop():
                state = self.messages.get(entry.id)
                if state is not None and state.status == "queued":
                    state.status = "dropped"
            case Answer():
                self._answer(entry)
            case Abort():
                self._abort(Aborted(entry.reason))
            case Expire():
                self._expire(entry)
            case Leave():
                self._leave(entry.reason)
            case Model():
                if isinstance(self.wire, ModelSwitch):
                    wire, model = self.wire, entry.model
                    self._do(lambda: wire.set_model(model))
            case Compact():
                if isinstance(self.wire, CompactionControl):
                    self._do(self.wire.compact)
            case AbortCompaction():
                if isinstance(self.wire, CompactionControl):
                    self._do(self.wire.abort_compaction)
            case Told():
                if self.recorder.guard is not None:
                    self.recorder.guard.note(entry.note)
                    self._do(self.recorder.verdicts.take_notes)
            case Settled():
                if isinstance(self.wire, TurnByTurn):
                    self.wire.settled(entry.total, entry.native_session_id, entry.model)
                    # What was told of the turn then holds, should it have come out otherwise now.
                    self._events = [each for each in self._events if each.seq <= entry.total.seq]
            case _:
                pass

    def finish(self, exit: ProcessExit) -> None:
        """The process is gone."""
        if self.finished:
            return
        self.finished = True
        recorder = self.recorder
        recorder.source_unknown()
        exit = recorder.with_last_words(exit)
        if recorder.turn_open and recorder.error is None and recorder.stop_requested is None:
            here = [each for each in self.messages.values() if each.turn == recorder.turn]
            self.cut_off = tuple(each.message for each in here if each.status == "taken")
        if recorder.state == "starting":
            # Perhaps it was never started, and its adapter cannot know.
            from bridle.runtimes.sandbox_plan import start_refusal

            refusal = start_refusal(exit)
            if refusal is not None:
                recorder.fail(refusal)
        try:
            self.wire.finish(exit)
        except Exception as problem:
            self.recorder.fail(ProtocolDrift(f"the adapter failed at the end: {problem!r}"))
        self.recorder.finish(exit)
        self.questions.clear()
        # A message that the agent died with was not refused: the next process is given it again.
        self.recorder.deliveries = [each for each in self.recorder.deliveries if each.taken]
        self._settle()
        self._bytes.clear()

    # -- inside ---------------------------------------------------------------------------------

    def _send(self, entry: Send) -> None:
        state = self.messages.get(entry.id)
        if state is None:
            return
        state.status, state.steered = "sent", entry.steer
        message = Outgoing(id=entry.id, text=state.message.text, images=state.message.images)
        self.recorder.words.instructed(message.text)
        self._do(lambda: (self.wire.steer if entry.steer else self.wire.prompt)(message))

    def _answer(self, entry: Answer) -> None:
        question = self.questions.pop(entry.request_id, None)
        if question is None:
            return
        self.recorder.reply(question.answer(entry.allowed, entry.reason))
        self.recorder.permission_decided(
            question.request_id,
            tool_name=question.tool_name,
            tool_call_id=question.tool_call_id,
            decision="allow" if entry.allowed else "deny",
            by=entry.by,
            reason=entry.reason,
        )
        self._settle()

    def _abort(self, error: AgentError) -> None:
        if self.recorder.turn_open:
            self.recorder.fail(error)
            self._do(self.wire.abort)

    def _expire(self, entry: Expire) -> None:
        recorder = self.recorder
        if entry.clock in _HUNG:
            self._abort(TimedOut(_HUNG[entry.clock].format(entry.seconds)))
        elif entry.clock == "patience":
            patience, recorder.patience = recorder.patience, None
            if patience is not None and patience.error is not None:
                recorder.request_stop(patience.error)
        elif entry.clock == "startup":
            recorder.request_stop(TimedOut(f"the agent was not ready within {entry.seconds:g} s"))
        elif entry.clock == "compaction":
            self._expire_compaction(entry.seconds)
        else:
            what = "turn" if recorder.turn_open else "compaction"
            recorder.request_stop(
                TimedOut(f"the {what} went on for {entry.seconds:g} s after it was aborted")
            )
        self._settle()

    def _expire_compaction(self, seconds: float) -> None:
        if isinstance(self.wire, CompactionControl):
            self._do(self.wire.abort_compaction)
        else:
            self.recorder.request_stop(
                TimedOut(f"the agent was silent for {seconds:g} s while it shortened its context")
            )

    def _leave(self, reason: str) -> None:
        recorder = self.recorder
        if recorder.leaving is None:
            recorder.leaving = reason
            if recorder.turn_open:
                recorder.fail(Aborted(reason))
            else:
                self._do(self.wire.leave)

    def _do(self, act: Callable[[], object]) -> None:
        try:
            act()
        except Exception as problem:
            self.recorder.unknown({"problem": repr(problem)[:_SHOWN]})
        self._settle()

    def _settle(self) -> None:
        """Collect what the wire asked for."""
        recorder = self.recorder
        for data in recorder.replies:
            self._bytes += data
        recorder.replies.clear()
        for question in recorder.questions:
            self.questions[question.request_id] = question
        recorder.questions.clear()
        for delivery in recorder.deliveries:
            state = self.messages.get(delivery.id)
            if state is None:
                continue
            if delivery.taken:
                state.status, state.turn = "taken", delivery.turn
            elif state.steered and state.status == "sent":
                # Too late for its turn: it becomes the next prompt.
                state.message = msgspec.structs.replace(state.message, kind="prompt")
                state.status = "queued"
                recorder.unsettle(delivery.id)
            else:
                state.status, state.error = "refused", delivery.error
        recorder.deliveries.clear()
        self._events += recorder.drain()
