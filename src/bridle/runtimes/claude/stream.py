"""Claude Code's stream of JSON lines, translated into calls on a `Recorder`.

A run may print several `init` and several `result` lines (background work wakes the model again),
so its end is the end of the process, and the last result judges it. With partial messages each
block comes twice: in pieces, then whole in an `assistant` line; only the tool calls are taken from
the latter, because only there their arguments are complete.
"""

import re
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from bridle.core import structs
from bridle.core.errors import (
    Aborted,
    AgentError,
    BudgetExceeded,
    ContextOverflow,
    Crashed,
    GuardRefused,
    ProtocolDrift,
    ResumeRefused,
    Unavailable,
)
from bridle.core.usage import NO_USAGE, Usage
from bridle.process.spec import ProcessExit
from bridle.runtimes.claude import wire
from bridle.runtimes.claude.hooks import answer_callback
from bridle.runtimes.claude.product import PRODUCT
from bridle.runtimes.claude.wire import ModelTotals, Result, answer_line, refusal_line
from bridle.runtimes.errors import short
from bridle.turns.recorder import Recorder
from bridle.turns.wire import Question

# Module globals, because they are looked up for each line.
_StreamEvent = wire.StreamEvent
_BlockDelta = wire.BlockDelta
_TextDelta = wire.TextDelta
_ThinkingDelta = wire.ThinkingDelta

_DROPPED = frozenset(
    {
        "hook_started",
        "hook_response",
        "hook_progress",
        "compact_boundary",
        "background_tasks_changed",
        "model_fallback",
        "model_refusal_no_fallback",
        "notification",
    }
)
"""Known system messages that no event corresponds to."""

_GARBAGE = 4096
"""Characters that are kept of a line that is not JSON."""
_ENDED = frozenset({"completed", "failed", "killed", "stopped", "cancelled"})


