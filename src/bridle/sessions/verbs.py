"""The session verbs, one row each: everything that can be asked of a session.

A row is a class. Its tag is the verb's name on the daemon's wire (`op`), its fields are the
parameters with their defaults, its type argument is the result, and its class variables say what
the verb needs and which ledger entry carries it out. Service, daemon, client, manager and both
faces of the library pass these objects on and dispatch by their type.

To add a verb that an agent carries out: a row here, its method on the wire (`turns.wire` and
`player`), a line in `cli/session.py`, and a typed method on `Session` and `SyncSession`.

Wire compatibility: names and fields are only added, each field with a default; `protocol` says when
that is not enough. Null is the result of a wait that ran out of time.
"""

from typing import Any, ClassVar, Generic, Literal, TypeVar, cast, get_args

import msgspec

from bridle.sessions import ledger
from bridle.sessions.ledger import MessageKind
from bridle.sessions.store import OpenQuestion, SessionRecord
from bridle.turns.wire import CompactionControl, ModelSwitch

R = TypeVar("R")
Need = Literal["idle", "turn", "compaction", "question"]
"""What a command requires: `idle` (an idle agent) and `question` (that permission request is open)
refuse it, `turn` (an open turn) and `compaction` (a running one) make it do nothing."""


class Receipt(msgspec.Struct, frozen=True, kw_only=True):
    """What became of a message so far."""

    session_id: str
    """The session it was sent to."""
    message_id: str
    """Names the message; sending the same id again changes nothing."""
    delivered: bool
    """Whether the agent has it."""
    queued: bool = False
    """Whether it waits for the open turn to end."""
    turn: int | None = None
    """The turn it reached."""
    error: str | None = None
    """Why the agent did not take it."""


class TurnReport(msgspec.Struct, frozen=True, kw_only=True):
    """A session's state, with its last finished turn."""

    session_id: str
    """The session."""
    state: str
    """The session's state: `ready`, `working`, `stopped`, …"""
    turn: int
    """The number of the last finished turn; 0 before the first."""
    status: str | None = None
    """How that turn ended."""
    text: str = ""
    """The agent's last text in it."""
    marker_detected: bool = False
    """Whether the agent said the completion marker in that turn."""
    error: dict[str, Any] | None = None
    """Why the turn, or else the session, failed."""
    questions: tuple[OpenQuestion, ...] = ()
    """The permission requests that wait for an answer."""


class Verb(msgspec.Struct, Generic[R], frozen=True, kw_only=True, tag_field="op"):
    """A request about sessions."""


class SessionVerb(Verb[R], Generic[R], frozen=True, kw_only=True):
    """A request about one session."""

    session: str
    """Its id, its name, or the beginning of its id."""


class Command(SessionVerb[R], Generic[R], frozen=True, kw_only=True):
    """A verb that the agent carries out: its row is all that the service and the driver need."""

    entry: ClassVar[type[Any]]
    """The ledger entry that carries it out; it takes the fields of the same names."""
    needs: ClassVar[Need]
    ability: ClassVar[type[Any] | None] = None
    """The protocol that the wire of the session must have."""

    def decision(self, at: int, ts: float) -> ledger.Entry:
        """The ledger entry of this command."""
        names = {field.name for field in msgspec.structs.fields(self.entry)}
        given = {name: getattr(self, name) for name in self.__struct_fields__ if name in names}
        made: ledger.Entry = self.entry(at=at, ts=ts, **given)
        return made

    def answer(self, acted: bool) -> dict[str, Any]:
        """The result beyond the session's id; `acted` is False when there was nothing to do."""
        return {}


# -- messages and commands ----------------------------------------------------------------------


class Send(SessionVerb[Receipt | None], frozen=True, kw_only=True, tag="send"):
    """Give the agent a message, and wait until it has it. One that must wait for the turn to end is
    answered at once."""

    kind: MessageKind
    text: str
    message_id: str
    images: tuple[str, ...] = ()
    timeout: float | None = None

    def on_its_way(self) -> Receipt:
        """The receipt of a message that the agent did not have in time."""
        return Receipt(session_id=self.session, message_id=self.message_id, delivered=False)


class Abort(Command[dict[str, Any]], frozen=True, kw_only=True, tag="abort"):
    """End the open turn; with `clear` also drop the queued messages."""

    entry = ledger.Abort
    needs = "turn"
    reason: str = "aborted"
    clear: bool = False

    def answer(self, acted: bool) -> dict[str, Any]:
        """Whether a turn was open."""
        return {"aborted": acted}


