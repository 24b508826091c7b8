"""The lines that `codex exec --json` prints, as typed structs.

A line that is not named here does not decode; the normalizer turns it into an `unknown` event.
A `web_search` item carries two `id` keys; the decoder keeps the last, the same in all its events.
"""

from typing import Any, ClassVar

import msgspec

from bridle.core import structs


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


class Tool(msgspec.Struct, frozen=True):
    """A call of a tool; every wire shows it with this name, input and output."""

    given: ClassVar[tuple[str, ...]]
    """The fields that are its input."""
    returned: ClassVar[dict[str, str]]
    """The fields that are its output, by the names they are shown under."""

    id: str

    @property
    def name(self) -> str:
        """Codex's own name of the tool."""
        return str(type(self).__struct_config__.tag)

    @property
    def input(self) -> dict[str, Any]:
        """What the tool was called with."""
        return {field: getattr(self, field) for field in self.given}

    @property
    def output(self) -> Any:
        """What the call returned."""
        return {name: getattr(self, field) for name, field in self.returned.items()}

    @property
    def failed(self) -> bool:
        """Whether the call failed or was refused."""
        return getattr(self, "status", "") in ("failed", "declined")

    @property
    def refusal(self) -> str | None:
        """Why Codex's own mode refused the call, None when it did not."""
        return "declined by codex" if getattr(self, "status", "") == "declined" else None


class CommandExecution(Tool, frozen=True, tag="command_execution"):
    """A shell command."""

    given = ("command",)
    returned = {"output": "aggregated_output", "exit_code": "exit_code"}

    command: str = ""
    aggregated_output: str = ""
    exit_code: int | None = None
    status: str = "in_progress"

    @property
    def failed(self) -> bool:
        """As of every tool, or by its exit status."""
        return self.exit_code not in (0, None) or super().failed


class FileChange(Tool, frozen=True, tag="file_change"):
    """A patch; a move shows as an update of the old path."""

    given = ("changes",)
    returned = {"changes": "changes", "status": "status"}

    changes: list[Any] = []
    status: str = "in_progress"


class ErrorText(msgspec.Struct, frozen=True):
    """A failure in words."""

    message: str = ""


class McpToolCall(Tool, frozen=True, tag="mcp_tool_call"):
    """A call of a tool of an MCP server."""

    given = ("server", "tool", "arguments")

    server: str = ""
    tool: str = ""
    arguments: Any = None
    result: Any = None
    error: ErrorText | None = None
    status: str = "in_progress"

    @property
    def output(self) -> Any:
        """The server's result, or its error."""
        return self.result if self.error is None else {"error": self.error.message}

    @property
    def refusal(self) -> str | None:
        """As of every tool, or by its error."""
        if self.error is None:
            return super().refusal
        return self.error.message if "requires approval" in self.error.message else None


class WebSearch(Tool, frozen=True, tag="web_search"):
    """A search that the model service made."""

    given = ("query",)
    returned = {"query": "query", "action": "action"}

    query: str = ""
    action: Any = None


class CollabToolCall(Tool, frozen=True, tag="collab_tool_call"):
    """A sub-agent was started, written to, or waited for."""

    given = ("tool", "prompt")
    returned = {"threads": "receiver_thread_ids", "states": "agents_states"}

    tool: str = ""
    receiver_thread_ids: list[str] = []
    prompt: str | None = None
    agents_states: Any = None
    status: str = "in_progress"


class TodoList(Tool, frozen=True, tag="todo_list"):
    """The agent's plan; it stays open until the turn ends."""

    given = ("items",)
    returned = {"items": "items"}

    items: list[Any] = []


class ErrorItem(msgspec.Struct, frozen=True, tag="error"):
    """A warning. The turn continues."""

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
    return structs.decoder(Message)


def snake_case(name: str) -> str:
    """`PreToolUse` as `pre_tool_use`: Codex writes its names in both ways."""
    return "".join(f"_{char.lower()}" if char.isupper() else char for char in name).lstrip("_")
