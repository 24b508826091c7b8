"""A live conversation with `pi --mode rpc`: prompts, steers and aborts on one process.

Commands are answered by their id, events come in between. One dialect says when the agent is done
(`agent_settled`). The other is asked after each `agent_end`, and its answer counts, since what
would follow (a retry, a compaction) is announced before it can answer.
"""

import os
from collections.abc import Callable
from typing import Any, TypeVar

import msgspec

from bridle.core import structs
from bridle.core.errors import (
    Aborted,
    AgentError,
    Crashed,
    NotAuthenticated,
    ProtocolDrift,
    Unavailable,
    WrongUse,
)
from bridle.process.spec import ProcessExit
from bridle.runtimes.options import image_data
from bridle.runtimes.pi import wire
from bridle.runtimes.pi.command import expand_model
from bridle.runtimes.pi.product import DIALECTS, ERRORS
from bridle.runtimes.pi.stream import PiNormalizer, error_of_message
from bridle.turns.recorder import Recorder
from bridle.turns.rpc import Requests, encode_line
from bridle.turns.wire import LiveFacts, Outgoing, Question

_T = TypeVar("_T")
Then = Callable[[wire.Response], None]

_NOTICES = frozenset({"notify", "setStatus", "setWidget", "setTitle", "set_editor_text"})
"""Methods of an extension's dialog that need no answer."""


class _Sent(msgspec.Struct):
    """A message that was sent to Pi."""

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
        self._dialogs: list[str] = []
        """Open permission requests."""
        self._requests: Requests[str, wire.Response] = Requests("bridle-{}".format)
        self._sent: dict[str, _Sent] = {}
        """Messages whose fate is not known yet, by id."""
        self._held: list[Outgoing] = []
        """Prompts that wait for the answer to a blocking command."""
        self._held_steers: list[Outgoing] = []
        """Steers that wait for the end of a compaction."""
        self._model_error: AgentError | None = None
        """Why the model was not changed; it refuses the next prompt."""
        self._is_up = False
        self._began_turn = False
        """Whether the open turn was announced by `agent_start`."""
        self._aborting = False
        self._settled_aborted = False
        self._closing = False
        """Whether the open turn is over except for steers whose fate is not known."""
        self._continues = False
        """Whether Pi will continue by itself after a compaction."""
        self._compacted = False
        self._probe = ""
        """The id of the last question whether Pi is idle; only its answer counts."""
        self._queue_length = 0
        self._grown: str | None = None
        """The text that Pi last added to its queue, until the answer to its prompt."""
        self._handlers |= {
            wire.Response: self._response,
            wire.RetryEnd: self._retry_end,
            wire.QueueUpdate: self._queue_update,
            wire.Dialog: self._dialog,
            wire.ExtensionError: self._extension_error,
        }

    # -- what the driver asks for ---------------------------------------------------------------

    def begin(self) -> None:
        """Ask for the state: the answer shows that Pi is up, and names the conversation."""
        self._request("get_state", self._greeted)

    def prompt(self, message: Outgoing) -> None:
        """Begin a turn, after the answers to all blocking commands."""
        if self._requests.blocked:
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
        for name in self._dialogs:
            # Pi ignores an answer to a dialog that is over.
            self._recorder.reply(_answer(name, cancelled=True))
        self._dialogs.clear()
        held, self._held_steers = self._held_steers, []
        for message in held:
            self._refuse_late(message.id)
        if self._clears_queue:
            self._request("clear_queue", self._queue_cleared)
        self._request("abort", _ignore)

    def leave(self) -> None:
        """Pi leaves when its stdin is closed."""
        self._recorder.input_done = True

    def set_model(self, model: str) -> None:
        """Use `model` from the next turn on. One that Pi does not know refuses the next prompt."""
        full = expand_model(model, self._facts.own.get("names") or {})
        provider, _, name = full.partition("/")
        name, _, level = name.partition(":")
        self._request("set_model", self._model_set, provider=provider, modelId=name, blocks=True)
        if level:
            self._request("set_thinking_level", self._model_set, level=level, blocks=True)

    def compact(self) -> None:
        """Compact the context. The compaction begins now, not when Pi announces it: until it is
        over the agent is not idle and gets no prompt."""
        self._compacting = "manual"
        self._recorder.compaction_started("manual")
        self._request("compact", self._compact_answered, blocks=True)

    def abort_compaction(self) -> None:
        """Stop a running compaction, where the version can."""
        self._request("abort", _ignore)

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
            known = ERRORS.of_exit(exit, model=self._requested_model)
            recorder.fail(known or Crashed("Pi ended before it was ready"))
        held = [message.id for message in (*self._held, *self._held_steers)]
        for message_id in (*self._sent, *held):
            recorder.message_refused(
                message_id, Crashed("the agent ended before the message reached the model")
            )
        recorder.finish(exit)

    # -- speaking -------------------------------------------------------------------------------

    def _request(self, command: str, then: Then, *, blocks: bool = False, **fields: Any) -> str:
        """Send a command and return its id. One that `blocks` is answered before the next prompt
        is sent: Pi works on commands at the same time."""
        name = self._requests.open(command, then, blocks=blocks)
        self._recorder.reply(encode_line({"id": name, "type": command, **fields}))
        return name

    def _send(self, message: Outgoing, *, steer: bool) -> None:
        try:
            images = [image_data(os.path.join(self._facts.cwd, each)) for each in message.images]
        except WrongUse as problem:
            self._recorder.message_refused(message.id, Unavailable(problem.message))
            return
        self._sent[message.id] = _Sent(steer)
        text = message.text.encode("utf-8", "replace").decode()
        line: dict[str, Any] = {"id": message.id, "type": "prompt", "message": text}
        if images:
            line["images"] = [
                {"type": "image", "data": data, "mimeType": kind} for kind, data in images
            ]
        if steer:
            line["streamingBehavior"] = "steer"
        self._recorder.reply(encode_line(line))

    # -- answers --------------------------------------------------------------------------------

    def _response(self, line: wire.Response) -> None:
        if not self._requests.respond(line.id, line) and line.id in self._sent:
            self._answered(str(line.id), line)
        if self._held and not self._requests.blocked:
            held, self._held = self._held, []
            for message in held:
                self.prompt(message)

    def _greeted(self, line: wire.Response) -> None:
        recorder = self._recorder
        state = _content(line, wire.State)
        if state is None:
            recorder.request_stop(ProtocolDrift(f"Pi did not report its state: {line.error}"))
            return
        model = state.model
        known = model is not None and model.id not in ("", "unknown")
        name = f"{model.provider}/{model.id}" if model is not None and known else None
        recorder.session_started(state.session_id, model=name)
        # Pi does not say what it copied; but a new conversation contains no message.
        if not self._prove_resumed(state.session_id, copied=state.message_count > 0):
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
            accepted = _content(line, wire.Accepted)
            self._begun(name, accepted.disposition if accepted else "")
        if self._closing:
            self._close_turn()

    def _begun(self, name: str, disposition: str) -> None:
        """A message that was not queued: it began a turn, or an extension handled it."""
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
            self._request("get_state", lambda line: self._check_begun(turn, line))

    def _check_begun(self, turn: int, line: wire.Response) -> None:
        """The older dialect does not say that an extension handled a prompt; but then nothing has
        begun by the time it answers."""
        recorder = self._recorder
        state = _content(line, wire.State)
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
            # It continued by itself after an abort.
            self._request("abort", _ignore)

    def _agent_end(self, line: wire.AgentEnd) -> None:
        super()._agent_end(line)
        self._probe_idle()

    def _retry_end(self, line: wire.RetryEnd) -> None:
        if not self._settles and not line.success and self._recorder.turn_open:
            self._ended = True
            self._probe_idle()

    def _compaction_end(self, line: wire.CompactionEnd) -> None:
        super()._compaction_end(line)
        self._continues = line.will_retry
        self._compacted = line.result is not None
        if not self._continues:
            self._send_held_steers()
        self._probe_idle()

    def _send_held_steers(self) -> None:
        held, self._held_steers = self._held_steers, []
        for message in held:
            self._send(message, steer=True)

    def _probe_idle(self) -> None:
        if self._ended and not self._settles and self._recorder.turn_open:
            self._probe = self._request("get_state", self._probed)

    def _probed(self, line: wire.Response) -> None:
        """The turn is over unless something was announced meanwhile. Messages that wait after a
        compaction make Pi go on by itself; after a failure they wait for the next prompt."""
        state = _content(line, wire.State)
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
            self._request("clear_queue", self._left_behind)
            return
        self._finish_turn()

    def _finish_turn(self) -> None:
        self._closing = False
        self._dialogs.clear()
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
        cleared = _content(line, wire.Cleared)
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
        """Bridle's own question and an extension's `confirm` are permission requests. Whatever else
        an extension asks is cancelled at once, since nobody here can answer it, and so is
        everything that is asked outside a turn."""
        recorder = self._recorder
        if line.method in _NOTICES:
            return
        question = _question(line) if recorder.turn_open else None
        if question is None:
            recorder.unknown(msgspec.to_builtins(line))
            recorder.reply(_answer(line.id, cancelled=True))
            return
        self._dialogs.append(line.id)
        recorder.permission_requested(question)

    def _extension_error(self, line: wire.ExtensionError) -> None:
        self._recorder.unknown(msgspec.to_builtins(line))


