"""What hooks of one session told, from their spool into its journal, each report once."""

from bridle.drives.tmux.facts import TerminalFacts
from bridle.drives.tmux.orders import Seen
from bridle.drives.tmux.reports import Report, Spool

_DUE = 1.0
"""Seconds that the transcript has to tell what a hook reported."""


class Reported:
    """The reports of one agent, as whoever holds its pane takes them.

    Contract: `take` gives what is to be written down, and `done` is said when it is; what was
    written down by a driver that was killed is told by `take_up`, and does not come again.
    """

    def __init__(self, folder: str, facts: TerminalFacts) -> None:
        self._spool = Spool(folder, facts.reports) if folder and facts.reports else None
        self._known: set[str] = set()
        self._due_at: float | None = None
        self.prompts: list[str] = []
        """The prompts that the driver before was told of."""

    def take_up(self, seen: Seen) -> None:
        """The journal holds a report already."""
        if seen.report is not None:
            self._known.add(seen.id)
            if seen.report.kind == "prompt":
                self.prompts.append(seen.report.text)

    def taken_up(self) -> None:
        """The whole journal was looked at: only what is still in the spool could come twice."""
        if self._spool is not None:
            self._known &= set(self._spool.names())

    def take(self, now: float, transcript: str | None) -> list[tuple[str, Report]]:
        """The new reports with their names, the oldest first."""
        if self._spool is None:
            return []
        found = []
        for name, report in self._spool.read(transcript):
            if report is None or name in self._known:
                self.done(name)
            else:
                found.append((name, report))
        if found and self._due_at is None:
            self._due_at = now + _DUE
        return found

    def done(self, name: str) -> None:
        """It stands in the journal, or is of no use."""
        assert self._spool is not None
        self._spool.taken(name)
        self._known.discard(name)

    def is_due(self, now: float) -> bool:
        """Whether the transcript had its time to tell what was reported; true once."""
        if self._due_at is None or now < self._due_at:
            return False
        self._due_at = None
        return True
