"""What a wire has for whoever holds the agent's process: bytes, questions, news and wishes.

And what the two must agree on: which turn it is, why it fails, and whether the agent is leaving.
"""

from bridle.core.errors import AgentError, BudgetExceeded, GuardRefused
from bridle.process.spec import Patience, Question
from bridle.turns.wire import Delivery


class Outbox:
    """Things that the adapter puts here and the driver takes.

    Contract: one owner fills and empties it, nothing here raises. The driver takes from the lists
    what it has dealt with, oldest first.
    """

    def __init__(self, *, turn: int = 0) -> None:
        self.turn = turn
        """The number of the open turn, or of the last one."""
        self.error: AgentError | None = None
        """Why the open turn fails."""
        self.leaving: str | None = None
        """Why the agent is being ended on purpose, once it is; a live conversation that ends
        without that failed or was lost."""
        self.stop_requested: AgentError | None = None
        """Set when a limit that Bridle itself enforces is reached: the holder must stop the agent
        and then `finish`."""
        self.replies: list[bytes] = []
        """Bytes for the agent's stdin, in order; the driver takes and writes them."""
        self.questions: list[Question] = []
        """Permission requests that wait for an answer; the driver takes them and replies."""
        self.deliveries: list[Delivery] = []
        """What became of messages in a live conversation; the driver takes them."""
        self.input_done = False
        """Set by the adapter when the agent needs no more input: the driver closes its stdin."""
        self.patience: Patience | None = None
        """How long the driver may wait now, where the adapter sets a clock (`expect`)."""
        self._settled: set[str] = set()

    def reply(self, data: bytes) -> None:
        """Send bytes to the agent, as they are; for adapters whose wire asks and answers."""
        self.replies.append(data)

    def fail(self, error: AgentError) -> None:
        """Remember why the open turn (or the first, before it opened) fails. The first cause
        stands; later ones are its consequences. A turn that has ended is not judged again."""
        if self.error is None:
            self.error = error

    def request_stop(self, error: AgentError) -> None:
        """Ask the holder to end the agent, because of `error`."""
        if self.stop_requested is None:
            self.stop_requested = error
        self.fail(error)

    def stop_if(self, error: AgentError | None) -> None:
        """`request_stop`, where there is a reason to."""
        if error is not None:
            self.request_stop(error)

    @property
    def stops_at_once(self) -> bool:
        """Whether the agent is to be ended without the time to do anything more: it does not keep
        to its guard, or it has spent its budget and some go on spending while they are asked to
        stop."""
        return isinstance(self.stop_requested, GuardRefused | BudgetExceeded)

    def expect(self, seconds: float | None, error: AgentError | None = None) -> None:
        """Let the driver stop the agent, because of `error`, unless this is called again within
        `seconds`. None stops the clock. Without an error the agent is stopped but not blamed."""
        self.patience = None if seconds is None else Patience(seconds, error)

    def message_taken(self, message_id: str) -> None:
        """The agent has the message, in the open turn. A repeat has no effect."""
        self._settle(Delivery(id=message_id, taken=True, turn=self.turn))

    def message_refused(self, message_id: str, error: AgentError) -> None:
        """The agent would not take the message. A repeat has no effect."""
        self._settle(Delivery(id=message_id, taken=False, error=error))

    def unsettle(self, message_id: str) -> None:
        """The message will be sent again: what became of it before does not count."""
        self._settled.discard(message_id)

    def _settle(self, delivery: Delivery) -> None:
        if delivery.id not in self._settled:
            self._settled.add(delivery.id)
            self.deliveries.append(delivery)
