"""Translates what `opencode run --format json` prints into normalized events, and its failures into
typed errors.

Failed model calls and refused permissions show only in the log, on standard error.
"""

import re
from collections.abc import Callable
from typing import Any

import msgspec

from bridle.core import structs
from bridle.core.errors import (
    AgentError,
    ContextOverflow,
    Crashed,
    GuardRefused,
    ResumeRefused,
    Unavailable,
)
from bridle.process.spec import ProcessExit
from bridle.runtimes.errors import reset_time, until_in
from bridle.runtimes.opencode import wire
from bridle.runtimes.opencode.product import ERRORS, OpenCodeDialect
from bridle.runtimes.wire import read_line
from bridle.turns.recorder import Recorder


class OpenCodeNormalizer:
    """Translates OpenCode's lines. No line is always the first or the last: success is a last step
    that stopped by itself together with an exit status of 0.

    A tool's line comes after its end, often before the text of the message that called it; tools
    wait here until their step is finished.
    """

    def __init__(
        self,
        recorder: Recorder,
        dialect: OpenCodeDialect,
        *,
        max_retries: int,
        retry_seconds: float,
        resumed: str | None = None,
        fork: bool = False,
        requested_model: str = "",
        find_model: Callable[[str], str | None] = lambda session_id: None,
    ) -> None:
        self._recorder = recorder
        self._dialect = dialect
        self._max_retries = max_retries
        self._retry_seconds = retry_seconds
        self._resumed = resumed
        self._fork = fork
        self._requested_model = requested_model
        self._find_model = find_model
        self._session_id = ""
        self._tools: list[wire.Part] = []
        self._step_open = False
        self._reason: str | None = None
        self._refused = False
        self._problem: wire.Problem | None = None
        self._cause = ""
        self._failures = 0
        self._failed_call: AgentError | None = None

    def feed(self, line: bytes) -> None:
        """Take one line; what is not a known message is kept as `unknown`."""
        message = read_line(self._recorder, line, wire.decode_line)
        if message is None:
            return
        self._session(message.session_id)
        _HANDLERS[type(message)](self, message)

    def feed_stderr(self, line: bytes) -> None:
        """Take one line of the log: the only place where failed model calls show."""
        entry = read_log_line(line)
        if entry is None:
            return
        if entry.kind == "retry":
            self._session(entry.session_id)
            self._call_failed(error_from_sentence(entry.text))
        elif entry.kind == "fatal":
            self._failed_call = None
            self._recorder.expect(None)
        elif entry.kind == "cause":
            self._cause = entry.text
        else:
            self._refused = True

    def finish(self, exit: ProcessExit) -> None:
        """Decide by what OpenCode printed, fill in the model, then close the recording."""
        recorder = self._recorder
        if self._session_id:
            recorder.session_started(None, model=self._find_model(self._session_id))
        self._play_tools()
        failure = self._failure(exit)
        if failure is not None:
            recorder.fail(failure)
        elif recorder.error is None and self._completed(exit):
            recorder.turn_ended()
        recorder.finish(exit)

    # -- how it ended ---------------------------------------------------------------------------

    def _completed(self, exit: ProcessExit) -> bool:
        return self._reason is not None and not self._step_open and exit.code == 0

    def _failure(self, exit: ProcessExit) -> AgentError | None:
        """Why the turn failed, if any line says so; None leaves it to the exit."""
        if self._problem is not None:
            return self._explained(self._problem)
        if self._failed_call is not None:
            return self._failed_call
        if self._reason is None and not self._step_open:
            return error_from_exit(exit, self._requested_model)
        if not self._completed(exit):
            return None
        if self._reason == "tool-calls":
            if self._refused:
                return GuardRefused(
                    "the agent ended its work because its permission request was refused",
                    hint="run it with permission bypass, or allow this in opencode's `permission`",
                )
            return Crashed("the agent ended after a tool call without continuing")
        return _unfinished(self._reason or "")

    def _explained(self, problem: wire.Problem) -> AgentError:
        """The error of an `error` line; if it has no reason, the log has one."""
        if problem.name == "UnknownError" and self._cause:
            return error_from_sentence(self._cause, self._requested_model)
        return error_from_event(problem, self._requested_model)

    # -- model calls that fail ------------------------------------------------------------------

    def _call_failed(self, error: AgentError) -> None:
        """A model call failed. Whether OpenCode repeats it shows only later."""
        self._record_retry()
        self._failed_call = error
        self._failures += 1
        if self._failures > self._max_retries:
            self._recorder.request_stop(error)
        else:
            self._recorder.expect(self._retry_seconds, error)

    def _record_retry(self) -> None:
        if self._failures > self._max_retries:
            # The run is being stopped; a call that OpenCode repeats until then does not count.
            return
        failed, self._failed_call = self._failed_call, None
        if failed is not None:
            self._recorder.retrying(self._failures, None, failed)

    def _progress(self) -> None:
        """The model answers: what failed before was repeated. The answer may still be cut off, so
        the count of failures stays until it is complete."""
        self._record_retry()
        if self._failures:
            self._recorder.expect(None)
        self._problem = None

    # -- lines ----------------------------------------------------------------------------------

    def _session(self, session_id: str) -> None:
        if not session_id or self._session_id:
            return
        self._session_id = session_id
        recorder = self._recorder
        recorder.session_started(session_id)
        # A copy has another id. OpenCode itself reports that there is nothing to copy.
        if self._resumed is not None and (session_id == self._resumed) == self._fork:
            wanted = f"a copy of {self._resumed}" if self._fork else self._resumed
            recorder.request_stop(
                ResumeRefused(f"opencode opened session {session_id} instead of {wanted}")
            )
        recorder.turn_started(evidence="first line of the run")

    def _step_start(self, line: wire.StepStart) -> None:
        self._progress()
        self._play_tools()
        self._step_open = True
        self._refused = False
        self._recorder.message_started(line.part.message_id or None)

    def _text(self, line: wire.Text) -> None:
        self._recorder.text_delta(line.part.text, synthetic=True)
        self._recorder.block_ended(synthetic=True)

    def _reasoning(self, line: wire.Reasoning) -> None:
        self._recorder.thinking_delta(line.part.text, synthetic=True)
        self._recorder.block_ended(synthetic=True)

    def _tool_use(self, line: wire.ToolUse) -> None:
        self._tools.append(line.part)

    def _step_finish(self, line: wire.StepFinish) -> None:
        part = line.part
        usage = part.tokens.usage
        self._step_open = False
        self._failures = 0
        self._reason = part.reason
        self._recorder.message_ended(
            usage=usage,
            stop_reason=part.reason or None,
            cost_usd=part.cost if part.cost > 0 else None,
        )
        self._play_tools()

    def _play_tools(self) -> None:
        tools, self._tools = self._tools, []
        for part in tools:
            state = part.state
            failed = state.status == "error"
            self._recorder.tool_started(part.call_id, part.tool, state.input)
            if failed:
                self._record_refusal(part)
            self._recorder.tool_ended(
                part.call_id,
                tool_name=part.tool,
                is_error=failed,
                result=state.error if failed else state.output,
            )

    def _record_refusal(self, part: wire.Part) -> None:
        asked = part.state.error.startswith(self._dialect.rejected_text)
        if not asked and not part.state.error.startswith(self._dialect.rule_text):
            return
        self._refused = self._refused or asked
        self._recorder.permission_decided(
            part.call_id,
            tool_name=part.tool,
            tool_call_id=part.call_id,
            decision="deny",
            by="opencode",
            reason="nobody can give permission" if asked else "forbidden by a rule",
        )

    def _failure_line(self, line: wire.Failure) -> None:
        self._failed_call = None
        self._recorder.expect(None)
        # A later one is a consequence. A step that follows shows that OpenCode recovered.
        self._problem = self._problem or line.error


