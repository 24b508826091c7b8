"""What a tool item of Codex says, in the words of the common events; the same on every wire."""

from typing import Any

from bridle.runtimes.codex import wire
from bridle.turns.recorder import Recorder


def tool_name(item: wire.ToolItem) -> str:
    """Codex's own name of the tool."""
    return str(type(item).__struct_config__.tag)


def tool_args(item: wire.ToolItem) -> Any:
    """What the tool was called with."""
    if isinstance(item, wire.CommandExecution):
        return {"command": item.command}
    if isinstance(item, wire.FileChange):
        return {"changes": item.changes}
    if isinstance(item, wire.McpToolCall):
        return {"server": item.server, "tool": item.tool, "arguments": item.arguments}
    if isinstance(item, wire.WebSearch):
        return {"query": item.query}
    if isinstance(item, wire.CollabToolCall):
        return {"tool": item.tool, "prompt": item.prompt}
    return {"items": item.items}


def tool_result(item: wire.ToolItem) -> Any:
    """What came of the call."""
    if isinstance(item, wire.CommandExecution):
        return {"output": item.aggregated_output, "exit_code": item.exit_code}
    if isinstance(item, wire.FileChange):
        return {"changes": item.changes, "status": item.status}
    if isinstance(item, wire.McpToolCall):
        return item.result if item.error is None else {"error": item.error.message}
    if isinstance(item, wire.WebSearch):
        return {"query": item.query, "action": item.action}
    if isinstance(item, wire.CollabToolCall):
        return {"threads": item.receiver_thread_ids, "states": item.agents_states}
    return {"items": item.items}


def tool_failed(item: wire.ToolItem) -> bool:
    """Whether the call failed or was refused."""
    if isinstance(item, wire.CommandExecution) and item.exit_code not in (0, None):
        return True
    return getattr(item, "status", "") in ("failed", "declined")


def refusal_of(item: wire.ToolItem) -> str | None:
    """Why Codex's own mode refused the call, None when it did not."""
    if isinstance(item, wire.McpToolCall) and item.error is not None:
        text = item.error.message
        return text if "requires approval" in text else None
    return "declined by codex" if getattr(item, "status", "") == "declined" else None


def record_end(recorder: Recorder, item: wire.ToolItem, *, asked: bool = False) -> None:
    """Tell that a tool ended. A refusal that nobody was `asked` about is Codex's own."""
    refusal = refusal_of(item)
    if refusal is not None and not asked:
        recorder.permission_decided(
            item.id,
            tool_call_id=item.id,
            tool_name=tool_name(item),
            decision="deny",
            by="codex",
            reason=refusal,
        )
    recorder.tool_ended(
        item.id,
        tool_name=tool_name(item),
        args=tool_args(item),
        is_error=tool_failed(item),
        result=tool_result(item),
    )
