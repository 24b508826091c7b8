"""From what `copilot --output-format json` prints to normalized events."""

from collections.abc import Callable
from typing import Any

import msgspec

from bridle.core import structs
from bridle.core.errors import (
    Aborted,
    AgentError,
    ContextOverflow,
    Crashed,
    NotAuthenticated,
    ResumeRefused,
    Unavailable,
)
from bridle.process.spec import ProcessExit
from bridle.runtimes.copilot import wire
from bridle.runtimes.copilot.product import PRODUCT
from bridle.runtimes.copilot.transcript import Afterwards
from bridle.runtimes.errors import reset_time
from bridle.runtimes.wire import read_line
from bridle.turns.recorder import Recorder


class CopilotNormalizer:
    """Translates Copilot's lines. Success is a `result` with exit code 0 after an idle that was
    not aborted, and no error before it; the exit status itself is 0 after SIGTERM too.
    """

    def __init__(
        self,
        recorder: Recorder,
        *,
        session_id: str | None = None,
        resumed: str | None = None,
        max_retries: int | None = None,
        idles: bool = True,
        after_run: Callable[[str], Afterwards] = lambda session: Afterwards(),
    ) -> None:
        self._recorder = recorder
        self._session_id = session_id
        self._resumed = resumed
        self._max_retries = max_retries
        self._idles = idles
        self._after_run = after_run
        self._named_message = False
        self._streamed: set[str] = set()
        self._printed: dict[str, str] = {}
        self._tools: dict[str, str] = {}
        self._failed_call: wire.CallFailure | None = None
        self._retries = 0
        self._failure: AgentError | None = None
        self._aborted = False
        self._idle = False
        self._result: wire.Result | None = None

    def feed(self, line: bytes) -> None:
        """Take one line; what is not a known message is kept as `unknown`."""
        message = read_line(self._recorder, line, wire.decode_line)
        if message is None:
            return
        kind, data = message
        recorder = self._recorder
        recorder.session_started(self._session_id)
        handler = _HANDLERS.get(kind)
        if handler is not None:
            handler(self, data)

    def finish(self, exit: ProcessExit) -> None:
        """Decide the outcome, add what only files say, then close the recording."""
        recorder = self._recorder
        files = self._after_run(recorder.native_session_id or "")
        if files.usage is not None:
            recorder.set_usage(files.usage)
        recorder.model = recorder.model or files.model
        failure = self._judge(exit)
        if failure is None and self._idle and files.finish_reason == "length":
            failure = ContextOverflow("the answer was cut off at the model's output limit")
        if failure is not None:
            recorder.fail(failure)
        elif self._idle and self._result is not None and recorder.turn_open:
            recorder.turn_ended()
        recorder.finish(exit)

    def _judge(self, exit: ProcessExit) -> AgentError | None:
        """Why the run failed; None when it did not, or when only the exit can say."""
        result = self._result
        if self._failure is not None:
            return self._failure
        if self._resumed and result is not None and result.session_id != self._resumed:
            return ResumeRefused(
                f"copilot went on with {result.session_id} instead of {self._resumed}"
            )
        if self._aborted:
            return Aborted("the agent's work was aborted")
        if self._recorder.turn == 0:
            return PRODUCT.errors.of_exit(exit)
        if result is not None and result.exit_code:
            return Crashed(f"copilot ended its work with status {result.exit_code}")
        if result is not None and not self._idle:
            return Crashed("copilot ended before its turn was over")
        return None

    # -- turns ----------------------------------------------------------------------------------

    def _user_message(self, data: wire.Nothing) -> None:
        self._recorder.turn_started(evidence="user.message")

    def _turn_start(self, data: wire.TurnStart) -> None:
        if data.parent_tool_call_id is None:
            self._recorder.next_call()
            self._idle = False

    def _turn_end(self, data: wire.TurnStart) -> None:
        if data.parent_tool_call_id is None and not self._idles:
            self._idle = True

    def _idle_now(self, data: wire.Idle) -> None:
        self._idle = True
        self._aborted = self._aborted or data.aborted

    def _abort(self, data: wire.Nothing) -> None:
        self._aborted = True

    def _result_line(self, data: wire.Result) -> None:
        self._result = data
        self._recorder.session_started(data.session_id)

    def _call_failed(self, data: wire.CallFailure) -> None:
        self._failed_call = data

    def _retry(self, data: wire.Nothing) -> None:
        """A failed call is retried; its message so far is closed."""
        recorder = self._recorder
        self._retries += 1
        error = error_of_call(self._failed_call or wire.CallFailure())
        recorder.message_ended(synthetic=True)
        if self._max_retries is not None and self._retries > self._max_retries:
            recorder.request_stop(error)
        else:
            recorder.retrying(self._retries, None, error)

    def _error(self, data: wire.Failure) -> None:
        if self._failure is None:
            self._failure = error_of_session(data, self._failed_call)

    # -- messages -------------------------------------------------------------------------------

    def _message_start(self, data: wire.MessageStart) -> None:
        if data.parent_tool_call_id is not None:
            return
        if self._recorder.message_open and not self._named_message:
            # Its reasoning came first and opened it.
            self._named_message = True
            return
        self._open(data.message_id)
        self._named_message = True

    def _open(self, message_id: str | None) -> None:
        self._streamed.clear()
        self._named_message = False
        self._recorder.message_started(message_id)

    def _text(self, data: wire.Delta) -> None:
        if data.parent_tool_call_id is None:
            self._say("text", data.delta_content, synthetic=False)

    def _thinking(self, data: wire.Delta) -> None:
        if data.parent_tool_call_id is None:
            self._say("thinking", data.delta_content, synthetic=False)

    def _say(self, kind: str, text: str, *, synthetic: bool) -> None:
        if not text:
            return
        recorder = self._recorder
        if not recorder.message_open:
            self._open(None)
        self._streamed.add(kind)
        if kind == "text":
            recorder.text_delta(text, synthetic=synthetic)
        else:
            recorder.thinking_delta(text, synthetic=synthetic)

    def _message(self, data: wire.Message) -> None:
        recorder = self._recorder
        if data.parent_tool_call_id is not None:
            recorder.tool_updated(data.parent_tool_call_id, data.content)
            return
        if not recorder.message_open:
            self._open(data.message_id)
        if "thinking" not in self._streamed:
            self._say("thinking", data.reasoning_text or "", synthetic=True)
        if "text" not in self._streamed:
            self._say("text", data.content, synthetic=True)
        self._retries = 0
        recorder.message_ended(model=data.model)

    # -- tools and the rest ---------------------------------------------------------------------

    def _tool_start(self, data: wire.ToolStart) -> None:
        if data.parent_tool_call_id is None:
            self._tools[data.tool_call_id] = data.tool_name
            self._recorder.tool_started(data.tool_call_id, data.tool_name, data.arguments)

    def _tool_partial(self, data: wire.ToolPartial) -> None:
        """Each update repeats all the output so far; only what is new is passed on."""
        before = self._printed.get(data.tool_call_id, "")
        text = data.partial_output
        self._printed[data.tool_call_id] = text
        fresh = text[len(before) :] if text.startswith(before) else text
        if fresh:
            self._recorder.tool_updated(data.tool_call_id, fresh)

    def _tool_complete(self, data: wire.ToolComplete) -> None:
        if data.parent_tool_call_id is not None:
            return
        recorder = self._recorder
        self._printed.pop(data.tool_call_id, None)
        if data.error is not None and data.error.code == "denied":
            recorder.permission_decided(
                data.tool_call_id,
                tool_call_id=data.tool_call_id,
                tool_name=self._tools.get(data.tool_call_id, "unknown"),
                decision="deny",
                by="copilot",
                reason=data.error.message,
            )
        result = data.result.content if data.result is not None else None
        recorder.tool_ended(
            data.tool_call_id,
            is_error=not data.success,
            result=data.error.message if result is None and data.error else result,
        )

    def _compaction_start(self, data: wire.Compaction) -> None:
        self._recorder.compaction_started("automatic")

    def _compaction_end(self, data: wire.Compaction) -> None:
        failed = data.success is False
        self._recorder.compaction_ended("automatic: failed" if failed else "automatic")


