"""Plays to a new driver what happened before it: ledger entries and journal lines in their order.

Every entry says after how many lines it was made (`Entry.at`), so the two interleave as they did.
"""

from collections.abc import Callable

import msgspec

from bridle.sessions.intake import Intake
from bridle.sessions.ledger import Begin, Entry
from bridle.sessions.replay import SessionPlayer


class CatchingUp:
    """One session, caught up with.

    Contract: `play` is called once, on a player that has not begun. `note` is told of every entry
    before it is applied, `take_late_notes` before each line that came after all entries: the driver
    before may have gone before it took what hooks told.
    """

    def __init__(
        self,
        player: SessionPlayer,
        intake: Intake,
        *,
        note: Callable[[Entry], None],
        take_late_notes: Callable[[], None],
    ) -> None:
        self._player = player
        self._intake = intake
        self._note = note
        self._take_late_notes = take_late_notes
        self._waiting: list[Entry] = []

    def play(self, begin: Begin, entries: list[Entry]) -> bytes:
        """Play the entries since `begin` and all that the agent said; returns all that it was, or
        should have been, given meanwhile."""
        player = self._player
        player.begin(begin.carried)
        said = bytearray(player.take_bytes())
        self._waiting = list(reversed(entries))
        while True:
            self._apply_due()
            said += player.take_bytes()
            lines = self._intake.read()
            if not lines and not self._waiting:
                return bytes(said)
            if not lines:
                # The journal is shorter than the ledger says: it was tampered with. What was
                # decided is applied all the same.
                self._waiting = [msgspec.structs.replace(each, at=0) for each in self._waiting]
            for line in lines:
                if not self._waiting:
                    self._take_late_notes()
                self._intake.play(line)
                self._apply_due()
                said += player.take_bytes()

    def _apply_due(self) -> None:
        while self._waiting and self._waiting[-1].at <= self._player.lines:
            entry = self._waiting.pop()
            self._note(entry)
            self._player.apply(entry)
