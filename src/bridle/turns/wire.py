"""The contracts between an adapter's wire and the driver that holds the agent's process.

A wire translates between one agent's protocol and Bridle. It has no input or output: lines of the
agent's stdout go in, calls on a `Recorder` and bytes for the agent's stdin (`Outbox.reply`) come
out. The driver (a run, a session, a connection over pipes, a test) owns the process.

A `Normalizer` follows one process to its end. A `LiveWire` also takes prompts, one after another.

A `LiveWire` must be repeatable. When a driver is killed, the next driver builds the wire anew and
replays the journal and the same calls; it compares the bytes that come out with the bytes that the
agent received before, and sends only the rest. So the bytes that a wire replies may depend only on
the calls it receives, their order and their arguments: no clock, no random number, no environment
variable, and no file except those that a message names.
"""

from collections.abc import Callable
from typing import Any, Protocol, runtime_checkable

import msgspec

from bridle.core.errors import AgentError, BudgetExceeded, GuardRefused, WrongUse
from bridle.process.spec import ProcessExit
from bridle.turns.usage_totals import Before

# -- permission requests --------------------------------------------------------------------------


class Question(msgspec.Struct, frozen=True, kw_only=True):
    """A permission request of an agent, with the function that encodes the answer."""

    request_id: str
    """Names the request; `session permit` and `Session.answer` take it."""
    tool_name: str
    """The tool, by the agent's own name."""
    args: Any
    """The tool's arguments, as the agent gives them."""
    answer: Callable[[bool, str], bytes]
    """`answer(allowed, reason)` gives the bytes to write to the agent's stdin."""
    tool_call_id: str | None = None
    """The call that waits for the answer, if the agent names it."""


class Allow(msgspec.Struct, frozen=True):
    """A permission callback's yes. `by` names who decided; events carry it."""

    reason: str = ""
    by: str = "caller"


class Deny(msgspec.Struct, frozen=True):
    """A permission callback's no. The agent reads `reason`; `by` names who decided."""

    reason: str = "the caller refused it"
    by: str = "caller"


PermissionAnswer = bool | Allow | Deny | tuple[bool, str, str]
"""What a permission callback returns; the tuple is (allowed, who decided, reason)."""


def decision_of(answer: object) -> tuple[bool, str, str]:
    """A callback's answer as (allowed, who decided, reason); `WrongUse` for anything else.

    Only the documented answers count: a truthy value must not become a yes by accident.
    """
    match answer:
        case Allow(reason, by):
            return True, by, reason
        case Deny(reason, by):
            return False, by, reason
        case bool():
            return decision_of(Allow() if answer else Deny())
        case (bool() as allowed, str() as by, str() as reason):
            return allowed, by, reason
    raise WrongUse(
        f"the permission callback returned {type(answer).__name__}",
        hint="return True, False, bridle.Allow(), or bridle.Deny(reason)",
    )


# -- messages -------------------------------------------------------------------------------------


class Outgoing(msgspec.Struct, frozen=True, kw_only=True):
    """A message for the agent."""

    id: str
    """A UUID, unique in its session. Protocols that can carry an id return it as a receipt."""
    text: str
    images: tuple[str, ...] = ()
    """Paths of image files; the files stay in place as long as the session is driven."""


class Delivery(msgspec.Struct, frozen=True, kw_only=True):
    """The receipt for a message: the agent took it or refused it."""

    id: str
    taken: bool
    turn: int = 0
    """The turn that the message reached, if it was taken."""
    error: AgentError | None = None
    """Why the agent refused it. A steer that came too late is then queued as a prompt."""


class Patience(msgspec.Struct, frozen=True, eq=False):
    """A timer of the adapter: how long the driver waits before it stops the agent.

    The time counts from when the driver sees this object. A new object (`Outbox.expect`) restarts
    the timer, so it measures silence or one step, never the whole run.
    """

    seconds: float
    error: AgentError | None
    """Why the run then fails; None if the work is done and the agent merely does not exit."""


