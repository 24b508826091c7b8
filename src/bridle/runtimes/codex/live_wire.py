"""The lines of `codex app-server`: requests, answers and notifications, as typed structs.

Both sides ask: our requests are numbered by us, Codex's by Codex, from 0, so a line with a method
and an id is a question of Codex's whatever its number. Items are turned into those of `exec`, so
that a tool looks the same on both wires.
"""

from typing import Any

import msgspec

from bridle.runtimes.codex import wire

RequestId = int | str

UNWANTED = (
    "account/rateLimits/updated",
    "item/commandExecution/terminalInteraction",
    "item/fileChange/outputDelta",
    "item/fileChange/patchUpdated",
    "item/plan/delta",
    "item/reasoning/textDelta",
    "mcpServer/startupStatus/updated",
    "remoteControl/status/changed",
    "skills/changed",
    "thread/goal/cleared",
    "thread/goal/updated",
    "thread/name/updated",
    "thread/queue/changed",
    "thread/readState/changed",
    "thread/started",
    "turn/diff/updated",
)
"""Notifications that Codex is asked to keep to itself; it does not promise to."""

PASSED_OVER = frozenset(
    {
        *UNWANTED,
        "configWarning",
        "hook/completed",
        "hook/started",
        "item/reasoning/summaryPartAdded",
        "thread/closed",
        "thread/compacted",
        "thread/status/changed",
    }
)
"""Notifications that say nothing which is not told otherwise, or that `exec` does not show."""


def command(*words: str) -> dict[str, Any]:
    """The parameters of `command/exec`: a command of ours, in no sandbox and no turn."""
    return {"command": list(words), "sandboxPolicy": {"type": "dangerFullAccess"}}


class RpcError(msgspec.Struct, frozen=True):
    """Why a request was refused."""

    code: int = 0
    message: str = ""


class Line(msgspec.Struct, frozen=True):
    """Any line. With `method` and `id` a question, with `method` alone a notification, else the
    answer to one of our requests."""

    id: RequestId | None = None
    method: str | None = None
    params: msgspec.Raw = msgspec.Raw(b"{}")
    result: msgspec.Raw = msgspec.Raw(b"{}")
    error: RpcError | None = None


# -- threads and turns ----------------------------------------------------------------------------


class Thread(msgspec.Struct, frozen=True, rename="camel"):
    """A conversation, and the file it is written to."""

    id: str
    path: str | None = None
    forked_from_id: str | None = None
    """The thread that it is a copy of."""


class ThreadOpened(msgspec.Struct, frozen=True):
    """The answer to `thread/start`, `thread/resume` and `thread/fork`."""

    thread: Thread
    model: str | None = None


class CommandDone(msgspec.Struct, frozen=True):
    """The answer to `command/exec`."""

    stdout: str = ""


class TurnError(msgspec.Struct, frozen=True, rename="camel"):
    """Why a model call or a turn failed."""

    message: str = ""
    codex_error_info: Any = None
    additional_details: str | None = None


class Turn(msgspec.Struct, frozen=True):
    """A turn; `status` is `inProgress`, `completed`, `interrupted` or `failed`."""

    id: str
    status: str = ""
    error: TurnError | None = None


class TurnChanged(msgspec.Struct, frozen=True, rename="camel"):
    """`turn/started` and `turn/completed`."""

    thread_id: str
    turn: Turn


class Failure(msgspec.Struct, frozen=True, rename="camel"):
    """`error`: a call that will be tried again, or what `turn/completed` repeats."""

    thread_id: str
    error: TurnError
    will_retry: bool = False


class Tokens(msgspec.Struct, frozen=True, rename="camel"):
    """Token counts, in Codex's meaning."""

    input_tokens: int = 0
    cached_input_tokens: int = 0
    cache_write_input_tokens: int = 0
    output_tokens: int = 0
    reasoning_output_tokens: int = 0

    def as_exec(self) -> wire.WireUsage:
        """The same as `exec` tells it."""
        return wire.WireUsage(
            input_tokens=self.input_tokens,
            cached_input_tokens=self.cached_input_tokens,
            cache_write_input_tokens=self.cache_write_input_tokens,
            output_tokens=self.output_tokens,
            reasoning_output_tokens=self.reasoning_output_tokens,
        )


class TokenUsage(msgspec.Struct, frozen=True):
    """The running total of a thread; `last`, which is an estimate at times, is left alone."""

    total: Tokens


class UsageUpdated(msgspec.Struct, frozen=True, rename="camel"):
    """`thread/tokenUsage/updated`: often the same again."""

    thread_id: str
    token_usage: TokenUsage


class PlanStep(msgspec.Struct, frozen=True):
    """One step of the agent's plan."""

    step: str = ""
    status: str = ""


class PlanUpdated(msgspec.Struct, frozen=True, rename="camel"):
    """`turn/plan/updated`."""

    thread_id: str
    turn_id: str
    plan: list[PlanStep] = []


class Settings(msgspec.Struct, frozen=True):
    """What a thread works with."""

    model: str | None = None


class SettingsUpdated(msgspec.Struct, frozen=True, rename="camel"):
    """`thread/settings/updated`."""

    thread_id: str
    thread_settings: Settings


class Rerouted(msgspec.Struct, frozen=True, rename="camel"):
    """`model/rerouted`: another model answers."""

    thread_id: str
    to_model: str


class Resolved(msgspec.Struct, frozen=True, rename="camel"):
    """`serverRequest/resolved`: a question of Codex's is answered or void."""

    request_id: RequestId


