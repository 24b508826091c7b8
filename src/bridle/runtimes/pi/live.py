"""A live conversation with `pi --mode rpc`: prompts, steers and aborts on one process.

Commands are answered by their id, events come in between. When the agent is done is told by one
dialect (`agent_settled`); the other is asked after each `agent_end`, and its answer counts, since
what would follow (a retry, a compaction) is announced before it can answer.
"""

from collections.abc import Callable
from typing import Any

import msgspec

from bridle.core.errors import (
    Aborted,
    AgentError,
    Crashed,
    NotAuthenticated,
    ProtocolDrift,
    Unavailable,
)
from bridle.process.spec import ProcessExit
from bridle.runtimes.pi import wire
from bridle.runtimes.pi.choices import expand_model
from bridle.runtimes.pi.commands import Commands, content, nothing
from bridle.runtimes.pi.dialects import DIALECTS
from bridle.runtimes.pi.dialogs import Dialogs
from bridle.runtimes.pi.errors import error_from_message, error_from_stderr
from bridle.runtimes.pi.images import NotAnImage, image_blocks
from bridle.runtimes.pi.stream import PiNormalizer
from bridle.turns.recorder import Recorder
from bridle.turns.wire import LiveFacts, Outgoing


class _Sent(msgspec.Struct):
    """A message whose fate is not known yet."""

    steer: bool
    queued: str | None = None
    """The text by which Pi will show it when the model gets it, once Pi has queued it."""


