"""The print drive: one process for one prompt, from its start to its result."""

import time
import weakref
from collections.abc import Callable, Generator, Iterator

from bridle.core.errors import Aborted, AgentError, TimedOut
from bridle.core.events import Event
from bridle.core.results import RunResult
from bridle.process.attached import AttachedProcess
from bridle.process.private_folders import claim_folders, remove_folders
from bridle.process.spec import ProcessExit, ProcessSpec
from bridle.turns.player import Player
from bridle.turns.recorder import Recorder
from bridle.turns.wire import Normalizer, Patience, PermissionAnswer, Question, decision_of

PermissionPolicy = Callable[[Question], PermissionAnswer]
"""Answers a permission request."""


def refuse_all(question: Question) -> tuple[bool, str, str]:
    """The answer if nobody can be asked."""
    return (
        False,
        "bridle",
        "nobody is there to give permission; do without it or ask to be run with permission bypass",
    )


class PrintRun:
    """One prompt through one process.

    Contract: iterate `events` (or `batches`) to the end, once; then `result` is complete. `abort`
    may be called from any thread or a signal handler; the events still end in order. Leaving the
    iteration early ends the agent. `normalizer` is called once the process runs: the agent's own
    start then hides what it takes to make one. Errors of the agent are in the result, never
    raised; an exception of the permission callback is raised here, after the agent has ended.
    """

    def __init__(
        self,
        spec: ProcessSpec,
        normalizer: Callable[[], Normalizer],
        recorder: Recorder,
        *,
        private_dirs: tuple[str, ...] = (),
        permission: PermissionPolicy = refuse_all,
        at_end: Callable[[], None] | None = None,
    ) -> None:
        self._recorder = recorder
        self._normalizer = normalizer
        self._permission = permission
        self._process = AttachedProcess(spec, recorder.redactor)
        self._aborted: AgentError | None = None
        self._begun = False
        self._patience: Patience | None = None
        self._patient_until = 0.0
        claim_folders(private_dirs)
        # Also runs if this object is dropped before it was started.
        self._clean_up = weakref.finalize(self, _clean_up, private_dirs, at_end)

    def abort(self, reason: str = "interrupted", *, now: bool = False) -> None:
        """Stop the agent; the run ends with status `aborted`. With `now`, kill it at once."""
        self._aborted = self._aborted or Aborted(reason)
        self._process.request_stop(now=now)

    @property
    def is_over(self) -> bool:
        """Whether the run has ended or was closed: `result` no longer changes."""
        return not self._clean_up.alive

    @property
    def result(self) -> RunResult:
        """The run's result; complete when `events` has ended."""
        return self._recorder.result()

    def close(self) -> None:
        """End the agent if it runs, and remove the files of this run. Safe in any state."""
        self._end()

    def _end(self) -> None:
        try:
            self._process.close()
        finally:
            self._clean_up()

    def events(self) -> Iterator[Event]:
        """Start the agent and yield each event as it happens."""
        batches = self.batches()
        try:
            for batch in batches:
                yield from batch
        finally:
            batches.close()

    def batches(self) -> Generator[list[Event], None, None]:
        """Like `events`, but yields events that came together as one list."""
        recorder, process = self._recorder, self._process
        if self._begun:
            raise RuntimeError("a run is played once")
        self._begun = True
        try:
            if self._aborted is not None:
                recorder.fail(self._aborted)
                recorder.finish(ProcessExit(code=None))
            elif self._started():
                player = Player(self._normalizer(), recorder)
                yield from self._follow(player)
                player.finish(process.exit or ProcessExit(code=None))
            if events := recorder.drain():
                yield events
        finally:
            self._end()

    def _started(self) -> bool:
        try:
            self._process.start()
        except AgentError as problem:
            self._recorder.fail(problem)
            self._recorder.finish(ProcessExit(code=None))
            return False
        return True

    def _follow(self, player: Player) -> Iterator[list[Event]]:
        recorder, process = self._recorder, self._process
        redact = recorder.redactor.line
        timeout = recorder.options.timeout
        deadline = None if timeout is None else time.monotonic() + timeout
        # A normalizer may send the first bytes.
        process.write(player.take_bytes())
        while (lines := process.next_lines(self._next_look(deadline))) is not None:
            for line in lines:
                player.feed(redact(line))
                process.write(player.take_bytes())
                if player.questions:
                    # Events before the request are shown before the question.
                    if events := recorder.drain():
                        yield events
                    self._answer_questions(player)
            self._feed_stderr(player)
            if recorder.input_done:
                process.close_input()
            if recorder.stop_requested is not None:
                process.request_stop(now=recorder.stops_at_once)
            if self._aborted is not None:
                recorder.fail(self._aborted)
            elif deadline is not None and time.monotonic() >= deadline:
                recorder.fail(TimedOut(f"the agent did not finish within {timeout:g} s"))
                process.request_stop()
                deadline = None
            elif self._patience_ran_out():
                process.request_stop()
            if events := recorder.drain():
                yield events
        self._feed_stderr(player)
        if self._aborted is not None:
            recorder.fail(self._aborted)
        if process.failure is not None:
            recorder.fail(process.failure)

    def _next_look(self, deadline: float | None) -> float | None:
        """When to return from waiting at the latest: the run's deadline or the adapter's timer."""
        patience = self._recorder.patience
        if patience is not self._patience:
            self._patience = patience
            self._patient_until = time.monotonic() + (patience.seconds if patience else 0.0)
        if patience is None:
            return deadline
        return self._patient_until if deadline is None else min(deadline, self._patient_until)

    def _patience_ran_out(self) -> bool:
        """Whether the adapter's timer ran out; then the agent must be stopped."""
        recorder, patience = self._recorder, self._patience
        # A timer that was set while the lines were read has not started yet.
        if patience is None or patience is not recorder.patience:
            return False
        if time.monotonic() < self._patient_until:
            return False
        recorder.patience = None
        if patience.error is not None:
            recorder.request_stop(patience.error)
        return True

    def _feed_stderr(self, player: Player) -> None:
        lines = self._process.take_stderr()
        if lines:
            for line in lines:
                player.feed_stderr(self._recorder.redactor.line(line))
            self._process.write(player.take_bytes())

    def _answer_questions(self, player: Player) -> None:
        questions = player.questions
        while questions:
            question = next(iter(questions.values()))
            allowed, by, reason = decision_of(self._permission(question))
            player.answer(question.request_id, allowed, by, reason)
            self._process.write(player.take_bytes())


def _clean_up(folders: tuple[str, ...], at_end: Callable[[], None] | None) -> None:
    if at_end is not None:
        at_end()
    remove_folders(folders)
