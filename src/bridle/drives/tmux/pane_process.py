"""Holding an agent in a pane of the private tmux server, for a session that outlives us.

The counterpart of `DetachedProcess`: the same files, but the journal is filled by whoever drives
the session, from the agent's transcript and from what the pane shows, and the input file holds
orders for the pane. How far both are carried out can be told from the files alone, so a driver that
was killed is replaced by one that goes on: a text that was pasted and not submitted is seen in the
input line of the pane, one that was submitted is seen in the transcript.
"""

import contextlib
import os
import time
from collections.abc import Callable

import msgspec

from bridle.core.errors import STDERR_TAIL, AgentError, TimedOut, WrongUse
from bridle.core.files import write_atomic
from bridle.core.redaction import Redactor
from bridle.core.results import ReadyState
from bridle.drives.tmux.doubt import Doubt
from bridle.drives.tmux.errors import ConnectionLost, NotDelivered, PaneGone, ServerGone
from bridle.drives.tmux.facts import TerminalFacts
from bridle.drives.tmux.following import TranscriptFollower, lines_in
from bridle.drives.tmux.orders import Order, Seen, line_of, seen_in, told
from bridle.drives.tmux.pane_place import PanePlace, read_place, server_in
from bridle.drives.tmux.permissions import PermissionWatch
from bridle.drives.tmux.reported import Reported
from bridle.drives.tmux.terminal import Terminal
from bridle.process.process_tree import Process, descendants, end_marked, send_signal
from bridle.process.run_files import RunFiles, read_number, read_word
from bridle.process.spec import ProcessExit, ProcessSpec

_READ = 0.1
"""Seconds between looks at the transcript while something is expected."""
_IDLE_READ = 0.5
_QUIET = 3.0
"""Seconds of silence in the transcript, with a prompt on the pane, after which a turn is over
whatever the transcript says."""
_QUIET_LOOK = 0.5
_GLANCE = 0.7
"""Seconds of silence in a turn after which the pane is looked at for a permission dialog."""
_FAREWELL = 1.5
_LAST_LINES = 60
"""How much of a pane is kept when its agent is gone."""
_DEAD = "Pane is dead"
"""What tmux itself writes below the last screen."""
_STARTS = 3
"""Tries to start a pane when the server ends right then."""

FindTranscript = Callable[[int | None], str | None]
_orders = msgspec.json.Decoder(Order)


