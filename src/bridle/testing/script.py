"""A script for the scripted model, after it is loaded and checked.

These are the normalised types: shorthands are part of `tool_calls` and defaults are filled in, so a
player needs only this file. `script_to_json` returns the same as plain data.
"""

from typing import Annotated, Any, Literal

import msgspec

ENDED_TEXT = "The script has ended."
"""The answer to a request for more turns than the script has."""

NEUTRAL_TOOLS = ("shell", "read_file", "write_file", "edit_file")
"""Tool names that are translated to whatever tools the agent offers."""

StopReason = Literal["end_turn", "tool_use", "max_tokens", "stop_sequence", "refusal"]

FaultKind = Literal[
    "authentication",
    "permission",
    "rate_limit",
    "usage_limit",
    "quota",
    "server_error",
    "overloaded",
    "context_overflow",
    "not_found",
    "bad_request",
    "too_large",
]

Count = Annotated[int, msgspec.Meta(ge=0)]
Positive = Annotated[int, msgspec.Meta(ge=1)]
Seconds = Annotated[float, msgspec.Meta(ge=0, le=600)]
Status = Annotated[int, msgspec.Meta(ge=400, le=599)]


class Usage(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Tokens of one turn, in Bridle's meaning; each wire gets them in its own."""

    input_tokens: Count = 100
    """Fresh input: neither read from nor written to a cache."""
    output_tokens: Count = 20
    """All output, reasoning included."""
    cache_read_tokens: Count = 0
    """Input that came from the prompt cache."""
    cache_write_tokens: Count = 0
    """Input that was written to the prompt cache."""
    reasoning_tokens: Count = 0
    """The part of `output_tokens` that was reasoning."""


class ToolCall(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One tool call of a turn."""

    name: str
    """A neutral name (`shell`, `read_file`, `write_file`, `edit_file`) or a native one."""
    args: dict[str, Any] = {}
    """Arguments: `command`; `path`; `path`, `content`; `path`, `old`, `new`; or native ones."""
    id: str | None = None
    """The call id to send; made up when absent."""
    unchecked: bool = False
    """Send a native name even when the request does not offer such a tool."""


class Fault(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Something that goes wrong, or slowly, in place of or during a reply."""

    kind: FaultKind | None = None
    """A failure in the real shape of the provider that is played."""
    status: Status | None = None
    """HTTP status; with no `kind`, the kind follows from it."""
    body: Any = None
    """Body to send instead of the provider's error shape (text, or JSON data)."""
    headers: dict[str, str] = {}
    """Extra response headers."""
    retry_after: Seconds | None = None
    """Seconds for the `retry-after` header."""
    resets_at: Count | None = None
    """When a limit ends, in Unix seconds."""
    resets_in: Count | None = None
    """When a limit ends, in seconds from the moment the fault is served."""
    message: str | None = None
    """The provider's message text."""
    error_type: str | None = None
    """The provider's error type."""
    in_stream: bool | None = None
    """Send the error inside a stream that began well (streaming requests only)."""
    times: Positive | None = None
    """How many times it is served. Unset: once if the turn also has a reply, else always."""
    cut: bool | Count = False
    """Drop the connection in mid-reply: after that many bytes, or half way when `true`."""
    malformed: bool = False
    """Break a frame in mid-reply, then end the stream."""
    stall: Seconds | None = None
    """Pause this long half way through the reply, then continue."""
    delay: Seconds | None = None
    """Wait before the first byte of the answer."""
    until: str | None = None
    """Wait before the first byte of the answer until this file exists."""
    slow: Seconds | None = None
    """Wait this long before each delta of the reply."""


class Turn(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One reply of the model, or a fault, or a fault followed by the reply."""

    text: str = ""
    thinking: str = ""
    tool_calls: tuple[ToolCall, ...] = ()
    usage: Usage = Usage()
    stop_reason: StopReason = "end_turn"
    chunks: Positive = 1
    """Into how many deltas the text (and the thinking) is split."""
    chunk_size: Positive | None = None
    """Characters per delta; wins over `chunks`."""
    model: str | None = None
    """The model name reported; unset: the one the request asked for."""
    fault: Fault | None = None

    @property
    def has_reply(self) -> bool:
        """Whether the turn says anything, apart from its fault."""
        return bool(self.text or self.thinking or self.tool_calls)


class Match(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which requests a conversation answers; all the conditions given must hold."""

    prompt_contains: str | None = None
    """A piece of the first prompt of the conversation."""
    system_contains: str | None = None
    """A piece of the system prompt."""
    model: str | None = None
    """The exact model name asked for."""
    header: dict[str, str] = {}
    """Request headers with the exact value each must have."""


class Conversation(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A separate script for some of the agents on the same server."""

    name: str
    match: Match | None = None
    turns: tuple[Turn, ...] = ()


class Script(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A whole script: the turns for everyone, and conversations for some."""

    version: Literal[1] = 1
    turns: tuple[Turn, ...] = ()
    conversations: tuple[Conversation, ...] = ()


def script_to_json(script: Script) -> dict[str, Any]:
    """Return the script as plain JSON data with every default filled in."""
    data: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(script))
    return data


class ScriptProblem(msgspec.Struct, frozen=True, kw_only=True):
    """One mistake in a script."""

    source: str
    """The file, or `<script>` when the script was given as text or data."""
    line: int | None
    """Counted from 1; None when the script was given as data."""
    message: str

    def __str__(self) -> str:
        place = self.source if self.line is None else f"{self.source}:{self.line}"
        return f"{place}: {self.message}"


class ScriptError(ValueError):
    """A script cannot be played; `problems` names all mistakes, not only the first."""

    def __init__(self, problems: list[ScriptProblem]) -> None:
        self.problems = problems
        super().__init__("\n".join(str(problem) for problem in problems))
