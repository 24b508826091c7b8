"""From what `opencode run --format json` prints to normalized events."""

from collections.abc import Callable
from typing import Any

from bridle.core.errors import (
    AgentError,
    ContextOverflow,
    Crashed,
    GuardRefused,
    ResumeRefused,
    Unavailable,
)
from bridle.process.spec import ProcessExit
from bridle.runtimes.opencode import wire
from bridle.runtimes.opencode.dialects import OpenCodeDialect
from bridle.runtimes.opencode.errors import (
    error_from_event,
    error_from_sentence,
    error_from_stderr,
    unknown_model,
)
from bridle.runtimes.opencode.logs import read_log_line
from bridle.runtimes.raw import read_line
from bridle.turns.recorder import Recorder


class OpenCodeNormalizer:
    """Translates OpenCode's lines. There is neither a first nor a last one: success is a last step
    that stopped by itself and an exit status of 0, together.

    Tools are told of once they have ended, often before the text of the message that called them;
    they wait here until their step is finished.
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
        said = read_log_line(line)
        if said is None:
            return
        if said.kind == "retry":
            self._session(said.session_id)
            self._call_failed(error_from_sentence(said.text))
        elif said.kind == "fatal":
            self._failed_call = None
            self._recorder.expect(None)
        elif said.kind == "cause":
            self._cause = said.text
        else:
            self._refused = True

    def finish(self, exit: ProcessExit) -> None:
        """Judge by what was said, fill in the model, then close the recording."""
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
        """Why the turn failed, as far as anything tells; None leaves it to the exit."""
        if self._problem is not None:
            return self._explained(self._problem)
        if self._failed_call is not None:
            return self._failed_call
        if self._reason is None and not self._step_open:
            return error_from_stderr(exit.last_words, exit.code, self._requested_model)
        if not self._completed(exit):
            return None
        if self._reason == "tool-calls":
            if self._refused:
                return GuardRefused(
                    "the agent ended its work because a permission it asked for was refused",
                    hint="run it with permission bypass, or allow this in opencode's `permission`",
                )
            return Crashed("the agent ended after a tool call without going on")
        return _unfinished(self._reason or "")

    def _explained(self, problem: wire.Problem) -> AgentError:
        """The error of an `error` line; for one without a reason, the log has it."""
        if problem.name == "UnknownError" and "ModelNotFound" in self._cause:
            return unknown_model(self._requested_model)
        if problem.name == "UnknownError" and self._cause:
            return error_from_sentence(self._cause)
        return error_from_event(problem, self._requested_model)

    # -- model calls that fail ------------------------------------------------------------------

    def _call_failed(self, error: AgentError) -> None:
        """A model call failed. Whether it is made again shows only afterwards."""
        self._tell_retry()
        self._failed_call = error
        self._failures += 1
        if self._failures > self._max_retries:
            self._recorder.request_stop(error)
        else:
            self._recorder.expect(self._retry_seconds, error)

    def _tell_retry(self) -> None:
        failed, self._failed_call = self._failed_call, None
        if failed is not None:
            self._recorder.retrying(self._failures, None, failed)

    def _progress(self) -> None:
        """The model answers: what failed before was tried again. It may still be cut off, so the
        count of failures stands until the answer is complete."""
        self._tell_retry()
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
        # A copy has another id; whether there is anything to copy OpenCode tells by itself.
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
                self._tell_refusal(part)
            self._recorder.tool_ended(
                part.call_id,
                tool_name=part.tool,
                is_error=failed,
                result=state.error if failed else state.output,
            )

    def _tell_refusal(self, part: wire.Part) -> None:
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
            reason="nobody is there to give permission" if asked else "forbidden by a rule",
        )

    def _failure_line(self, line: wire.Failure) -> None:
        self._failed_call = None
        self._recorder.expect(None)
        # A later one is a consequence. A step that follows shows that it was overcome.
        self._problem = self._problem or line.error


def _unfinished(reason: str) -> AgentError | None:
    """Why a last step with this reason is no end of the work; None when it is one."""
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