# -- items ----------------------------------------------------------------------------------------


class UserMessage(msgspec.Struct, frozen=True, tag="userMessage", rename="camel"):
    """A message has become part of the conversation. Older lines do not tell our id for it."""

    id: str
    client_id: str | None = None
    content: list[dict[str, Any]] = []

    @property
    def text(self) -> str:
        """What it says, without its images."""
        return "".join(str(part.get("text") or "") for part in self.content)


class AgentMessage(msgspec.Struct, frozen=True, tag="agentMessage"):
    """The model's text."""

    id: str
    text: str = ""


class Reasoning(msgspec.Struct, frozen=True, tag="reasoning"):
    """A summary of the model's reasoning, in parts."""

    id: str
    summary: list[str] = []


class CommandExecution(msgspec.Struct, frozen=True, tag="commandExecution", rename="camel"):
    """A shell command."""

    id: str
    command: str = ""
    aggregated_output: str | None = None
    exit_code: int | None = None
    status: str = ""

    def as_exec(self) -> wire.ToolItem:
        """The item as `exec` tells it."""
        return wire.CommandExecution(
            id=self.id,
            command=self.command,
            aggregated_output=self.aggregated_output or "",
            exit_code=self.exit_code,
            status=self.status,
        )


class ChangeKind(msgspec.Struct, frozen=True):
    """What is done to a file."""

    type: str = ""


class Change(msgspec.Struct, frozen=True):
    """A changed file."""

    path: str
    kind: ChangeKind = ChangeKind()


class FileChange(msgspec.Struct, frozen=True, tag="fileChange"):
    """A patch."""

    id: str
    changes: list[Change] = []
    status: str = ""

    def as_exec(self) -> wire.ToolItem:
        """The item as `exec` tells it."""
        changes = [{"path": each.path, "kind": each.kind.type} for each in self.changes]
        return wire.FileChange(id=self.id, changes=changes, status=self.status)


class McpResult(msgspec.Struct, frozen=True, rename="camel"):
    """What an MCP tool returned."""

    content: Any = None
    structured_content: Any = None


class McpToolCall(msgspec.Struct, frozen=True, tag="mcpToolCall"):
    """A call of a tool of an MCP server."""

    id: str
    server: str = ""
    tool: str = ""
    arguments: Any = None
    result: McpResult | None = None
    error: wire.ErrorText | None = None
    status: str = ""

    def as_exec(self) -> wire.ToolItem:
        """The item as `exec` tells it."""
        result = self.result
        return wire.McpToolCall(
            id=self.id,
            server=self.server,
            tool=self.tool,
            arguments=self.arguments,
            result=None
            if result is None
            else {"content": result.content, "structured_content": result.structured_content},
            error=self.error,
            status=self.status,
        )


class WebSearch(msgspec.Struct, frozen=True, tag="webSearch"):
    """A search that the model service made."""

    id: str
    query: str = ""
    action: Any = None

    def as_exec(self) -> wire.ToolItem:
        """The item as `exec` tells it."""
        return wire.WebSearch(id=self.id, query=self.query, action=self.action)


class CollabToolCall(msgspec.Struct, frozen=True, tag="collabAgentToolCall", rename="camel"):
    """A sub-agent was started, written to, or waited for."""

    id: str
    tool: str = ""
    receiver_thread_ids: list[str] = []
    prompt: str | None = None
    agents_states: Any = None
    status: str = ""

    def as_exec(self) -> wire.ToolItem:
        """The item as `exec` tells it."""
        tool = "".join(f"_{each.lower()}" if each.isupper() else each for each in self.tool)
        return wire.CollabToolCall(
            id=self.id,
            tool=tool,
            receiver_thread_ids=self.receiver_thread_ids,
            prompt=self.prompt,
            agents_states=self.agents_states,
            status=self.status,
        )


class Compaction(msgspec.Struct, frozen=True, tag="contextCompaction"):
    """The context is being shortened."""

    id: str


ToolItem = CommandExecution | FileChange | McpToolCall | WebSearch | CollabToolCall
Item = UserMessage | AgentMessage | Reasoning | ToolItem | Compaction


class ItemChanged(msgspec.Struct, frozen=True, rename="camel"):
    """`item/started` and `item/completed`."""

    thread_id: str
    turn_id: str
    item: Item


class Delta(msgspec.Struct, frozen=True, rename="camel"):
    """A piece of text of an item."""

    thread_id: str
    turn_id: str
    item_id: str
    delta: str = ""
    message: str = ""
    """The same for the progress of an MCP tool."""
    summary_index: int = 0


# -- questions ------------------------------------------------------------------------------------


class Approval(msgspec.Struct, frozen=True, rename="camel"):
    """`item/commandExecution/requestApproval`, `item/fileChange/requestApproval` and
    `item/permissions/requestApproval`."""

    thread_id: str
    item_id: str
    command: str | None = None
    cwd: str | None = None
    reason: str | None = None
    grant_root: str | None = None
    permissions: Any = None


class ElicitationMeta(msgspec.Struct, frozen=True):
    """What Codex says about a question that looks like one of an MCP server."""

    codex_approval_kind: str | None = None
    tool_params: Any = None


class Elicitation(msgspec.Struct, frozen=True, rename="camel"):
    """`mcpServer/elicitation/request`: a server asks the user, or Codex asks whether one of its
    tools may be called."""

    thread_id: str
    server_name: str
    message: str = ""
    meta: ElicitationMeta | None = msgspec.field(default=None, name="_meta")
