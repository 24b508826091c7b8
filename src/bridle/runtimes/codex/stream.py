"""Translates `codex exec --json` into the common events.

Codex reports finished items, no deltas: the text of a message comes whole. Reasoning and the text
after it are one message. Tools keep Codex's own item types as their names. The stream names neither
the model nor this run's own usage (its totals span the thread), so both are read from the
transcript when the turn ends.
"""

import re
from typing import Any

import msgspec

from bridle.core import structs
from bridle.core.errors import (
    AgentError,
    ProtocolDrift,
    ResumeRefused,
    Unavailable,
    error_for_status,
)
from bridle.core.usage import NO_USAGE, Usage
from bridle.process.spec import ProcessExit
from bridle.runtimes.codex import wire
from bridle.runtimes.codex.product import ERRORS
from bridle.runtimes.codex.transcript import (
    command_results,
    find_rollout,
    forked_from,
    read_rollout,
    rejected_patches,
    size_of_rollout,
    subagent_usage,
    total_of,
    usage_of,
)
from bridle.runtimes.errors import reset_time
from bridle.runtimes.retries import LONGEST_PAUSE, Retry, RetryClock
from bridle.runtimes.wire import raw_of, read_line
from bridle.turns.recorder import Recorder

RETRY = "Reconnecting... "
"""How Codex begins the notice of another try."""


