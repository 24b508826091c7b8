"""Holds an agent in a pane of the private tmux server, for a session that outlives Bridle.

The counterpart of `DetachedProcess`, with the same files. The driver fills the journal from the
agent's transcript and from what the pane shows; the input file contains orders for the pane. The
files alone show how far both have come, so the next driver continues after one was killed: a text
that was pasted but not submitted is in the pane's input line, a submitted one in the transcript.
"""

import contextlib
import os
import time
from collections.abc import Callable

import msgspec

from bridle.core import structs
from bridle.core.errors import STDERR_TAIL, AgentError, TimedOut, WrongUse
from bridle.core.files import write_atomic
from bridle.core.redaction import Redactor
from bridle.core.results import ReadyState
from bridle.drives.tmux.errors import ConnectionLost, NotDelivered, PaneGone, ServerGone
from bridle.drives.tmux.facts import TerminalFacts
from bridle.drives.tmux.hook_reports import SessionReports
from bridle.drives.tmux.permission_dialogs import PermissionWatch
from bridle.drives.tmux.records import (
    Observation,
    Order,
    error_observation,
    observation_in,
    record_line,
)
from bridle.drives.tmux.server import PanePlace, read_place, server_in
from bridle.drives.tmux.terminal import Terminal
from bridle.drives.tmux.transcript_file import TranscriptFollower, lines_in
from bridle.drives.tmux.transcript_wire import plain
from bridle.process.process_tree import Process, descendants, end_marked, send_signal
from bridle.process.run_files import RunFiles, read_number, read_word
from bridle.process.spec import ProcessExit, ProcessSpec

_READ = 0.1
"""Seconds between looks at the transcript while something is expected."""
_IDLE_READ = 0.5
_QUIET = 3.0
"""Seconds without a new line in the transcript, with a prompt in the pane, after which a turn is
over whatever the transcript says."""
_QUIET_LOOK = 0.5
_GLANCE = 0.7
"""Seconds of silence in a turn after which the pane is checked for a permission dialog."""
_FAREWELL = 1.5
_LAST_LINES = 60
"""Lines of a pane that are kept when its agent has ended."""
_DEAD = "Pane is dead"
"""What tmux writes below the last screen."""
_STARTS = 3
"""Attempts to start a pane if the server ends at the same moment."""

FindTranscript = Callable[[int | None], str | None]
_orders = structs.decoder(Order)
_PATIENCE = 2.5
"""Seconds for the agent to report a message that may have been submitted."""


class UncertainDelivery(msgspec.Struct, kw_only=True):
    """The first order that a new driver finds: the previous driver may have carried it out.

    Contract: hooks report every prompt once, so a message was submitted if they reported its text
    more often than it was delivered before.
    """

    until: float
    """When to stop waiting (monotonic)."""
    before: list[str]
    """The texts that were certainly delivered."""
    reported: list[str]
    """The prompts that hooks reported."""

    @classmethod
    def about(cls, path: str, done: int, reported: list[str]) -> "UncertainDelivery | None":
        """The order at position `done` of the input file; None if there is none."""
        try:
            with open(path, "rb") as file:
                data = file.read()
        except OSError:
            return None
        if b"\n" not in data[done:]:
            return None
        carried_out = [_orders.decode(line) for line in data[:done].split(b"\n") if line]
        before = [order.text for order in carried_out if order.do == "deliver"]
        return cls(until=time.monotonic() + _PATIENCE, before=before, reported=reported)

    def submitted(self, text: str) -> bool:
        """Whether hooks reported this message."""
        wanted = plain(text)
        reported = sum(plain(each) == wanted for each in self.reported)
        return reported > sum(plain(each) == wanted for each in self.before)


