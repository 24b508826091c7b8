"""From what `pi --mode json` prints to normalized events, and its failures to typed errors."""

from collections.abc import Callable
from typing import Any

import msgspec

from bridle.core import structs
from bridle.core.errors import (
    Aborted,
    AgentError,
    ContextOverflow,
    Crashed,
    ResumeRefused,
)
from bridle.process.spec import ProcessExit
from bridle.runtimes.errors import until_in
from bridle.runtimes.pi import wire
from bridle.runtimes.pi.product import ERRORS
from bridle.runtimes.wire import read_line
from bridle.turns.recorder import Recorder


class PiNormalizer:
    """Translates Pi's lines. Success is a last assistant message that stopped by itself, and proof
    that nothing follows it; the exit status proves nothing (it is 0 after a 401).
    """

    _decode = staticmethod(wire.decode_line)

    def __init__(
        self,
        recorder: Recorder,
        *,
        settles: bool,
        resumed: str | None = None,
        fork: bool = False,
        requested_model: str = "",
    ) -> None:
        """`resumed` is the conversation to continue, with `fork` in a copy."""
        self._recorder = recorder
        self._settles = settles
        self._resumed = resumed
        self._fork = fork
        self._requested_model = requested_model
        self._began = False
        self._ended = False
        self._compacting: str | None = None
        self._last: wire.Message | None = None
        self._waiting: wire.Message | None = None
        self._streamed: set[str] = set()
        self._block_text = 0
        self._shown: dict[str, str] = {}
        # Lines of other types say nothing that one of these does not say better.
        self._handlers: dict[type, Callable[[Any], None]] = {
            wire.SessionHeader: self._session,
            wire.AgentStart: self._agent_start,
            wire.TurnStart: self._turn_start,
            wire.AgentEnd: self._agent_end,
            wire.AgentSettled: self._settled,
            wire.MessageStart: self._message_start,
            wire.MessageUpdate: self._message_update,
            wire.MessageEnd: self._message_end,
            wire.ToolStart: self._tool_start,
            wire.ToolUpdate: self._tool_update,
            wire.ToolEnd: self._tool_end,
            wire.CompactionStart: self._compaction_start,
            wire.CompactionEnd: self._compaction_end,
            wire.AutoCompactionStart: self._compaction_start,
            wire.AutoCompactionEnd: self._compaction_end,
            wire.RetryStart: self._retry,
            wire.SummaryRetry: self._retry,
        }

    def feed(self, line: bytes) -> None:
        """Take one line; what is not a known message is kept as `unknown`."""
        message = read_line(self._recorder, line, self._decode)
        handler = self._handlers.get(type(message))
        if handler is not None:
            handler(message)

    def finish(self, exit: ProcessExit) -> None:
        """Judge by what was said, then close the recording."""
        recorder = self._recorder
        if self._compacting is not None:
            # The older dialect does not wait for it when its prompt is done.
            recorder.compaction_ended(f"{self._compacting}: given up when the process ended")
        if recorder.turn_open or recorder.turn == 0:
            failure = self._failure(exit)
            if failure is not None:
                recorder.fail(failure)
            elif recorder.error is None and self._ended:
                recorder.turn_ended()
        recorder.finish(exit)

    # -- the session and its turns --------------------------------------------------------------

    def _session(self, line: wire.SessionHeader) -> None:
        recorder = self._recorder
        recorder.session_started(line.id)
        self._prove_resumed(line.id, copied=f"_{self._resumed}." in (line.parent_session or ""))

    def _prove_resumed(self, session_id: str, *, copied: bool) -> bool:
        """Whether the conversation is the wanted one, or a copy of it (`copied` is the evidence);
        if not, the process is asked to stop."""
        wanted = self._resumed
        if wanted is None:
            return True
        if self._fork:
            proved, wanted = copied and session_id != wanted, f"a copy of {wanted}"
        else:
            proved = session_id == wanted
        if not proved:
            self._recorder.request_stop(
                ResumeRefused(f"Pi opened conversation {session_id} instead of {wanted}")
            )
        return proved

    def _agent_start(self, line: wire.AgentStart) -> None:
        self._began = True
        self._ended = False
        self._recorder.turn_started()

    def _turn_start(self, line: wire.TurnStart) -> None:
        self._recorder.next_call()

    def _agent_end(self, line: wire.AgentEnd) -> None:
        self._ended = not (line.will_retry or self._settles)

    def _settled(self, line: wire.AgentSettled) -> None:
        recorder = self._recorder
        if not self._settles or not recorder.turn_open:
            return
        self._ended = True
        failure = Aborted("the agent's work was aborted") if line.aborted else self._judge()
        if failure is not None:
            recorder.fail(failure)
        recorder.turn_ended()

    def _failure(self, exit: ProcessExit) -> AgentError | None:
        """Why the turn failed, as far as wire and stderr say; None leaves it to the exit status."""
        if not self._began:
            return ERRORS.of_exit(exit, model=self._requested_model)
        if self._ended:
            return self._judge()
        # A process that gave up by itself before a retry has still said why.
        gave_up = exit.code is not None and 0 <= exit.code <= 128
        failed = self._last is not None and self._last.stop_reason in ("error", "length")
        return self._judge() if gave_up and failed else None

    def _judge(self) -> AgentError | None:
        """Whether the last message was a proper end."""
        last = self._last
        if last is None:
            return Crashed("the agent ended its turn without an answer of the model")
        if last.stop_reason == "stop":
            return None
        if last.stop_reason == "length":
            return ContextOverflow("the answer was cut off at the model's output limit")
        if last.stop_reason == "aborted":
            return Aborted(last.error_message or "the agent's work was aborted")
        if last.stop_reason == "error":
            return error_of_message(last.error_message, last.full_model)
        return Crashed(f"the agent ended its turn on a message that stopped for {last.stop_reason}")

    # -- messages -------------------------------------------------------------------------------

    def _message_start(self, line: wire.MessageStart) -> None:
        # A model call that fails at once also prints a message. It becomes one only when it says
        # something, so that a failed attempt shows as `retry` and does not count as a turn.
        if line.message.role == "assistant":
            self._waiting = line.message
            self._streamed.clear()

    def _message_update(self, line: wire.MessageUpdate) -> None:
        update = line.assistant_message_event
        self._open_message()
        kind, _, step = update.type.partition("_")
        if kind not in ("text", "thinking"):
            self._recorder.block_ended()
            return
        if step == "start":
            self._block_text = 0
            self._recorder.block_ended()
            self._recorder.block_started(kind)
        elif step == "delta":
            self._block_text += len(update.delta)
            self._say(kind, update.delta, synthetic=False)
        elif step == "end":
            if not self._block_text:
                self._say(kind, update.content, synthetic=True)
            self._recorder.block_ended()

    def _message_end(self, line: wire.MessageEnd) -> None:
        message = line.message
        if message.role != "assistant":
            return
        self._last = message
        recorder = self._recorder
        usage = message.usage.counted()
        if self._waiting is not None and message.stop_reason == "error" and not usage.total:
            self._waiting = None
            if not recorder.message_open:
                return
        self._open_message()
        for block in wire.blocks_of(message.content):
            if block.type in ("text", "thinking") and block.type not in self._streamed:
                self._say(block.type, block.text or block.thinking, synthetic=True)
                recorder.block_ended(synthetic=True)
        cost = message.usage.cost.total
        recorder.message_ended(
            usage=usage,
            model=message.full_model,
            stop_reason=message.stop_reason or None,
            cost_usd=cost if cost > 0 else None,
        )

    def _open_message(self) -> None:
        waiting, self._waiting = self._waiting, None
        if waiting is not None or not self._recorder.message_open:
            self._recorder.message_started(waiting.response_id if waiting else None)

    def _say(self, kind: str, text: str, *, synthetic: bool) -> None:
        self._streamed.add(kind)
        if kind == "text":
            self._recorder.text_delta(text, synthetic=synthetic)
        else:
            self._recorder.thinking_delta(text, synthetic=synthetic)

    # -- tools and the rest ---------------------------------------------------------------------

    def _tool_start(self, line: wire.ToolStart) -> None:
        self._recorder.tool_started(line.tool_call_id, line.tool_name, line.args)

    def _tool_update(self, line: wire.ToolUpdate) -> None:
        """Each update repeats all the output so far; only what is new is passed on."""
        text = wire.shown_result(line.partial_result)
        if not isinstance(text, str):
            return
        before = self._shown.get(line.tool_call_id, "")
        self._shown[line.tool_call_id] = text
        fresh = text[len(before) :] if text.startswith(before) else text
        if fresh:
            self._recorder.tool_updated(line.tool_call_id, fresh)

    def _tool_end(self, line: wire.ToolEnd) -> None:
        self._shown.pop(line.tool_call_id, None)
        result = wire.shown_result(line.result)
        if line.is_error and result == wire.REFUSAL:
            self._recorder.permission_decided(
                line.tool_call_id,
                tool_call_id=line.tool_call_id,
                tool_name=line.tool_name,
                decision="deny",
                by="bridle",
                reason=wire.REFUSAL,
            )
        self._recorder.tool_ended(
            line.tool_call_id, tool_name=line.tool_name, is_error=line.is_error, result=result
        )

    def _compaction_start(self, line: wire.CompactionStart) -> None:
        # An ended turn stays ended: its answer is complete.
        self._compacting = line.reason or "unknown"
        self._recorder.compaction_started(line.reason)

    def _compaction_end(self, line: wire.CompactionEnd) -> None:
        recorder = self._recorder
        self._compacting = None
        reason = line.reason
        if line.aborted:
            reason = f"{reason}: aborted"
        elif line.error_message:
            reason = f"{reason}: {line.error_message}"
        recorder.compaction_ended(reason)
        if line.result is not None and line.result.usage is not None:
            recorder.set_usage(recorder.usage + line.result.usage.counted())
            cost = line.result.usage.cost.total
            if cost > 0:
                recorder.set_cost((recorder.cost_usd or 0.0) + cost, "provider")

    def _retry(self, line: wire.RetryStart | wire.SummaryRetry) -> None:
        if isinstance(line, wire.RetryStart):
            self._ended = False
        error = error_of_message(line.error_message, self._requested_model)
        self._recorder.retrying(line.attempt, line.delay_ms, error)