class CodexNormalizer:
    """The `Normalizer` of one `codex exec`.

    Contract: made before the process starts, since a resumed thread's transcript is measured then.
    Besides the wire it reads only that transcript.
    """

    def __init__(
        self,
        recorder: Recorder,
        home: str,
        *,
        retry_seconds: float = LONGEST_PAUSE,
        offset: int | None = None,
        fork: bool = False,
    ) -> None:
        """`offset` is the length of a resumed conversation's record before this run; None looks.
        With `fork` the thread is to be a copy, with a record of its own."""
        self._recorder = recorder
        self._log = CodexLog()
        self._clock = RetryClock(recorder, retry_seconds)
        self._home = home
        self._decoder = wire.decoder()
        self._thread_id: str | None = None
        self._ended = False
        self._retries = 0
        self._last_notice = ""
        self._spawned = False
        self._running: dict[str, str] = {}
        self._closed: set[str] = set()
        resume = recorder.options.resume
        self._fork = fork and resume is not None
        self._inherited = total_of(home, resume) if resume and self._fork else NO_USAGE
        """What a copy's running total begins with."""
        if offset is None:
            offset = size_of_rollout(home, resume) if resume and not self._fork else 0
        self._offset = offset

    def feed(self, line: bytes) -> None:
        """Take one line of stdout."""
        message = read_line(self._recorder, line, self._decoder.decode)
        if message is None:
            return
        if isinstance(message, wire.ItemCompleted | wire.ItemStarted | wire.TurnCompleted):
            self._clock.progress()
        if isinstance(message, wire.ItemCompleted):
            self._item_completed(message.item, line)
        elif isinstance(message, wire.ItemStarted):
            self._item_started(message.item, line)
        elif isinstance(message, wire.ItemUpdated):
            self._item_updated(message.item, line)
        elif isinstance(message, wire.ThreadStarted):
            self._thread_started(message.thread_id)
        elif isinstance(message, wire.TurnStarted):
            self._recorder.turn_started(evidence="turn.started")
        elif isinstance(message, wire.Notice):
            self._notice(message.message)
        else:
            self._turn_over(message)

    def feed_stderr(self, line: bytes) -> None:
        """Take one line of the log: the only place that says how long a pause will be."""
        retry = self._log.feed(line)
        if self._ended:
            return
        if retry is not None:
            self._clock.again(retry)
        elif self._log.answered:
            self._clock.progress()

    def finish(self, exit: ProcessExit) -> None:
        """The process has ended."""
        recorder = self._recorder
        exit = msgspec.structs.replace(exit, stderr_tail=without_log(exit.stderr_tail))
        if not self._ended:
            if self._thread_id is None and recorder.error is None:
                error = start_error(exit, raw_args=bool(recorder.options.raw_args))
                if error is not None:
                    recorder.fail(error)
            elif self._clock.error is not None:
                recorder.fail(self._clock.error)
            elif self._last_notice:
                recorder.fail(turn_error(self._last_notice, recorder.options.model))
            self._settle(None)
        recorder.finish(exit)

    # -- the thread and its turn ----------------------------------------------------------------

    def _thread_started(self, thread_id: str) -> None:
        self._thread_id = thread_id
        self._recorder.session_started(thread_id)
        wanted = self._recorder.options.resume
        if wanted and self._fork:
            if not self._is_copy(wanted):
                self._recorder.request_stop(self._no_copy(wanted))
        elif wanted and thread_id.lower() != wanted.lower():
            # Codex silently begins a new thread when it cannot find the old one.
            self._recorder.request_stop(
                ResumeRefused(f"codex opened the new thread {thread_id} instead of {wanted}")
            )

    def _no_copy(self, wanted: str) -> ResumeRefused:
        return ResumeRefused(f"codex opened the thread {self._thread_id}, no copy of {wanted}")

    def _is_copy(self, wanted: str) -> bool:
        """Whether the thread is another one than `wanted` and, by its record, a copy of it. The
        stream does not say of what; a record that is not written yet is looked at again later."""
        thread_id = self._thread_id or ""
        path = find_rollout(self._home, thread_id)
        source = forked_from(path) if path else wanted
        return thread_id.lower() != wanted.lower() == source.lower()

    def _notice(self, text: str) -> None:
        if text.startswith(RETRY):
            self._retries += 1
            count, _, reason = text[len(RETRY) :].partition(" (")
            number = count.partition("/")[0]
            attempt = int(number) if number.isdigit() else self._retries
            error = turn_error(reason.removesuffix(")") or count, self._recorder.options.model)
            self._recorder.retrying(attempt, None, error)
        else:
            # `turn.failed` says it again and alone decides; kept for a process that dies before.
            self._last_notice = text

    def _turn_over(self, message: wire.TurnCompleted | wire.TurnFailed) -> None:
        self._ended = True
        self._recorder.expect(None)
        self._close_finished_commands()
        if isinstance(message, wire.TurnFailed):
            self._recorder.fail(turn_error(message.error.message, self._recorder.options.model))
            self._settle(None)
        else:
            self._settle(usage_of(message.usage))
        self._recorder.turn_ended()

    def _settle(self, total: Usage | None) -> None:
        """Record model and usage; `total` is that of the thread, if the wire reported one."""
        recorder = self._recorder
        source = recorder.options.resume if self._fork and self._thread_id else None
        if source and recorder.error is None and not self._is_copy(source):
            recorder.fail(self._no_copy(source))
        path = find_rollout(self._home, self._thread_id) if self._thread_id else None
        if path and recorder.turn_open:
            self._record_rejected(path)
        part = read_rollout(path, self._offset) if path else None
        recorder.model = (part.model if part else None) or recorder.model or recorder.options.model
        usage = part.usage if part is not None and part.calls else None
        if total is not None and not recorder.options.resume:
            # A new thread's total is the run's own, and may be ahead of a file still being written.
            usage = total if usage is None or total.total > usage.total else usage
        elif total is not None and usage is None and part is not None:
            before = self._inherited if self._fork else part.before
            usage = total - before if total.total > before.total else None
        if usage is None:
            return
        recorder.set_usage(usage + subagent_usage(path) if path and self._spawned else usage)

    def _record_rejected(self, path: str) -> None:
        """Record the patches that Codex refused by itself; the stream does not name them."""
        recorder = self._recorder
        for call_id, reason in rejected_patches(path, self._offset):
            if recorder.tools.has_ended(call_id):
                continue
            recorder.tool_started(call_id, "file_change", {}, synthetic=True)
            recorder.permission_decided(
                call_id,
                tool_call_id=call_id,
                tool_name="file_change",
                decision="deny",
                by="codex",
                reason=reason,
            )
            recorder.tool_ended(call_id, is_error=True, result=reason, synthetic=True)

    # -- items ----------------------------------------------------------------------------------

    def _item_started(self, item: wire.Item, line: bytes) -> None:
        if isinstance(item, wire.Tool):
            if isinstance(item, wire.CommandExecution):
                self._running[item.id] = item.command
            self._recorder.tool_started(item.id, item.name, item.input)
        elif isinstance(item, wire.ErrorItem):
            self._recorder.unknown(raw_of(line))

    def _item_updated(self, item: wire.Item, line: bytes) -> None:
        if isinstance(item, wire.TodoList):
            self._recorder.tool_updated(item.id, msgspec.json.encode(item.items).decode())
        elif isinstance(item, wire.CommandExecution):
            self._recorder.tool_updated(item.id, item.aggregated_output)
        elif not isinstance(item, wire.Tool):
            self._recorder.unknown(raw_of(line))

    def _item_completed(self, item: wire.Item, line: bytes) -> None:
        recorder = self._recorder
        if isinstance(item, wire.AgentMessage | wire.Reasoning):
            self._close_finished_commands()
        if isinstance(item, wire.AgentMessage):
            if not recorder.message_open:
                recorder.message_started(item.id or None)
            recorder.text_delta(item.text, synthetic=True)
            recorder.block_ended(synthetic=True)
            recorder.message_ended()
        elif isinstance(item, wire.Reasoning):
            if not recorder.message_open:
                recorder.message_started(item.id or None)
            recorder.thinking_delta(item.text, synthetic=True)
            recorder.block_ended(synthetic=True)
        elif isinstance(item, wire.ErrorItem):
            # A warning: the turn continues, and `unknown` is the only event for it.
            recorder.unknown(raw_of(line))
        else:
            self._tool_completed(item)

    def _close_finished_commands(self) -> None:
        """End the commands whose result the model has seen.

        Codex 0.120 may answer before it prints that a command ended, and then never print it. The
        transcript has the result by then; a command that still runs is not in it.
        """
        path = (
            find_rollout(self._home, self._thread_id) if self._running and self._thread_id else ""
        )
        if not path:
            return
        from shlex import split

        results = command_results(path, self._offset)
        for item_id, line in list(self._running.items()):
            try:
                command = split(line)[-1]
            except (ValueError, IndexError):
                continue
            result = next((each for each in reversed(results) if each.command == command), None)
            if result is None:
                continue
            results.remove(result)
            del self._running[item_id]
            self._closed.add(item_id)
            self._recorder.tool_ended(
                item_id,
                is_error=result.exit_code != 0,
                result={"output": result.output, "exit_code": result.exit_code},
                synthetic=True,
            )

    def _tool_completed(self, item: wire.Tool) -> None:
        if item.id in self._closed:
            return
        self._running.pop(item.id, None)
        if isinstance(item, wire.CollabToolCall):
            self._spawned = True
        record_end(self._recorder, item)