class ClaudeNormalizer:
    """Follows one process. See `bridle.turns.wire.Normalizer` for the contract.

    `resumed` is the id that must come back when a conversation is continued. `known_models` are
    the names the CLI has a price for (see `pricing`).
    """

    def __init__(
        self,
        recorder: Recorder,
        *,
        resumed: str | None = None,
        known_models: frozenset[str] = frozenset(),
    ) -> None:
        self._recorder = recorder
        self._resumed = resumed
        self._known_models = known_models
        self._include_raw = recorder.options.include_raw
        self._decode = wire.line_decoder.decode
        self._text_delta = recorder.text_delta
        self._thinking_delta = recorder.thinking_delta
        self._line = b""
        self._open_id: str | None = None
        self._streaming = False
        self._streamed_id = ""
        self._model: str | None = None
        self._usage: Usage | None = None
        self._stop_reason: str | None = None
        self._pending: list[wire.Block] = []
        self._refused: dict[str, str] = {}
        """What the model was told for each failed tool call of the turn, by call id."""
        self._decided: set[str] = set()
        self._tasks: set[str] = set()
        self._error_tag: str | None = None
        self._resets_at: float | None = None
        self._used = NO_USAGE
        self._cost = 0.0
        self._blocked: str | None = None
        self._result: wire.Result | None = None
        self._handlers: dict[type, Callable[[Any], None]] = {
            wire.System: self._system,
            wire.Assistant: self._assistant,
            wire.User: self._user,
            wire.Result: self._result_line,
            wire.ControlRequest: self._control_request,
            wire.RateLimitEvent: self._rate_limit,
        }

    def feed(self, line: bytes) -> None:
        """Take one line of the CLI's stdout."""
        try:
            message = self._decode(line)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            self._odd_line(line)
            return
        if self._include_raw:
            self._recorder.source(msgspec.json.decode(line))
        if type(message) is _StreamEvent:
            # A sub-agent's pieces are left out: its steps come whole, as updates of its tool.
            if message.parent_tool_use_id is None:
                event = message.event
                if type(event) is _BlockDelta:
                    delta = event.delta
                    if type(delta) is _TextDelta:
                        self._text_delta(delta.text)
                    elif type(delta) is _ThinkingDelta:
                        self._thinking_delta(delta.thinking)
                else:
                    self._stream_event(event)
        elif type(message) in self._handlers:
            self._line = line
            self._handlers[type(message)](message)

    def finish(self, exit: ProcessExit) -> None:
        """Judge the run by its last result, or by how the process ended when there is none."""
        recorder, result = self._recorder, self._result
        self._close_message(synthetic=True)
        error = self._verdict(exit)
        if error is not None:
            recorder.fail(error)
        if recorder.error is None and result is not None:
            recorder.turn_ended(text=result.result or None)
        recorder.finish(exit)

    def _verdict(self, exit: ProcessExit) -> AgentError | None:
        return error_of_exit(exit) if self._result is None else self._judge(self._result)

    def _judge(self, result: wire.Result) -> AgentError | None:
        """The failure that a result reports, with everything that was reported before it."""
        recorder = self._recorder
        error = error_of_result(
            result,
            self._error_tag,
            resets_at=self._resets_at,
            model=recorder.options.model or recorder.model,
        )
        if error is None and self._blocked is not None:
            return error_of_prompt_block(self._blocked)
        if error is None and self._resumed not in (None, recorder.native_session_id):
            return ResumeRefused(f"the agent did not resume conversation {self._resumed}")
        return error

    # -- the answer as it is written ------------------------------------------------------------

    def _stream_event(self, event: wire.ApiEvent) -> None:
        kind = type(event)
        if kind is wire.BlockStop:
            self._recorder.block_ended()
        elif kind is wire.MessageStop:
            self._close_message()
        elif isinstance(event, wire.BlockStart):
            block = event.content_block.type
            if block == "text" or block == "thinking":
                self._recorder.block_started(block)
        elif isinstance(event, wire.MessageStart):
            self._open(event.message.id, event.message.model, streaming=True)
        elif isinstance(event, wire.MessageDelta):
            self._stop_reason = event.delta.stop_reason
            self._usage = _usage(event.usage)

    def _open(self, message_id: str, model: str, *, streaming: bool) -> None:
        self._close_message(synthetic=True)
        self._open_id, self._streaming, self._model = message_id, streaming, model or None
        self._streamed_id = message_id if streaming else self._streamed_id
        self._blocked = None
        self._recorder.message_started(message_id)

    def _close_message(self, *, synthetic: bool = False) -> None:
        """End the open message, then start the tools it asked for."""
        if self._open_id is not None:
            self._recorder.message_ended(
                usage=self._usage,
                model=self._model,
                stop_reason=self._stop_reason,
                synthetic=synthetic and self._streaming,
            )
            called = self._usage is not None and self._usage.total > 0
            if called and not may_be_priced(self._model, self._known_models):
                self._recorder.unpriced_call()
            self._open_id = self._usage = self._stop_reason = None
        if self._pending:
            pending, self._pending = self._pending, []
            for call in pending:
                self._recorder.tool_started(call.id, call.name, call.input)

    def _settle(self) -> None:
        """Close a message that came whole. One that is still being written stays open: what arrives
        now belongs to a background sub-agent or to an earlier message."""
        if self._open_id is None or not self._streaming:
            self._close_message()

    # -- whole messages -------------------------------------------------------------------------

    def _assistant(self, line: wire.Assistant) -> None:
        body = line.message
        if line.parent_tool_use_id is not None:
            for block in body.content:
                self._sub_step(line.parent_tool_use_id, block)
            return
        if body.model == "<synthetic>":
            self._error_tag = line.error
            return
        self._error_tag = None
        if self._streamed_id == body.id:
            self._pending += [block for block in body.content if block.type == "tool_use"]
            self._settle()
            return
        if self._open_id != body.id:
            self._open(body.id, body.model, streaming=False)
        if body.stop_reason is not None:
            # Only a message that did not come in pieces reports its end and its true counts.
            self._stop_reason, self._usage = body.stop_reason, _usage(body.usage)
        for block in body.content:
            self._whole_block(block)

    def _whole_block(self, block: wire.Block) -> None:
        recorder = self._recorder
        if block.type == "text":
            recorder.text_delta(block.text, synthetic=True)
            recorder.block_ended(synthetic=True)
        elif block.type == "thinking":
            recorder.thinking_delta(block.thinking, synthetic=True)
            recorder.block_ended(synthetic=True)
        elif block.type == "tool_use":
            self._pending.append(block)

    def _user(self, line: wire.User) -> None:
        content = line.message.content
        if isinstance(content, str):
            return
        for block in content:
            if line.parent_tool_use_id is not None:
                self._sub_step(line.parent_tool_use_id, block)
            elif block.type == "tool_result":
                if any(call.id == block.tool_use_id for call in self._pending):
                    self._close_message(synthetic=True)
                if block.is_error:
                    self._refused[block.tool_use_id] = _text_of(block.content)
                self._recorder.tool_ended(
                    block.tool_use_id, is_error=bool(block.is_error), result=block.content
                )

    def _sub_step(self, parent: str, block: wire.Block) -> None:
        """A step of a sub-agent is an update of the tool that runs it."""
        if block.type == "tool_use":
            text = f"{block.name} {msgspec.json.encode(block.input).decode()}"
        elif block.type == "tool_result":
            text = _text_of(block.content)
        else:
            text = block.text
        if text:
            self._settle()
            self._recorder.tool_updated(parent, text)

    # -- the CLI about itself -------------------------------------------------------------------

    def _system(self, line: wire.System) -> None:
        subtype, recorder = line.subtype, self._recorder
        if subtype == "thinking_tokens":
            return
        if subtype == "init":
            self._init(line)
        elif subtype == "status":
            self._status(line)
        elif subtype == "api_retry":
            error = error_of_tag(
                line.error, line.error_status, _retry_text(line), model=recorder.model
            )
            delay = None if line.retry_delay_ms is None else round(line.retry_delay_ms)
            recorder.retrying(line.attempt, delay, error)
        elif subtype.startswith("task_"):
            self._task(line)
        elif subtype == "permission_denied":
            self._denied(line.tool_use_id or "", line.tool_name, line.message or "")
        elif subtype == "informational":
            if line.prevent_continuation:
                self._blocked = line.content or "a hook stopped the agent"
        elif subtype not in _DROPPED:
            recorder.unknown(msgspec.json.decode(self._line))

    def _init(self, line: wire.System) -> None:
        if self._resumed is not None and line.session_id != self._resumed:
            self._recorder.request_stop(
                ResumeRefused(
                    f"the agent began conversation {line.session_id} instead of "
                    f"resuming {self._resumed}"
                )
            )
        self._recorder.session_started(
            line.session_id, model=line.model, runtime_version=line.claude_code_version
        )
        self._recorder.turn_started(evidence="system/init")

    def _status(self, line: wire.System) -> None:
        if line.status == "compacting":
            # It may come before the session is announced; that must still be the first event.
            self._recorder.session_started(line.session_id, synthetic=True)
            self._recorder.turn_started(evidence="status compacting", synthetic=True)
            self._recorder.compaction_started("")
        elif line.compact_result is not None:
            failed = f"failed: {line.compact_error or 'no reason given'}"
            done = line.compact_result == "success"
            self._recorder.compaction_ended(line.compact_result if done else failed)

    def _task(self, line: wire.System) -> None:
        """Which tasks run. What these lines say about a task describes it (a command line, a
        purpose) and is not its output, so no update comes from them."""
        if line.subtype == "task_started":
            self._settle()
            self._tasks.add(line.task_id)
        elif line.subtype == "task_notification" or (
            line.patch is not None and line.patch.status in _ENDED
        ):
            self._tasks.discard(line.task_id)

    def _denied(self, call_id: str, tool_name: str, reason: str) -> None:
        if call_id in self._decided:
            return
        self._decided.add(call_id)
        self._recorder.permission_decided(
            call_id,
            tool_call_id=call_id,
            tool_name=tool_name,
            decision="deny",
            by="claude",
            reason=reason or self._refused.get(call_id, ""),
        )

    def _rate_limit(self, line: wire.RateLimitEvent) -> None:
        self._resets_at = line.rate_limit_info.resetsAt

    def _control_request(self, line: wire.ControlRequest) -> None:
        if line.request.subtype == "can_use_tool":
            self._ask(line)
        elif line.request.subtype == "hook_callback":
            self._judge_call(line)
        else:
            self._recorder.reply(refusal_line(line.request_id, line.request.subtype))

    def _judge_call(self, line: wire.ControlRequest) -> None:
        """Answer one of the guard's hooks."""
        request = line.request
        self._settle()
        answer = answer_callback(self._recorder, request.input)
        if answer and request.tool_use_id is not None:
            self._decided.add(request.tool_use_id)
        self._recorder.reply(answer_line(line.request_id, answer))

    def _ask(self, line: wire.ControlRequest) -> None:
        """Ask for a decision on a tool that Claude wants to use."""
        request = line.request
        self._settle()
        if request.tool_use_id is not None:
            self._decided.add(request.tool_use_id)

        def answer(allowed: bool, reason: str) -> bytes:
            decision = (
                {"behavior": "allow", "updatedInput": request.input}
                if allowed
                else {"behavior": "deny", "message": reason}
            )
            return answer_line(line.request_id, decision)

        self._recorder.permission_requested(
            Question(
                request_id=line.request_id,
                tool_name=request.tool_name,
                args=request.input,
                answer=answer,
                tool_call_id=request.tool_use_id,
            )
        )

    # -- the end --------------------------------------------------------------------------------

    def _result_line(self, result: wire.Result) -> None:
        self._take_result(result)
        if not self._tasks:
            self._recorder.input_done = True

    def _take_result(self, result: wire.Result) -> None:
        """Record everything in a result except how the work went."""
        recorder = self._recorder
        self._close_message(synthetic=True)
        self._result = result
        if result.session_id:
            recorder.session_started(result.session_id, synthetic=True)
        self._count(result)
        for denial in result.permission_denials:
            self._denied(denial.tool_use_id, denial.tool_name, "")

    def _count(self, result: wire.Result) -> None:
        """Take the process's totals; those of the processes before it are not this run's."""
        models, cost = result.modelUsage, result.total_cost_usd
        grown = result.model_usage_since_last_result
        if not models:
            return
        # If the totals omit reasoning, the messages reported it.
        usage = _totals(models, self._recorder.usage.reasoning_tokens)
        if grown is not None:
            self._used += _totals(grown)
            usage = self._used
            costs = [each.costUSD for each in grown.values() if each.costUSD is not None]
            self._cost += sum(costs)
            cost = self._cost if len(costs) == len(grown) else None
        self._recorder.set_usage(usage)
        if cost is not None and is_priced(models, self._known_models):
            self._recorder.set_cost(cost, "provider")

    def _odd_line(self, line: bytes) -> None:
        """Keep what no shape fits, and still take the end from a result that changed its shape."""
        if not line.strip():
            return
        try:
            raw = msgspec.json.decode(line)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            self._recorder.unknown(line[:_GARBAGE].decode(errors="replace"))
            return
        self._recorder.unknown(raw)
        if not isinstance(raw, dict):
            return
        if raw.get("type") == "result":
            self._result_line(_tolerant_result(raw))
        elif raw.get("type") == "control_request" and isinstance(raw.get("request_id"), str):
            # The CLI waits for an answer, whatever it asked.
            self._recorder.reply(refusal_line(raw["request_id"], "a request of this shape"))


