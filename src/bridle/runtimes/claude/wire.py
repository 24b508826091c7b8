"""The lines of Claude Code: what it prints with `--output-format stream-json`, as typed messages,
and what goes to its stdin."""

from typing import Any

import msgspec

from bridle.core import structs
from bridle.core.usage import Usage
from bridle.turns.rpc import encode_line


class WireUsage(msgspec.Struct, gc=False):
    """Token counts as the Messages API writes them: input excludes both cache classes."""

    input_tokens: int | None = 0
    output_tokens: int | None = 0
    cache_read_input_tokens: int | None = 0
    cache_creation_input_tokens: int | None = 0
    output_tokens_details: "OutputDetails | None" = None


class OutputDetails(msgspec.Struct, gc=False):
    """The part of the output that is reasoning; newer versions report it."""

    thinking_tokens: int | None = 0


def usage_of(counts: WireUsage) -> Usage:
    """The same counts in Bridle's meaning."""
    details = counts.output_tokens_details
    return Usage(
        input_tokens=counts.input_tokens or 0,
        output_tokens=counts.output_tokens or 0,
        cache_read_tokens=counts.cache_read_input_tokens or 0,
        cache_write_tokens=counts.cache_creation_input_tokens or 0,
        reasoning_tokens=(details.thinking_tokens or 0) if details else 0,
    )


# -- pieces of a message that is being written ----------------------------------------------------


class TextDelta(msgspec.Struct, tag_field="type", tag="text_delta", gc=False):
    """A piece of a text block."""

    text: str


class ThinkingDelta(msgspec.Struct, tag_field="type", tag="thinking_delta", gc=False):
    """A piece of a reasoning block."""

    thinking: str


class SignatureDelta(msgspec.Struct, tag_field="type", tag="signature_delta", gc=False):
    """The seal of a reasoning block; nothing to show."""


class InputDelta(msgspec.Struct, tag_field="type", tag="input_json_delta", gc=False):
    """A piece of a tool call's arguments; they come again, whole."""


class CitationsDelta(msgspec.Struct, tag_field="type", tag="citations_delta", gc=False):
    """A source of the text; nothing to show."""


Delta = TextDelta | ThinkingDelta | SignatureDelta | InputDelta | CitationsDelta


class BlockKind(msgspec.Struct, gc=False):
    """A block that begins; only its kind matters, its content follows."""

    type: str


class MessageHead(msgspec.Struct, gc=False):
    """What is known of a message when it begins."""

    id: str
    model: str = ""


class MessageTail(msgspec.Struct, frozen=True, gc=False):
    """Why a message ended."""

    stop_reason: str | None = None


class MessageStart(msgspec.Struct, tag_field="type", tag="message_start", gc=False):
    """The model begins to answer."""

    message: MessageHead


class BlockStart(msgspec.Struct, tag_field="type", tag="content_block_start", gc=False):
    """A block begins."""

    content_block: BlockKind


class BlockDelta(msgspec.Struct, tag_field="type", tag="content_block_delta", gc=False):
    """A block grows."""

    delta: Delta


class BlockStop(msgspec.Struct, tag_field="type", tag="content_block_stop", gc=False):
    """A block is complete."""


class MessageDelta(msgspec.Struct, tag_field="type", tag="message_delta", gc=False):
    """Final token counts and stop reason: nowhere else in the stream."""

    delta: MessageTail = MessageTail()
    usage: WireUsage | None = None


class MessageStop(msgspec.Struct, tag_field="type", tag="message_stop", gc=False):
    """The message is complete."""


class Ping(msgspec.Struct, tag_field="type", tag="ping", gc=False):
    """A sign of life."""


ApiEvent = BlockDelta | BlockStart | BlockStop | MessageStart | MessageDelta | MessageStop | Ping


class StreamEvent(msgspec.Struct, tag_field="type", tag="stream_event", gc=False):
    """One event of the model's answer; `parent_tool_use_id` is set inside a sub-agent."""

    event: ApiEvent
    parent_tool_use_id: str | None = None


# -- whole messages -------------------------------------------------------------------------------


class Block(msgspec.Struct):
    """A content block of any kind; the fields of each kind side by side."""

    type: str
    text: str = ""
    thinking: str = ""
    id: str = ""
    name: str = ""
    input: Any = None
    tool_use_id: str = ""
    content: Any = None
    is_error: bool | None = False


class AssistantBody(msgspec.Struct):
    """The message inside an `assistant` line: one block of it, as a rule."""

    id: str
    model: str = ""
    content: list[Block] = []
    stop_reason: str | None = None
    usage: WireUsage | None = None


class Assistant(msgspec.Struct, tag_field="type", tag="assistant"):
    """A complete block of a message, or the CLI's own message about a failure (`error`)."""

    message: AssistantBody
    parent_tool_use_id: str | None = None
    error: str | None = None


class UserBody(msgspec.Struct):
    """The message inside a `user` line: tool results, or text."""

    content: str | list[Block] = ""


