"""The scripted agent's wire: one JSON object a line; `type` names its kind."""

from typing import Any

import msgspec

from bridle.core import structs
from bridle.core.usage import NO_USAGE, Usage


class WireError(msgspec.Struct, frozen=True, kw_only=True):
    """Why something failed: an HTTP status of the model service, or one of Bridle's kinds."""

    message: str = ""
    status: int | None = None
    kind: str | None = None
    until: str | None = None


class _Message(msgspec.Struct, frozen=True, kw_only=True, tag_field="type"):
    pass


class Session(_Message, frozen=True, kw_only=True, tag="session"):
    """The agent is there; it says that it is scripted."""

    id: str
    model: str
    version: str
    scripted: bool = True
    resumed: bool = False
    images: int = 0


class TurnStart(_Message, frozen=True, kw_only=True, tag="turn_start"):
    """The agent took the prompt."""


class MessageStart(_Message, frozen=True, kw_only=True, tag="message_start"):
    """A reply begins to arrive."""

    id: str


class Text(_Message, frozen=True, kw_only=True, tag="text"):
    """A piece of the reply's text."""

    text: str


class Thinking(_Message, frozen=True, kw_only=True, tag="thinking"):
    """A piece of the reply's thinking."""

    text: str


class MessageEnd(_Message, frozen=True, kw_only=True, tag="message_end"):
    """The reply is complete."""

    id: str
    text: str = ""
    usage: Usage = NO_USAGE
    model: str | None = None
    stop_reason: str | None = None
    cost_usd: float | None = None


class ToolStart(_Message, frozen=True, kw_only=True, tag="tool_start"):
    """A tool is called."""

    id: str
    name: str
    args: Any = None


class ToolUpdate(_Message, frozen=True, kw_only=True, tag="tool_update"):
    """The next piece of what a tool printed, while it still runs."""

    id: str
    text: str


class ToolEnd(_Message, frozen=True, kw_only=True, tag="tool_end"):
    """A tool ended."""

    id: str
    is_error: bool
    result: str


class Refused(_Message, frozen=True, kw_only=True, tag="refused"):
    """The agent itself refused a tool call: its boundary, or a tool that is not allowed."""

    id: str
    name: str
    reason: str
    by: str


class Permission(_Message, frozen=True, kw_only=True, tag="permission"):
    """The agent asks whether it may run a tool, and waits for a line on its stdin."""

    request_id: str
    id: str
    name: str
    args: Any = None


class Guarded(_Message, frozen=True, kw_only=True, tag="guarded"):
    """The agent will ask before each tool call."""


class GuardQuestion(_Message, frozen=True, kw_only=True, tag="guard"):
    """The agent asks its guard about a tool call, and waits for a line on its stdin."""

    request_id: str
    id: str
    name: str
    args: Any = None
    cwd: str | None = None


class Retry(_Message, frozen=True, kw_only=True, tag="retry"):
    """A model call failed and will be made again."""

    attempt: int
    delay_ms: int
    error: WireError


class Error(_Message, frozen=True, kw_only=True, tag="error"):
    """The turn failed."""

    message: str
    status: int | None = None
    kind: str | None = None
    until: str | None = None


class Ready(_Message, frozen=True, kw_only=True, tag="ready"):
    """A live conversation can begin."""


class Taken(_Message, frozen=True, kw_only=True, tag="taken"):
    """A message of a live conversation is in the turn that is played."""

    id: str


class NotTaken(_Message, frozen=True, kw_only=True, tag="not_taken"):
    """A message of a live conversation that the agent did not take, and forgot."""

    id: str
    reason: str


class TurnEnd(_Message, frozen=True, kw_only=True, tag="turn_end"):
    """A turn of a live conversation is over; `error` came before it if it failed."""


class Result(_Message, frozen=True, kw_only=True, tag="result"):
    """The turn was completed."""


Message = (
    Session
    | TurnStart
    | MessageStart
    | Text
    | Thinking
    | MessageEnd
    | ToolStart
    | ToolUpdate
    | ToolEnd
    | Refused
    | Permission
    | Guarded
    | GuardQuestion
    | Retry
    | Error
    | Result
    | Ready
    | Taken
    | NotTaken
    | TurnEnd
)

_decoder: "msgspec.json.Decoder[Message] | None" = None


def decode(line: bytes) -> Message | None:
    """The message in a line; None for a line that is not of this wire."""
    global _decoder
    if _decoder is None:
        _decoder = structs.decoder(Message)
    try:
        return _decoder.decode(line)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return None


_MEDIA = {"png": "image/png", "gif": "image/gif", "webp": "image/webp"}


def image_part(path: str) -> dict[str, str]:
    """An image as the agent reads it."""
    ending = path.rpartition(".")[2].lower()
    return {"path": path, "media_type": _MEDIA.get(ending, "image/jpeg")}


def command_line(kind: str, **fields: Any) -> bytes:
    """A command to the agent of a live conversation, as a line."""
    return msgspec.json.encode({"type": kind, **fields}) + b"\n"


def answer_line(request_id: str, allowed: bool, reason: str) -> bytes:
    """The line that answers a permission request."""
    answer = {"request_id": request_id, "allow": allowed, "reason": reason}
    return msgspec.json.encode(answer) + b"\n"