def _tolerant_result(raw: dict[str, Any]) -> wire.Result:
    """A result of which only the fields that still have their old type are taken."""
    kept: dict[str, Any] = {}
    for name in wire.Result.__struct_fields__:
        try:
            structs.convert({"type": "result", name: raw[name]}, wire.Result)
        except (KeyError, msgspec.ValidationError):
            continue
        kept[name] = raw[name]
    # A result without an outcome does not prove success.
    kept.setdefault("is_error", True)
    return structs.convert({"type": "result", **kept}, wire.Result)


def _usage(counts: wire.WireUsage | None) -> Usage | None:
    return None if counts is None else wire.usage_of(counts)


def _totals(models: dict[str, wire.ModelTotals], reasoning: int = 0) -> Usage:
    reported = [each.thinkingTokens for each in models.values() if each.thinkingTokens is not None]
    return Usage(
        input_tokens=sum(each.inputTokens for each in models.values()),
        output_tokens=sum(each.outputTokens for each in models.values()),
        cache_read_tokens=sum(each.cacheReadInputTokens for each in models.values()),
        cache_write_tokens=sum(each.cacheCreationInputTokens for each in models.values()),
        reasoning_tokens=sum(reported) if reported else reasoning,
    )


def _text_of(content: Any) -> str:
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        return "\n".join(
            part["text"]
            for part in content
            if isinstance(part, dict) and isinstance(part.get("text"), str)
        )
    return ""


