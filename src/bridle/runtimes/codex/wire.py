"""The lines that `codex exec --json` prints, as typed structs.

What is not named here decodes to an error, which the normalizer turns into an `unknown` event.
A `web_search` item carries two `id` keys; the decoder keeps the last, the same in all its events.
"""

from typing import Any

import msgspec


class WireUsage(msgspec.Struct, frozen=True):
    """Token counts as Codex means them: input includes what came from and went to the cache."""

    input_tokens: int = 0
    cached_input_tokens: int = 0
    cache_write_input_tokens: int = 0
    output_tokens: int = 0
    reasoning_output_tokens: int = 0


class AgentMessage(msgspec.Struct, frozen=True, tag="agent_message"):
    """The model's text, whole."""

    text: str
    id: str = ""


class Reasoning(msgspec.Struct, frozen=True, tag="reasoning"):
    """A summary of the model's reasoning, whole."""

    text: str
    id: str = ""


class CommandExecution(msgspec.Struct, frozen=True, tag="command_execution"):
    """A shell command."""

    id: str
    command: str = ""
    aggregated_output: str = ""
    exit_code: int | None = None
    status: str = "in_progress"


class FileChange(msgspec.Struct, frozen=True, tag="file_change"):
    """A patch; a move shows as an update of the old path."""

    id: str
    changes: list[Any] = []
    status: str = "in_progress"


class ErrorText(msgspec.Struct, frozen=True):
    """A failure in words."""

    message: str = ""


class McpToolCall(msgspec.Struct, frozen=True, tag="mcp_tool_call"):
    """A call of a tool of an MCP server."""

    id: str
    server: str = ""
    tool: str = ""
    arguments: Any = None
    result: Any = None
    error: ErrorText | None = None
    status: str = "in_progress"


class WebSearch(msgspec.Struct, frozen=True, tag="web_search"):
    """A search that the model service made."""

    id: str
    query: str = ""
    action: Any = None


class CollabToolCall(msgspec.Struct, frozen=True, tag="collab_tool_call"):
    """A sub-agent was started, written to, or waited for."""

    id: str
    tool: str = ""
    receiver_thread_ids: list[str] = []
    prompt: str | None = None
    agents_states: Any = None
    status: str = "in_progress"


class TodoList(msgspec.Struct, frozen=True, tag="todo_list"):
    """The agent's plan; it stays open until the turn ends."""

    id: str
    items: list[Any] = []


class ErrorItem(msgspec.Struct, frozen=True, tag="error"):
    """A warning. The turn goes on."""

    message: str = ""
    id: str = ""


ToolItem = CommandExecution | FileChange | McpToolCall | WebSearch | CollabToolCall | TodoList
Item = AgentMessage | Reasoning | ToolItem | ErrorItem


class ThreadStarted(msgspec.Struct, frozen=True, tag="thread.started"):
    """The conversation has this id."""

    thread_id: str


class TurnStarted(msgspec.Struct, frozen=True, tag="turn.started"):
    """The prompt was taken."""


class TurnCompleted(msgspec.Struct, frozen=True, tag="turn.completed"):
    """The turn is over. `usage` sums up the whole thread, not this turn."""

    usage: WireUsage = WireUsage()


class TurnFailed(msgspec.Struct, frozen=True, tag="turn.failed"):
    """The turn failed; the only event that says so."""

    error: ErrorText = ErrorText()


class Notice(msgspec.Struct, frozen=True, tag="error"):
    """A retry, or the text that `turn.failed` repeats."""

    message: str = ""


class ItemStarted(msgspec.Struct, frozen=True, tag="item.started"):
    """An item began."""

    item: Item


class ItemUpdated(msgspec.Struct, frozen=True, tag="item.updated"):
    """An item changed."""

    item: Item


class ItemCompleted(msgspec.Struct, frozen=True, tag="item.completed"):
    """An item is complete."""

    item: Item


Message = (
    ThreadStarted
    | TurnStarted
    | TurnCompleted
    | TurnFailed
    | Notice
    | ItemStarted
    | ItemUpdated
    | ItemCompleted
)


def decoder() -> "msgspec.json.Decoder[Message]":
    """A decoder of one line; raises `msgspec.MsgspecError` for anything else."""
    return msgspec.json.Decoder(Message)