class PaneProcess(RunFiles):
    """One agent in its pane.

    Contract: as `DetachedProcess`, and `work` must be called again and again, at the latest when it
    says. One thread uses it.
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
        self._reported = Reported(reports, facts)
        self._glance_at = 0.0
        self._in_doubt: Doubt | None = None
        self._permissions = PermissionWatch(facts, detect, self._saw)

    # -- starting -------------------------------------------------------------------------------

    def start(self, spec: ProcessSpec, place: PanePlace) -> None:
        """Start the agent in a new pane; raises what keeps it from starting."""
        self.make()
        # What a conversation that is taken up said before is not said again.
        path = self._find(None)
        skip = lines_in(path) if path else 0
        self._append("journal", line_of(Seen(kind="at", count=skip)))
        write_atomic(self.path("pane"), msgspec.json.encode(place).decode())
        server = server_in(place.server)
        # An agent must not find the server that it runs in: it could type into other panes.
        argv = ("/usr/bin/env", "-u", "TMUX", "-u", "TMUX_PANE", *spec.argv)
        for attempt in range(_STARTS):
            server.start()
            try:
                state = server.new_session(place.name, argv, cwd=spec.cwd, env=spec.env)
                break
            except ServerGone:
                # Its last session ended this very moment, and the server with it.
                if attempt == _STARTS - 1:
                    raise
        write_atomic(self.path("pid"), str(state.pid))

    @property
    def place(self) -> PanePlace | None:
        """Where its pane is, once that is known."""
        return read_place(self.folder)

    @property
    def pid(self) -> int | None:
        """The agent's process id, None before it is known."""
        return read_number(self.path("pid"))

    # -- going on -------------------------------------------------------------------------------

    def work(self) -> float:
        """Do what is due at the pane and in the transcript; returns when to come again
        (monotonic). What was seen stands in the journal when this returns."""
        now = time.monotonic()
        if read_word(self.path("exit")) is not None:
            return now + _IDLE_READ
        wake: float | None = None
        # A pane that is gone is seen by `exit`.
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
        """Learn from the files how far the one before was."""
        try:
            with open(self.path("journal"), "rb") as file:
                data = file.read()
        except OSError:
            return
        end = at = 0
        for line in data.split(b"\n")[:-1]:
            at += len(line) + 1
            seen = seen_in(line)
            if seen is not None:
                end = at
                self._ready = self._ready or seen.kind == "ready"
                self._skip = seen.count if seen.kind == "at" else self._skip
                self._permissions.take_up(seen)
                self._reported.take_up(seen)
        if end < len(data):
            # Lines whose number does not stand behind them were not written whole: they come again.
            os.truncate(self.path("journal"), end)
        self._input_at = read_number(self.path("done")) or 0
        self._in_doubt = Doubt.about(self.path("input"), self._input_at, self._reported.prompts)
        self._reported.taken_up()

    def _reached(self, evidence: str) -> None:
        self._silent_since = time.monotonic()
        if not self._ready:
            self._ready = True
            self._saw(Seen(kind="ready", evidence=evidence))
        elif self._order is not None:
            self._done()

    def _failed(self, error: AgentError) -> None:
        if not self._ready:
            self._saw(told(error, "not_ready"))
        elif self._order is not None:
            order = self._order[0]
            self._done()
            if order.do == "deliver":
                self._saw(told(error, "undelivered", order.id))

    def _done(self) -> None:
        """An order was carried out."""
        assert self._order is not None
        self._input_at = self._order[1]
        write_atomic(self.path("done"), str(self._input_at))
        self._order = None

    def _next_order(self, terminal: Terminal) -> float | None:
        order = self._read_order()
        if order is None:
            return None
        if self._in_doubt is not None and not self._settled_doubt(order[0]):
            return None
        self._order = order
        if order[0].id in self._taken:
            # The driver before was killed between submitting it and writing that down.
            self._done()
            return 0.0
        if order[0].do == "deliver":
            try:
                terminal.begin_delivery(order[0].text)
            except WrongUse as error:
                self._failed(NotDelivered(error.message, hint=error.hint))
            return 0.0
        if order[0].do != "answer":
            # An answer was given when its dialog was there (`_answer`), or comes too late.
            (terminal.interrupt if order[0].do == "interrupt" else terminal.leave)()
        self._done()
        return 0.0

    def _answer(self, terminal: Terminal) -> None:
        """Answer the open dialog, before what else is to be done: a message waits for it to go."""
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

    def _settled_doubt(self, order: Order) -> bool:
        """Whether the order that the driver before was at can be carried out. It may have been:
        the agent gets a while to tell of a message before it is given again."""
        doubt = self._in_doubt
        assert doubt is not None
        if order.do == "deliver" and order.id not in self._taken:
            if doubt.submitted(order.text):
                self._taken.add(order.id)
            elif time.monotonic() < doubt.until:
                return False
        self._in_doubt = None
        return True

    def _read_order(self) -> tuple[Order, int] | None:
        """The next order and where it ends in the input file."""
        with open(self.path("input"), "rb") as file:
            file.seek(self._input_at)
            line = file.readline()
        if not line.endswith(b"\n"):
            return None
        return _orders.decode(line), self._input_at + len(line)

    def delivered(self, message_id: str) -> None:
        """The transcript holds a message: nothing more is to be done for it at the pane."""
        self._taken.add(message_id)
        if self._order is not None and self._order[0].id == message_id:
            if self._terminal is not None:
                self._terminal.give_up()
            self._done()

    # -- what the agent wrote -------------------------------------------------------------------

    def _read(self, now: float) -> None:
        if self._terminal is None:
            return
        if self._reported.is_due(now):
            self._saw(Seen(kind="due"))
        if self._follower is None:
            path = self._find(self.pid)
            if path is None:
                self._take_reports(now)
                return
            self._follower = TranscriptFollower(path, skip=self._skip)
        lines = self._follower.read()
        # After the lines were read and before they are written down: what a hook told before the
        # agent wrote a line stands before that line.
        self._take_reports(now)
        if self._follower.rewound:
            self._saw(Seen(kind="rewound"))
        if lines or self._follower.rewound:
            self._silent_since = now
        if lines:
            # With its number behind it, a piece of the transcript is whole or not there.
            mark = line_of(Seen(kind="at", count=self._follower.count))
            self._append("journal", b"".join(line + b"\n" for line in lines) + mark)

    def _take_reports(self, now: float) -> None:
        """Write down what hooks told."""
        path = None if self._follower is None else self._follower.path
        for name, report in self._reported.take(now, path):
            self._saw(Seen(kind="hook", id=name, report=report))
            self._reported.done(name)
            self._silent_since = now
            if report.kind == "permission":
                self._glance_at = 0.0
            if report.kind == "prompt" and self._in_doubt is not None:
                self._in_doubt.told.append(report.text)

    def _glance(self, now: float) -> None:
        """Look for a permission dialog: while a turn runs and nothing is written."""
        terminal, watch = self._terminal, self._permissions
        if terminal is None or not self._ready or now < self._glance_at:
            return
        if not (self.expects and now - self._silent_since >= _GLANCE) and not watch.open:
            return
        self._glance_at = now + _QUIET_LOOK
        watch.saw(terminal.server.capture(terminal.name), now)

    @property
    def takes_messages(self) -> bool:
        """Whether there is an input line: not while a permission dialog stands in its place."""
        return not self._permissions.open

    def _saw(self, seen: Seen) -> None:
        self._append("journal", line_of(seen))

    def _look_for_quiet(self, now: float) -> None:
        """Tell of a pane that waits for a prompt although the transcript told no end."""
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
            self._saw(Seen(kind="settled"))
            self._silent_since = now

    # -- how it is ------------------------------------------------------------------------------

    def exit(self, redactor: Redactor | None = None) -> ProcessExit | None:
        """How the agent ended; None while it lives. With the server or the pane its end is gone
        too: `code` is then None."""
        word = read_word(self.path("exit"))
        if word is None:
            ended = self._looked_at()
            if ended is None:
                return None
            # What it wrote last was not read yet.
            self._read(time.monotonic())
            self._keep_last_words()
            word = "lost" if ended.code is None else str(ended.code)
            write_atomic(self.path("exit"), word)
        code = int(word) if word.lstrip("-").isdigit() else None
        return ProcessExit(code=code, stderr_tail=self._last_words(redactor or Redactor()))

    def _keep_last_words(self) -> None:
        """Keep what the pane showed at the end: an agent that fails says why only there. With its
        end tmux moves all that out of sight."""
        with contextlib.suppress(PaneGone, ServerGone, ConnectionLost, TimedOut):
            if self._terminal is not None:
                shown = self._terminal.server.capture(self._terminal.name, history=True)
                lines = [line.rstrip() for line in shown.splitlines() if line.strip()]
                if lines and lines[-1].startswith(_DEAD):
                    lines.pop()
                self._append("errors", "\n".join(lines[-_LAST_LINES:]).encode())

    def _last_words(self, redactor: Redactor) -> str:
        try:
            with open(self.path("errors"), "rb") as file:
                return redactor.text(file.read().decode(errors="replace"))[-STDERR_TAIL:]
        except OSError:
            return ""

    def _looked_at(self) -> ProcessExit | None:
        terminal = None
        with contextlib.suppress(PaneGone, ServerGone, ConnectionLost):
            terminal = self._opened()
        if terminal is None:
            # Its starter died before there was a pane.
            return ProcessExit(code=None)
        try:
            return terminal.exit()
        except (ConnectionLost, TimedOut):
            return None

    def signal(self, number: int, to: str = "process") -> None:
        """Send a signal to the agent, or with `to="group"` to it and all below it."""
        pid = self.pid
        if pid is None or self._looked_at() is not None:
            return
        below = descendants(pid) if to == "group" else []
        send_signal(pid, number)
        for process in below:
            send_signal(process.pid, number)

    def close_input(self) -> None:
        """A terminal's input is not closed."""

    def end_leftovers(self, session_id: str, also: tuple[Process, ...] = ()) -> list[int]:
        """Take the pane away, and end everything of the session that still runs."""
        place = self.place
        if place is not None:
            with contextlib.suppress(ServerGone, PaneGone, ConnectionLost, TimedOut):
                server = server_in(place.server)
                server.kill_session(place.name)
                if not server.sessions():
                    # Nobody is left in it; the next session starts another.
                    server.kill()
        return end_marked(session_id, also=also, grace=_FAREWELL)
