"""The events and the session state while an agent compacts its context."""

from bridle.core import events as ev
from bridle.turns.event_writer import EventWriter


class Compaction:
    """Writes the start and end events of a compaction.

    Contract: the caller starts it only while it does not run and ends it only while it does. A
    live session then returns to the state it had before, or to its open turn.
    """

    def __init__(self, writer: EventWriter, *, live: bool) -> None:
        self.runs = False
        self._writer = writer
        self._live = live
        self._state_before: ev.SessionState = "ready"

    def start(self, reason: str, synthetic: bool) -> None:
        """The compaction begins."""
        self.runs = True
        if self._live:
            self._state_before = self._writer.state
            self._writer.change_state("compacting", "auto_compaction_start")
        self._writer.emit(ev.AutoCompactionStart, reason=reason, synthetic=synthetic)

    def end(self, reason: str, synthetic: bool, *, turn_open: bool) -> None:
        """The compaction is complete or has failed."""
        self.runs = False
        self._writer.emit(ev.AutoCompactionEnd, reason=reason, synthetic=synthetic)
        if self._live and self._writer.state == "compacting":
            state = "working" if turn_open else self._state_before
            self._writer.change_state(state, "auto_compaction_end")
