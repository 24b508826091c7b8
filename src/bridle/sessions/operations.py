"""What a session can be asked for, as futures: the same for both faces."""

from collections.abc import Sequence
from concurrent.futures import Future
from typing import Any

from bridle.core.errors import TimedOut, Unavailable, UnsupportedOption, WrongUse
from bridle.core.features import Features
from bridle.core.handles import SessionHints
from bridle.core.ids import new_session_id
from bridle.runtimes.supporting import supporters
from bridle.sessions.history import AgentStep
from bridle.sessions.images import Image, kept_images
from bridle.sessions.ledger import MessageKind
from bridle.sessions.link import SessionLink
from bridle.sessions.manager import why_over
from bridle.sessions.service import Receipt, TurnReport
from bridle.sessions.store import SessionRecord
from bridle.sessions.user_messages import UserMessage

STOPPING = 60.0
"""Seconds for an agent to end, far more than its steps of stopping take."""


class SessionFacts:
    """What a session is and how it stands; looking costs nothing and waits for nothing, but for
    `messages`, which may read the session's files."""

    def __init__(self, link: SessionLink) -> None:
        self._link = link

    @property
    def session_id(self) -> str:
        """Bridle's id of the session."""
        return self._link.session_id

    @property
    def native_session_id(self) -> str | None:
        """The agent's own id of the conversation, None before it told it."""
        return self._link.record.native_session_id

    @property
    def state(self) -> str:
        """`starting`, `ready`, `working`, `waiting_permission`, `compacting`, `stopped`, `failed`,
        `lost` or `unknown`; `record.evidence` says what showed it."""
        return self._link.record.state

    @property
    def record(self) -> SessionRecord:
        """All that is known of it, true up to its last event."""
        return self._link.record

    @property
    def features(self) -> Features:
        """What its runtime can do: whether a steer reaches the running turn or
        waits for its end, whether it can fork, …"""
        return self._link.features

    @property
    def hints(self) -> SessionHints:
        """How its agent treats its conversation."""
        return self._link.runtime.hints

    @property
    def is_streaming(self) -> bool:
        """Whether a turn is open."""
        return self._link.is_streaming

    @property
    def is_compacting(self) -> bool:
        """Whether the agent shortens its context now."""
        return self._link.record.state == "compacting"

    @property
    def messages(self) -> "list[UserMessage | AgentStep]":
        """What was said so far: the user's messages, and the agent's with the tools it used. Read
        from the session's files, anew only when something happened since."""
        return self._link.messages()

    def replace_messages(self, messages: Sequence[Any]) -> None:
        """Always refused: an agent in a process of its own keeps its conversation itself, and no
        protocol of today's lets another rewrite it. Only an agent inside this process (the drive
        `embedded`) could; Pi's own library can."""
        raise UnsupportedOption(
            self._link.runtime.id,
            "replace_messages",
            [],
            reason="its conversation is its own; only an embedded agent, such as Pi's library, "
            "could take another",
        )

    def __repr__(self) -> str:
        record = self._link.record
        return f"<{type(self).__name__} {record.runtime} {record.session_id} {record.state}>"


def check_images(link: SessionLink, images: Sequence[Image]) -> None:
    """Refuse images where the runtime takes none."""
    if images and "images" not in link.features.options:
        name = link.runtime.id
        raise UnsupportedOption(name, "images", supporters("images", name))


def kept(link: SessionLink, message_id: str, images: Sequence[Image]) -> tuple[str, ...]:
    """The images of a message where the session keeps them; waits for the disk."""
    return kept_images(link.host.home, link.session_id, message_id, images)


def send(
    link: SessionLink,
    kind: MessageKind,
    text: str,
    message_id: str,
    images: tuple[str, ...],
    timeout: float | None,
) -> "Future[Receipt | None]":
    """Give the agent a message."""
    return link.ask(
        lambda service, name: service.send(
            name, kind, text, message_id=message_id, images=images, timeout=timeout
        )
    )


def receipt(link: SessionLink, message_id: str, told: Receipt | None) -> Receipt:
    """What became of a message, also when that is not known yet."""
    if told is not None:
        return told
    return Receipt(session_id=link.session_id, message_id=message_id, delivered=False)


def became_ready(
    link: SessionLink, record: SessionRecord | None, timeout: float | None
) -> SessionRecord:
    """The record of a session that is ready; raises why it is not."""
    if record is None:
        raise TimedOut(
            f"session {link.session_id} is not ready after {timeout or 0:g} s",
            hint="give it more time, or look at its events for what it waits for",
        )
    if record.is_over:
        raise why_over(record)
    return record


def came_to_rest(link: SessionLink, report: TurnReport | None, timeout: float | None) -> TurnReport:
    """How an idle session stands; raises `TimedOut` when it is not idle."""
    if report is not None:
        return report
    if timeout is None:
        raise Unavailable(f"session {link.session_id} is not driven any more")
    raise TimedOut(
        f"session {link.session_id} still works after {timeout:g} s",
        hint="wait longer, or abort the turn",
    )


def ended(link: SessionLink, record: SessionRecord | None) -> SessionRecord:
    """The record of a session that was stopped; raises `TimedOut` when its agent stays."""
    if record is None:
        raise TimedOut(f"session {link.session_id} did not end in time", hint="try again")
    return record


def new_message_id(given: str | None) -> str:
    """The id of a message: one that is sent again with its id is sent once."""
    if given is not None and not given.strip():
        raise WrongUse("a message's id must not be empty")
    return given or new_session_id()
