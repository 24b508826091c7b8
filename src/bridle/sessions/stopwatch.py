"""Keeps the clocks of one session: what has begun when, and which of them run out when."""

import time

from bridle.sessions.clocks import Clocks
from bridle.sessions.ledger import (
    Abort,
    AbortCompaction,
    Begin,
    Clock,
    Compact,
    Entry,
    Expire,
    Leave,
    Send,
)
from bridle.sessions.replay import SessionPlayer
from bridle.turns.wire import Patience

_TURN_CLOCKS = ("first_progress", "inactivity", "turn")


class Stopwatch:
    """The moments that the clocks of a session count from (monotonic).

    Contract: told of every ledger entry, made now or played again, and of every progress; decides
    nothing.
    """

    def __init__(self) -> None:
        self.since = self.turn_since = time.monotonic()
        """When the agent last said something, and when it was last given a prompt."""
        self.aborted_at: float | None = None
        self.left_at: float | None = None
        self._compaction_aborted_at: float | None = None
        self._patience: Patience | None = None
        self._patient_until = 0.0
        self._asked: dict[str, float] = {}

    def begin(self, begin: Begin) -> None:
        """The process began."""
        self.since = self.turn_since = monotonic_of(begin.ts)

    def progressed(self) -> None:
        """The agent said something."""
        self.since = time.monotonic()

    def note(self, entry: Entry) -> None:
        """Something was decided."""
        if isinstance(entry, Send):
            self.turn_since = self.since = monotonic_of(entry.ts)
        elif isinstance(entry, Abort) or (
            isinstance(entry, Expire) and entry.clock in _TURN_CLOCKS
        ):
            self.aborted_at = monotonic_of(entry.ts)
        elif isinstance(entry, Leave):
            self.left_at = monotonic_of(entry.ts)
        elif isinstance(entry, Compact):
            self.since = max(self.since, monotonic_of(entry.ts))
            self._compaction_aborted_at = None
        elif isinstance(entry, AbortCompaction) or (
            isinstance(entry, Expire) and entry.clock == "compaction"
        ):
            self._compaction_aborted_at = monotonic_of(entry.ts)

    def ran_out(
        self, player: SessionPlayer, clocks: Clocks, begin: Begin
    ) -> tuple[Clock, float] | None:
        """A clock that has run out, with its seconds; None when none has."""
        turn_open = player.recorder.turn_open
        if not turn_open:
            self.aborted_at = None
        now = time.monotonic()
        for clock, until, seconds in self.running(player, clocks, begin):
            if now >= until:
                # A prompt that was never taken began no turn that could be aborted.
                untaken = clock in _TURN_CLOCKS and not turn_open
                return "startup" if untaken else clock, seconds
        return None

    def deadlines(self, player: SessionPlayer, clocks: Clocks, begin: Begin) -> list[float]:
        """When something runs out: the clocks that run, and the permission requests that waited
        when `unanswered` was last asked."""
        waits = [until for _, until, _ in self.running(player, clocks, begin)]
        waits += [asked + clocks.permission for asked in self._asked.values()]
        if self.left_at is not None:
            waits.append(self.left_at + clocks.leave)
        return waits

    def running(
        self, player: SessionPlayer, clocks: Clocks, begin: Begin
    ) -> list[tuple[Clock, float, float]]:
        """The clocks that run now: name, when it runs out, its seconds."""
        recorder = player.recorder
        if player.finished or recorder.stop_requested is not None or recorder.leaving is not None:
            return []
        found: list[tuple[Clock, float, float]] = []
        if recorder.state == "starting" and clocks.startup:
            began = monotonic_of(begin.ts)
            found.append(("startup", began + clocks.startup, clocks.startup))
        if recorder.patience is not self._patience:
            self._patience = recorder.patience
            self._patient_until = time.monotonic() + (
                recorder.patience.seconds if recorder.patience else 0.0
            )
        if recorder.patience is not None:
            found.append(("patience", self._patient_until, recorder.patience.seconds))
        if self.aborted_at is not None and recorder.turn_open:
            found.append(("abort", self.aborted_at + clocks.abort, clocks.abort))
        elif recorder.turn_open or player.awaited:
            found += self._of_turn(player, clocks)
        else:
            found += self._of_compaction(player, clocks)
        return found

    def unanswered(self, player: SessionPlayer, clocks: Clocks) -> list[str]:
        """The permission requests that nobody answered in time."""
        now = time.monotonic()
        self._asked = {each: self._asked.get(each, now) for each in player.questions}
        return [each for each, asked in self._asked.items() if now >= asked + clocks.permission]

    def is_late_to_leave(self, clocks: Clocks) -> bool:
        """Whether an agent that is leaving had its time to leave by itself."""
        return self.left_at is None or time.monotonic() >= self.left_at + clocks.leave

    def _of_compaction(
        self, player: SessionPlayer, clocks: Clocks
    ) -> list[tuple[Clock, float, float]]:
        """A compaction between turns: silence ends it, and an end that does not come the agent."""
        aborted = self._compaction_aborted_at
        if player.recorder.state != "compacting":
            self._compaction_aborted_at = None
        elif aborted is not None:
            return [("abort", aborted + clocks.abort, clocks.abort)]
        elif clocks.inactivity:
            return [("compaction", self.since + clocks.inactivity, clocks.inactivity)]
        return []

    def _of_turn(self, player: SessionPlayer, clocks: Clocks) -> list[tuple[Clock, float, float]]:
        recorder = player.recorder
        found: list[tuple[Clock, float, float]] = []
        if clocks.turn:
            found.append(("turn", self.turn_since + clocks.turn, clocks.turn))
        if recorder.state == "waiting_permission":
            return found
        silence = clocks.tool_inactivity if recorder.tools.names else clocks.inactivity
        if self.since <= self.turn_since:
            if clocks.first_progress:
                until = self.turn_since + clocks.first_progress
                found.append(("first_progress", until, clocks.first_progress))
        elif silence:
            found.append(("inactivity", self.since + silence, silence))
        return found


def monotonic_of(ts: float) -> float:
    """The monotonic moment of a wall-clock one; a clock that was set back makes it now."""
    return time.monotonic() - max(0.0, time.time() - ts)
