"""The user's messages to the agent of a session, and the turn that each reached.

The ledger has the messages that were sent through Bridle: when each was accepted and sent. It does
not say which turn a message began, so ledger and events are compared, process by process: a prompt
is only sent while no turn is open, and begins the next turn. Messages that a person typed at the
agent's terminal are in the events alone.
"""

import os
from typing import Literal

import msgspec

from bridle.core.events import AgentStart, MessageEnd, SessionEnd, decode_event
from bridle.core.redaction import Redactor, secrets_in
from bridle.core.secret_shapes import without_shapes
from bridle.sessions.event_log import EventLog
from bridle.sessions.home import StateHome
from bridle.sessions.ledger import Accept, Begin, Drop, MessageKind, Send, ledger_entries
from bridle.sessions.store import SessionRecord

MessageFate = Literal["delivered", "sent", "queued", "dropped"]
"""`delivered`: part of a turn. `sent`: passed to the agent, with no proof that it took it.
`queued`: not sent yet. `dropped`: will not be sent."""

_MILLISECOND = 0.001
"""The precision of the time of events."""


class UserMessage(msgspec.Struct, frozen=True, kw_only=True):
    """One message of the user, secrets removed from its text."""

    id: str
    kind: MessageKind
    text: str
    images: tuple[str, ...] = ()
    accepted_at: str = ""
    sent_at: str | None = None
    turn: int | None = None
    """The turn that it began or, for a steer, reached."""
    steered: bool = False
    """Whether it was sent into an open turn."""
    fate: MessageFate = "queued"
    typed: bool = False
    """Whether a person typed it at the agent's own terminal."""


class TextCleaner:
    """Removes secrets from the user's messages: the values of this environment, and everything that
    looks like a key. The agent's output was redacted when it came."""

    def __init__(self, redactor: Redactor | None = None) -> None:
        self._redactor = redactor or Redactor(secrets_in(os.environ))

    def text(self, text: str) -> str:
        """`text` without secrets."""
        return without_shapes(self._redactor.text(text), guess=True)


class _Sent(msgspec.Struct):
    id: str
    run: int
    ts: float
    steer: bool


class _Turn(msgspec.Struct):
    number: int
    ts: float
    typed: bool = False
    """Whether a message that a person typed began it."""


def user_messages(
    home: StateHome, record: SessionRecord, cleaner: TextCleaner | None = None
) -> list[UserMessage]:
    """Every message of a session: delivered ones in the order of their turns, then the others in
    the order they came. Reads only; safe while the session is driven."""
    cleaner = cleaner or TextCleaner()
    folder = home.folder(record.session_id)
    accepted: dict[str, Accept] = {}
    sent: dict[str, _Sent] = {}
    dropped: set[str] = set()
    run = -1
    for entry in ledger_entries(folder):
        if isinstance(entry, Begin):
            run += 1
            for message in entry.carried:
                accepted.setdefault(message.id, message)
        elif isinstance(entry, Accept):
            accepted.setdefault(entry.id, entry)
        elif isinstance(entry, Send):
            # A message is sent again when it did not arrive: the last time counts.
            sent.pop(entry.id, None)
            sent[entry.id] = _Sent(entry.id, run, entry.ts, entry.steer)
        elif isinstance(entry, Drop):
            dropped.add(entry.id)
    turns, typed = _read_events(folder, cleaner)
    reached = _reached(list(sent.values()), turns)
    made = [
        _message(accepted[name], sent.get(name), reached.get(name), name in dropped, cleaner)
        for name in [*sent, *(each for each in accepted if each not in sent)]
        if name in accepted
    ]
    return sorted([*made, *typed], key=_place)


def _place(message: UserMessage) -> tuple[float, bool, str]:
    """The sort key of a message: by turn, the prompt first, then the steers as they came."""
    if message.turn is None:
        return (float("inf"), False, "")
    return (message.turn, message.steered, (message.sent_at or "") if message.steered else "")


