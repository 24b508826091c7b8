"""From what `cline --json` prints to normalized events."""

from collections.abc import Callable
from typing import Any

import msgspec

from bridle.core import structs
from bridle.core.errors import AgentError, Crashed
from bridle.process.spec import ProcessExit
from bridle.runtimes.cline import wire
from bridle.runtimes.cline.product import ENDS, PRODUCT
from bridle.runtimes.cline.transcript import Afterwards, FailedCall
from bridle.runtimes.wire import read_line
from bridle.turns.recorder import Recorder

_NOBODY_TO_ASK = ("requires an interactive session", "requires approval in a TTY session")


class ClineNormalizer:
    """Translates Cline's lines. Success is a `run_result` that says `completed`; the exit status
    is 0 after an abort too.
    """

    def __init__(
        self, recorder: Recorder, *, after_run: Callable[[], Afterwards] = Afterwards
    ) -> None:
        self._recorder = recorder
        self._after_run = after_run
        self._streamed: set[str] = set()
        self._call_open = False
        self._usage: wire.UsageEvent | None = None
        self._problem: wire.AgentFailure | None = None
        self._abort: AgentError | None = None
        self._result: wire.RunResult | None = None
        self._mistakes = 0
        self._compacting: str | None = None

    def feed(self, line: bytes) -> None:
        """Take one line; what is not a known message is kept as `unknown`."""
        message = read_line(self._recorder, line, wire.decode_line)
        if message is None:
            return
        recorder = self._recorder
        recorder.session_started(None)
        if isinstance(message, wire.AgentEvent):
            _HANDLERS[type(message.event)](self, message.event)
        elif isinstance(message, wire.HookEvent):
            if message.hook_event_name == "agent_start":
                recorder.turn_started(evidence="agent_start hook")
        elif isinstance(message, wire.RunResult):
            self._run_result(message)
        elif isinstance(message, wire.RunAborted):
            tag = message.reason if message.reason == "external_abort" else "aborted"
            self._abort = ENDS.of_call(message.message or "no reason given", tag=tag)
        elif self._problem is None:
            self._problem = wire.AgentFailure(error=wire.Problem(message=message.message))

    def finish(self, exit: ProcessExit) -> None:
        """Decide the outcome, add what only files say, then close the recording."""
        recorder = self._recorder
        files = self._after_run()
        if files.session_id is not None:
            recorder.session_started(files.session_id)
        if self._lost_its_end(exit) and files.completed:
            self._end_message()
            recorder.set_usage(files.usage or recorder.usage)
            recorder.turn_ended(text=files.text)
            recorder.finish(exit)
            return
        failure = self._judge(exit, files.failed_call)
        if failure is not None:
            recorder.fail(failure)
        elif self._result is not None and recorder.turn_open:
            recorder.turn_ended(text=self._result.text)
        recorder.finish(exit)

    def _lost_its_end(self, exit: ProcessExit) -> bool:
        """Whether the last lines are missing although the process exited normally.

        Cline does not wait until a slow reader has read all its output. Its record of the
        conversation, which it writes first, then says how the work went.
        """
        quiet = self._result is None and self._abort is None and self._problem is None
        return quiet and exit.code == 0 and self._recorder.turn_open and not self._recorder.error

    def _judge(self, exit: ProcessExit, failed_call: FailedCall | None) -> AgentError | None:
        """Why the run failed; None when it did not, or when only the exit can say."""
        result, problem = self._result, self._problem
        if self._abort is not None:
            return self._abort
        if result is not None and result.finish_reason == "completed":
            return None
        if problem is not None or (result is not None and result.finish_reason == "error"):
            text = problem.error.message if problem else result.text if result else ""
            error_class = problem.error_class if problem else ""
            return error_of_run(text, error_class, failed_call, self._recorder.model)
        if result is not None:
            reason = result.finish_reason
            return ENDS.of_call(f"{reason or 'no reason'}: {result.text}", tag=reason)
        if self._recorder.turn == 0:
            return error_of_exit(exit)
        if exit.code == 0:
            return Crashed("cline ended without saying how its work went")
        return None

    # -- the run and its model calls ------------------------------------------------------------

    def _iteration_start(self, event: wire.IterationStart) -> None:
        recorder = self._recorder
        recorder.turn_started(evidence="iteration_start")
        self._end_message()
        recorder.next_call()
        self._call_open = True
        self._streamed.clear()
        self._usage = None

    def _iteration_end(self, event: wire.IterationEnd) -> None:
        if self._call_open and not self._recorder.message_open and self._usage is not None:
            # An answer without any content was still an answer.
            self._recorder.message_started()
        self._end_message()

    def _counts(self, event: wire.UsageEvent) -> None:
        self._usage = event

    def _end_message(self) -> None:
        """The model's message of this call is complete."""
        recorder = self._recorder
        if not self._call_open or not recorder.message_open:
            return
        self._call_open = False
        counts, self._usage = self._usage, None
        usage = counts.usage() if counts is not None else None
        cost = counts.cost if counts is not None and counts.cost else None
        recorder.message_ended(usage=usage, cost_usd=cost)

    def _run_result(self, line: wire.RunResult) -> None:
        recorder = self._recorder
        self._end_message()
        self._result = line
        recorder.model = line.model.id or recorder.model
        totals = line.aggregate_usage or line.usage
        if totals is None:
            return
        usage = totals.usage()
        if usage.total:
            recorder.set_usage(usage)
        if totals.total_cost:
            recorder.set_cost(totals.total_cost, "provider")

    # -- text, reasoning, tools -----------------------------------------------------------------

    def _content_start(self, event: wire.ContentStart) -> None:
        if event.content_type == "tool":
            self._open_message()
            self._end_message()
            self._recorder.tool_started(event.tool_call_id, event.tool_name, event.input)
        elif event.content_type == "text":
            self._say("text", event.text, synthetic=False)
        elif event.content_type == "reasoning":
            self._say("thinking", event.reasoning or event.text, synthetic=False)

    def _content_update(self, event: wire.ContentUpdate) -> None:
        if event.update is not None and event.update.chunk:
            self._recorder.tool_updated(event.tool_call_id, event.update.chunk)

    def _content_end(self, event: wire.ContentEnd) -> None:
        if event.content_type == "tool":
            self._tool_end(event)
            return
        kind = "text" if event.content_type == "text" else "thinking"
        if kind not in self._streamed:
            self._say(kind, event.text or event.reasoning, synthetic=True)

    def _open_message(self) -> None:
        if self._call_open and not self._recorder.message_open:
            self._recorder.message_started()

    def _say(self, kind: str, text: str, *, synthetic: bool) -> None:
        if not text:
            return
        self._call_open = True
        self._open_message()
        self._streamed.add(kind)
        if kind == "text":
            self._recorder.text_delta(text, synthetic=synthetic)
        else:
            self._recorder.thinking_delta(text, synthetic=synthetic)

    def _tool_end(self, event: wire.ContentEnd) -> None:
        recorder = self._recorder
        refusal = str(event.error or "")
        if any(words in refusal for words in _NOBODY_TO_ASK):
            recorder.permission_decided(
                event.tool_call_id,
                tool_call_id=event.tool_call_id,
                tool_name=event.tool_name,
                decision="deny",
                by="cline",
                reason=_reason(event.output) or refusal,
            )
        recorder.tool_ended(
            event.tool_call_id,
            tool_name=event.tool_name,
            is_error=bool(event.error) or _failed(event.output),
            result=event.output if event.output is not None else event.error,
        )

    # -- trouble --------------------------------------------------------------------------------

    def _error(self, event: wire.AgentFailure) -> None:
        if event.recoverable:
            if not event.error_class:
                # A failed tool, which has its own line; the run goes on.
                return
            self._mistakes += 1
            error = error_of_run(event.error.message, event.error_class, None, self._recorder.model)
            self._recorder.retrying(self._mistakes, None, error)
        elif self._problem is None:
            self._problem = event

    def _notice(self, event: wire.Notice) -> None:
        recorder, about = self._recorder, event.metadata
        if about.kind == "provider_error_retry":
            error = error_of_run(str(about.provider_error or ""), "", None, recorder.model)
            recorder.retrying(about.attempt, about.delay_ms, error)
        elif "compaction" in about.kind:
            self._compaction(about)

    def _compaction(self, about: wire.Metadata) -> None:
        """One attempt to shorten the conversation may contain another: the outer one counts."""
        if about.phase == "started":
            self._compacting = self._compacting or about.kind
            self._recorder.compaction_started(about.kind)
        elif about.kind == self._compacting:
            self._compacting = None
            self._recorder.compaction_ended(f"{about.kind}: {about.phase}")

    def _nothing(self, event: wire.Done) -> None:
        """`run_result` follows and says the same."""


