"""What the driver of a session decides: written down first, then done."""

import os
import time
from typing import TypedDict

from bridle.core.errors import Unavailable
from bridle.sessions.ledger import Entry, Ledger, Told
from bridle.sessions.player import Player
from bridle.sessions.stopwatch import Stopwatch
from bridle.turns.guard_contract import NOTES, GuardFacts


class Stamp(TypedDict):
    """When an entry is made: after how many lines, and at what time."""

    at: int
    ts: float


class Decisions:
    """Writes entries to the ledger and applies them to the player.

    Contract: an entry is on disk before it has an effect; one that cannot be written has none and
    raises `Unavailable`. The stopwatch is told of every entry, made now or played again (`note`).
    """

    def __init__(
        self, ledger: Ledger, player: Player, watch: Stopwatch, guard: GuardFacts | None
    ) -> None:
        self._ledger = ledger
        self.player = player
        self._watch = watch
        self._guard = guard
        self._notes_upto = 0

    def now(self) -> Stamp:
        """The stamp of an entry that is made now."""
        return {"at": self.player.lines, "ts": time.time()}

    def make(self, entry: Entry, *, durable: bool = False) -> None:
        """Decide something; `durable` makes sure that it outlives a crash of the machine."""
        try:
            self._ledger.append(entry, durable=durable)
        except OSError as problem:
            raise Unavailable(
                f"cannot write the session's ledger: {problem.strerror}",
                hint="free some disk space and try again; nothing was sent",
            ) from None
        self.note(entry)
        self.player.apply(entry)

    def note(self, entry: Entry) -> None:
        """What must be known of an entry, made now or played again."""
        self._watch.note(entry)
        if isinstance(entry, Told):
            self._notes_upto = entry.upto

    def take_hook_notes(self) -> None:
        """Take what hooks of the guard told since the last entry that tells of one."""
        if self._guard is None:
            return
        from bridle.guard.hooks.guard_folder import read_notes

        for note, upto in read_notes(os.path.join(self._guard.folder, NOTES), self._notes_upto):
            self.make(Told(note=note, upto=upto, **self.now()))
