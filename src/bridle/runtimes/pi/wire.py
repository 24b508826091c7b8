"""The lines that `pi --mode json` and `pi --mode rpc` print, as far as Bridle reads them.

Only the fields that are used are declared: what is not declared is skipped without being built,
which keeps the older dialect's repeated whole messages cheap.
"""

from typing import Any

import msgspec

from bridle.core import structs
from bridle.core.usage import Usage

REFUSAL = (
    "Nobody is there to give permission for this tool."
    " Do without it, or ask to be run with permission bypass."
)
"""What the model reads when nobody can give permission; a refusal is recognised by it."""
ASK_TITLE = "bridle permission request"
"""The title of the dialog by which Bridle's extension asks in a live conversation."""


class Cost(msgspec.Struct, frozen=True):
    """What a message cost, in US dollars; all zero when Pi knows no price for the model."""

    total: float = 0.0


class WireUsage(msgspec.Struct, frozen=True, rename="camel"):
    """Tokens of one message. `input` excludes cached tokens; `output` includes reasoning."""

    input: int = 0
    output: int = 0
    cache_read: int = 0
    cache_write: int = 0
    reasoning: int = 0
    cost: Cost = Cost()

    def counted(self) -> Usage:
        """The same counts in Bridle's meaning."""
        return Usage(
            input_tokens=self.input,
            output_tokens=self.output,
            cache_read_tokens=self.cache_read,
            cache_write_tokens=self.cache_write,
            reasoning_tokens=self.reasoning,
        )


class Message(msgspec.Struct, frozen=True, rename="camel"):
    """A message of any role; the later fields are an assistant's."""

    role: str = ""
    content: msgspec.Raw = msgspec.Raw(b"[]")
    provider: str = ""
    model: str = ""
    usage: WireUsage = WireUsage()
    stop_reason: str = ""
    error_message: str = ""
    response_id: str | None = None

    @property
    def full_model(self) -> str:
        """The model as Pi names it everywhere: `provider/id`."""
        return f"{self.provider}/{self.model}" if self.provider else self.model


class Block(msgspec.Struct, frozen=True):
    """A content block of a message or of a tool's result."""

    type: str = ""
    text: str = ""
    thinking: str = ""


class Update(msgspec.Struct, frozen=True, rename="camel"):
    """A piece of a message: `text_delta`, `thinking_end`, `toolcall_start` and so on."""

    type: str = ""
    delta: str = ""
    content: str = ""


class ToolResult(msgspec.Struct, frozen=True):
    """What a tool gave back."""

    content: msgspec.Raw = msgspec.Raw(b"[]")


class CompactionResult(msgspec.Struct, frozen=True):
    """A finished compaction; only the newer dialect tells its usage."""

    usage: WireUsage | None = None


class _Line(msgspec.Struct, frozen=True, rename="camel", tag_field="type"):
    pass


class SessionHeader(_Line, frozen=True, tag="session"):
    """The first line."""

    id: str
    cwd: str = ""
    parent_session: str | None = None


class AgentStart(_Line, frozen=True, tag="agent_start"):
    """The agent begins to work; again after a retry or a compaction."""


class AgentEnd(_Line, frozen=True, tag="agent_end"):
    """The agent stopped working, perhaps only until a retry."""

    will_retry: bool = False


class AgentSettled(_Line, frozen=True, tag="agent_settled"):
    """Nothing more follows. Newer dialect only."""

    aborted: bool = False


class MessageStart(_Line, frozen=True, tag="message_start"):
    """A message begins."""

    message: Message


class MessageUpdate(_Line, frozen=True, rename="camel", tag="message_update"):
    """A piece of an assistant's message."""

    assistant_message_event: Update


class MessageEnd(_Line, frozen=True, tag="message_end"):
    """A message is complete; the only place where usage is counted."""

    message: Message


class ToolStart(_Line, frozen=True, rename="camel", tag="tool_execution_start"):
    """A tool begins."""

    tool_call_id: str
    tool_name: str = ""
    args: Any = None


class ToolUpdate(_Line, frozen=True, rename="camel", tag="tool_execution_update"):
    """Output of a running tool so far; the whole of it each time."""

    tool_call_id: str
    partial_result: ToolResult | None = None


class ToolEnd(_Line, frozen=True, rename="camel", tag="tool_execution_end"):
    """A tool ended."""

    tool_call_id: str
    tool_name: str = ""
    result: ToolResult | None = None
    is_error: bool = False


class CompactionStart(_Line, frozen=True, tag="compaction_start"):
    """The context is about to be shortened."""

    reason: str = ""


class CompactionEnd(_Line, frozen=True, rename="camel", tag="compaction_end"):
    """The context was shortened, or not."""

    reason: str = ""
    result: CompactionResult | None = None
    aborted: bool = False
    will_retry: bool = False
    error_message: str = ""


