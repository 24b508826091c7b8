"""The contract of a long-lived conversation: what a wire that takes many prompts can be asked.

A `LiveWire` is a machine without input or output, made with a `Recorder`: lines of the agent's
stdout go in, calls on the recorder and bytes for the agent's stdin (`Recorder.reply`) come out.
Whoever drives it (a detached session, a connection over pipes, a test) owns the process.

It must be repeatable. A driver that was killed is replaced by one that builds the wire anew and
plays the journal and the same calls again; the bytes that come out are compared with what the agent
was given before, and only the rest is sent. So what a wire replies may depend on nothing but the
calls on it, in their order, with their arguments: no clock, no random number, no environment, no
file but those a message names.
"""

from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import msgspec

from bridle.core.errors import AgentError
from bridle.process.spec import ProcessExit

if TYPE_CHECKING:
    from bridle.turns.usage_totals import Before


class Outgoing(msgspec.Struct, frozen=True, kw_only=True):
    """A message for the agent."""

    id: str
    """Unique in its session, a UUID; wires that can carry an id use it, to see it come back."""
    text: str
    images: tuple[str, ...] = ()
    """Image files; they stay where they are as long as the session is driven."""


class Delivery(msgspec.Struct, frozen=True, kw_only=True):
    """What became of a message: the agent took it, or it would not."""

    id: str
    taken: bool
    turn: int = 0
    """The turn it reached, when it was taken."""
    error: AgentError | None = None
    """Why the agent would not take it. A steer that came too late is then queued as a prompt."""


class LiveWire(Protocol):
    """One conversation in one process.

    Contract: `begin` is called once, before anything else; then `feed` for every line, in order.
    The wire calls `Recorder.ready` when the agent can take its first prompt, `turn_started` and
    `turn_ended` around each turn (the recorder is ready again after that), also for turns that the
    agent begins by itself, and `message_taken` or `message_refused` once for each message. None of
    the methods raises on anything an agent may print.
    """

    def begin(self) -> None:
        """Say the first words: whatever leads to `Recorder.ready`."""

    def feed(self, line: bytes) -> None:
        """Take one line of stdout, without its newline, secrets already removed."""

    def prompt(self, message: Outgoing) -> None:
        """Begin a turn. Called only while the recorder is ready."""

    def steer(self, message: Outgoing) -> None:
        """Reach the model at the next tool boundary of the turn. Called only while a turn is open
        and only where `Features.steer` is true."""

    def abort(self) -> None:
        """Bring the open turn to its end. Called only while a turn is open; the reason is already
        with the recorder. The conversation goes on after it."""

    def leave(self) -> None:
        """Bring the agent to leave by itself: `Recorder.input_done` closes its stdin. Called while
        no turn is open."""

    def finish(self, exit: ProcessExit) -> None:
        """The process is gone: judge the open turn by all the evidence, then `Recorder.finish`."""


@runtime_checkable
class ModelSwitch(Protocol):
    """A wire whose agent can change its model between turns."""

    def set_model(self, model: str) -> None:
        """Use `model` from the next turn on. Called only while the recorder is ready."""


@runtime_checkable
class CompactionControl(Protocol):
    """A wire whose agent can be told to shorten its context."""

    def compact(self) -> None:
        """Shorten the context now. Called only while the recorder is ready."""

    def abort_compaction(self) -> None:
        """Give up the compaction that runs."""


@runtime_checkable
class TurnByTurn(Protocol):
    """A wire whose agent has a process for each turn, and none between them."""

    unsettled: bool
    """Whether a turn is over whose outcome is not written down yet."""
    settled_number: int
    """The last process of which nothing more is to be learned: its files may go."""

    @property
    def is_spent(self) -> bool:
        """Whether no further turn is possible: the agent cannot resume its conversation."""

    def settled(self, total: "Before", native_session_id: str | None, model: str | None) -> None:
        """What the session had come to when the turn was over; it holds."""


class LiveFacts(msgspec.Struct, frozen=True, kw_only=True):
    """What a wire must know beside the recorder, kept on disk so that a new driver can build it.

    `own` is the runtime's: JSON values only, and no secret, which belongs into the environment.
    """

    runtime: str
    runtime_version: str
    dialect: str
    cwd: str
    resume: str | None = None
    """Native id of the conversation to take up."""
    reports: str = ""
    """The folder that the agent's own hooks report into; empty when none do."""
    own: dict[str, Any] = {}