def record_end(recorder: Recorder, item: wire.Tool, *, asked: bool = False) -> None:
    """Record that a tool ended. A refusal that nobody was `asked` about is Codex's own."""
    if item.refusal is not None and not asked:
        recorder.permission_decided(
            item.id,
            tool_call_id=item.id,
            tool_name=item.name,
            decision="deny",
            by="codex",
            reason=item.refusal,
        )
    recorder.tool_ended(
        item.id,
        tool_name=item.name,
        args=item.input,
        is_error=item.failed,
        result=item.output,
    )


# -- failures -------------------------------------------------------------------------------------

_STATUS_MARKS = ("unexpected status ", "last status: ")


def turn_error(text: str, model: str | None = None, info: Any = None) -> AgentError:
    """The error behind the text of a failed turn or a retry notice. The app-server adds `info`
    (`codexErrorInfo`), which decides where the text says nothing."""
    until = reset_time(text)
    status = next((each for mark in _STATUS_MARKS if (each := _status_after(mark, text))), None)
    if status is None and text.startswith("{"):
        # The body of an HTTP 400, which Codex passes on unchanged.
        message = _body_message(text)
        return ERRORS.of_call(message, status=400, details=text, until=until, model=model)
    text = text or "the turn failed without a reason"
    tag = info if isinstance(info, str) else ""
    error = ERRORS.of_call(text, status=status, tag=tag, until=until, model=model)
    known = _status_of(info)
    if known is None or type(error) is not Unavailable or error.hint != Unavailable.default_hint:
        return error
    return ERRORS.of_call(text, status=known, until=until, model=model)