class AutoCompactionStart(CompactionStart, frozen=True, tag="auto_compaction_start"):
    """The same by the name that Pi used before 0.66."""


class AutoCompactionEnd(CompactionEnd, frozen=True, rename="camel", tag="auto_compaction_end"):
    """The same by the name that Pi used before 0.66."""


class RetryStart(_Line, frozen=True, rename="camel", tag="auto_retry_start"):
    """A failed model call will be made again."""

    attempt: int = 1
    delay_ms: int | None = None
    error_message: str = ""


class SummaryRetry(_Line, frozen=True, rename="camel", tag="summarization_retry_scheduled"):
    """A failed call for a summary will be made again."""

    attempt: int = 1
    delay_ms: int | None = None
    error_message: str = ""


class RetryEnd(_Line, frozen=True, tag="auto_retry_end"):
    """Retrying is over."""

    success: bool = True


class TurnStart(_Line, frozen=True, tag="turn_start"):
    """One model call with its tools begins."""


class TurnEnd(_Line, frozen=True, tag="turn_end"):
    """It ended; repeats what the messages said."""


class QueueUpdate(_Line, frozen=True, tag="queue_update"):
    """Steering or follow-up messages were queued or taken; the whole queue each time."""

    steering: tuple[str, ...] = ()


class EntryAppended(_Line, frozen=True, tag="entry_appended"):
    """The session file got an entry that is no message."""


class SessionInfoChanged(_Line, frozen=True, tag="session_info_changed"):
    """The session was named."""


class ThinkingLevelChanged(_Line, frozen=True, tag="thinking_level_changed"):
    """The thinking level was set."""


class SummaryRetryStart(_Line, frozen=True, tag="summarization_retry_attempt_start"):
    """The call for a summary is made again."""


class SummaryRetryEnd(_Line, frozen=True, tag="summarization_retry_finished"):
    """Retrying the summary is over."""


Line = (
    SessionHeader
    | AgentStart
    | AgentEnd
    | AgentSettled
    | MessageStart
    | MessageUpdate
    | MessageEnd
    | ToolStart
    | ToolUpdate
    | ToolEnd
    | CompactionStart
    | CompactionEnd
    | AutoCompactionStart
    | AutoCompactionEnd
    | RetryStart
    | RetryEnd
    | SummaryRetry
    | SummaryRetryStart
    | SummaryRetryEnd
    | TurnStart
    | TurnEnd
    | QueueUpdate
    | EntryAppended
    | SessionInfoChanged
    | ThinkingLevelChanged
)


class Response(_Line, frozen=True, tag="response"):
    """The answer to a command (rpc only)."""

    id: str | int | None = None
    success: bool = False
    error: str = ""
    data: msgspec.Raw = msgspec.Raw(b"null")


class Dialog(_Line, frozen=True, tag="extension_ui_request"):
    """An extension asks or tells the person something (rpc only)."""

    id: str
    method: str = ""
    title: str = ""
    message: str = ""
    placeholder: str = ""


class ExtensionError(_Line, frozen=True, tag="extension_error"):
    """An extension failed (rpc only)."""


class BashUpdate(_Line, frozen=True, tag="bash_execution_update"):
    """Output of a command that a person ran (rpc only)."""


RpcLine = Line | Response | Dialog | ExtensionError | BashUpdate


class Model(msgspec.Struct, frozen=True):
    """A model as Pi describes it."""

    id: str = ""
    provider: str = ""


class State(msgspec.Struct, frozen=True, rename="camel"):
    """The answer to `get_state`."""

    session_id: str
    model: Model | None = None
    is_streaming: bool = False
    is_compacting: bool = False
    pending_message_count: int = 0
    message_count: int = 0


class Accepted(msgspec.Struct, frozen=True):
    """The answer to `prompt`; the older dialect does not say what became of it."""

    disposition: str = ""


class Cleared(msgspec.Struct, frozen=True):
    """The answer to `clear_queue`: what was taken out."""

    steering: tuple[str, ...] = ()


decode_line = structs.decoder(Line).decode
decode_rpc_line = structs.decoder(RpcLine).decode
_decode_blocks = structs.decoder(list[Block]).decode
_decode_any = msgspec.json.Decoder().decode


def blocks_of(content: msgspec.Raw) -> list[Block]:
    """The content blocks of a message; a content that is a plain text is one block."""
    try:
        return _decode_blocks(content)
    except msgspec.MsgspecError:
        pass
    try:
        plain = _decode_any(content)
    except msgspec.MsgspecError:
        return []
    return [Block(type="text", text=plain)] if isinstance(plain, str) else []


def shown_result(result: ToolResult | None) -> Any:
    """What the model is shown of a tool's result: its text, or its blocks where one is no text."""
    if result is None:
        return None
    blocks = blocks_of(result.content)
    if all(block.type == "text" for block in blocks):
        return "".join(block.text for block in blocks)
    return _decode_any(result.content)
