"""The time limits of a session (`Clocks`), and the stopwatch that measures against them."""

import time
from typing import TYPE_CHECKING, Annotated, Literal, Protocol

import msgspec

from bridle.turns.recorder import Recorder
from bridle.turns.wire import Patience, Question

if TYPE_CHECKING:
    from bridle.config import Config

Seconds = Annotated[float, msgspec.Meta(gt=0)]
Clock = Literal[
    "startup", "first_progress", "inactivity", "turn", "patience", "abort", "compaction"
]
Running = tuple[Clock, float, float]
"""A running clock: its name, when it runs out (monotonic), its limit in seconds."""

_TURN_CLOCKS = ("first_progress", "inactivity", "turn")


class Clocks(msgspec.Struct, frozen=True, kw_only=True):
    """How long each step of a session may take, in seconds; None switches a clock off."""

    startup: Seconds | None = 180.0
    """From the start of the process until it is ready for a prompt."""
    first_progress: Seconds | None = 300.0
    """From a prompt until the agent says anything."""
    inactivity: Seconds | None = 600.0
    """Silence within a turn."""
    tool_inactivity: Seconds | None = 3600.0
    """Silence within a turn while a tool runs."""
    turn: Seconds | None = None
    """A whole turn."""
    permission: Seconds = 300.0
    """Until a permission request that nobody answers is refused."""
    abort: Seconds = 30.0
    """From an abort until the agent's process is ended because its turn continues."""
    leave: Seconds = 10.0
    """From the request to leave until the agent's process is ended because it stays."""

    def with_turn(self, seconds: float | None) -> "Clocks":
        """These clocks with at most `seconds` for a turn; None adds no limit."""
        if seconds is None or (self.turn is not None and self.turn <= seconds):
            return self
        return msgspec.structs.replace(self, turn=seconds)


def configured_clocks(config: "Config") -> Clocks:
    """The clocks of the configuration's section `sessions`; 0 there switches a clock off."""
    section = config.sessions
    return Clocks(
        startup=section.startup or None,
        first_progress=section.first_progress or None,
        inactivity=section.inactivity or None,
        tool_inactivity=section.tool_inactivity or None,
        turn=section.turn or None,
        permission=section.permission,
        abort=section.abort,
        leave=section.leave,
    )


class Watched(Protocol):
    """What the clocks read of the session's player, which cannot be imported here."""

    recorder: Recorder
    finished: bool
    questions: dict[str, Question]

    @property
    def awaited(self) -> bool:
        """Whether a message was sent that the agent has neither taken nor refused."""


