"""What the wire protocols have in common: the question, the reply, the frames."""

import json
import secrets
from string import ascii_lowercase
from typing import Any, Protocol

import msgspec

from bridle.testing.script import StopReason, Usage


class OfferedTool(msgspec.Struct, frozen=True, kw_only=True):
    """A tool that a request offers to the model."""

    name: str
    kind: str = "function"
    """`function` (arguments by JSON Schema) or `custom` (one free text)."""
    schema: dict[str, Any] = {}
    description: str = ""
    namespace: str | None = None


class PastReply(msgspec.Struct, frozen=True, kw_only=True):
    """A reply of the model that the request repeats as history."""

    text: str = ""
    call_ids: tuple[str, ...] = ()


class ToolResult(msgspec.Struct, frozen=True, kw_only=True):
    """A tool result in a request."""

    call_id: str
    text: str
    is_error: bool | None = None
    """None where the protocol does not say."""


class Question(msgspec.Struct, frozen=True, kw_only=True):
    """What a request asks, in the same words for all protocols."""

    model: str = ""
    stream: bool = False
    system: str = ""
    user_texts: tuple[str, ...] = ()
    """All texts of the user role, including context that the agent added."""
    replies: tuple[PastReply, ...] = ()
    tools: tuple[OfferedTool, ...] = ()
    tool_results: tuple[ToolResult, ...] = ()
    session: str | None = None
    """The conversation's identity, where the request carries one."""
    purpose: str | None = None
    """What the request says it is for, where it says so."""
    json_schema: dict[str, Any] | None = None
    """The schema the answer must fit, if one is given."""

    @property
    def prompts(self) -> tuple[str, ...]:
        """The texts people wrote: user texts without the context that agents put around them."""
        return tuple(text.strip() for text in self.user_texts if not _is_injected(text))


_INJECTED = (
    "<system-reminder>",
    "<environment_context>",
    "<user_instructions>",
    "<permissions instructions>",
    "<skills_instructions>",
    "<session_context>",
    "<turn_aborted>",
    "# AGENTS.md instructions",
    "<environment_details>",
    "Warning: apply_patch was requested via",
    "[Request interrupted by user",
)
_INJECTED_WHOLE = ("Continue from where you left off.",)


def _is_injected(text: str) -> bool:
    bare = text.strip()
    return not bare or bare.startswith(_INJECTED) or bare in _INJECTED_WHOLE


class NativeCall(msgspec.Struct, frozen=True, kw_only=True):
    """A tool call in terms of the tools that the request offers."""

    id: str | None = None
    name: str
    kind: str = "function"
    args: dict[str, Any] = {}
    text: str = ""
    """The input of a `custom` tool."""
    namespace: str | None = None

    @property
    def args_json(self) -> str:
        """The arguments as compact JSON."""
        return json.dumps(self.args, ensure_ascii=False, separators=(",", ":"))


class Reply(msgspec.Struct, frozen=True, kw_only=True):
    """The model's reply."""

    model: str
    text_chunks: tuple[str, ...] = ()
    thinking_chunks: tuple[str, ...] = ()
    calls: tuple[NativeCall, ...] = ()
    usage: Usage = Usage()
    stop_reason: StopReason = "end_turn"

    @property
    def text(self) -> str:
        """The whole text."""
        return "".join(self.text_chunks)

    @property
    def thinking(self) -> str:
        """The whole thinking."""
        return "".join(self.thinking_chunks)


class Problem(msgspec.Struct, frozen=True, kw_only=True):
    """A failure to send in a provider's own shape."""

    kind: str
    status: int | None = None
    message: str | None = None
    error_type: str | None = None
    body: Any = None
    headers: dict[str, str] = {}
    retry_after: float | None = None
    resets_at: int | None = None
    now: float = 0.0
    model: str = ""


class Refusal(msgspec.Struct, frozen=True, kw_only=True):
    """A failure as it goes over the wire."""

    status: int
    headers: dict[str, str]
    body: Any


class Frame(msgspec.Struct, frozen=True, kw_only=True):
    """One piece of a stream; `delta` marks those that bring new text."""

    data: bytes
    delta: bool = False


class Wire(Protocol):
    """One protocol: reads questions, writes replies and failures."""

    name: str
    content_type: str

    def read(self, path: str, headers: dict[str, str], body: dict[str, Any]) -> Question:
        """Read what a request asks; unknown content is skipped, never refused."""

    def plain(self, reply: Reply) -> dict[str, Any]:
        """Return the body of a reply that is not streamed."""

    def frames(self, reply: Reply) -> list[Frame]:
        """Return the stream of a reply, in order."""

    def refuse(self, problem: Problem) -> Refusal:
        """Return a failure in the provider's shape."""

    def stream_refusal(self, problem: Problem, refusal: Refusal) -> list[Frame]:
        """Return the frames of a stream that begins normally and then fails."""


def sse(data: Any, event: str | None = None, *, delta: bool = False) -> Frame:
    """Return one server-sent event with JSON data."""
    text = data if isinstance(data, str) else json.dumps(data, ensure_ascii=False)
    head = f"event: {event}\n" if event else ""
    return Frame(data=f"{head}data: {text}\n\n".encode(), delta=delta)


def new_id(prefix: str) -> str:
    """Return a fresh id like a provider's, with letters only.

    Agents look for status codes in error texts that carry such an id (Pi 0.74 treats any "500" as a
    server error and tries again), so an id must never contain a digit.
    """
    return prefix + "".join(secrets.choice(ascii_lowercase) for _ in range(24))


def text_of(content: object) -> str:
    """Return the text of a message content, which is a string or a list of parts."""
    if isinstance(content, str):
        return content
    return "\n".join(texts_of(content))


def texts_of(content: object) -> list[str]:
    """Return the texts of a message content, one for each part that has one."""
    if isinstance(content, str):
        return [content]
    if not isinstance(content, list):
        return []
    parts = [part.get("text") for part in content if isinstance(part, dict)]
    return [part for part in parts if isinstance(part, str)]


def dicts(value: object) -> list[dict[str, Any]]:
    """Return the mappings in a list; empty if it is not a list."""
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def whole_seconds(value: float) -> str:
    """Write seconds for a header: an integer where it is one."""
    return str(int(value)) if value == int(value) else f"{value:g}"