_HANDLERS: dict[type, Callable[[ClineNormalizer, Any], None]] = {
    wire.IterationStart: ClineNormalizer._iteration_start,
    wire.IterationEnd: ClineNormalizer._iteration_end,
    wire.UsageEvent: ClineNormalizer._counts,
    wire.ContentStart: ClineNormalizer._content_start,
    wire.ContentUpdate: ClineNormalizer._content_update,
    wire.ContentEnd: ClineNormalizer._content_end,
    wire.AgentFailure: ClineNormalizer._error,
    wire.Notice: ClineNormalizer._notice,
    wire.Done: ClineNormalizer._nothing,
}


def _failed(output: Any) -> bool:
    """Whether a tool's output says that it failed; one call may hold several commands."""
    parts = output if isinstance(output, list) else [output]
    return any(isinstance(part, dict) and part.get("success") is False for part in parts)


def _reason(output: Any) -> str:
    return str(output.get("error", "")) if isinstance(output, dict) else ""


# -- failures -------------------------------------------------------------------------------------


def error_of_run(
    text: str, error_class: str, call: FailedCall | None, model: str | None
) -> AgentError:
    """The error of a run that failed; the failed call of the log knows more than the wire."""
    call = call or FailedCall()
    return PRODUCT.errors.of_call(
        text or call.message,
        status=call.status_code,
        tag=error_class,
        details=call.response_body or "",
        until=call.until,
        model=model,
    )


def error_of_exit(exit: ProcessExit) -> AgentError | None:
    """Why a process ended that began no run."""
    said = msgspec.structs.replace(exit, stderr_tail=_complaint(exit.last_words), stdout_tail="")
    return PRODUCT.errors.of_exit(said)


def _complaint(stderr: str) -> str:
    """The last JSON error of stderr, else its first line that is not a warning."""
    lines = [line.strip() for line in stderr.splitlines() if line.strip()]
    for line in reversed(lines):
        if line.startswith("{"):
            try:
                return structs.decode(line, wire.ErrorLine).message
            except msgspec.MsgspecError:
                continue
    plain = (line for line in lines if "Warning" not in line and not line.startswith("at "))
    return next(plain, "")
