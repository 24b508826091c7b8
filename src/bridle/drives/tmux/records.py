"""The records in the journal and the input file of a terminal session.

Between the lines of the agent's transcript the journal contains observations of the pane and
reports of hooks (`{"bridle": "ready", …}`). The input file contains orders for the pane, one JSON
object per line.
"""

from typing import Literal

import msgspec

from bridle.core import structs
from bridle.core.errors import AgentError
from bridle.drives.tmux.hook_reports import Report

PREFIX = b'{"bridle":'
"""The beginning of every journal line that the agent did not write."""


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


class Observation(
    msgspec.Struct, frozen=True, kw_only=True, rename={"kind": "bridle"}, omit_defaults=True
):
    """An observation of the pane, a report of a hook, or the position in the transcript (`at`)."""

    kind: SeenKind
    evidence: str = ""
    """How it was seen; for a permission dialog, its text."""
    id: str = ""
    error: str = ""
    hint: str = ""
    count: int = 0
    report: Report | None = None
    answerable: bool = False


class Order(msgspec.Struct, frozen=True, kw_only=True):
    """Something to do at the pane. A replay compares the bytes of orders, so fields that older
    orders do not have are omitted if unset."""

    do: Literal["deliver", "interrupt", "leave", "answer"]
    id: str = ""
    text: str = ""
    allow: bool | msgspec.UnsetType = msgspec.UNSET
    """The answer to a permission dialog."""


def record_line(item: Observation | Order) -> bytes:
    """One line of the journal or the input file."""
    return msgspec.json.encode(item) + b"\n"


_seen = structs.decoder(Observation)


def observation_in(line: bytes) -> Observation | None:
    """The observation in a journal line; None for a line of the transcript."""
    if not line.startswith(PREFIX):
        return None
    try:
        return _seen.decode(line)
    except msgspec.MsgspecError:
        return None


def error_observation(
    error: AgentError, kind: Literal["not_ready", "undelivered"], message_id: str = ""
) -> Observation:
    """The observation of an error at the pane."""
    return Observation(kind=kind, id=message_id, error=error.message, hint=error.hint)