_HANDLERS: dict[str, Callable[[CopilotNormalizer, Any], None]] = {
    "user.message": CopilotNormalizer._user_message,
    "assistant.turn_start": CopilotNormalizer._turn_start,
    "assistant.turn_end": CopilotNormalizer._turn_end,
    "assistant.message_start": CopilotNormalizer._message_start,
    "assistant.message_delta": CopilotNormalizer._text,
    "assistant.reasoning_delta": CopilotNormalizer._thinking,
    "assistant.message": CopilotNormalizer._message,
    "assistant.turn_retry": CopilotNormalizer._retry,
    "assistant.idle": CopilotNormalizer._idle_now,
    "tool.execution_start": CopilotNormalizer._tool_start,
    "tool.execution_partial_result": CopilotNormalizer._tool_partial,
    "tool.execution_complete": CopilotNormalizer._tool_complete,
    "model.call_failure": CopilotNormalizer._call_failed,
    "session.error": CopilotNormalizer._error,
    "session.compaction_start": CopilotNormalizer._compaction_start,
    "session.compaction_complete": CopilotNormalizer._compaction_end,
    "abort": CopilotNormalizer._abort,
    "result": CopilotNormalizer._result_line,
}


# -- failures -------------------------------------------------------------------------------------


class _Body(msgspec.Struct, frozen=True):
    message: str = ""
    type: str | None = None
    code: str | int | None = None


def error_of_call(failure: wire.CallFailure) -> AgentError:
    """The error behind one failed model call; its message may be the service's own JSON."""
    try:
        body = structs.decode(failure.error_message, _Body)
    except msgspec.MsgspecError:
        body = _Body(message=failure.error_message)
    details = " ".join(str(part) for part in (body.code, body.type) if part)
    return _error(body.message, failure.status_code, details=details, model=failure.model)


def error_of_session(failure: wire.Failure, last: wire.CallFailure | None) -> AgentError:
    """The error that ended the turn. The last failed call says what the summary leaves out."""
    last = last or wire.CallFailure()
    status, kind = failure.status_code or last.status_code, failure.error_type
    if kind == "rate_limit":
        status = status or 429
    tag = "context" if "context" in kind else kind
    return _error(failure.message, status, tag=tag, details=last.error_message, model=last.model)


def _error(
    text: str, status: int | None, *, tag: str = "", details: str = "", model: str | None = None
) -> AgentError:
    until = reset_time(f"{text} {details}")
    error = PRODUCT.errors.of_call(
        text, status=status, tag=tag, details=details, until=until, model=model
    )
    if status is None and not tag.startswith("auth") and isinstance(error, NotAuthenticated):
        # Without a status, its words name keys only as something to check.
        return Unavailable(error.message)
    return error