class User(msgspec.Struct, tag_field="type", tag="user"):
    """What the model is shown next: tool results, a sub-agent's prompt, a summary, an echo."""

    message: UserBody
    parent_tool_use_id: str | None = None
    uuid: str | None = None
    isReplay: bool = False
    """An echo: of a message from Bridle, under its id, or of a command's output."""


class System(msgspec.Struct, tag_field="type", tag="system"):
    """Everything the CLI says about itself; `subtype` says which fields are present."""

    subtype: str = ""
    session_id: str | None = None
    # init
    model: str | None = None
    claude_code_version: str | None = None
    # status
    status: str | None = None
    compact_result: str | None = None
    compact_error: str | None = None
    # api_retry
    attempt: int = 0
    retry_delay_ms: float | None = None
    error_status: int | None = None
    error: str | None = None
    # tasks, permission_denied
    task_id: str = ""
    tool_use_id: str | None = None
    tool_name: str = ""
    patch: "TaskPatch | None" = None
    message: str | None = None
    # informational
    content: str | None = None
    prevent_continuation: bool | None = None


class TaskPatch(msgspec.Struct):
    """What changed in a background task."""

    status: str | None = None


class ModelTotals(msgspec.Struct):
    """What one model used, sub-agents and compaction included."""

    inputTokens: int = 0
    outputTokens: int = 0
    cacheReadInputTokens: int = 0
    cacheCreationInputTokens: int = 0
    thinkingTokens: int | None = None
    """Newer versions only."""
    costUSD: float | None = None
    costBasis: str | None = None


class Denial(msgspec.Struct):
    """A tool call that was refused."""

    tool_name: str = ""
    tool_use_id: str = ""


class Result(msgspec.Struct, tag_field="type", tag="result"):
    """How the work went. Several may come: background work wakes the model again."""

    subtype: str = ""
    is_error: bool = False
    session_id: str | None = None
    result: str | None = None
    errors: list[Any] = []
    api_error_status: int | None = None
    terminal_reason: str | None = None
    stop_reason: str | None = None
    total_cost_usd: float | None = None
    modelUsage: dict[str, ModelTotals] = {}
    """Totals of the process; if the next field is present, of the whole conversation, earlier
    processes included."""
    model_usage_since_last_result: dict[str, ModelTotals] | None = None
    """Newer versions: what this process used since its last result."""
    permission_denials: list[Denial] = []
    origin: Any = None
    """What woke the model, if it was not a message from Bridle."""


class ControlBody(msgspec.Struct):
    """What the CLI asks of its host."""

    subtype: str = ""
    tool_name: str = ""
    tool_use_id: str | None = None
    input: Any = None


class ControlRequest(msgspec.Struct, tag_field="type", tag="control_request"):
    """The CLI asks and waits for a `control_response` with the same `request_id`."""

    request_id: str
    request: ControlBody


class ControlAnswer(msgspec.Struct, frozen=True):
    """What the CLI answered: `response` depends on the request, `error` says why it failed."""

    subtype: str = ""
    request_id: str = ""
    error: str | None = None
    response: Any = None


class ControlResponse(msgspec.Struct, tag_field="type", tag="control_response"):
    """The answer to a request from Bridle."""

    response: ControlAnswer = ControlAnswer()


class ControlCancel(msgspec.Struct, tag_field="type", tag="control_cancel_request"):
    """The CLI withdraws a question."""

    request_id: str = ""


class CommandLifecycle(msgspec.Struct, tag_field="type", tag="command_lifecycle"):
    """How far a message from Bridle got: `queued`, `started`, `completed` or `cancelled`. Newer
    versions only."""

    command_uuid: str = ""
    state: str = ""


class RateLimitInfo(msgspec.Struct, frozen=True):
    """The state of an account relative to its limit."""

    status: str | None = None
    resetsAt: float | None = None
    """Unix seconds."""


class RateLimitEvent(msgspec.Struct, tag_field="type", tag="rate_limit_event"):
    """The account's limit moved; only with a subscription login."""

    rate_limit_info: RateLimitInfo = RateLimitInfo()


class KeepAlive(msgspec.Struct, tag_field="type", tag="keep_alive"):
    """A sign of life."""


Line = (
    StreamEvent
    | System
    | Assistant
    | User
    | Result
    | ControlRequest
    | ControlResponse
    | ControlCancel
    | CommandLifecycle
    | RateLimitEvent
    | KeepAlive
)

line_decoder: "msgspec.json.Decoder[Line]" = structs.decoder(Line)


def request_line(request_id: str, subtype: str, **fields: Any) -> bytes:
    """A request from Bridle; its answer has the same id."""
    request = {"subtype": subtype, **fields}
    return encode_line({"type": "control_request", "request_id": request_id, "request": request})


def answer_line(request_id: str, response: dict[str, Any]) -> bytes:
    """The answer to a request from Claude."""
    return _response(request_id, subtype="success", response=response)


def refusal_line(request_id: str, subtype: str) -> bytes:
    """The answer to an unknown request."""
    return _response(request_id, subtype="error", error=f"bridle does not answer {subtype}")


def _response(request_id: str, **response: Any) -> bytes:
    answer = {"request_id": request_id, **response}
    return encode_line({"type": "control_response", "response": answer})
