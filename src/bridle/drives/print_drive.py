"""The print drive: one process per prompt, from its start to its result."""

import shutil
import time
from collections.abc import Callable, Iterator

from bridle.core.errors import Aborted, AgentError, TimedOut
from bridle.core.events import Event
from bridle.core.results import RunResult
from bridle.drives.attached import AttachedProcess
from bridle.drives.recorder import Recorder
from bridle.drives.spec import Normalizer, ProcessExit, ProcessSpec, Question

PermissionPolicy = Callable[[Question], tuple[bool, str, str]]
"""Answers a permission request: (allowed, who decided, reason)."""


def refuse_all(question: Question) -> tuple[bool, str, str]:
    """The answer when nobody is there to be asked."""
    return (
        False,
        "bridle",
        "nobody is there to give permission; do without it or ask to be run with permission bypass",
    )


class PrintRun:
    """One prompt through one process.

    Contract: iterate `events` to the end, once; then `result` is complete. `abort` may be called
    from any thread or a signal handler; the events still end in order. Leaving the iteration early
    ends the agent. Errors of the agent are in the result, never raised.
    """

    def __init__(
        self,
        spec: ProcessSpec,
        normalizer: Normalizer,
        recorder: Recorder,
        *,
        private_dirs: tuple[str, ...] = (),
        permission: PermissionPolicy = refuse_all,
    ) -> None:
        self._normalizer = normalizer
        self._recorder = recorder
        self._private_dirs = private_dirs
        self._permission = permission
        self._process = AttachedProcess(spec, recorder.redactor)
        self._aborted: AgentError | None = None

    def abort(self, reason: str = "interrupted", *, now: bool = False) -> None:
        """Stop the agent; the run ends with status `aborted`."""
        self._aborted = self._aborted or Aborted(reason)
        self._process.request_stop(now=now)

    @property
    def result(self) -> RunResult:
        """The run's result; complete when `events` has ended."""
        return self._recorder.result()

    def events(self) -> Iterator[Event]:
        """Start the agent and hand over each event as it happens, to the last."""
        recorder, process = self._recorder, self._process
        try:
            try:
                process.start()
            except AgentError as problem:
                recorder.fail(problem)
                recorder.finish(ProcessExit(code=None))
            else:
                yield from self._follow()
                self._normalizer.finish(process.exit or ProcessExit(code=None))
            yield from recorder.drain()
        finally:
            process.close()
            for folder in self._private_dirs:
                shutil.rmtree(folder, ignore_errors=True)

    def _follow(self) -> Iterator[Event]:
        recorder, process = self._recorder, self._process
        timeout = recorder.options.timeout
        deadline = None if timeout is None else time.monotonic() + timeout
        while (lines := process.next_lines(deadline)) is not None:
            for line in lines:
                self._normalizer.feed(recorder.redactor.line(line))
                self._answer_questions()
            if recorder.input_done:
                process.close_input()
            if recorder.stop_requested is not None:
                process.request_stop()
            yield from recorder.drain()
            if self._aborted is not None:
                recorder.fail(self._aborted)
            elif deadline is not None and time.monotonic() >= deadline:
                recorder.fail(TimedOut(f"the agent did not finish within {timeout:g} s"))
                process.request_stop()
                deadline = None
        if self._aborted is not None:
            recorder.fail(self._aborted)
        if process.failure is not None:
            recorder.fail(process.failure)

    def _answer_questions(self) -> None:
        recorder = self._recorder
        while recorder.replies:
            self._process.write(recorder.replies.pop(0))
        while recorder.questions:
            question = recorder.questions.pop(0)
            allowed, by, reason = self._permission(question)
            self._process.write(question.answer(allowed, reason))
            recorder.permission_decided(
                question.request_id,
                tool_name=question.tool_name,
                tool_call_id=question.tool_call_id,
                decision="allow" if allowed else "deny",
                by=by,
                reason=reason,
            )
