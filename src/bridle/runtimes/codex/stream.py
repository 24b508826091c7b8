"""Translates `codex exec --json` into the common events.

Codex tells finished items, no deltas: a message's text comes whole. Reasoning and the text after
it are one message. Tools keep Codex's own item types as their names. The stream names neither the
model nor this run's own usage (its totals span the thread), so both are read from the transcript
when the turn ends.
"""

import os

import msgspec

from bridle.core.errors import ResumeRefused
from bridle.core.usage import NO_USAGE, Usage
from bridle.process.spec import ProcessExit
from bridle.runtimes.codex import wire
from bridle.runtimes.codex.errors import start_error, turn_error
from bridle.runtimes.codex.items import (
    record_end,
    tool_args,
    tool_name,
)
from bridle.runtimes.codex.logs import CodexLog, without_log
from bridle.runtimes.codex.transcript import (
    command_results,
    find_rollout,
    forked_from,
    read_rollout,
    rejected_patches,
    subagent_files,
    total_of,
    usage_of,
)
from bridle.runtimes.raw import raw_of
from bridle.runtimes.retries import LONGEST_PAUSE, RetryClock
from bridle.turns.recorder import Recorder

_RETRY = "Reconnecting... "


class CodexNormalizer:
    """The `Normalizer` of one `codex exec`.

    Contract: made before the process starts, since a resumed thread's transcript is measured then.
    The one thing it reads beside the wire is that transcript.
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
        if not line.strip():
            return
        try:
            message = self._decoder.decode(line)
        except (msgspec.MsgspecError, UnicodeDecodeError):
            self._recorder.unknown(raw_of(line))
            return
        if self._recorder.options.include_raw:
            self._recorder.source(raw_of(line))
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
        """Take one line of the log: the only place that tells how long a pause will be."""
        retry = self._log.feed(line)
        if self._ended:
            return
        if retry is not None:
            self._clock.again(retry)
        elif self._log.answered:
            self._clock.progress()

    def finish(self, exit: ProcessExit) -> None:
        """The process is gone."""
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
            # Codex begins a new thread, and says nothing, when it cannot make out the old one.
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
        if text.startswith(_RETRY):
            self._retries += 1
            count, _, reason = text[len(_RETRY) :].partition(" (")
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

    def _settle(self, told: Usage | None) -> None:
        """Fill in model and usage; `told` is the thread's total by the wire, where it said one."""
        recorder = self._recorder
        source = recorder.options.resume if self._fork and self._thread_id else None
        if source and recorder.error is None and not self._is_copy(source):
            recorder.fail(self._no_copy(source))
        path = find_rollout(self._home, self._thread_id) if self._thread_id else None
        if path and recorder.turn_open:
            self._tell_rejected(path)
        part = read_rollout(path, self._offset) if path else None
        recorder.model = (part.model if part else None) or recorder.model or recorder.options.model
        usage = part.usage if part is not None and part.calls else None
        if told is not None and not recorder.options.resume:
            # A new thread's total is the run's own, and may be ahead of a file still being written.
            usage = told if usage is None or told.total > usage.total else usage
        elif told is not None and usage is None and part is not None:
            before = self._inherited if self._fork else part.before
            usage = told - before if told.total > before.total else None
        if usage is None:
            return
        if path and self._spawned:
            for other in subagent_files(path):
                more = read_rollout(other)
                usage += more.usage if more else NO_USAGE
        recorder.set_usage(usage)

    def _tell_rejected(self, path: str) -> None:
        """Tell the patches that Codex refused by itself, of which the stream is silent."""
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
        if isinstance(item, wire.ToolItem):
            if isinstance(item, wire.CommandExecution):
                self._running[item.id] = item.command
            self._recorder.tool_started(item.id, tool_name(item), tool_args(item))
        elif isinstance(item, wire.ErrorItem):
            self._recorder.unknown(raw_of(line))

    def _item_updated(self, item: wire.Item, line: bytes) -> None:
        if isinstance(item, wire.TodoList):
            self._recorder.tool_updated(item.id, msgspec.json.encode(item.items).decode())
        elif isinstance(item, wire.CommandExecution):
            self._recorder.tool_updated(item.id, item.aggregated_output)
        elif not isinstance(item, wire.ToolItem):
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
            # A warning: the turn goes on, and no event of the contract says so but `unknown`.
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
            told = next((each for each in reversed(results) if each.command == command), None)
            if told is None:
                continue
            results.remove(told)
            del self._running[item_id]
            self._closed.add(item_id)
            self._recorder.tool_ended(
                item_id,
                is_error=told.exit_code != 0,
                result={"output": told.output, "exit_code": told.exit_code},
                synthetic=True,
            )

    def _tool_completed(self, item: wire.ToolItem) -> None:
        if item.id in self._closed:
            return
        self._running.pop(item.id, None)
        if isinstance(item, wire.CollabToolCall):
            self._spawned = True
        record_end(self._recorder, item)


def size_of_rollout(home: str, thread_id: str) -> int:
    """How many bytes a conversation's record has; 0 when there is none."""
    path = find_rollout(home, thread_id)
    return os.stat(path).st_size if path else 0