def _unfinished(reason: str) -> AgentError | None:
    """Why a last step with this reason does not end the work; None if it does."""
    if reason == "length":
        return ContextOverflow("the answer was cut off at the model's output limit")
    if reason == "content-filter":
        return Unavailable("the model declined to answer", hint="say it differently")
    if reason == "error":
        return Unavailable("the model's answer ended in an error")
    return None


_HANDLERS: dict[type, Callable[[OpenCodeNormalizer, Any], None]] = {
    wire.StepStart: OpenCodeNormalizer._step_start,
    wire.Text: OpenCodeNormalizer._text,
    wire.Reasoning: OpenCodeNormalizer._reasoning,
    wire.ToolUse: OpenCodeNormalizer._tool_use,
    wire.StepFinish: OpenCodeNormalizer._step_finish,
    wire.Failure: OpenCodeNormalizer._failure_line,
}


# -- the log --------------------------------------------------------------------------------------

_PAIR = re.compile(r'([\w.]+)=("(?:[^"\\]|\\.)*"|\S*)')
_REFUSED = re.compile(r"permission requested: (\S+) \((.*)\); auto-rejecting")


class LogLine(msgspec.Struct, frozen=True, kw_only=True):
    """What a line of the log says, as far as it matters."""

    kind: str
    """`retry` (a model call failed and may be repeated), `fatal` (it will not be), `cause` (the
    reason of an error line that has none) or `refused` (a permission request was)."""
    text: str
    session_id: str = ""


