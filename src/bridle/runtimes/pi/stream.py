"""From what `pi --mode json` prints to normalized events."""

from collections.abc import Callable
from typing import Any

import msgspec

from bridle.core.errors import (
    Aborted,
    AgentError,
    ContextOverflow,
    Crashed,
    ResumeRefused,
)
from bridle.core.usage import Usage
from bridle.process.spec import ProcessExit
from bridle.runtimes.pi import wire
from bridle.runtimes.pi.ask import REFUSAL
from bridle.runtimes.pi.errors import error_from_message, error_from_stderr
from bridle.turns.recorder import Recorder

_RAW_LIMIT = 2000
"""Characters that are kept of a line nobody can read."""


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
        """`resumed` is the conversation that is to be taken up, with `fork` in a copy."""
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

    def feed(self, line: bytes) -> None:
        """Take one line; what is not a known message is kept as `unknown`."""
        if not line.strip():
            return
        recorder = self._recorder
        try:
            message: Any = self._decode(line)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            self._unknown(line)
            return
        if recorder.options.include_raw:
            recorder.source(msgspec.json.decode(line))
        self._handle(message)

    def _handle(self, message: Any) -> None:
        handler = _HANDLERS.get(type(message))
        if handler is not None:
            handler(self, message)

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
        self._prove_taken_up(line.id, copied=f"_{self._resumed}." in (line.parent_session or ""))

    def _prove_taken_up(self, session_id: str, *, copied: bool) -> bool:
        """Whether the conversation is the wanted one, or a copy of it, for which `copied` speaks;
        else the process is told to go."""
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
        """Why the turn failed, as far as the wire and the exit tell; None leaves it to the exit."""
        if not self._began:
            return error_from_stderr(exit.last_words, exit.code, self._requested_model)
        if self._ended:
            return self._judge()
        # A process that gave up by itself while it was to try again still told why.
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
            return error_from_message(last.error_message, _qualified(last))
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
        usage = _usage(message.usage)
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
            model=_qualified(message),
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
        if line.is_error and result == REFUSAL:
            self._recorder.permission_decided(
                line.tool_call_id,
                tool_call_id=line.tool_call_id,
                tool_name=line.tool_name,
                decision="deny",
                by="bridle",
                reason=REFUSAL,
            )
        self._recorder.tool_ended(
            line.tool_call_id, tool_name=line.tool_name, is_error=line.is_error, result=result
        )

    def _compaction_start(self, line: wire.CompactionStart) -> None:
        # Does not open an ended turn again: an answer that is complete stays so.
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
            recorder.set_usage(recorder.usage + _usage(line.result.usage))
            cost = line.result.usage.cost.total
            if cost > 0:
                recorder.set_cost((recorder.cost_usd or 0.0) + cost, "provider")

    def _retry(self, line: wire.RetryStart | wire.SummaryRetry) -> None:
        if isinstance(line, wire.RetryStart):
            self._ended = False
        error = error_from_message(line.error_message, self._requested_model)
        self._recorder.retrying(line.attempt, line.delay_ms, error)

    def _unknown(self, line: bytes) -> None:
        try:
            raw = msgspec.json.decode(line)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            raw = line[:_RAW_LIMIT].decode(errors="replace")
        self._recorder.unknown(raw)


_HANDLERS: dict[type, Callable[[PiNormalizer, Any], None]] = {
    wire.SessionHeader: PiNormalizer._session,
    wire.AgentStart: PiNormalizer._agent_start,
    wire.TurnStart: PiNormalizer._turn_start,
    wire.AgentEnd: PiNormalizer._agent_end,
    wire.AgentSettled: PiNormalizer._settled,
    wire.MessageStart: PiNormalizer._message_start,
    wire.MessageUpdate: PiNormalizer._message_update,
    wire.MessageEnd: PiNormalizer._message_end,
    wire.ToolStart: PiNormalizer._tool_start,
    wire.ToolUpdate: PiNormalizer._tool_update,
    wire.ToolEnd: PiNormalizer._tool_end,
    wire.CompactionStart: PiNormalizer._compaction_start,
    wire.CompactionEnd: PiNormalizer._compaction_end,
    wire.RetryStart: PiNormalizer._retry,
    wire.SummaryRetry: PiNormalizer._retry,
}
"""What is not here says nothing that another line does not say better."""


def _usage(usage: wire.WireUsage) -> Usage:
    return Usage(
        input_tokens=usage.input,
        output_tokens=usage.output,
        cache_read_tokens=usage.cache_read,
        cache_write_tokens=usage.cache_write,
        reasoning_tokens=usage.reasoning,
    )


def _qualified(message: wire.Message) -> str:
    """The model as Pi names it everywhere: `provider/id`."""
    return f"{message.provider}/{message.model}" if message.provider else message.model