def _status_after(mark: str, text: str) -> int | None:
    digits = text.partition(mark)[2][:3]
    return int(digits) if len(digits) == 3 and digits.isdigit() else None


def _status_of(info: Any) -> int | None:
    """The HTTP status in the app-server's description of a failure."""
    details = info.values() if isinstance(info, dict) else ()
    found = (each.get("httpStatusCode") for each in details if isinstance(each, dict))
    return next((each for each in found if isinstance(each, int)), None)


class _Body(msgspec.Struct):
    error: wire.ErrorText | None = None


def _body_message(text: str) -> str:
    try:
        body = structs.decode(text, _Body)
    except msgspec.MsgspecError:
        return text
    return body.error.message if body.error and body.error.message else text


def start_error(exit: ProcessExit, *, raw_args: bool) -> AgentError | None:
    """Why a process that printed no event ended; None when it does not say."""
    error = ERRORS.of_exit(exit)
    if isinstance(error, ProtocolDrift) and exit.code == 2 and raw_args:
        error.hint = "look at the raw arguments first"
    return error


# -- the log --------------------------------------------------------------------------------------

_TARGET = b"codex_otel.trace_safe: "
_REQUEST = b'event.name="codex.api_request"'
_RETRIED = b'event.name="codex.retry"'
_FIELD = re.compile(rb'([\w.]+)=("(?:[^"\\]|\\.)*"|\S+)')


class CodexLog:
    """Reads the lines of Codex's log about repeated model calls: joins a failed request and the
    announcement of the next one.

    They are on standard error when the dialect's `log_filter` asks for them. None of them holds a
    header, a key or a text of the conversation; `without_log` keeps them out of errors all the
    same, since they are of no use to a reader.
    """

    def __init__(self) -> None:
        self._error: AgentError = Unavailable("a model call failed")
        self.answered = False
        """Whether the last request succeeded."""

    def feed(self, line: bytes) -> Retry | None:
        """Take one line; returns a retry when Codex announces one."""
        if _TARGET not in line:
            return None
        if _REQUEST in line:
            self._request(_fields(line))
        elif _RETRIED in line:
            fields = _fields(line)
            return Retry(
                attempt=_number(fields.get("retry.attempt")) or 1,
                error=self._error,
                delay_ms=_number(fields.get("retry.delay_ms")),
                # The wire reports a broken stream too.
                told=fields.get("retry.layer") == "stream",
            )
        return None

    def _request(self, fields: dict[str, str]) -> None:
        status = _number(fields.get("http.response.status_code"))
        self.answered = status is not None and status < 400
        if self.answered:
            return
        if status is None:
            self._error = Unavailable(fields.get("error.message") or "a model call failed")
        else:
            self._error = error_for_status(status, f"the model service answered {status}")


def without_log(text: str) -> str:
    """Standard error without these lines."""
    target = _TARGET.decode()
    lines = text.splitlines(keepends=True)
    return "".join(line for line in lines if target not in line and " slug=" not in line)


def _fields(line: bytes) -> dict[str, str]:
    return {
        name.decode(): value.decode(errors="replace").strip('"')
        for name, value in _FIELD.findall(line)
    }


def _number(text: str | None) -> int | None:
    return int(text) if text is not None and text.isdigit() else None