class PiLiveWire(PiNormalizer):
    """The wire of one conversation. Contract: see `LiveWire`, `ModelSwitch`, `CompactionControl`.

    A steer is a prompt that may be queued: Pi queues it as long as a turn can still take it, and
    else begins a turn with it, so it is never left lying.
    """

    _decode = staticmethod(wire.decode_rpc_line)

    def __init__(self, facts: LiveFacts, recorder: Recorder) -> None:
        dialect = next((each for each in DIALECTS if each.name == facts.dialect), DIALECTS[-1])
        super().__init__(
            recorder,
            settles=dialect.settles,
            resumed=facts.resume,
            fork=bool(facts.own.get("fork")),
            requested_model=facts.own.get("model") or "",
        )
        self._facts = facts
        self._clears_queue = dialect.clears_queue
        self._dialogs = Dialogs(recorder)
        self._commands = Commands(recorder)
        self._sent: dict[str, _Sent] = {}
        self._held: list[Outgoing] = []
        self._held_steers: list[Outgoing] = []
        self._model_error: AgentError | None = None
        self._is_up = False
        self._began_turn = False
        self._aborting = False
        self._settled_aborted = False
        self._closing = False
        self._continues = False
        self._compacted = False
        self._probe = ""
        self._queue_length = 0
        self._grown: str | None = None

    # -- what the driver asks for ---------------------------------------------------------------

    def begin(self) -> None:
        """Ask who is there."""
        self._commands.ask("get_state", self._greeted)

    def prompt(self, message: Outgoing) -> None:
        """Begin a turn, after what was asked of the agent before."""
        if self._commands.blocked:
            self._held.append(message)
            return
        error, self._model_error = self._model_error, None
        if error is not None:
            self._recorder.message_refused(message.id, error)
            return
        self._send(message, steer=False)

    def steer(self, message: Outgoing) -> None:
        """Reach the model when the tools that run now are done.

        The older dialect would begin a turn beside the compaction that it is busy with, so there
        it is sent when that is over.
        """
        if not self._settles and (self._compacting is not None or self._continues):
            self._held_steers.append(message)
        else:
            self._send(message, steer=True)

    def abort(self) -> None:
        """End the turn and forget what is queued for it. A dialog that nobody answers would keep
        it open, so all are cancelled first."""
        self._aborting = True
        self._dialogs.cancel_all()
        held, self._held_steers = self._held_steers, []
        for message in held:
            self._refuse_late(message.id)
        if self._clears_queue:
            self._commands.ask("clear_queue", self._queue_cleared)
        self._commands.ask("abort", nothing)

    def leave(self) -> None:
        """Pi leaves when its stdin is closed."""
        self._recorder.input_done = True

    def set_model(self, model: str) -> None:
        """Use `model` from the next turn on. One that Pi does not know refuses the next prompt."""
        full = expand_model(model, self._facts.own.get("names") or {})
        provider, _, name = full.partition("/")
        name, _, level = name.partition(":")
        self._commands.ask(
            "set_model", self._model_set, provider=provider, modelId=name, blocks=True
        )
        if level:
            self._commands.ask("set_thinking_level", self._model_set, level=level, blocks=True)

    def compact(self) -> None:
        """Shorten the context. It begins now, not when Pi says so: until it is over there is no
        rest, and no prompt."""
        self._compacting = "manual"
        self._recorder.compaction_started("manual")
        self._commands.ask("compact", self._compact_answered, blocks=True)

    def abort_compaction(self) -> None:
        """Give up the compaction that runs, where the version can."""
        self._commands.ask("abort", nothing)

    def finish(self, exit: ProcessExit) -> None:
        """Judge by what was said, then close the recording."""
        recorder = self._recorder
        if self._compacting is not None:
            recorder.compaction_ended(f"{self._compacting}: given up when the process ended")
        if recorder.turn_open:
            failure = self._failure(exit)
            if failure is not None:
                recorder.fail(failure)
            elif recorder.error is None and self._ended:
                recorder.turn_ended()
        elif not self._is_up:
            known = error_from_stderr(exit.last_words, exit.code, self._requested_model)
            recorder.fail(known or Crashed("Pi ended before it was ready"))
        held = [message.id for message in (*self._held, *self._held_steers)]
        for message_id in (*self._sent, *held):
            recorder.message_refused(
                message_id, Crashed("the agent ended before the message reached the model")
            )
        recorder.finish(exit)

    # -- speaking -------------------------------------------------------------------------------

    def _send(self, message: Outgoing, *, steer: bool) -> None:
        try:
            images = image_blocks(self._facts.cwd, message.images)
        except NotAnImage as problem:
            self._recorder.message_refused(message.id, Unavailable(str(problem)))
            return
        self._sent[message.id] = _Sent(steer)
        text = message.text.encode("utf-8", "replace").decode()
        line: dict[str, Any] = {"id": message.id, "type": "prompt", "message": text}
        if images:
            line["images"] = images
        if steer:
            line["streamingBehavior"] = "steer"
        self._commands.say(line)

    # -- answers --------------------------------------------------------------------------------

    def _response(self, line: wire.Response) -> None:
        if not self._commands.take(line) and line.id in self._sent:
            self._answered(str(line.id), line)
        if self._held and not self._commands.blocked:
            held, self._held = self._held, []
            for message in held:
                self.prompt(message)

    def _greeted(self, line: wire.Response) -> None:
        recorder = self._recorder
        state = content(line, wire.State)
        if state is None:
            recorder.request_stop(ProtocolDrift(f"Pi did not tell its state: {line.error}"))
            return
        model = state.model
        known = model is not None and model.id not in ("", "unknown")
        name = f"{model.provider}/{model.id}" if model is not None and known else None
        recorder.session_started(state.session_id, model=name)
        # What it was copied from is not told; but one that was begun anew holds no message.
        if not self._prove_taken_up(state.session_id, copied=state.message_count > 0):
            return
        self._is_up = True
        recorder.ready("get_state")

    def _answered(self, name: str, line: wire.Response) -> None:
        """What became of a prompt or steer."""
        recorder = self._recorder
        sent = self._sent[name]
        grown, self._grown = self._grown, None
        if not line.success:
            del self._sent[name]
            recorder.message_refused(name, _refusal(line.error))
        elif sent.steer and grown is not None:
            sent.queued = grown
        else:
            accepted = content(line, wire.Accepted)
            self._begun(name, accepted.disposition if accepted else "")
        if self._closing:
            self._close_turn()

    def _begun(self, name: str, disposition: str) -> None:
        """A message that was not queued: it began a turn, or an extension dealt with it."""
        recorder = self._recorder
        del self._sent[name]
        if recorder.turn_open and not self._closing and not self._ended:
            recorder.message_taken(name)
            return
        if self._closing or recorder.turn_open:
            self._finish_turn()
        self._open_turn("prompt accepted")
        recorder.message_taken(name)
        if disposition == "handled":
            recorder.turn_ended()
        elif not disposition:
            turn = recorder.turn
            self._commands.ask("get_state", lambda line: self._looked_whether_begun(turn, line))

    def _looked_whether_begun(self, turn: int, line: wire.Response) -> None:
        """The older dialect does not say that an extension dealt with a prompt; but then nothing
        has begun by the time it answers."""
        recorder = self._recorder
        state = content(line, wire.State)
        begun = state is None or state.is_streaming or self._began_turn
        if not begun and recorder.turn_open and recorder.turn == turn:
            recorder.turn_ended()

    def _compact_answered(self, line: wire.Response) -> None:
        if self._compacting is not None:
            # Refused before it began.
            reason, self._compacting = self._compacting, None
            self._recorder.compaction_ended(f"{reason}: {line.error}" if line.error else reason)

    def _model_set(self, line: wire.Response) -> None:
        if not line.success:
            self._model_error = Unavailable(
                f"Pi did not change the model: {line.error}", hint="see `pi --list-models`"
            )

    # -- the turn -------------------------------------------------------------------------------

    def _open_turn(self, evidence: str) -> None:
        if not self._recorder.turn_open:
            self._last = None
            self._began_turn = self._aborting = self._settled_aborted = False
            self._recorder.turn_started(evidence=evidence)

    def _agent_start(self, line: wire.AgentStart) -> None:
        if self._closing:
            self._finish_turn()
        self._open_turn("agent_start")
        self._began = self._began_turn = True
        self._ended = self._continues = self._compacted = False
        self._send_held_steers()
        if self._aborting:
            # It went on by itself while it was told to stop.
            self._commands.ask("abort", nothing)

    def _agent_end(self, line: wire.AgentEnd) -> None:
        super()._agent_end(line)
        self._look_whether_idle()

    def _retry_end(self, line: wire.RetryEnd) -> None:
        if not self._settles and not line.success and self._recorder.turn_open:
            self._ended = True
            self._look_whether_idle()

    def _compaction_end(self, line: wire.CompactionEnd) -> None:
        super()._compaction_end(line)
        self._continues = line.will_retry
        self._compacted = line.result is not None
        if not self._continues:
            self._send_held_steers()
        self._look_whether_idle()

    def _send_held_steers(self) -> None:
        held, self._held_steers = self._held_steers, []
        for message in held:
            self._send(message, steer=True)

    def _look_whether_idle(self) -> None:
        if self._ended and not self._settles and self._recorder.turn_open:
            self._probe = self._commands.ask("get_state", self._looked)

    def _looked(self, line: wire.Response) -> None:
        """The turn is over unless something was announced meanwhile. Messages that wait after a
        compaction make Pi go on by itself; after a failure they wait for the next prompt."""
        state = content(line, wire.State)
        if state is None or line.id != self._probe or not self._recorder.turn_open:
            return
        goes_on = self._continues or (self._compacted and state.pending_message_count > 0)
        busy = state.is_streaming or state.is_compacting or self._compacting is not None
        if self._ended and not goes_on and not busy:
            self._close_turn()

    def _settled(self, line: wire.AgentSettled) -> None:
        if self._settles and self._recorder.turn_open:
            self._ended = True
            self._settled_aborted = line.aborted
            self._close_turn()

    def _close_turn(self) -> None:
        """End the turn, but only when it is known of every steer whether it was in it."""
        self._closing = True
        steers = [sent for sent in self._sent.values() if sent.steer]
        if any(sent.queued is None for sent in steers):
            return
        if steers and self._clears_queue:
            self._commands.ask("clear_queue", self._left_behind)
            return
        self._finish_turn()

    def _finish_turn(self) -> None:
        self._closing = False
        self._dialogs.forget()
        if self._settled_aborted:
            failure: AgentError | None = Aborted("the agent's work was aborted")
        else:
            failure = self._judge()
        if failure is not None:
            self._recorder.fail(failure)
        self._recorder.turn_ended()

    # -- steers ---------------------------------------------------------------------------------

    def _queue_update(self, line: wire.QueueUpdate) -> None:
        if len(line.steering) > self._queue_length:
            self._grown = line.steering[-1]
        self._queue_length = len(line.steering)

    def _message_start(self, line: wire.MessageStart) -> None:
        if line.message.role == "user":
            blocks = wire.blocks_of(line.message.content)
            text = "".join(block.text for block in blocks if block.type == "text")
            for name, sent in self._sent.items():
                if sent.queued == text:
                    del self._sent[name]
                    self._recorder.message_taken(name)
                    break
        super()._message_start(line)

    def _queue_cleared(self, line: wire.Response) -> None:
        """Refuse the steers that Pi has forgotten."""
        cleared = content(line, wire.Cleared)
        removed = list(cleared.steering) if cleared else []
        for name, sent in list(self._sent.items()):
            if sent.queued in removed:
                removed.remove(sent.queued)
                self._refuse_late(name)

    def _left_behind(self, line: wire.Response) -> None:
        """The turn is over, and the queue is empty: what was in it is refused."""
        for name, sent in list(self._sent.items()):
            if sent.steer and sent.queued is not None:
                self._refuse_late(name)
        if self._closing:
            self._finish_turn()

    def _refuse_late(self, name: str) -> None:
        self._sent.pop(name, None)
        self._recorder.message_refused(
            name, Unavailable("the turn ended before the message reached the model")
        )

    # -- dialogs --------------------------------------------------------------------------------

    def _dialog(self, line: wire.Dialog) -> None:
        self._dialogs.take(line)

    def _extension_error(self, line: wire.ExtensionError) -> None:
        self._recorder.unknown(msgspec.to_builtins(line))

    def _handle(self, message: Any) -> None:
        handler = _HANDLERS.get(type(message))
        if handler is not None:
            handler(self, message)
        else:
            super()._handle(message)


_HANDLERS: dict[type, Callable[[PiLiveWire, Any], None]] = {
    wire.Response: PiLiveWire._response,
    wire.AgentStart: PiLiveWire._agent_start,
    wire.AgentEnd: PiLiveWire._agent_end,
    wire.AgentSettled: PiLiveWire._settled,
    wire.RetryEnd: PiLiveWire._retry_end,
    wire.CompactionEnd: PiLiveWire._compaction_end,
    wire.QueueUpdate: PiLiveWire._queue_update,
    wire.MessageStart: PiLiveWire._message_start,
    wire.Dialog: PiLiveWire._dialog,
    wire.ExtensionError: PiLiveWire._extension_error,
}


def _refusal(text: str) -> AgentError:
    """Why Pi did not take a prompt."""
    if "already processing" in text:
        return Unavailable("Pi is busy with another turn")
    error = error_from_message(text)
    return error if isinstance(error, NotAuthenticated) else Unavailable(error.message)
