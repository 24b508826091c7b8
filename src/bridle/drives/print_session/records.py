"""What stands in the journal and the input of a session with a process for each turn.

The journal holds the lines that the processes wrote, each with a mark before it, and between them
what was done (`Mark`). The input holds what is to be done (`Order`), one JSON object a line.
"""

from typing import Any, Literal

import msgspec

from bridle.core.errors import ErrorInfo

OUT, ERR, OURS = b"1 ", b"2 ", b"= "
"""How lines of the journal begin: one of stdout, one of stderr, one of ours. The agent cannot write
one of ours: what it says has a mark of its own before it."""


class Order(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Something to be done: start a process for a prompt, give the one that runs some bytes, or
    close its stdin."""

    do: Literal["turn", "say", "close"]
    id: str = ""
    """The message that is the prompt."""
    text: str = ""
    images: tuple[str, ...] = ()
    model: str | None = None
    fresh: bool = False
    """Begin a new conversation, although there was one: it could not be taken up."""
    number: int = 0
    """The process that `say` and `close` are for."""
    data: bytes = b""


class Planned(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What must be known of a process to understand what it prints: no secret, no variable that
    is not a place."""

    version: str | None
    binary: str
    launcher: tuple[str, ...] = ()
    cwd: str
    places: dict[str, str] = {}
    """Its variables that name a file or folder."""
    private_dirs: tuple[str, ...] = ()
    native_session_id: str | None = None
    resume: str | None = None
    model: str | None = None
    noted: dict[str, Any] = {}
    """What the agent's files said of the conversation before."""
    watch_stderr: bool = False
    """Whether its stderr tells what its stdout does not."""
    fed: int = 0
    """Bytes that its stdin was given at the start."""
    upto: int = 0
    """Where its order ends in the input."""


class Mark(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Something that was done, or how far the files of a process were read (`at`).

    `planned`: a process is about to be started. `started`: it is there. `unstarted`: it is not,
    because of `failure`, or because nobody wanted it any more. `ended`: it is gone.
    """

    what: Literal["at", "planned", "started", "unstarted", "ended"]
    number: int
    """Which process of this run, counted from 1."""
    out: int = 0
    """Bytes of its stdout and of its stderr that stand in the journal."""
    err: int = 0
    upto: int = 0
    """Orders before this byte of the input are done with."""
    plan: Planned | None = None
    pid: int | None = None
    resumed: bool = False
    """Whether what could not be started was to take a conversation up."""
    failure: ErrorInfo | None = None
    code: int | None = None
    stderr: str = ""


def order_line(order: Order) -> bytes:
    """One line of input."""
    return msgspec.json.encode(order) + b"\n"


def mark_line(mark: Mark) -> bytes:
    """One line of journal."""
    return OURS + msgspec.json.encode(mark) + b"\n"


_marks = msgspec.json.Decoder(Mark)
_orders = msgspec.json.Decoder(Order)


def mark_in(line: bytes) -> Mark | None:
    """The mark that a line of the journal is; None for a line of the agent's."""
    if not line.startswith(OURS):
        return None
    try:
        return _marks.decode(line[len(OURS) :])
    except msgspec.MsgspecError:
        return None


def order_in(line: bytes) -> Order:
    """The order that a line of the input is."""
    return _orders.decode(line)
