"""A conversation in a terminal: the pane's words, the transcript's events, in one place.

The counterpart of `AttachedConversation` in this drive. Nothing in it blocks but `pump`, `wait` and
what is built on them; `work` does what is due and says when to come again, so one thread can hold
many. The pane and its agent live on when this object goes; `skip` lets the next one take over.
"""

import time
from collections import deque
from collections.abc import Callable

from bridle.core.errors import Aborted, AgentError, TimedOut, WrongUse
from bridle.core.events import Event
from bridle.drives.live import Delivery, Outgoing
from bridle.drives.recorder import Recorder
from bridle.drives.spec import SESSION_MARK, ProcessExit, ProcessSpec
from bridle.drives.tmux.errors import ConnectionLost, NotDelivered, PaneGone, ServerGone
from bridle.drives.tmux.following import TranscriptFollower, TranscriptWire
from bridle.drives.tmux.terminal import Terminal

FindTranscript = Callable[[int | None], str | None]

_READ = 0.1
"""Seconds between looks at the transcript while a turn is open."""
_IDLE_READ = 0.5
_LIVENESS = 1.0
"""Seconds between looks at the process."""
_QUIET = 3.0
"""Seconds of silence in the transcript, with a prompt on the pane, after which a turn is over
whatever the transcript says."""
_QUIET_UNSURE = 20.0
"""The same where the transcript gives no sign that the turn is over: the pane may be misread."""
_QUIET_LOOK = 0.5
_LEAVE_SECONDS = 3.0
"""Seconds for the agent to leave before its keys are pressed again."""
_LEAVES = 4


