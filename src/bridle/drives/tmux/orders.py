"""What stands in the files of a terminal session beside the agent's own lines.

The journal holds observations of the pane and reports of hooks between the lines of the transcript
(`{"bridle": "ready", …}`); the input file holds orders for the pane, one JSON object a line.
"""

from typing import Literal

import msgspec

from bridle.core.errors import AgentError
from bridle.drives.tmux.reports import Report

PREFIX = b'{"bridle":'
"""How every line of the journal begins that the agent did not write."""


SeenKind = Literal[
    "ready",
    "not_ready",
    "undelivered",
    "rewound",
    "settled",
    "at",
    "hook",
    "due",
    "permission",
    "answered",
    "gone",
]


class Seen(
    msgspec.Struct, frozen=True, kw_only=True, rename={"kind": "bridle"}, omit_defaults=True
):
    """Something that was seen at the pane or told by a hook, or how far the transcript was read
    (`at`)."""

    kind: SeenKind
    evidence: str = ""
    """By what it was seen; of a permission dialog, its text."""
    id: str = ""
    error: str = ""
    hint: str = ""
    count: int = 0
    report: Report | None = None
    answerable: bool = False


class Order(msgspec.Struct, frozen=True, kw_only=True):
    """Something to be done at the pane. Its bytes are compared when a session is played again, so
    what older ones did not have is left out."""

    do: Literal["deliver", "interrupt", "leave", "answer"]
    id: str = ""
    text: str = ""
    allow: bool | msgspec.UnsetType = msgspec.UNSET
    """The answer to a permission dialog."""


def line_of(item: Seen | Order) -> bytes:
    """One line of journal or input."""
    return msgspec.json.encode(item) + b"\n"


_seen = msgspec.json.Decoder(Seen)


def seen_in(line: bytes) -> Seen | None:
    """The observation that a line of the journal is; None for a line of the transcript."""
    if not line.startswith(PREFIX):
        return None
    try:
        return _seen.decode(line)
    except msgspec.MsgspecError:
        return None


def told(
    error: AgentError, kind: Literal["not_ready", "undelivered"], message_id: str = ""
) -> Seen:
    """What is written down of an error at the pane."""
    return Seen(kind=kind, id=message_id, error=error.message, hint=error.hint)
