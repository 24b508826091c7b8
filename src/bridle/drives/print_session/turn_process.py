"""Holds the processes of a session that has one for each turn.

Between turns there is no agent, only a shell that waits (`Keeper`). Its environment contains the
session's keys, which are never written to disk and never sent to a daemon. The driver plans each
process in that environment and starts it. The process then runs independently (`DetachedProcess`);
its output is copied into the session's journal, with marks of the position.
"""

import contextlib
import os
import signal
import threading
import time
from collections.abc import Callable, Mapping

import msgspec

from bridle.core.errors import BridleError, Crashed, ErrorInfo
from bridle.core.redaction import Redactor
from bridle.drives.print_session.records import (
    ERR,
    OUT,
    Mark,
    Order,
    Planned,
    mark_in,
    mark_line,
    order_in,
)
from bridle.drives.print_session.tail import Tail
from bridle.process.detached import DetachedProcess
from bridle.process.private_folders import remove_folders
from bridle.process.process_tree import Process, end_marked, environment, send_signal
from bridle.process.run_files import FILES_HINT, HoldingFailed, read_number, read_word
from bridle.process.spec import SESSION_MARK, ProcessExit, ProcessSpec

_PIECE = 1 << 20
_SOON = 0.02
_LOOK = 1.0
"""Seconds between checks of a running process."""
_FAREWELL = 1.5
_GONE = 2.0
"""Seconds for a killed process to end."""
_KEEPER = """
d=$1
word=
umask 077
trap : HUP INT TERM QUIT
exec 3<>"${d}bell"
echo $$ >"${d}pump"
echo $$ >"${d}holder.new"
mv "${d}holder.new" "${d}holder"
until test "$word" = end; do read -r word <&3; done
echo 0 >"${d}exit.new"
mv "${d}exit.new" "${d}exit"
"""

_APPEARS = 2.0
"""Seconds for the keeper to write its process id."""


class TurnPlan(msgspec.Struct, frozen=True, kw_only=True):
    """A process that can be started, and what the journal records about it."""

    spec: ProcessSpec
    planned: Planned


Planner = Callable[[Order, str | None, Mapping[str, str]], TurnPlan]
"""`plan(order, resume, env)`; called in a separate thread, may take long."""


class Planning(threading.Thread):
    """Plans a process in a separate thread, so that other sessions do not wait; sets `found` or
    `error`."""

    def __init__(
        self, plan: Planner, order: Order, resume: str | None, env: Mapping[str, str]
    ) -> None:
        super().__init__(daemon=True)
        self.found: TurnPlan | None = None
        self.error: ErrorInfo | None = None
        self._ask = (plan, order, resume, env)

    def run(self) -> None:
        """Plan the process."""
        try:
            plan, order, resume, env = self._ask
            self.found = plan(order, resume, env)
        except BridleError as problem:
            self.error = problem.info()
        except Exception as problem:
            self.error = Crashed(f"the process could not be planned: {problem!r}").info()


class Keeper(DetachedProcess):
    """The keeper of one session, in the folder of its run.

    Contract: as `DetachedProcess`, whose holder it is; `close_input` ends it.
    """

    def start(self, spec: ProcessSpec, *, fed: bool = False) -> None:
        """Start the keeper in the environment of `spec`; no agent."""
        self.make()
        os.mkfifo(self.path("bell"), 0o600)
        os.symlink(os.devnull, self.path("stdin"))
        self._start_shell(_KEEPER, "bridle-session", spec)
        until = time.monotonic() + _APPEARS
        while read_number(self.path("holder")) is None and time.monotonic() < until:
            # Only then can its environment be read.
            time.sleep(0.002)

    def _announce(self) -> None:
        """Nothing waits: the driver reads the orders itself."""


