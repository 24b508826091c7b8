"""Plays the items of an app-server's turn: texts as they are written, tools as they run.

The events are those of `exec` for the same turn, with the text in pieces and with what commands
print meanwhile.
"""

import msgspec

from bridle.drives.recorder import Recorder
from bridle.runtimes.codex import live_wire as wire
from bridle.runtimes.codex import wire as exec_wire
from bridle.runtimes.codex.items import (
    refusal_of,
    tool_args,
    tool_failed,
    tool_name,
    tool_result,
)


class ItemPlayer:
    """The items of the open turn; `turn_over` makes it ready for the next."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self._told: dict[str, str] = {}
        self._parts: dict[str, int] = {}
        self._tools: dict[str, exec_wire.ToolItem] = {}
        self._plan: exec_wire.TodoList | None = None
        self._asked: set[str] = set()

    # -- text -----------------------------------------------------------------------------------

    def text_delta(self, item_id: str, text: str) -> None:
        """A piece of the model's text."""
        if text:
            self._open(item_id)
            self._told[item_id] += text
            self._recorder.text_delta(text)

    def thinking_delta(self, item_id: str, text: str, part: int) -> None:
        """A piece of a reasoning summary; its parts stand on lines of their own."""
        if text:
            self._open(item_id)
            if part != self._parts.setdefault(item_id, part):
                self._parts[item_id] = part
                text = "\n" + text
            self._told[item_id] += text
            self._recorder.thinking_delta(text)

    def text_completed(self, item: wire.AgentMessage) -> None:
        """The model's text is whole: tell what no piece told, and close the message."""
        told = self._told.get(item.id, "")
        self._open(item.id)
        if item.text.startswith(told):
            self._recorder.text_delta(item.text[len(told) :], synthetic=True)
        self._recorder.block_ended()
        self._recorder.message_ended()

    def thinking_completed(self, item: wire.Reasoning) -> None:
        """The summary is whole; the text that follows it belongs to the same message."""
        told = self._told.get(item.id, "")
        text = "\n".join(item.summary)
        if not text.strip():
            return
        self._open(item.id)
        if text.startswith(told):
            self._recorder.thinking_delta(text[len(told) :], synthetic=True)
        self._recorder.block_ended()

    def broken_off(self) -> None:
        """The model call failed in mid text: what comes next is written anew."""
        self._recorder.message_ended(synthetic=True)

    def _open(self, item_id: str) -> None:
        self._told.setdefault(item_id, "")
        if not self._recorder.message_open:
            self._recorder.message_started(item_id)

    # -- tools ----------------------------------------------------------------------------------

    def tool_started(self, item: exec_wire.ToolItem) -> None:
        """A tool runs, or is about to ask whether it may."""
        self._tools[item.id] = item
        self._recorder.tool_started(item.id, tool_name(item), tool_args(item))

    def tool_completed(self, item: exec_wire.ToolItem) -> None:
        """A tool ended. A refusal that nobody was asked about is Codex's own."""
        refusal = refusal_of(item)
        if refusal is not None and item.id not in self._asked:
            self._recorder.permission_decided(
                item.id,
                tool_call_id=item.id,
                tool_name=tool_name(item),
                decision="deny",
                by="codex",
                reason=refusal,
            )
        self._recorder.tool_ended(
            item.id,
            tool_name=tool_name(item),
            args=tool_args(item),
            is_error=tool_failed(item),
            result=tool_result(item),
        )

    def asked_about(self, item_id: str) -> exec_wire.ToolItem | None:
        """Note that somebody is asked about a tool call; the call, where it was announced."""
        self._asked.add(item_id)
        return self._tools.get(item_id)

    def mcp_call(self, server: str) -> exec_wire.McpToolCall | None:
        """The latest call of a tool of an MCP server."""
        calls = [item for item in self._tools.values() if isinstance(item, exec_wire.McpToolCall)]
        return next((item for item in reversed(calls) if item.server == server), None)

    def plan_updated(self, told: wire.PlanUpdated) -> None:
        """The agent's plan, which `exec` shows as a tool that ends with the turn."""
        items = [{"text": each.step, "completed": each.status == "completed"} for each in told.plan]
        known = self._plan is not None
        self._plan = plan = exec_wire.TodoList(id=f"plan_{told.turn_id}", items=items)
        if known:
            self._recorder.tool_updated(plan.id, msgspec.json.encode(items).decode())
        else:
            self.tool_started(plan)

    def turn_over(self) -> None:
        """The turn is about to end."""
        if self._plan is not None:
            self.tool_completed(self._plan)
        self._plan = None
        self._told.clear()
        self._parts.clear()
        self._tools.clear()
        self._asked.clear()