class Permit(Command[dict[str, Any]], frozen=True, kw_only=True, tag="answer"):
    """Answer a permission request."""

    entry = ledger.Answer
    needs = "question"
    request_id: str
    allowed: bool
    by: str = "user"
    reason: str = ""

    def answer(self, acted: bool) -> dict[str, Any]:
        """The request."""
        return {"request_id": self.request_id}


class SetModel(Command[dict[str, Any]], frozen=True, kw_only=True, tag="model"):
    """Use another model from the next turn on."""

    entry = ledger.Model
    needs = "idle"
    ability = ModelSwitch
    model: str

    def answer(self, acted: bool) -> dict[str, Any]:
        """The model."""
        return {"model": self.model}


class Compact(Command[dict[str, Any]], frozen=True, kw_only=True, tag="compact"):
    """Ask the agent to compact its context; events report the progress."""

    entry = ledger.Compact
    needs = "idle"
    ability = CompactionControl


class AbortCompaction(Command[dict[str, Any]], frozen=True, kw_only=True, tag="abort_compaction"):
    """Abort the running compaction. One within a turn may abort the turn too."""

    entry = ledger.AbortCompaction
    needs = "compaction"
    ability = CompactionControl

    def answer(self, acted: bool) -> dict[str, Any]:
        """Whether one ran."""
        return {"aborted": acted}


# -- waiting ------------------------------------------------------------------------------------


class WaitReady(SessionVerb[SessionRecord | None], frozen=True, kw_only=True, tag="wait_ready"):
    """Wait until a session is ready for its first prompt, or over."""

    timeout: float | None = None


class WaitIdle(SessionVerb[TurnReport | None], frozen=True, kw_only=True, tag="wait_idle"):
    """Wait until the agent is idle and no message is on its way, or until it has ended; with
    `known_questions` also until it opens a permission request that is not among them."""

    timeout: float | None = None
    known_questions: tuple[str, ...] | None = None


class Stop(SessionVerb[SessionRecord | None], frozen=True, kw_only=True, tag="stop"):
    """End a session and wait until its process has ended. No effect on one that is over."""

    reason: str = "stopped"
    timeout: float | None = None


# -- records ------------------------------------------------------------------------------------


class Show(SessionVerb[SessionRecord], frozen=True, kw_only=True, tag="show"):
    """A session's record, brought up to date."""


class List(Verb[dict[str, list[SessionRecord]]], frozen=True, kw_only=True, tag="list"):
    """The records of all sessions, those of living ones brought up to date."""


class Rename(SessionVerb[SessionRecord], frozen=True, kw_only=True, tag="rename"):
    """Give a session another name; refused when a living session has it."""

    name: str


class Remove(SessionVerb[dict[str, Any] | None], frozen=True, kw_only=True, tag="remove"):
    """Delete a session with everything that Bridle keeps of it. The agent's own transcripts stay.
    Refused for a living session, unless `force` stops it first."""

    force: bool = False
    timeout: float | None = None


# -- who drives it ------------------------------------------------------------------------------


class Adopt(SessionVerb[SessionRecord], frozen=True, kw_only=True, tag="adopt"):
    """Drive a session that nobody drives."""


class Release(SessionVerb[dict[str, Any] | None], frozen=True, kw_only=True, tag="release"):
    """Stop driving a session, so that another process can."""

    timeout: float | None = None


# -- the daemon itself ----------------------------------------------------------------------------


class Hello(Verb[dict[str, Any]], frozen=True, kw_only=True, tag="hello"):
    """The first request of a connection; see `protocol`."""


class Status(Verb[dict[str, Any]], frozen=True, kw_only=True, tag="status"):
    """What the daemon is and how many sessions it drives."""


class Shutdown(Verb[dict[str, Any]], frozen=True, kw_only=True, tag="shutdown"):
    """End the daemon; agents run on."""


class Events(SessionVerb[dict[str, Any]], frozen=True, kw_only=True, tag="events"):
    """The events with a number above `after`, past ones first; with `follow` also new ones."""

    after: int = 0
    follow: bool = True


VERBS: dict[str, type[Verb[Any]]] = {
    str(row.__struct_config__.tag): row
    for row in (
        Hello,
        Status,
        Shutdown,
        Events,
        Send,
        Abort,
        Permit,
        SetModel,
        Compact,
        AbortCompaction,
        WaitReady,
        WaitIdle,
        Stop,
        Show,
        List,
        Rename,
        Remove,
        Adopt,
        Release,
    )
}
"""Every verb by its name on the wire; the daemon carries out its own, the service the others."""


def result_type(verb: Verb[R]) -> type[R]:
    """The type of a verb's result, as its row declares it."""
    (declared,) = get_args(type(verb).__orig_bases__[0])  # type: ignore[attr-defined]
    return cast("type[R]", declared)
