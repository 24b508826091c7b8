"""What leaves a session: bytes for the agent, and events for the event file."""

from bridle.core.errors import AgentError, Unavailable
from bridle.core.events import Event
from bridle.process.run_files import HoldingFailed
from bridle.sessions.event_log import EventLog
from bridle.sessions.replay import SessionPlayer

TYPE_CHECKING = False
if TYPE_CHECKING:
    from bridle.sessions.holding import SessionProcess


class Outflow:
    """Gives the agent what is for it, and writes down what happened.

    Contract: what cannot be written stays, in its order, until it can be; `trouble` says why it
    cannot. An event that the file holds is not written again, though it may be played again.
    """

    def __init__(self, folder: str) -> None:
        self.trouble: AgentError | None = None
        self.logged = 0
        """The number of the last event in the file."""
        self.unsent = b""
        """What the agent has still to be given."""
        self._log = EventLog(folder)
        self._unlogged: list[Event] = []
        self._known: list[Event] = []
        self._process: SessionProcess

    def open(self, process: "SessionProcess") -> None:
        """Take up where the driver before left the event file."""
        self._process = process
        self.logged = self._log.last_seq()

    @property
    def has_events(self) -> bool:
        """Whether events wait to be written."""
        return bool(self._unlogged)

    def take(self, player: SessionPlayer) -> bool:
        """Take what came of playing; whether there is anything to `flush`."""
        if player.has_output:
            self.unsent += player.take_bytes()
            for event in player.take_events():
                (self._unlogged if event.seq > self.logged else self._known).append(event)
        return bool(self.unsent or self._unlogged or self._known or self.trouble)

    def take_known(self, after: int) -> list[Event]:
        """The events with a number above `after` that were played again and that the file holds
        already, as the file holds them: the driver that wrote them there may have been killed
        before it acted on them."""
        known, self._known = self._known, []
        if not known or known[-1].seq <= after:
            return []
        return [event for event in self._log.read(after) if event.seq <= known[-1].seq]

    def flush(self) -> list[Event]:
        """Write what waits; returns the events that are in the file now."""
        self.trouble = self._send() or self._write_down()
        if self.trouble is not None:
            return []
        events, self._unlogged = self._unlogged, []
        if events:
            self.logged = events[-1].seq
        return events

    def rest(self) -> None:
        """Nothing is to be expected for a while."""
        self._log.rest()

    def _send(self) -> AgentError | None:
        if not self.unsent:
            return None
        before = self._process.input_size()
        try:
            self._process.write(self.unsent)
        except HoldingFailed as problem:
            self.unsent = self.unsent[self._process.input_size() - before :]
            return problem
        self.unsent = b""
        return None

    def _write_down(self) -> AgentError | None:
        if not self._unlogged:
            return None
        try:
            self._log.append(self._unlogged)
        except OSError as problem:
            return Unavailable(f"events cannot be written: {problem.strerror}")
        return None