def _message(
    accept: Accept, sent: _Sent | None, turn: int | None, dropped: bool, cleaner: TextCleaner
) -> UserMessage:
    fate: MessageFate = "queued"
    if turn is not None:
        fate = "delivered"
    elif sent is not None:
        fate = "sent"
    elif dropped:
        fate = "dropped"
    return UserMessage(
        id=accept.id,
        kind=accept.kind,
        text=cleaner.text(accept.text),
        images=accept.images,
        accepted_at=iso(accept.ts),
        sent_at=None if sent is None else iso(sent.ts),
        turn=turn,
        steered=sent is not None and sent.steer,
        fate=fate,
    )


def _read_events(folder: str, cleaner: TextCleaner) -> tuple[list[list[_Turn]], list[UserMessage]]:
    """The turns of each process of the session (`session_end` is the last event of each), and the
    messages that a person typed."""
    runs: list[list[_Turn]] = [[]]
    typed: list[UserMessage] = []
    fresh = False
    for line in EventLog(folder).lines():
        # Few events matter here, and the tag comes first in each line.
        if not line.startswith(_LOOKED_INTO):
            continue
        if line.startswith(_BY_AGENT) and b'"role":"user"' not in line:
            # Text cannot look like that role: its quotes would be escaped.
            fresh = False
            continue
        event = decode_event(line)
        if isinstance(event, AgentStart):
            runs[-1].append(_Turn(event.turn, seconds(event.ts)))
            fresh = True
        elif isinstance(event, SessionEnd):
            runs.append([])
        elif isinstance(event, MessageEnd) and runs[-1]:
            turn = runs[-1][-1]
            turn.typed = turn.typed or fresh
            typed.append(_typed_message(event, turn.number, not fresh, cleaner))
            fresh = False
    return runs, typed


_BY_AGENT = (b'{"type":"message_end"', b'{"type":"tool_execution_start"')
_LOOKED_INTO = (b'{"type":"agent_start"', b'{"type":"session_end"', *_BY_AGENT)


def _typed_message(
    event: MessageEnd, turn: int, steered: bool, cleaner: TextCleaner
) -> UserMessage:
    return UserMessage(
        id=event.message_id,
        kind="steer" if steered else "prompt",
        text=cleaner.text(event.text),
        accepted_at=event.ts,
        sent_at=event.ts,
        turn=turn,
        steered=steered,
        fate="delivered",
        typed=True,
    )


def _reached(sent: list[_Sent], runs: list[list[_Turn]]) -> dict[str, int]:
    """The turn of each message that reached one."""
    found: dict[str, int] = {}
    for number, turns in enumerate(runs):
        here = [each for each in sent if each.run == number]
        prompts = [each for each in here if not each.steer]
        found |= _begun(prompts, [turn for turn in turns if not turn.typed])
        for steer in here:
            before = [turn for turn in turns if turn.ts < steer.ts + _MILLISECOND]
            if steer.steer and before:
                found[steer.id] = before[-1].number
    return found


def _begun(prompts: list[_Sent], turns: list[_Turn]) -> dict[str, int]:
    """The turn that each prompt of one process began.

    With as many prompts as turns, their order decides. Else a prompt was refused, or the agent
    began a turn by itself, and the times decide.
    """
    if len(prompts) == len(turns):
        return {each.id: turn.number for each, turn in zip(prompts, turns, strict=True)}
    found: dict[str, int] = {}
    at = 0
    for turn in turns:
        # A prompt that another one followed well before this turn began was not taken.
        while at + 1 < len(prompts) and prompts[at + 1].ts < turn.ts:
            at += 1
        if at < len(prompts) and prompts[at].ts < turn.ts + _MILLISECOND:
            found[prompts[at].id] = turn.number
            at += 1
    return found


def seconds(ts: str) -> float:
    """An event's time as seconds since 1970; 0 when it has none."""
    from datetime import datetime

    try:
        return datetime.fromisoformat(ts).timestamp()
    except ValueError:
        return 0.0


def iso(ts: float) -> str:
    """A moment as events write it: RFC 3339 in UTC, to the millisecond."""
    from datetime import UTC, datetime

    moment = datetime.fromtimestamp(ts, UTC)
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{moment.microsecond // 1000:03d}Z"
