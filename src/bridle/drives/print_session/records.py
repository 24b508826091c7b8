"""The records in the journal and the input of a session with a process for each turn.

The journal contains the lines that the processes wrote, each with a prefix, and between them what
was done (`Mark`). The input contains what to do (`Order`), one JSON object per line.
"""

from typing import Any, Literal

import msgspec

from bridle.core import structs
from bridle.core.errors import ErrorInfo

OUT, ERR, OURS = b"1 ", b"2 ", b"= "
"""The prefixes of journal lines: stdout, stderr, Bridle. The agent cannot write a line of Bridle,
because its lines get another prefix."""


class Order(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Something to do: start a process for a prompt, write bytes to the running process, or close
    its stdin."""

    do: Literal["turn", "say", "close"]
    id: str = ""
    """The message that is the prompt."""
    text: str = ""
    images: tuple[str, ...] = ()
    model: str | None = None
    fresh: bool = False
    """Begin a new conversation, because the old one could not be resumed."""
    number: int = 0
    """The process that `say` and `close` are for."""
    data: bytes = b""


class Planned(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What is needed to understand the output of a process. No secrets: only variables that name
    files or folders."""

    version: str | None
    binary: str
    launcher: tuple[str, ...] = ()
    cwd: str
    places: dict[str, str] = {}
    """Its environment variables that name a file or folder."""
    private_dirs: tuple[str, ...] = ()
    native_session_id: str | None = None
    resume: str | None = None
    model: str | None = None
    noted: dict[str, Any] = {}
    """What the agent's files contained about the conversation before."""
    watch_stderr: bool = False
    """Whether the adapter reads its stderr."""
    fed: int = 0
    """Bytes written to its stdin at the start."""
    upto: int = 0
    """The end of its order in the input."""


class Mark(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Something that was done, or the position in the output of a process (`at`).

    `planned`: a process is about to be started. `started`: it runs. `unstarted`: it was not
    started, because of `failure` or because it was no longer wanted. `ended`: it has ended.
    """

    what: Literal["at", "planned", "started", "unstarted", "ended"]
    number: int
    """Which process of this run, counted from 1."""
    out: int = 0
    """Bytes of its stdout, and below of its stderr, that are in the journal."""
    err: int = 0
    upto: int = 0
    """Orders before this byte of the input are complete."""
    plan: Planned | None = None
    pid: int | None = None
    resumed: bool = False
    """Whether the process that was not started would have resumed a conversation."""
    failure: ErrorInfo | None = None
    code: int | None = None
    stderr: str = ""


def order_line(order: Order) -> bytes:
    """The line of an order in the input."""
    return msgspec.json.encode(order) + b"\n"


def mark_line(mark: Mark) -> bytes:
    """The line of a mark in the journal."""
    return OURS + msgspec.json.encode(mark) + b"\n"


_marks = structs.decoder(Mark)
_orders = structs.decoder(Order)


def mark_in(line: bytes) -> Mark | None:
    """The mark in a journal line; None for a line of the agent."""
    if not line.startswith(OURS):
        return None
    try:
        return _marks.decode(line[len(OURS) :])
    except msgspec.MsgspecError:
        return None


def order_in(line: bytes) -> Order:
    """The order in a line of the input."""
    return _orders.decode(line)