class TurnProcess(Keeper):
    """The keeper of a session and the process of its turn.

    Contract: as `DetachedProcess`, but `work` must be called repeatedly, at the latest at the time
    it returns. `take_up` makes the caller the driver; without it nothing is changed.
    """

    comes_and_goes = True

    def __init__(self, folder: str, plan: Planner) -> None:
        super().__init__(folder)
        self._plan = plan
        self._driven = False
        self._number = 0
        self._turn: DetachedProcess | None = None
        self._told_start = False
        self._out = self._err = Tail("")
        self._input_at = self._order_at = 0
        self._order: tuple[Order, int] | None = None
        self._planning: Planning | None = None
        self._planned: TurnPlan | None = None
        self._resume: str | None = None
        self._signals: list[tuple[int, str]] = []
        self._said = 0
        self._dirty: tuple[str, ...] | None = None
        """Private folders of the last process until they are removed."""
        self._cleaning: threading.Thread | None = None

    # -- state ----------------------------------------------------------------------------------

    @property
    def pid(self) -> int | None:
        """The agent's process id; None while no process runs."""
        return None if self._turn is None else self._turn.pid

    def exit(self, redactor: Redactor | None = None) -> ProcessExit | None:
        """How the keeper ended; None while it runs. The process of the turn ends with it."""
        ended = super().exit(redactor)
        if ended is not None and self._driven and self._turn is not None:
            self._turn.signal(signal.SIGKILL, "group")
            until = time.monotonic() + _GONE
            while self._turn is not None and time.monotonic() < until:
                if self._turn.exit() is None:
                    time.sleep(0.005)
                else:
                    self._run_on()
        return ended

    def signal(self, number: int, to: str = "process") -> None:
        """Send a signal to the agent; if it is still starting, the signal is sent later. Without an
        agent only SIGKILL has an effect: it ends the keeper."""
        if self._turn is not None:
            if self._turn.pid is None:
                self._signals.append((number, to))
            else:
                self._turn.signal(number, to)
        elif number == signal.SIGKILL and (holder := self.holder) is not None:
            send_signal(holder, number)

    def end_leftovers(self, session_id: str, also: tuple[Process, ...] = ()) -> list[int]:
        """End all processes of the session that still run, and remove their private folders."""
        if self._cleaning is not None:
            self._cleaning.join()
        ended = end_marked(session_id, also=also, grace=_FAREWELL)
        if self._planning is not None:
            self._planning.join()
            self._planned = self._planned or self._planning.found
        if self._planned is not None:
            remove_folders(self._planned.planned.private_dirs)
        remove_folders(self._dirty or ())
        return ended

    # -- restoring ------------------------------------------------------------------------------

    def take_up(self) -> None:
        """Restore the state of the previous driver from the journal."""
        self._driven = True
        try:
            with open(self.path("journal"), "rb") as file:
                data = file.read()
        except OSError:
            return
        at = end = 0
        last: Mark | None = None
        planned: Mark | None = None
        read = Mark(what="at", number=0)
        for line in data.split(b"\n")[:-1]:
            at += len(line) + 1
            mark = mark_in(line)
            if mark is None:
                continue
            end = at
            if mark.what == "at":
                read = mark
                continue
            last = mark
            planned = mark if mark.what == "planned" else planned
        if end < len(data):
            # Lines without a mark after them are incomplete: they are copied again.
            os.truncate(self.path("journal"), end)
        if last is not None:
            self._go_on(last, planned, read)

    def _go_on(self, last: Mark, planned: Mark | None, read: Mark) -> None:
        self._number = last.number
        self._input_at = last.upto
        if planned is None or planned.number != last.number:
            planned = None
        plan = planned.plan if planned is not None else None
        folders = plan.private_dirs if plan is not None else ()
        if last.what in ("ended", "unstarted"):
            self._dirty = folders
            return
        if last.what == "planned" and not os.path.lexists(self._turn_path("stdin")):
            # Planned but not started: it is planned again.
            remove_folders(folders)
            return
        self._dirty = folders
        self._turn = DetachedProcess(self.folder, self._turn_prefix())
        self._told_start = last.what == "started"
        mine = read if read.number == self._number else Mark(what="at", number=self._number)
        self._follow(mine.out, mine.err)
        if planned is not None and plan is not None:
            self._order_at, self._input_at = planned.upto, plan.upto
            self._said = self._turn.input_size() - plan.fed

    def _turn_prefix(self) -> str:
        return f"{self._number}."

    def _turn_path(self, name: str) -> str:
        return self.path(self._turn_prefix() + name)

    def _follow(self, out: int, err: int) -> None:
        self._out = Tail(self._turn_path("journal"), out)
        self._err = Tail(self._turn_path("errors"), err)

    # -- work -----------------------------------------------------------------------------------

    def work(self) -> float | None:
        """Do what is due: start the process of a turn, copy its output, clean up after it."""
        if not self._driven or read_word(self.path("exit")) is not None:
            return None
        now = time.monotonic()
        if self._turn is not None:
            self._run_on()
            if self._turn is not None:
                busy = self._out.more or self._err.more or not self._told_start
                return now + (_SOON if busy else _LOOK)
        if self._cleaning is not None:
            if self._cleaning.is_alive():
                return now + _SOON
            self._cleaning = None
        if self._dirty is not None:
            if self.settled_number >= self._number:
                self._clean_up()
            return now + _SOON
        if self._planned is not None:
            self._start_planned()
            return now + _SOON
        return self._prepare(now)

    def _prepare(self, now: float) -> float | None:
        """Plan the process that the next order calls for."""
        if self._planning is not None:
            if self._planning.is_alive():
                return now + _SOON
            self._take_plan(self._planning)
            return now
        if self._order is None:
            self._order = self._next_turn()
        keeper = self.holder
        if self._order is None or keeper is None:
            # A keeper that starts is noticed by a new file, one that has ended by its end.
            return None
        order, upto = self._order
        self._number += 1
        if self.stopping:
            self._resume = None
            self._unstarted(None, upto)
            return now
        self._resume = None if order.fresh else self.native_id
        self._planning = Planning(self._plan, order, self._resume, environment(keeper))
        self._planning.start()
        return now + _SOON

    def _take_plan(self, planning: "Planning") -> None:
        self._planning = None
        assert self._order is not None
        _, upto = self._order
        if planning.found is None:
            self._unstarted(planning.error, upto)
            return
        self._planned = planning.found
        # The journal must record the plan before the process exists.
        mark = Mark(what="planned", number=self._number, upto=self._input_at)
        kept = msgspec.structs.replace(
            self._planned.planned, upto=upto, fed=len(self._planned.spec.stdin or b"")
        )
        self._note([mark_line(msgspec.structs.replace(mark, plan=kept))])

    def _start_planned(self) -> None:
        assert self._planned is not None
        assert self._order is not None
        plan, self._planned = self._planned, None
        (_, upto), self._order = self._order, None
        self._order_at, self._input_at = self._input_at, upto
        self._dirty = plan.planned.private_dirs
        if self.stopping:
            self._unstarted(None, upto)
            return
        turn = DetachedProcess(self.folder, self._turn_prefix())
        try:
            turn.start(plan.spec, fed=True)
        except BridleError as problem:
            self._unstarted(problem.info(), upto)
            return
        self._turn, self._told_start, self._said = turn, False, 0
        self._signals.clear()
        self._follow(0, 0)

    def _unstarted(self, failure: ErrorInfo | None, upto: int) -> None:
        self._order = None
        self._input_at = upto
        resumed = self._resume is not None
        mark = Mark(
            what="unstarted", number=self._number, upto=upto, failure=failure, resumed=resumed
        )
        self._note([mark_line(mark)])

    # -- the process of a turn ------------------------------------------------------------------

    def _run_on(self) -> None:
        turn = self._turn
        assert turn is not None
        if not self._told_start and not self._tell_start(turn):
            return
        while self._signals and turn.pid is not None:
            turn.signal(*self._signals.pop(0))
        ended = turn.exit()
        self._copy()
        if ended is None:
            self._say(turn)
            return
        while self._copy():
            pass
        self._copy(rest=True)
        mark = Mark(
            what="ended",
            number=self._number,
            upto=self._input_at,
            code=ended.code,
            stderr=ended.stderr_tail,
        )
        self._note([mark_line(mark)])
        self._turn = None

    def _tell_start(self, turn: DetachedProcess) -> bool:
        """Record the start of the process once it runs; False before that."""
        pid = turn.pid
        if pid is None and turn.exit() is None:
            return False
        if read_number(turn.path("holder")) is None:
            # The driver was killed before it could start the process.
            self._turn = None
            self._input_at = self._order_at
            self._remove_files()
            remove_folders(self._dirty or ())
            self._dirty = None
            return False
        mark = Mark(what="started", number=self._number, upto=self._input_at, pid=pid)
        self._note([mark_line(mark)])
        self._told_start = True
        return True

    def _copy(self, *, rest: bool = False) -> bool:
        """Copy new output of the process; False if there was none."""
        out = self._out.rest() if rest else self._out.look(_PIECE)
        err = self._err.rest() if rest else self._err.look(_PIECE)
        if not out and not err:
            return False
        at = Mark(what="at", number=self._number, out=self._out.after, err=self._err.after)
        lines = [ERR + line + b"\n" for line in err] + [OUT + line + b"\n" for line in out]
        self._note([*lines, mark_line(at)])
        self._out.taken()
        self._err.taken()
        return True

    def _say(self, turn: DetachedProcess) -> None:
        """Write new input to the process."""
        while (found := self._read_order()) is not None:
            order, upto = found
            if order.do == "turn":
                return
            self._input_at = upto
            if order.number != self._number:
                continue
            if order.do == "close":
                turn.close_input()
                continue
            # The previous driver may have written a part of this already.
            known = min(self._said, len(order.data))
            self._said -= known
            if known < len(order.data):
                turn.write(order.data[known:])

    # -- orders ---------------------------------------------------------------------------------

    def _next_turn(self) -> tuple[Order, int] | None:
        while (found := self._read_order()) is not None:
            if found[0].do == "turn":
                return found
            # For a process that has ended.
            self._input_at = found[1]
        return None

    def _read_order(self) -> tuple[Order, int] | None:
        """The next order and its end in the input."""
        try:
            with open(self.path("input"), "rb") as file:
                file.seek(self._input_at)
                line = file.readline()
        except OSError as problem:
            raise HoldingFailed(
                f"the input file is gone: {problem.strerror}", hint=FILES_HINT
            ) from None
        if not line.endswith(b"\n"):
            return None
        return order_in(line), self._input_at + len(line)

    # -- files ----------------------------------------------------------------------------------

    def _note(self, lines: list[bytes]) -> None:
        """Append to the journal, everything or nothing."""
        try:
            size = os.stat(self.path("journal")).st_size
        except OSError as problem:
            raise HoldingFailed(
                f"the journal is gone: {problem.strerror}", hint=FILES_HINT
            ) from None
        try:
            self._append("journal", b"".join(lines))
        except OSError:
            # A full disk: the same lines are taken again later.
            with contextlib.suppress(OSError):
                os.truncate(self.path("journal"), size)
            raise

    def _clean_up(self) -> None:
        """End leftover processes of the turn, and remove its private folders."""
        folders, self._dirty = self._dirty or (), None
        keeper = read_number(self.path("holder")) or 0
        session_id = environment(keeper).get(SESSION_MARK, "") if keeper else ""
        self._remove_files()

        def clean_up() -> None:
            if session_id:
                end_marked(session_id, spare=keeper, grace=_FAREWELL)
            remove_folders(folders)

        self._cleaning = threading.Thread(target=clean_up)
        self._cleaning.start()

    def _remove_files(self) -> None:
        prefix = self._turn_prefix()
        with contextlib.suppress(OSError):
            for name in os.listdir(self.folder):
                if name.startswith(prefix):
                    os.unlink(self.path(name))