def read_log_line(line: bytes) -> LogLine | None:
    """What a line of standard error says; None if it does not matter.

    The log is `key=value` pairs; values with spaces are JSON strings. No documentation promises
    it, so an unknown line says nothing. If these lines are missing, a call that OpenCode repeats
    forever is left to the caller's timeout.
    """
    text = line.decode(errors="replace")
    refused = _REFUSED.search(text)
    if refused:
        return LogLine(kind="refused", text=f"{refused[1]} ({refused[2]})")
    if "level=ERROR" not in text:
        return None
    pairs = {name: _unquoted(value) for name, value in _PAIR.findall(text)}
    session_id = pairs.get("session.id", "")
    message = pairs.get("message")
    if message == "stream error" and pairs.get("agent") != "title":
        error = pairs.get("error.error") or pairs.get("error") or ""
        return LogLine(kind="retry", text=error, session_id=session_id)
    if message == "process":
        return LogLine(kind="fatal", text=pairs.get("error", ""), session_id=session_id)
    if message == "failed":
        return LogLine(kind="cause", text=pairs.get("error", ""))
    return None


def _unquoted(value: str) -> str:
    if not value.startswith('"'):
        return value
    try:
        return structs.decode(value, str)
    except msgspec.MsgspecError:
        return value.strip('"')


# -- failures -------------------------------------------------------------------------------------

_COLOURS = re.compile(r"\x1b\[[0-9;]*m")
_CODES = ("insufficient_quota", "context_length_exceeded")
"""Words in the body of a failed call that distinguish it from others with the same status."""


def error_from_event(problem: wire.Problem, model: str = "") -> AgentError:
    """The error behind a line of type `error`."""
    data = problem.data
    return ERRORS.of_call(
        (data.message or problem.name).removeprefix(_PREFIX),
        status=data.status_code,
        tag=problem.name,
        details=" ".join(code for code in _CODES if code in data.response_body),
        until=_until(data.message, data.response_headers),
        model=model,
    )


_PREFIX = "AI_APICallError: "


def error_from_sentence(text: str, model: str = "") -> AgentError:
    """The error that a sentence of the log describes; it names no status."""
    return ERRORS.of_call(text.removeprefix(_PREFIX), until=_until(text, {}), model=model)


def _until(text: str, headers: dict[str, str]) -> str | None:
    given = headers.get("retry-after", "")
    return until_in(int(given)) if given.isdigit() else reset_time(text)


def error_from_exit(exit: ProcessExit, model: str = "") -> AgentError | None:
    """Why OpenCode ended before it worked; None if its words do not say so."""
    words = _COLOURS.sub("", exit.last_words)
    return ERRORS.of_exit(msgspec.structs.replace(exit, stderr_tail=words), model=model)