# -- failures -------------------------------------------------------------------------------------


class _Problem(msgspec.Struct):
    message: str = ""
    type: str = ""
    code: str | int | None = None


class _Body(msgspec.Struct):
    error: _Problem | str | None = None
    message: str = ""


def error_of_message(text: str, model: str = "") -> AgentError:
    """The error behind an assistant message that ended in `error`; `text` is its errorMessage.

    Pi writes `STATUS BODY` for an answer of the service and a plain sentence for the rest.
    """
    words, status = text.removeprefix("Error: "), None
    if words[:3].isdigit() and not words[3:4].isdigit() and 400 <= int(words[:3]) <= 599:
        status, words = int(words[:3]), words[3:].lstrip(" :")
    return ERRORS.of_call(
        _message_in(words) or text, status=status, details=text, until=_until(text), model=model
    )


def _message_in(text: str) -> str:
    """The sentence inside an error body with its type; `text` itself when it is no such body."""
    try:
        body = structs.decode(text, _Body)
    except msgspec.MsgspecError:
        return text
    inner = body.error
    if isinstance(inner, _Problem):
        kinds = [str(kind) for kind in (inner.type, inner.code) if kind]
        return f"{inner.message} ({', '.join(kinds)})" if kinds else inner.message
    return inner or body.message or text


def _until(text: str) -> str | None:
    """When to try again, where the text names a delay, as in `90s retry delay`."""
    words = text.partition(" retry delay")[0].split()
    seconds = words[-1].removesuffix("s") if words else ""
    return until_in(int(seconds)) if seconds.isdigit() and words[-1].endswith("s") else None