class Stopwatch:
    """The moments that a session's clocks count from (monotonic).

    Contract: the driver reports every decision, made now or replayed, with its wall-clock time
    `ts`, and every sign of progress. The stopwatch decides nothing.
    """

    def __init__(self) -> None:
        self._began = self._since = self._prompted_at = time.monotonic()
        self._aborted_at: float | None = None
        self._left_at: float | None = None
        self._compaction_aborted_at: float | None = None
        self._patience: Patience | None = None
        self._patient_until = 0.0
        self._asked: dict[str, float] = {}

    # -- what happened --------------------------------------------------------------------------

    def begin(self, ts: float) -> None:
        """The process was started."""
        self._began = self._since = self._prompted_at = monotonic_of(ts)

    def progressed(self) -> None:
        """The agent said something."""
        self._since = time.monotonic()

    def prompted(self, ts: float) -> None:
        """The agent was given a message."""
        self._prompted_at = self._since = monotonic_of(ts)

    def aborted(self, ts: float) -> None:
        """The open turn was aborted."""
        self._aborted_at = monotonic_of(ts)

    def left(self, ts: float) -> None:
        """The agent was asked to leave."""
        self._left_at = monotonic_of(ts)

    def compacting(self, ts: float) -> None:
        """The agent was asked to compact its context."""
        self._since = max(self._since, monotonic_of(ts))
        self._compaction_aborted_at = None

    def compaction_aborted(self, ts: float) -> None:
        """The running compaction was aborted."""
        self._compaction_aborted_at = monotonic_of(ts)

    def expired(self, clock: Clock, ts: float) -> None:
        """A clock ran out, which aborts what it limits."""
        if clock in _TURN_CLOCKS:
            self.aborted(ts)
        elif clock == "compaction":
            self.compaction_aborted(ts)

    # -- what runs out --------------------------------------------------------------------------

    def ran_out(self, player: Watched, clocks: Clocks) -> tuple[Clock, float] | None:
        """A clock that has run out, with its limit; None when none has."""
        turn_open = player.recorder.turn_open
        if not turn_open:
            self._aborted_at = None
        now = time.monotonic()
        for clock, until, seconds in self.running(player, clocks):
            if now >= until:
                # A prompt that was never taken began no turn that could be aborted.
                untaken = clock in _TURN_CLOCKS and not turn_open
                return "startup" if untaken else clock, seconds
        return None

    def deadlines(self, player: Watched, clocks: Clocks) -> list[float]:
        """When something runs out: the running clocks, and the permission requests that were open
        at the last call of `unanswered`."""
        waits = [until for _, until, _ in self.running(player, clocks)]
        waits += [asked + clocks.permission for asked in self._asked.values()]
        if self._left_at is not None:
            waits.append(self._left_at + clocks.leave)
        return waits

    def running(self, player: Watched, clocks: Clocks) -> list[Running]:
        """The clocks that run now."""
        recorder = player.recorder
        if player.finished or recorder.stop_requested is not None or recorder.leaving is not None:
            return []
        found: list[Running] = []
        if recorder.state == "starting" and clocks.startup:
            found.append(("startup", self._began + clocks.startup, clocks.startup))
        if recorder.patience is not self._patience:
            self._patience = recorder.patience
            self._patient_until = time.monotonic() + (
                recorder.patience.seconds if recorder.patience else 0.0
            )
        if recorder.patience is not None:
            found.append(("patience", self._patient_until, recorder.patience.seconds))
        if self._aborted_at is not None and recorder.turn_open:
            found.append(("abort", self._aborted_at + clocks.abort, clocks.abort))
        elif recorder.turn_open or player.awaited:
            found += self._turn_clocks(player, clocks)
        else:
            found += self._compaction_clocks(player, clocks)
        return found

    def unanswered(self, player: Watched, clocks: Clocks) -> list[str]:
        """The permission requests that nobody answered in time."""
        now = time.monotonic()
        self._asked = {each: self._asked.get(each, now) for each in player.questions}
        return [each for each, asked in self._asked.items() if now >= asked + clocks.permission]

    def is_late_to_leave(self, clocks: Clocks) -> bool:
        """Whether an agent that was asked to leave has run out of time."""
        return self._left_at is None or time.monotonic() >= self._left_at + clocks.leave

    def _compaction_clocks(self, player: Watched, clocks: Clocks) -> list[Running]:
        """Limits of a compaction between turns: silence aborts it; then its abort is limited."""
        aborted = self._compaction_aborted_at
        if player.recorder.state != "compacting":
            self._compaction_aborted_at = None
        elif aborted is not None:
            return [("abort", aborted + clocks.abort, clocks.abort)]
        elif clocks.inactivity:
            return [("compaction", self._since + clocks.inactivity, clocks.inactivity)]
        return []

    def _turn_clocks(self, player: Watched, clocks: Clocks) -> list[Running]:
        recorder = player.recorder
        found: list[Running] = []
        if clocks.turn:
            found.append(("turn", self._prompted_at + clocks.turn, clocks.turn))
        if recorder.state == "waiting_permission":
            return found
        silence = clocks.tool_inactivity if recorder.tools.names else clocks.inactivity
        if self._since <= self._prompted_at:
            if clocks.first_progress:
                until = self._prompted_at + clocks.first_progress
                found.append(("first_progress", until, clocks.first_progress))
        elif silence:
            found.append(("inactivity", self._since + silence, silence))
        return found


def monotonic_of(ts: float) -> float:
    """The monotonic time of a wall-clock time; now when the wall clock was set back since."""
    return time.monotonic() - max(0.0, time.time() - ts)
