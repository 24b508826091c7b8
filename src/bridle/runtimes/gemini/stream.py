"""Translates what `gemini -o stream-json` prints into normalized events, and its failures into
typed errors."""

import re
from collections.abc import Callable
from typing import Any

from bridle.core.errors import Aborted, AgentError, Crashed, ResumeRefused
from bridle.core.usage import Usage
from bridle.process.spec import ProcessExit
from bridle.runtimes.errors import short, until_in
from bridle.runtimes.gemini import wire
from bridle.runtimes.gemini.product import ERRORS, SKIPPED_SETTINGS
from bridle.runtimes.retries import Retry, RetryClock
from bridle.runtimes.wire import read_line
from bridle.turns.recorder import Recorder

_REFUSALS = ("policy_violation", "tool_not_registered")
"""Errors of a tool call that was refused, not of a tool that failed."""


class GeminiNormalizer:
    """Translates Gemini's lines. Only the `result` line means success: a run that was stopped in
    the middle exits 0 too.

    The wire names no messages. One begins with a text or, after a tool's result, with the next tool
    call; it ends with its first tool call or with the run. Usage comes only at the end.
    """

    def __init__(
        self,
        recorder: Recorder,
        *,
        retry_seconds: float,
        resumed: str | None = None,
        requested_model: str = "",
    ) -> None:
        self._recorder = recorder
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
        """Take one line of standard error: repeated calls show only there."""
        retry = self._log.feed(line)
        if retry is not None:
            self._clock.again(retry)

    def finish(self, exit: ProcessExit) -> None:
        """Decide by what Gemini printed, then close the recording."""
        recorder = self._recorder
        if recorder.turn_open or recorder.turn == 0:
            failure = self._failure(exit)
            if failure is not None:
                recorder.fail(failure)
        recorder.finish(exit)

    def _failure(self, exit: ProcessExit) -> AgentError | None:
        """Why there was no `result`; None leaves it to the exit."""
        if not self._began:
            return error_from_exit(exit, self._requested_model)
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
        """A warning, or an error that the `result` line repeats and that counts there."""
        self._recorder.unknown(
            {"type": "error", "severity": line.severity, "message": line.message}
        )

    def _result(self, line: wire.Result) -> None:
        recorder = self._recorder
        repeated = self._clock.error
        self._clock.progress()
        recorder.message_ended()
        recorder.set_usage(_usage(line.stats))
        models = {name: used.total_tokens for name, used in line.stats.models.items()}
        used = max(models, key=models.__getitem__) if models else None
        recorder.session_started(None, model=used)
        if line.status != "success":
            said = line.error.message if line.error else "the run ended in an error"
            # Some versions keep what failed to the lines about the calls before the last.
            hidden = repeated if _UNKNOWN in said else None
            recorder.fail(hidden or error_from_text(said, self._requested_model))
        recorder.turn_ended()


_UNKNOWN = "An unknown error occurred"

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


# -- failures -------------------------------------------------------------------------------------

_SKIPPED_HINT = (
    "gemini reads the system's settings only if root owns the file and every folder above it; "
    "put yours in ~/.gemini/settings.json, or give them with --settings"
)
_DELAY = re.compile(r"retry (?:after|in) (\d+(?:\.\d+)?)s", re.IGNORECASE)


def error_from_text(text: str, model: str = "", status: int | None = None) -> AgentError:
    """The error behind a sentence such as `[API Error: {"error": {"code": 401, …}}]`."""
    bare = text.strip().removeprefix("[API Error:").removesuffix("]").strip()
    body = wire.service_error(bare)
    if body is None:
        return ERRORS.of_call(bare, status=status, until=_until(bare, []), model=model)
    message = f"{body.message} ({body.status})" if body.status else body.message
    until = _until(text, body.details)
    return ERRORS.of_call(message, status=body.code or status or 500, until=until, model=model)


def _until(text: str, details: list[dict[str, Any]]) -> str | None:
    for detail in details:
        delay = str(detail.get("retryDelay", ""))
        if delay.endswith("s") and delay[:-1].replace(".", "", 1).isdigit():
            return until_in(float(delay[:-1]))
    found = _DELAY.search(text)
    return until_in(float(found[1])) if found else None


def error_from_exit(exit: ProcessExit, model: str = "") -> AgentError | None:
    """Why Gemini ended before it worked; None if neither its status nor its words say so."""
    if exit.code == 130:
        return Aborted("gemini was interrupted")
    words = exit.last_words
    skipped = next((line for line in words.splitlines() if SKIPPED_SETTINGS in line), None)
    if skipped is not None and exit.code == 41:
        # The missing login may be in that file.
        return Crashed(short(skipped), hint=_SKIPPED_HINT)
    error = ERRORS.of_exit(exit, model=model)
    unnamed = isinstance(error, Crashed) and not error.hint
    if error is not None and unnamed and ("API Error" in words or "talking to Gemini API" in words):
        return error_from_text(error.message, model)
    return error


_FAILED = re.compile(r"Attempt (\d+) failed(?: with status (\d+))?[.:]?\s*(.*)")
_AFTER = re.compile(r"Retrying after (\d+(?:\.\d+)?)ms")
_BACKOFF = "Retrying with backoff..."
_OVER = "Max attempts reached"
_MOST_LINES = 8


class GeminiLog:
    """Finds repeated model calls on standard error; a message may take several lines."""

    def __init__(self, model: str = "") -> None:
        self._model = model
        self._attempt = 0
        self._status: int | None = None
        self._lines: list[str] = []

    def feed(self, line: bytes) -> Retry | None:
        """Take one line; returns a retry when it is complete."""
        text = line.decode(errors="replace")
        found = _FAILED.match(text)
        if found:
            self._attempt = int(found[1])
            self._status = int(found[2]) if found[2] else None
            self._lines = [found[3]]
        elif self._lines and len(self._lines) < _MOST_LINES:
            self._lines.append(text)
        else:
            return None
        if _OVER in text:
            self._lines = []
        elif _BACKOFF in text or _AFTER.search(text):
            return self._retry(text)
        return None

    def _retry(self, last: str) -> Retry:
        whole, self._lines = " ".join(self._lines), []
        after = _AFTER.search(last)
        words = _AFTER.sub("", whole.replace(_BACKOFF, "")).strip(" .")
        return Retry(
            attempt=self._attempt,
            error=error_from_text(words, self._model, self._status),
            delay_ms=round(float(after[1])) if after else None,
        )
