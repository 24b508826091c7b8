"""The one loop that plays an agent's process: lines, answers and ends in, events and bytes out.

Every drive uses it: a run and the process of a turn play a `Normalizer` with a `Player`, a
connection and a session play a `LiveWire` with a `Conversation`. It has no input or output and
reads no clock: the driver owns the process and decides what happens when. So the same calls in the
same order always give the same events and bytes.
"""

from collections.abc import Callable
from typing import Any, Generic, Literal, Protocol, TypeVar, cast

import msgspec

from bridle.core.errors import Aborted, AgentError, ProtocolDrift
from bridle.core.events import Event
from bridle.process.spec import ProcessExit
from bridle.turns.recorder import Recorder
from bridle.turns.wire import LiveWire, Normalizer, Outgoing, Question, StderrReader

_SHOWN = 2000
"""Characters of a line that are shown if its adapter failed on it."""
_EXIT_SECONDS = 5.0
"""How long the agent of a run has to exit after its turn, before it is stopped."""


class Player:
    """Plays one process.

    Contract: `feed` takes the lines in order, secrets already removed; `finish` is called when the
    process has ended. After each call `take_bytes`, `take_events` and `questions` give what came of
    it. An adapter that raises costs one line, never the run.
    """

    def __init__(self, wire: Normalizer, recorder: Recorder) -> None:
        self.recorder = recorder
        self.lines = 0
        """How many lines were fed."""
        self.questions: dict[str, Question] = {}
        """Permission requests that wait for an answer, by request id, oldest first."""
        self.finished = False
        self._normalizer = wire
        self._bytes = bytearray()
        self._collect()

    # -- results --------------------------------------------------------------------------------

    @property
    def has_bytes(self) -> bool:
        """Whether there are bytes to take."""
        return bool(self._bytes)

    def take_bytes(self) -> bytes:
        """The bytes for the agent since the last call."""
        if not self._bytes:
            return b""
        taken, self._bytes = bytes(self._bytes), bytearray()
        return taken

    def take_events(self) -> list[Event]:
        """The events since the last call, oldest first."""
        return self.recorder.drain()

    # -- input ----------------------------------------------------------------------------------

    def feed(self, line: bytes) -> None:
        """Take one line of the agent's stdout."""
        self.lines += 1
        try:
            self._normalizer.feed(line)
        except Exception as problem:
            self._show_unreadable(line, problem)
        self._collect()

    def feed_stderr(self, line: bytes) -> None:
        """Take one line of the agent's stderr; ignored if the adapter does not read stderr."""
        if isinstance(self._normalizer, StderrReader):
            try:
                self._normalizer.feed_stderr(line)
            except Exception as problem:
                self._show_unreadable(line, problem)
            self._collect()

    def answer(self, request_id: str, allowed: bool, by: str, reason: str) -> None:
        """Answer a permission request; no effect if no such request is open."""
        question = self.questions.pop(request_id, None)
        if question is None:
            return
        self.recorder.reply(question.answer(allowed, reason))
        self.recorder.permission_decided(
            question.request_id,
            tool_name=question.tool_name,
            tool_call_id=question.tool_call_id,
            decision="allow" if allowed else "deny",
            by=by,
            reason=reason,
        )
        self._collect()

    def finish(self, exit: ProcessExit) -> None:
        """The process has ended. A repeated call has no effect."""
        if self.finished:
            return
        self.finished = True
        exit = self.recorder.with_last_words(exit)
        finish_wire(self._normalizer, self.recorder, exit)
        # The adapter does this itself; a second call has no effect.
        self.recorder.finish(exit)

    # -- helpers --------------------------------------------------------------------------------

    def _show_unreadable(self, line: bytes, problem: Exception) -> None:
        self.recorder.unknown(
            {"line": line[:_SHOWN].decode(errors="replace"), "problem": repr(problem)[:_SHOWN]}
        )

    def _collect(self) -> None:
        """Collect what the adapter asked for."""
        recorder = self.recorder
        if recorder.replies:
            for data in recorder.replies:
                self._bytes += data
            recorder.replies.clear()
        if recorder.questions:
            for question in recorder.questions:
                self.questions[question.request_id] = question
            recorder.questions.clear()