class Outbox:
    """What the adapter hands to the driver: stdin bytes, permission requests, receipts, stop
    requests.

    It also holds the facts on which both must agree: the turn number, the turn's error, and
    whether the agent is being ended on purpose.

    Contract: one owner fills and empties it; no method raises. The driver removes what it has
    processed from the lists, oldest first.
    """

    def __init__(self, *, turn: int = 0) -> None:
        self.turn = turn
        """The number of the open turn, or of the last one."""
        self.error: AgentError | None = None
        """Why the open turn fails."""
        self.leaving: str | None = None
        """Why the agent is being ended on purpose. A live conversation that ends while this is
        None failed or was lost."""
        self.stop_requested: AgentError | None = None
        """Set when a limit that Bridle enforces is reached: the driver must stop the agent and
        then call `finish`."""
        self.replies: list[bytes] = []
        """Bytes for the agent's stdin, in order."""
        self.questions: list[Question] = []
        """Permission requests that wait for an answer."""
        self.deliveries: list[Delivery] = []
        """Receipts for the messages of a live conversation."""
        self.input_done = False
        """Set by the adapter when the agent needs no more input: the driver closes its stdin."""
        self.patience: Patience | None = None
        """The adapter's timer (`expect`); None while no timer runs."""
        self._receipts: set[str] = set()

    def reply(self, data: bytes) -> None:
        """Send bytes to the agent unchanged."""
        self.replies.append(data)

    def fail(self, error: AgentError) -> None:
        """Record why the open turn (or the first turn, before it opens) fails.

        Only the first error counts; later ones are its consequences.
        """
        if self.error is None:
            self.error = error

    def request_stop(self, error: AgentError) -> None:
        """Ask the driver to stop the agent because of `error`."""
        if self.stop_requested is None:
            self.stop_requested = error
        self.fail(error)

    def stop_if(self, error: AgentError | None) -> None:
        """Call `request_stop` if there is an error."""
        if error is not None:
            self.request_stop(error)

    @property
    def stops_at_once(self) -> bool:
        """Whether the agent must be killed without time to clean up.

        That is so if it bypasses its guard, or if it has spent its budget: some agents keep
        spending while they are asked to stop.
        """
        return isinstance(self.stop_requested, GuardRefused | BudgetExceeded)

    def expect(self, seconds: float | None, error: AgentError | None = None) -> None:
        """Restart the adapter's timer: the driver stops the agent after `seconds`, unless this is
        called again before. None stops the timer. Without an error the turn does not fail."""
        self.patience = None if seconds is None else Patience(seconds, error)

    def message_taken(self, message_id: str) -> None:
        """The agent took the message in the open turn. A repeated call has no effect."""
        self._add_receipt(Delivery(id=message_id, taken=True, turn=self.turn))

    def message_refused(self, message_id: str, error: AgentError) -> None:
        """The agent refused the message. A repeated call has no effect."""
        self._add_receipt(Delivery(id=message_id, taken=False, error=error))

    def forget_receipt(self, message_id: str) -> None:
        """The message will be sent again: its first receipt no longer counts."""
        self._receipts.discard(message_id)

    def _add_receipt(self, delivery: Delivery) -> None:
        if delivery.id not in self._receipts:
            self._receipts.add(delivery.id)
            self.deliveries.append(delivery)


# -- wires ----------------------------------------------------------------------------------------


class Normalizer(Protocol):
    """Translates one runtime's wire into calls on the `Recorder` it was created with.

    Contract: pure (no input or output), never raises on anything an agent prints. Messages that it
    does not know go to `Recorder.unknown`.
    """

    def feed(self, line: bytes) -> None:
        """Take one line of the agent's stdout, without its newline, secrets already removed."""

    def finish(self, exit: ProcessExit) -> None:
        """The process has ended: decide by all the evidence whether the turn failed (`fail`), add
        what only files contain, and call `Recorder.finish`."""


@runtime_checkable
class StderrReader(Protocol):
    """What the normalizer of a process with `ProcessSpec.watch_stderr` also implements."""

    def feed_stderr(self, line: bytes) -> None:
        """Take one line of the agent's stderr, secrets already removed. Its position among the
        lines of stdout is not certain: they are two different pipes."""


class LiveWire(Protocol):
    """One conversation in one process.

    Contract: `begin` is called once, before anything else; then `feed` for every line, in order.
    The wire calls `Recorder.ready` when the agent can take its first prompt, `turn_started` and
    `turn_ended` around each turn (after which the recorder is ready again), including turns that
    the agent starts by itself, and `message_taken` or `message_refused` once for each message. No
    method raises on anything an agent prints.
    """

    def begin(self) -> None:
        """Send the first bytes: whatever leads to `Recorder.ready`."""

    def feed(self, line: bytes) -> None:
        """Take one line of stdout, without its newline, secrets already removed."""

    def prompt(self, message: Outgoing) -> None:
        """Begin a turn. Called only while the recorder is ready."""

    def steer(self, message: Outgoing) -> None:
        """Reach the model at the next tool boundary of the turn. Called only while a turn is open
        and only if `Features.steer` is true."""

    def abort(self) -> None:
        """End the open turn. Called only while a turn is open; the recorder already has the
        reason. The conversation continues afterwards."""

    def leave(self) -> None:
        """Make the agent exit by itself: `Recorder.input_done` closes its stdin. Called while no
        turn is open."""

    def finish(self, exit: ProcessExit) -> None:
        """The process has ended: judge the open turn by all the evidence, then call
        `Recorder.finish`."""


@runtime_checkable
class ModelSwitch(Protocol):
    """A wire whose agent can change its model between turns."""

    def set_model(self, model: str) -> None:
        """Use `model` from the next turn on. Called only while the recorder is ready."""


@runtime_checkable
class CompactionControl(Protocol):
    """A wire whose agent can compact its context on request."""

    def compact(self) -> None:
        """Compact the context now. Called only while the recorder is ready."""

    def abort_compaction(self) -> None:
        """Cancel the running compaction."""


@runtime_checkable
class TurnByTurn(Protocol):
    """A wire whose agent has one process for each turn, and none between turns."""

    unsettled: bool
    """Whether a turn has ended whose totals are not in the ledger yet."""
    settled_number: int
    """The last process whose files are no longer needed."""

    @property
    def is_spent(self) -> bool:
        """Whether no further turn is possible: the agent cannot resume its conversation."""

    def settled(self, total: Before, native_session_id: str | None, model: str | None) -> None:
        """Use these totals of the session at the end of the turn: they come from the ledger and
        override what the wire computed."""


class LiveFacts(msgspec.Struct, frozen=True, kw_only=True):
    """What a wire must know in addition to the recorder; stored on disk so that a later driver can
    build the wire again.

    `own` belongs to the runtime: JSON values only, and no secrets, which belong in the environment.
    """

    runtime: str
    runtime_version: str
    dialect: str
    cwd: str
    resume: str | None = None
    """Native id of the conversation to resume."""
    reports: str = ""
    """The folder that the agent's hooks report into; empty if none do."""
    own: dict[str, Any] = {}