class PaneProcess(RunFiles):
    """One agent in its pane.

    Contract: as `DetachedProcess`, and `work` must be called repeatedly, at the latest at the time
    it returns. One thread uses it.
    """

    holder: int | None = None

    def __init__(
        self,
        folder: str,
        facts: TerminalFacts,
        detect: Callable[[str], ReadyState],
        find_transcript: FindTranscript,
        *,
        verify: bool,
        reports: str = "",
    ) -> None:
        """`reports` is the folder that the agent's hooks report into."""
        super().__init__(folder)
        self._skip = 0
        self._facts = facts
        self._detect = detect
        self._verify = verify
        self._find = find_transcript
        self._terminal: Terminal | None = None
        self._follower: TranscriptFollower | None = None
        self._input_at = 0
        self._ready = False
        self._order: tuple[Order, int] | None = None
        self._silent_since = time.monotonic()
        self._quiet_at = 0.0
        self._taken: set[str] = set()
        self._reported = SessionReports(reports, facts.reports)
        self._glance_at = 0.0
        self._uncertain: UncertainDelivery | None = None
        self._permissions = PermissionWatch(facts, detect, self._record)

    # -- starting -------------------------------------------------------------------------------

    def start(self, spec: ProcessSpec, place: PanePlace) -> None:
        """Start the agent in a new pane; raises an error if it cannot be started."""
        self.make()
        # Lines before a resume are not read again.
        path = self._find(None)
        skip = lines_in(path) if path else 0
        self._append("journal", record_line(Observation(kind="at", count=skip)))
        write_atomic(self.path("pane"), msgspec.json.encode(place).decode())
        server = server_in(place.server)
        # An agent must not find its server: it could type into other panes.
        argv = ("/usr/bin/env", "-u", "TMUX", "-u", "TMUX_PANE", *spec.argv)
        for attempt in range(_STARTS):
            server.start()
            try:
                state = server.new_session(place.name, argv, cwd=spec.cwd, env=spec.env)
                break
            except ServerGone:
                # The last session ended just now, and the server with it.
                if attempt == _STARTS - 1:
                    raise
        write_atomic(self.path("pid"), str(state.pid))

    @property
    def place(self) -> PanePlace | None:
        """Where the pane is; None before the start."""
        return read_place(self.folder)

    @property
    def pid(self) -> int | None:
        """The agent's process id; None while unknown."""
        return read_number(self.path("pid"))

    # -- work -----------------------------------------------------------------------------------

    def work(self) -> float:
        """Do what is due at the pane and in the transcript; returns when to call again (monotonic).
        All observations are in the journal when this returns."""
        now = time.monotonic()
        if read_word(self.path("exit")) is not None:
            return now + _IDLE_READ
        wake: float | None = None
        # `exit` detects a pane that is gone.
        with contextlib.suppress(PaneGone, ServerGone, ConnectionLost):
            wake = self._step()
        self._read(now)
        with contextlib.suppress(PaneGone, ServerGone, ConnectionLost, TimedOut):
            self._glance(now)
        self._look_for_quiet(now)
        busy = self.expects or self._order is not None or not self._ready
        wakes = [now + (_READ if busy else _IDLE_READ), *([wake] if wake is not None else [])]
        return max(min(wakes), now + 0.01)

    def _step(self) -> float | None:
        terminal = self._opened()
        if terminal is None:
            return None
        was_busy = terminal.busy
        try:
            wake = terminal.step()
        except AgentError as error:
            if isinstance(error, PaneGone | ServerGone | ConnectionLost):
                raise
            self._failed(error)
            return None
        if was_busy and not terminal.busy:
            self._reached(terminal.evidence)
        if self._permissions.open:
            self._answer(terminal)
        if not terminal.busy and self._ready and self._order is None:
            return self._next_order(terminal)
        return wake

    def _opened(self) -> Terminal | None:
        if self._terminal is None:
            place = self.place
            if place is None:
                return None
            self._terminal = Terminal(
                server_in(place.server), place.name, self._facts, self._detect, verify=self._verify
            )
            if not self._ready:
                self._terminal.begin_ready()
        return self._terminal

    def take_up(self) -> None:
        """Restore the state of the previous driver from the files."""
        try:
            with open(self.path("journal"), "rb") as file:
                data = file.read()
        except OSError:
            return
        end = at = 0
        for line in data.split(b"\n")[:-1]:
            at += len(line) + 1
            seen = observation_in(line)
            if seen is not None:
                end = at
                self._ready = self._ready or seen.kind == "ready"
                self._skip = seen.count if seen.kind == "at" else self._skip
                self._permissions.take_up(seen)
                if seen.report is not None:
                    self._reported.take_up(seen.id, seen.report)
        if end < len(data):
            # Lines without a position after them are incomplete: they are read again.
            os.truncate(self.path("journal"), end)
        self._input_at = read_number(self.path("done")) or 0
        self._uncertain = UncertainDelivery.about(
            self.path("input"), self._input_at, self._reported.prompts
        )
        self._reported.taken_up()

    def _reached(self, evidence: str) -> None:
        self._silent_since = time.monotonic()
        if not self._ready:
            self._ready = True
            self._record(Observation(kind="ready", evidence=evidence))
        elif self._order is not None:
            self._done()

    def _failed(self, error: AgentError) -> None:
        if not self._ready:
            self._record(error_observation(error, "not_ready"))
        elif self._order is not None:
            order = self._order[0]
            self._done()
            if order.do == "deliver":
                self._record(error_observation(error, "undelivered", order.id))

    def _done(self) -> None:
        """The current order is complete."""
        assert self._order is not None
        self._input_at = self._order[1]
        write_atomic(self.path("done"), str(self._input_at))
        self._order = None

    def _next_order(self, terminal: Terminal) -> float | None:
        order = self._read_order()
        if order is None:
            return None
        if self._uncertain is not None and not self._is_certain(order[0]):
            return None
        self._order = order
        if order[0].id in self._taken:
            # The previous driver was killed after submitting it, before recording that.
            self._done()
            return 0.0
        if order[0].do == "deliver":
            try:
                terminal.begin_delivery(order[0].text)
            except WrongUse as error:
                self._failed(NotDelivered(error.message, hint=error.hint))
            return 0.0
        if order[0].do != "answer":
            # An answer was given while its dialog was open (`_answer`), or is too late.
            (terminal.interrupt if order[0].do == "interrupt" else terminal.leave)()
        self._done()
        return 0.0

    def _answer(self, terminal: Terminal) -> None:
        """Answer the open dialog before other orders: a message must wait until it is closed."""
        with open(self.path("input"), "rb") as file:
            file.seek(self._input_at)
            lines = file.read().split(b"\n")[:-1]
        for order in map(_orders.decode, lines):
            if order.do == "answer" and order.id == self._permissions.open:
                pane = terminal.server.capture(terminal.name)
                keys = self._permissions.keys(order, pane, time.monotonic())
                if keys:
                    terminal.press(*keys)
                return

    def _is_certain(self, order: Order) -> bool:
        """Whether it is certain by now if the previous driver carried this order out. The agent has
        a moment to report a message before it is delivered again."""
        doubt = self._uncertain
        assert doubt is not None
        if order.do == "deliver" and order.id not in self._taken:
            if doubt.submitted(order.text):
                self._taken.add(order.id)
            elif time.monotonic() < doubt.until:
                return False
        self._uncertain = None
        return True

    def _read_order(self) -> tuple[Order, int] | None:
        """The next order and its end in the input file."""
        with open(self.path("input"), "rb") as file:
            file.seek(self._input_at)
            line = file.readline()
        if not line.endswith(b"\n"):
            return None
        return _orders.decode(line), self._input_at + len(line)

    def delivered(self, message_id: str) -> None:
        """The transcript contains the message: nothing more to do for it at the pane."""
        self._taken.add(message_id)
        if self._order is not None and self._order[0].id == message_id:
            if self._terminal is not None:
                self._terminal.give_up()
            self._done()

    # -- transcript and hooks -------------------------------------------------------------------

    def _read(self, now: float) -> None:
        if self._terminal is None:
            return
        if self._reported.is_due(now):
            self._record(Observation(kind="due"))
        if self._follower is None:
            path = self._find(self.pid)
            if path is None:
                self._take_reports(now)
                return
            self._follower = TranscriptFollower(path, skip=self._skip)
        lines = self._follower.read()
        # Taken after the lines were read and before they are recorded, so that a report made before
        # a line is also recorded before it.
        self._take_reports(now)
        if self._follower.rewound:
            self._record(Observation(kind="rewound"))
        if lines or self._follower.rewound:
            self._silent_since = now
        if lines:
            # With the position after them, the lines are recorded completely or not at all.
            mark = record_line(Observation(kind="at", count=self._follower.count))
            self._append("journal", b"".join(line + b"\n" for line in lines) + mark)

    def _take_reports(self, now: float) -> None:
        """Record the reports of hooks."""
        path = None if self._follower is None else self._follower.path
        for name, report in self._reported.take(now, path):
            self._record(Observation(kind="hook", id=name, report=report))
            self._reported.done(name)
            self._silent_since = now
            if report.kind == "permission":
                self._glance_at = 0.0
            if report.kind == "prompt" and self._uncertain is not None:
                self._uncertain.reported.append(report.text)

    def _glance(self, now: float) -> None:
        """Look for a permission dialog while a turn runs and the transcript is silent."""
        terminal, watch = self._terminal, self._permissions
        if terminal is None or not self._ready or now < self._glance_at:
            return
        if not (self.expects and now - self._silent_since >= _GLANCE) and not watch.open:
            return
        self._glance_at = now + _QUIET_LOOK
        watch.saw(terminal.server.capture(terminal.name), now)

    @property
    def takes_messages(self) -> bool:
        """Whether there is an input line: a permission dialog replaces it."""
        return not self._permissions.open

    def _record(self, seen: Observation) -> None:
        self._append("journal", record_line(seen))

    def _look_for_quiet(self, now: float) -> None:
        """Record that the pane waits for a prompt although the transcript has no end of turn."""
        terminal = self._terminal
        if terminal is None or not self.expects or terminal.busy or self._order is not None:
            self._silent_since = now if not self.expects else self._silent_since
            return
        if now < self._quiet_at or now - self._silent_since < _QUIET / 2:
            return
        self._quiet_at = now + _QUIET_LOOK
        try:
            if not terminal.is_quiet():
                self._silent_since = now
                return
        except (PaneGone, ServerGone, ConnectionLost, TimedOut):
            return
        if now - self._silent_since >= _QUIET:
            self._record(Observation(kind="settled"))
            self._silent_since = now

    # -- the process ----------------------------------------------------------------------------

    def exit(self, redactor: Redactor | None = None) -> ProcessExit | None:
        """How the agent ended; None while it runs. If the server or the pane is gone, the exit code
        is unknown: `code` is None."""
        word = read_word(self.path("exit"))
        if word is None:
            ended = self._pane_exit()
            if ended is None:
                return None
            # Its last lines were not read yet.
            self._read(time.monotonic())
            self._keep_last_screen()
            word = "lost" if ended.code is None else str(ended.code)
            write_atomic(self.path("exit"), word)
        code = int(word) if word.lstrip("-").isdigit() else None
        return ProcessExit(code=code, stderr_tail=self._last_screen(redactor or Redactor()))

    def _keep_last_screen(self) -> None:
        """Keep what the pane showed at the end: an agent that fails explains it only there. At its
        end tmux moves the screen into the history."""
        with contextlib.suppress(PaneGone, ServerGone, ConnectionLost, TimedOut):
            if self._terminal is not None:
                shown = self._terminal.server.capture(self._terminal.name, history=True)
                lines = [line.rstrip() for line in shown.splitlines() if line.strip()]
                if lines and lines[-1].startswith(_DEAD):
                    lines.pop()
                self._append("errors", "\n".join(lines[-_LAST_LINES:]).encode())

    def _last_screen(self, redactor: Redactor) -> str:
        try:
            with open(self.path("errors"), "rb") as file:
                return redactor.text(file.read().decode(errors="replace"))[-STDERR_TAIL:]
        except OSError:
            return ""

    def _pane_exit(self) -> ProcessExit | None:
        terminal = None
        try:
            terminal = self._opened()
        except ConnectionLost:
            return None
        except (PaneGone, ServerGone):
            pass
        if terminal is None:
            # The driver that started it died before there was a pane.
            return ProcessExit(code=None)
        try:
            return terminal.exit()
        except (ConnectionLost, TimedOut):
            return None

    def signal(self, number: int, to: str = "process") -> None:
        """Send a signal to the agent, or with `to="group"` also to all its descendants."""
        pid = self.pid
        if pid is None or self._pane_exit() is not None:
            return
        below = descendants(pid) if to == "group" else []
        send_signal(pid, number)
        for process in below:
            send_signal(process.pid, number)

    def close_input(self) -> None:
        """No effect: a terminal's input is not closed."""

    def end_leftovers(self, session_id: str, also: tuple[Process, ...] = ()) -> list[int]:
        """Remove the pane, and end all processes of the session that still run."""
        place = self.place
        if place is not None:
            with contextlib.suppress(ServerGone, PaneGone, ConnectionLost, TimedOut):
                server = server_in(place.server)
                server.kill_session(place.name)
                if not server.sessions():
                    # The server is empty; the next session starts another.
                    server.kill()
        return end_marked(session_id, also=also, grace=_FAREWELL)