def finish_wire(wire: Normalizer, recorder: Recorder, exit: ProcessExit) -> None:
    """Call `finish` of an adapter; if it raises, the turn fails with `ProtocolDrift`."""
    try:
        wire.finish(exit)
    except Exception as problem:
        recorder.fail(ProtocolDrift(f"the adapter failed at the end: {problem!r}"))


# -- conversations --------------------------------------------------------------------------------


class QueuedMessage(Protocol):
    """A message that waits for its turn. It must be a `msgspec.Struct`."""

    @property
    def id(self) -> str:
        """Unique in its session."""

    @property
    def kind(self) -> str:
        """`prompt`, `steer` or `follow_up`."""

    @property
    def text(self) -> str:
        """The text."""

    @property
    def images(self) -> tuple[str, ...]:
        """Paths of image files."""


class Message(Outgoing, frozen=True, kw_only=True):
    """A `QueuedMessage` for conversations that keep no ledger."""

    kind: Literal["prompt", "steer", "follow_up"] = "prompt"


M = TypeVar("M", bound=QueuedMessage)

MessageStatus = Literal["queued", "sent", "taken", "refused", "dropped"]


class MessageState(msgspec.Struct, Generic[M], kw_only=True):
    """A message and how far it has come."""

    message: M
    status: MessageStatus = "queued"
    turn: int = 0
    error: AgentError | None = None
    steered: bool = False
    """Whether it was sent into a turn that was open."""

    @property
    def is_open(self) -> bool:
        """Whether it may still reach the agent."""
        return self.status in ("queued", "sent")