def _retry_text(line: wire.System) -> str:
    status = "no answer" if line.error_status is None else f"status {line.error_status}"
    return f"{status} ({line.error or 'unknown'})"


_LIMITS = ("error_max_turns", "error_max_budget_usd")
_REFUSED_START = "the CLI refused to start; its own message says why"

_STATUS = re.compile(r"API Error: (\d{3})\b")
"""How the text of a failed call begins; in older versions it alone has the status."""
_RESET = re.compile(r"\breset[s]?(?: at)?\W{1,3}(\d{10})\b|\|(\d{10})\b")
"""A reset time inside a message, in Unix seconds."""


def error_of_result(
    result: Result, tag: str | None, *, resets_at: float | None = None, model: str | None = None
) -> AgentError | None:
    """The failure that a result reports; None if it reports success.

    `tag` is the error word of the CLI's own message before the result, `resets_at` the end of an
    account's limit (Unix seconds) if the CLI reported one.
    """
    stopped = _STOPPED.get(result.terminal_reason or "")
    if not result.is_error:
        return Aborted(stopped) if stopped and not result.result else None
    text = short(result.result or "; ".join(str(part) for part in result.errors))
    if result.subtype in _LIMITS or result.terminal_reason == "max_turns":
        return BudgetExceeded(text or "a limit was reached")
    if "No conversation found" in text or "already in use" in text:
        return ResumeRefused(text)
    if stopped:
        return Aborted(stopped)
    if result.terminal_reason == "prompt_too_long":
        return ContextOverflow(text)
    if result.stop_reason == "refusal":
        return Unavailable(text, hint="the model refused; rephrase, or use another model")
    if tag is None and result.api_error_status is None and result.subtype != "success":
        return Crashed(text or "the agent gave up without saying why")
    status = result.api_error_status
    if status is None and tag is None and (found := _STATUS.match(text)) is not None:
        status = int(found[1])
    return error_of_tag(tag, status, text, until=_until(text, resets_at), model=model)