class TerminalConversation:
    """One agent's terminal interface that takes prompt after prompt.

    Contract: `start`, then `work` or `pump` again and again; `events` and
    `deliveries` collect what happened. One thread uses it. `close` ends the agent.
    """

    def __init__(
        self,
        terminal: Terminal,
        wire: TranscriptWire,
        recorder: Recorder,
        find_transcript: FindTranscript,
        *,
        skip: int = 0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`skip` lines of the transcript are older than this process (`lines_in`)."""
        self.terminal = terminal
        self.wire = wire
        self.recorder = recorder
        self.events: list[Event] = []
        self.deliveries: dict[str, Delivery] = {}
        self.follower: TranscriptFollower | None = None
        self._find = find_transcript
        self._skip = skip
        self._clock = clock
        self._pid: int | None = None
        self._mark = ""
        self._starting = False
        self._outgoing: deque[Outgoing] = deque()
        self._delivering: str | None = None
        self._alive_at = self._quiet_at = 0.0
        self._silent_since = clock()
        self._leaves = _LEAVES
        self._leave_at = 0.0
        self._over = False

    # -- what the caller asks -------------------------------------------------------------------

    def start(self, spec: ProcessSpec, seconds: float = 90.0) -> None:
        """Start the agent and begin to bring it to its prompt."""
        self._mark = spec.env.get(SESSION_MARK, "")
        self._pid = self.terminal.start(spec).pid
        self.terminal.begin_ready(seconds)
        self._starting = True
        self.wire.begin()

    def prompt(self, message: Outgoing) -> None:
        """Begin a turn; `WrongUse` when the agent is not ready."""
        if not self.recorder.is_ready or self.wire.waits:
            raise WrongUse(
                f"the agent is {self.recorder.state}, not ready", hint="wait until it is"
            )
        self.wire.prompt(message)
        self._queue(message)

    def steer(self, message: Outgoing) -> None:
        """Reach the running turn; `WrongUse` when there is none, or the agent cannot."""
        if not self.recorder.turn_open or not self.terminal.facts.queues:
            raise WrongUse("no turn can be reached", hint="send a prompt instead")
        self.wire.steer(message)
        self._queue(message)

    def abort(self, reason: str = "aborted by the caller") -> None:
        """Bring the open turn to its end; no effect when there is none."""
        if self.recorder.turn_open:
            self.recorder.fail(Aborted(reason))
            self.wire.abort()
            self._guarded(self.terminal.interrupt)
            self._silent_since = self._clock()

    def leave(self, reason: str = "done") -> None:
        """Bring the agent to leave by itself."""
        self.recorder.leaving = reason
        self.wire.leave()
        self._leaves = 0
        self._leave_again(self._clock())

    def _leave_again(self, now: float) -> None:
        """An interface may take the first keys for something else, while it still draws."""
        if self._leaves < _LEAVES and now >= self._leave_at:
            self._leaves += 1
            self._leave_at = now + _LEAVE_SECONDS
            self._guarded(self.terminal.leave)

    def close(self) -> None:
        """End the agent and everything it started. Safe in any state."""
        self.terminal.close(self._mark)
        self._finish(ProcessExit(code=None))

    # -- what is due ----------------------------------------------------------------------------

    def work(self) -> float | None:
        """Do what is due; returns when to come again (by the clock), None when it is over.

        May be called earlier, as soon as the transcript is known to have grown.
        """
        if self._over:
            return None
        now = self._clock()
        wakes = [self._guarded(self._step)]
        self._read(now)
        if now >= self._alive_at:
            self._alive_at = now + _LIVENESS
            exit = self.terminal.exit()
            if exit is not None:
                # What it wrote last was not read yet.
                self._read(now)
                self._finish(exit)
                return None
        if self.recorder.leaving is not None:
            self._leave_again(now)
        self._look_for_quiet(now)
        self._settle()
        wakes += [self._alive_at, now + (_READ if self._expects() else _IDLE_READ)]
        return min(wake for wake in wakes if wake is not None)

    def _expects(self) -> bool:
        return self.recorder.turn_open or bool(self._delivering) or self.terminal.busy

    def _guarded(self, act: Callable[[], float | None]) -> float | None:
        """Do something at the pane; a pane that is gone is seen by `exit`."""
        try:
            return act()
        except (PaneGone, ServerGone, ConnectionLost):
            self._alive_at = 0.0
            return None

    def _step(self) -> float | None:
        was_busy = self.terminal.busy
        try:
            wake = self.terminal.step()
        except AgentError as error:
            self._failed(error)
            if isinstance(error, PaneGone | ServerGone | ConnectionLost):
                raise
            return None
        if was_busy and not self.terminal.busy:
            self._reached()
        if not self.terminal.busy and self._outgoing:
            message = self._outgoing.popleft()
            self._delivering = message.id
            try:
                self.terminal.begin_delivery(message.text)
            except WrongUse as error:
                self._failed(NotDelivered(error.message, hint=error.hint))
            return 0.0
        return wake

    def _reached(self) -> None:
        self._silent_since = self._clock()
        self._delivering = None
        if self._starting:
            self._starting = False
            self.wire.ready(self.terminal.evidence)

    def _failed(self, error: AgentError) -> None:
        if self._starting:
            self._starting = False
            self.recorder.request_stop(error)
        elif self._delivering is not None:
            message_id, self._delivering = self._delivering, None
            self.wire.undelivered(message_id, error)

    def _queue(self, message: Outgoing) -> None:
        self.recorder.instructed(message.text)
        if message.id not in [each.id for each in self.recorder.deliveries]:
            self._outgoing.append(message)
        self._settle()

    def _read(self, now: float) -> None:
        if self.follower is None:
            path = self._find(self._pid)
            if path is None:
                return
            self.follower = TranscriptFollower(path, skip=self._skip)
        lines = self.follower.read()
        if self.follower.rewound:
            self.wire.rewound()
        for line in lines:
            self.wire.feed(self.recorder.redactor.line(line))
        if lines or self.follower.rewound:
            self._silent_since = now

    def _look_for_quiet(self, now: float) -> None:
        """Close a turn of which the transcript tells no end, by a pane that waits for a prompt."""
        if not (self.recorder.turn_open or self.wire.waits):
            return
        if self.terminal.busy or self._outgoing or now < self._quiet_at:
            return
        self._quiet_at = now + _QUIET_LOOK
        if now - self._silent_since < _QUIET / 2:
            return
        try:
            if not self.terminal.is_quiet():
                self._silent_since = now
                return
        except (PaneGone, ServerGone, ConnectionLost, TimedOut):
            return
        sure = self.wire.final or self.recorder.error is not None
        if now - self._silent_since >= (_QUIET if sure else _QUIET_UNSURE):
            self.wire.settle()
            self._silent_since = now

    def _settle(self) -> None:
        for delivery in self.recorder.deliveries:
            self.deliveries[delivery.id] = delivery
            if delivery.id == self._delivering:
                # The transcript is the better witness.
                self.terminal.give_up()
                self._delivering = None
        self.recorder.deliveries.clear()
        self.events += self.recorder.drain()

    def _finish(self, exit: ProcessExit) -> None:
        if not self._over:
            self._over = True
            self.wire.finish(exit)
            self._settle()

    # -- for callers who wait -------------------------------------------------------------------

    def pump(self, until: float) -> bool:
        """Work until something happened or `until` (monotonic); False when it is over."""
        before = len(self.events) + len(self.deliveries)
        while True:
            wake = self.work()
            if wake is None:
                return False
            now = self._clock()
            if now >= until or len(self.events) + len(self.deliveries) != before:
                return True
            time.sleep(max(0.0, min(wake, until) - now))

    def wait(self, done: Callable[[], bool], seconds: float) -> None:
        """Pump until `done()`; raises `TimedOut` when it is not in time."""
        until = self._clock() + seconds
        while not done():
            if self.recorder.stop_requested is not None:
                raise self.recorder.stop_requested
            now = self._clock()
            if now > until:
                raise TimedOut(f"waited {seconds:g} s in vain", hint=f"state {self.recorder.state}")
            # What is waited for may be something else than an event.
            if not self.pump(min(until, now + _READ)) and not done():
                raise TimedOut("the agent is gone", hint=f"state {self.recorder.state}")

    def wait_ready(self, seconds: float) -> None:
        """Pump until the agent can take a prompt."""
        self.wait(lambda: self.recorder.is_ready, seconds)