class Conversation(Player, Generic[M]):
    """Plays one process that takes many prompts, with the messages on their way to it.

    Contract: as `Player`; `begin` is called once, before everything else. The caller decides when a
    message is sent (`next_message`, `send`). A steer that comes too late for its turn is queued
    again as a prompt.
    """

    def __init__(self, wire: LiveWire, recorder: Recorder) -> None:
        self.wire = wire
        self.messages: dict[str, MessageState[M]] = {}
        super().__init__(wire, recorder)
        self.cut_off: tuple[M, ...] = ()
        """The messages of the turn that was open when the process ended unexpectedly."""

    # -- messages -------------------------------------------------------------------------------

    @property
    def queue(self) -> list[M]:
        """The queued messages: steers first, otherwise in the order they came."""
        waiting = [each.message for each in self.messages.values() if each.status == "queued"]
        return sorted(waiting, key=lambda message: message.kind != "steer")

    def next_message(self, can_steer: bool) -> M | None:
        """The message to send now: a steer while a turn is open, if the agent can be steered, and
        any message while the agent is ready. None while the last message has no receipt."""
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
        """Whether the agent waits for a prompt and no message is on its way."""
        return self.recorder.is_ready and not any(m.is_open for m in self.messages.values())

    def add(self, message: M) -> None:
        """Queue a message. No effect if its id is known."""
        self.messages.setdefault(message.id, MessageState(message=message))

    def drop(self, message_id: str) -> None:
        """Remove a message from the queue; no effect if it was sent."""
        state = self.messages.get(message_id)
        if state is not None and state.status == "queued":
            state.status = "dropped"

    def send(self, message_id: str, *, steer: bool = False) -> None:
        """Send a queued message, as the next prompt or into the open turn."""
        state = self.messages.get(message_id)
        if state is None:
            return
        state.status, state.steered = "sent", steer
        message = Outgoing(id=message_id, text=state.message.text, images=state.message.images)
        self.recorder.words.instructed(message.text)
        self.do(self.wire.steer if steer else self.wire.prompt, message)

    # -- the conversation -----------------------------------------------------------------------

    def begin(self, carried: tuple[M, ...] = ()) -> None:
        """The process was started. `carried` are messages that the previous process did not
        take."""
        for message in carried:
            self.messages[message.id] = MessageState(message=message)
        self.do(self.wire.begin)

    def abort(self, error: AgentError) -> None:
        """End the open turn because of `error`; no effect between turns."""
        if self.recorder.turn_open:
            self.recorder.fail(error)
            self.do(self.wire.abort)

    def leave(self, reason: str) -> None:
        """Let the agent exit because of `reason`. An open turn fails; the driver stops its
        process. A repeated call has no effect."""
        recorder = self.recorder
        if recorder.leaving is None:
            recorder.leaving = reason
            if recorder.turn_open:
                recorder.fail(Aborted(reason))
            else:
                self.do(self.wire.leave)

    def do(self, act: Callable[..., object], *arguments: object) -> None:
        """Call a method of the wire; if it raises, an `unknown` event shows the problem."""
        try:
            act(*arguments)
        except Exception as problem:
            self.recorder.unknown({"problem": repr(problem)[:_SHOWN]})
        self._collect()

    def finish(self, exit: ProcessExit) -> None:
        """The process has ended. A repeated call has no effect."""
        recorder = self.recorder
        if self.finished:
            return
        recorder.source_unknown()
        if recorder.turn_open and recorder.error is None and recorder.stop_requested is None:
            here = [each for each in self.messages.values() if each.turn == recorder.turn]
            self.cut_off = tuple(each.message for each in here if each.status == "taken")
        super().finish(exit)
        # The process died with its unread messages; it did not refuse them. The next process gets
        # them again.
        recorder.deliveries = [each for each in recorder.deliveries if each.taken]
        self._collect()
        self.questions.clear()
        self._bytes.clear()

    def _collect(self) -> None:
        super()._collect()
        recorder = self.recorder
        for delivery in recorder.deliveries:
            state = self.messages.get(delivery.id)
            if state is None:
                continue
            if delivery.taken:
                state.status, state.turn = "taken", delivery.turn
            elif state.steered and state.status == "sent":
                # Too late for its turn: it becomes the next prompt.
                prompt = msgspec.structs.replace(cast(Any, state.message), kind="prompt")
                state.message = cast(M, prompt)
                state.status = "queued"
                recorder.forget_receipt(delivery.id)
            else:
                state.status, state.error = "refused", delivery.error
        recorder.deliveries.clear()


class OnePrompt:
    """The `Normalizer` of a run over a `LiveWire`: one prompt, its turn, the end of the process.

    Contract: created before the process starts; the wire's first bytes are then in
    `Recorder.replies`. The prompt is sent when the agent is ready, and the agent exits after the
    turn. A prompt that the agent refuses fails the run.
    """

    def __init__(self, wire: LiveWire, recorder: Recorder, prompt: Outgoing) -> None:
        self._wire = wire
        self._recorder = recorder
        self._prompt: Outgoing | None = prompt
        self._over = False
        wire.begin()

    def feed(self, line: bytes) -> None:
        """Take one line of stdout, then send what is due."""
        self._wire.feed(line)
        recorder = self._recorder
        if self._prompt is not None and recorder.is_ready:
            prompt, self._prompt = self._prompt, None
            self._wire.prompt(prompt)
        for delivery in recorder.deliveries:
            if not delivery.taken and delivery.error is not None:
                recorder.fail(delivery.error)
                self._leave()
        recorder.deliveries.clear()
        if recorder.turn and not recorder.turn_open:
            self._leave()

    def finish(self, exit: ProcessExit) -> None:
        """The process has ended."""
        self._wire.finish(exit)

    def _leave(self) -> None:
        if not self._over:
            self._over = True
            self._wire.leave()
            self._recorder.expect(_EXIT_SECONDS)