class _Call(msgspec.Struct, frozen=True):
    """The tool call that Bridle's own extension asks about."""

    id: str
    tool: str
    args: Any = None


def _question(line: wire.Dialog) -> Question | None:
    """The permission request that a dialog is, if it is one."""
    name = line.id
    if line.method == "confirm":
        return Question(
            request_id=name,
            tool_name="extension_confirm",
            args={"title": line.title, "message": line.message},
            answer=lambda allowed, reason: _answer(name, confirmed=allowed),
        )
    if line.method != "input" or line.title != wire.ASK_TITLE:
        return None
    try:
        call = structs.decode(line.placeholder, _Call)
    except msgspec.MsgspecError:
        return None
    return Question(
        request_id=name,
        tool_call_id=call.id,
        tool_name=call.tool,
        args=call.args,
        answer=lambda allowed, reason: _answer(
            name, value=msgspec.json.encode({"allow": allowed, "reason": reason}).decode()
        ),
    )


def _answer(name: str, **fields: Any) -> bytes:
    return encode_line({"type": "extension_ui_response", "id": name, **fields})


def _ignore(line: wire.Response) -> None:
    """For a command whose answer says nothing that the events do not."""


def _content(line: wire.Response, kind: type[_T]) -> _T | None:
    """What an answer holds; None when it holds something else."""
    if not line.success:
        return None
    try:
        return structs.decode(line.data, kind)
    except msgspec.MsgspecError:
        return None


def _refusal(text: str) -> AgentError:
    """Why Pi did not take a prompt."""
    if "already processing" in text:
        return Unavailable("Pi is busy with another turn")
    error = error_of_message(text)
    return error if isinstance(error, NotAuthenticated) else Unavailable(error.message)
