"""From what `gemini -o stream-json` prints to normalized events."""

from collections.abc import Callable
from typing import Any

from bridle.core.errors import AgentError, ResumeRefused
from bridle.core.usage import Usage
from bridle.process.spec import ProcessExit
from bridle.runtimes.gemini import wire
from bridle.runtimes.gemini.dialects import GeminiDialect
from bridle.runtimes.gemini.errors import error_from_exit, error_from_text
from bridle.runtimes.gemini.logs import GeminiLog
from bridle.runtimes.raw import read_line
from bridle.runtimes.retries import RetryClock
from bridle.turns.recorder import Recorder

_REFUSALS = ("policy_violation", "tool_not_registered")
"""Errors of a tool that was kept from the model rather than one that failed."""


class GeminiNormalizer:
    """Translates Gemini's lines. Success is the `result` line and nothing else: a run that was
    stopped in the middle exits 0 too.

    The wire names no messages. One begins with a text or, after a tool's result, with the next tool
    call; it ends with its first tool call or with the run. Usage comes at the end alone.
    """

    def __init__(
        self,
        recorder: Recorder,
        dialect: GeminiDialect,
        *,
        retry_seconds: float,
        resumed: str | None = None,
        requested_model: str = "",
    ) -> None:
        self._recorder = recorder
        self._dialect = dialect
        self._resumed = resumed
        self._requested_model = requested_model
        self._log = GeminiLog(requested_model)
        self._clock = RetryClock(recorder, retry_seconds)
        self._began = False
        self._calling = False

    def feed(self, line: bytes) -> None:
        """Take one line; what is not a known message is kept as `unknown`."""
        message = read_line(self._recorder, line, wire.decode_line)
        if message is None:
            return
        _HANDLERS[type(message)](self, message)

    def feed_stderr(self, line: bytes) -> None:
        """Take one line of standard error: failed calls that are made again show only there."""
        retry = self._log.feed(line)
        if retry is not None:
            self._clock.again(retry)

    def finish(self, exit: ProcessExit) -> None:
        """Judge by what was said, then close the recording."""
        recorder = self._recorder
        if recorder.turn_open or recorder.turn == 0:
            failure = self._failure(exit)
            if failure is not None:
                recorder.fail(failure)
        recorder.finish(exit)

    def _failure(self, exit: ProcessExit) -> AgentError | None:
        """Why there was no `result`; None leaves it to the exit."""
        if not self._began:
            return error_from_exit(exit.last_words, exit.code, self._dialect, self._requested_model)
        return self._clock.error

    # -- lines ----------------------------------------------------------------------------------

    def _init(self, line: wire.Init) -> None:
        recorder = self._recorder
        self._began = True
        recorder.session_started(line.session_id or None, model=line.model or None)
        if self._resumed is not None and line.session_id != self._resumed:
            recorder.request_stop(
                ResumeRefused(f"gemini opened session {line.session_id} instead of {self._resumed}")
            )
        recorder.turn_started(evidence="init")

    def _message(self, line: wire.Message) -> None:
        if line.role != "assistant":
            return
        self._clock.progress()
        self._calling = False
        if not self._recorder.message_open:
            self._recorder.message_started()
        self._recorder.text_delta(line.content, synthetic=not line.delta)

    def _tool_use(self, line: wire.ToolUse) -> None:
        recorder = self._recorder
        self._clock.progress()
        if not recorder.message_open and not self._calling:
            # An answer that only calls tools.
            recorder.message_started(synthetic=True)
        self._calling = True
        recorder.message_ended()
        recorder.tool_started(line.tool_id, line.tool_name, line.parameters)

    def _tool_result(self, line: wire.ToolResult) -> None:
        recorder = self._recorder
        self._calling = False
        failed = line.status != "success"
        if failed and line.error is not None and line.error.type in _REFUSALS:
            recorder.permission_decided(
                line.tool_id,
                tool_name=self._tool_name(line.tool_id),
                tool_call_id=line.tool_id,
                decision="deny",
                by="gemini",
                reason=line.error.message,
            )
        result = line.output
        if result is None and line.error is not None:
            result = line.error.message
        recorder.tool_ended(line.tool_id, is_error=failed, result=result)

    def _tool_name(self, tool_id: str) -> str:
        # The id begins with the tool's name; the result does not repeat it.
        return tool_id.partition("__")[0]

    def _failure_line(self, line: wire.Failure) -> None:
        """A warning, or an error that the `result` repeats: kept to be seen, judged there."""
        self._recorder.unknown(
            {"type": "error", "severity": line.severity, "message": line.message}
        )

    def _result(self, line: wire.Result) -> None:
        recorder = self._recorder
        self._clock.progress()
        recorder.message_ended()
        recorder.set_usage(_usage(line.stats))
        models = {name: used.total_tokens for name, used in line.stats.models.items()}
        used = max(models, key=models.__getitem__) if models else None
        recorder.session_started(None, model=used)
        if line.status != "success":
            said = line.error.message if line.error else "the run ended in an error"
            recorder.fail(error_from_text(said, self._requested_model))
        recorder.turn_ended()


_HANDLERS: dict[type, Callable[[GeminiNormalizer, Any], None]] = {
    wire.Init: GeminiNormalizer._init,
    wire.Message: GeminiNormalizer._message,
    wire.ToolUse: GeminiNormalizer._tool_use,
    wire.ToolResult: GeminiNormalizer._tool_result,
    wire.Failure: GeminiNormalizer._failure_line,
    wire.Result: GeminiNormalizer._result,
}


def _usage(stats: wire.Stats) -> Usage:
    """What the process used. Thinking is what the total has beyond input and output."""
    reasoning = max(0, stats.total_tokens - stats.input_tokens - stats.output_tokens)
    return Usage(
        input_tokens=stats.input_tokens - stats.cached,
        output_tokens=stats.output_tokens + reasoning,
        cache_read_tokens=stats.cached,
        reasoning_tokens=reasoning,
    )