_STOPPED = {
    "aborted_streaming": "the agent was interrupted while the model answered",
    "aborted_tools": "the agent was interrupted while a tool ran",
    "hook_stopped": "a hook in the user's settings stopped the agent",
    "tool_deferred": "a hook in the user's settings deferred a tool call and so ended the turn",
}


def error_of_tag(
    tag: str | None,
    status: int | None,
    text: str,
    *,
    until: str | None = None,
    model: str | None = None,
) -> AgentError:
    """The error that Claude's own word for it and the HTTP status call for."""
    # A call without a status has 0: Claude adds its own words to the service's message, so the text
    # does not decide.
    status = status or 0
    return PRODUCT.errors.of_call(text, status=status, tag=tag or "", until=until, model=model)


def error_of_prompt_block(text: str) -> AgentError:
    """The user's own hook refused the prompt: nothing was asked of the model."""
    return GuardRefused(short(text), hint="look at the UserPromptSubmit hooks in your settings")


def error_of_exit(exit: ProcessExit) -> AgentError | None:
    """Why a process that gave no result ended, as far as its last output shows; otherwise None."""
    if exit.code == 130:
        return Aborted("the agent was interrupted")
    error = PRODUCT.errors.of_exit(exit)
    if isinstance(error, Crashed):
        # What it prints on stdout is not an error message.
        said = bool(exit.stderr_tail.strip())
        return ProtocolDrift(error.message, hint=_REFUSED_START) if said else None
    return error


def _until(text: str, resets_at: float | None) -> str | None:
    found = _RESET.search(text)
    seconds = float(found[1] or found[2]) if found else resets_at
    return None if seconds is None else utc(seconds)


def utc(seconds: float) -> str:
    """A moment in Unix seconds as RFC 3339 in UTC."""
    import time

    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(seconds))


_SUFFIX = re.compile(r"(\[\w+\]|-\d{8}|-v\d+(:\d+)?|@\w+|-latest)+$")


def is_priced(models: Mapping[str, ModelTotals], known: frozenset[str]) -> bool:
    """Whether every model of a run has its own list price."""
    return all(
        totals.costBasis == "list"
        if totals.costBasis is not None
        else canonical_name(name) in known
        for name, totals in models.items()
    )


def may_be_priced(model: str | None, known: frozenset[str]) -> bool:
    """Whether a message of `model` may have a list price: without a table only the end shows it."""
    return not known or model is None or canonical_name(model) in known


def canonical_name(model: str) -> str:
    """A model's name without provider, date and window: `claude-sonnet-4-5`."""
    name = model.rpartition("/")[2].lower()
    start = name.find("claude-")
    return _SUFFIX.sub("", name[start:] if start > 0 else name).replace(".", "-")
