"""Plays the items of an app-server's turn: texts as they are written, tools as they run.

The events are those of `exec` for the same turn, with the text in pieces and with what commands
print meanwhile.
"""

from collections.abc import Callable

import msgspec

from bridle.runtimes.codex import live_wire as wire
from bridle.runtimes.codex import wire as exec_wire
from bridle.runtimes.codex.items import (
    record_end,
    tool_args,
    tool_name,
)
from bridle.turns.recorder import Recorder


class ItemPlayer:
    """The items of the turn that is shown, from `show` to `turn_over`.

    That is a moment longer than Codex plays it. Whatever belongs elsewhere is passed over: a
    command that was left running ends in a later turn, and agents that were started speak for
    themselves.
    """

    def __init__(
        self, recorder: Recorder, message_read: Callable[[str | None, str, str], None]
    ) -> None:
        self.notifications: dict[str, Callable[[bytes], None]] = {
            "item/started": self._on_started,
            "item/completed": self.completed,
            "item/agentMessage/delta": self._on_text,
            "item/reasoning/summaryTextDelta": self._on_thinking,
            "item/commandExecution/outputDelta": self._on_output,
            "item/mcpToolCall/progress": self._on_output,
            "turn/plan/updated": self._on_plan,
        }
        """Method -> who takes its parameters; may raise `msgspec.MsgspecError`."""
        self.find_output: Callable[[str, Callable[[str | None], None]], None] | None = None
        """Looks up what a command printed, in lines that do not always tell it."""
        self._recorder = recorder
        self._message_read = message_read
        self._shown: tuple[str, str] | None = None
        self._told: dict[str, list[str]] = {}
        self._parts: dict[str, int] = {}
        self._tools: dict[str, exec_wire.ToolItem] = {}
        self._plan: exec_wire.TodoList | None = None
        self._asked: set[str] = set()

    def show(self, thread_id: str, turn_id: str) -> None:
        """Show this turn from here on."""
        self._shown = (thread_id, turn_id)

    @property
    def commands_run(self) -> bool:
        """Whether the end of a command was not told yet."""
        return "command_execution" in self._recorder.tools.names

    def turn_over(self) -> None:
        """The turn is about to end."""
        if self._plan is not None:
            self._tool_completed(self._plan)
        self._shown = None
        self._plan = None
        self._told.clear()
        self._parts.clear()
        self._tools.clear()
        self._asked.clear()

    # -- what Codex says ------------------------------------------------------------------------

    def _on_started(self, params: bytes) -> None:
        told = msgspec.json.decode(params, type=wire.ItemChanged)
        if (told.thread_id, told.turn_id) != self._shown:
            return
        item = told.item
        if isinstance(item, wire.UserMessage):
            self._message_read(item.client_id, told.turn_id, item.text)
        elif isinstance(item, wire.Compaction):
            self._recorder.compaction_started("automatic")
        elif not isinstance(item, wire.AgentMessage | wire.Reasoning):
            self._tool_started(item.as_exec())

    def completed(self, params: bytes) -> None:
        """Take an `item/completed`."""
        told = msgspec.json.decode(params, type=wire.ItemChanged)
        if (told.thread_id, told.turn_id) != self._shown:
            return
        item = told.item
        if isinstance(item, wire.AgentMessage):
            self._text_completed(item)
        elif isinstance(item, wire.Reasoning):
            self._thinking_completed(item)
        elif isinstance(item, wire.Compaction):
            self._recorder.compaction_ended("automatic")
        elif not isinstance(item, wire.UserMessage):
            self._tool_told(item)

    def _on_output(self, params: bytes) -> None:
        told = msgspec.json.decode(params, type=wire.Delta)
        if (told.thread_id, told.turn_id) == self._shown:
            self._recorder.tool_updated(told.item_id, told.delta or told.message)

    # -- text -----------------------------------------------------------------------------------

    def _on_text(self, params: bytes) -> None:
        told = msgspec.json.decode(params, type=wire.Delta)
        if (told.thread_id, told.turn_id) == self._shown and told.delta:
            self._open(told.item_id)
            self._told[told.item_id].append(told.delta)
            self._recorder.text_delta(told.delta)

    def _on_thinking(self, params: bytes) -> None:
        told = msgspec.json.decode(params, type=wire.Delta)
        if (told.thread_id, told.turn_id) != self._shown or not told.delta:
            return
        text, part = told.delta, told.summary_index
        self._open(told.item_id)
        if part != self._parts.setdefault(told.item_id, part):
            # As `exec` joins the parts of a summary.
            self._parts[told.item_id] = part
            text = "\n" + text
        self._told[told.item_id].append(text)
        self._recorder.thinking_delta(text)

    def _text_completed(self, item: wire.AgentMessage) -> None:
        """The model's text is whole: tell what no piece told, and close the message."""
        told = "".join(self._told.get(item.id, ()))
        self._open(item.id)
        if item.text.startswith(told):
            self._recorder.text_delta(item.text[len(told) :], synthetic=True)
        self._recorder.block_ended()
        self._recorder.message_ended()

    def _thinking_completed(self, item: wire.Reasoning) -> None:
        """The summary is whole; the text that follows it belongs to the same message."""
        told = "".join(self._told.get(item.id, ()))
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
        self._told.setdefault(item_id, [])
        if not self._recorder.message_open:
            self._recorder.message_started(item_id)

    # -- tools ----------------------------------------------------------------------------------

    def _tool_started(self, item: exec_wire.ToolItem) -> None:
        """A tool runs, or is about to ask whether it may."""
        self._tools[item.id] = item
        self._recorder.tool_started(item.id, tool_name(item), tool_args(item))

    def _tool_completed(self, item: exec_wire.ToolItem) -> None:
        """A tool ended."""
        record_end(self._recorder, item, asked=item.id in self._asked)

    def _tool_told(self, item: wire.ToolItem) -> None:
        """A tool ended. Older lines keep the output of many commands to themselves and the model:
        then it is looked up first."""
        lacking = isinstance(item, wire.CommandExecution) and item.aggregated_output is None
        if not lacking or self.find_output is None or item.id not in self._tools:
            self._tool_completed(item.as_exec())
            return
        shown = self._shown

        def found(output: str | None) -> None:
            if self._shown == shown:
                whole = msgspec.structs.replace(item, aggregated_output=output)
                self._tool_completed(whole.as_exec())

        self.find_output(item.id, found)

    def asked_about(self, item_id: str) -> exec_wire.ToolItem | None:
        """Note that somebody is asked about a tool call; the call, where it was announced."""
        self._asked.add(item_id)
        return self._tools.get(item_id)

    def mcp_call(self, server: str) -> exec_wire.McpToolCall | None:
        """The latest call of a tool of an MCP server."""
        calls = [item for item in self._tools.values() if isinstance(item, exec_wire.McpToolCall)]
        return next((item for item in reversed(calls) if item.server == server), None)

    def _on_plan(self, params: bytes) -> None:
        """The agent's plan, which `exec` shows as a tool that ends with the turn."""
        told = msgspec.json.decode(params, type=wire.PlanUpdated)
        if (told.thread_id, told.turn_id) != self._shown:
            return
        items = [{"text": each.step, "completed": each.status == "completed"} for each in told.plan]
        known = self._plan is not None
        self._plan = plan = exec_wire.TodoList(id=f"plan_{told.turn_id}", items=items)
        if known:
            self._recorder.tool_updated(plan.id, msgspec.json.encode(items).decode())
        else:
            self._tool_started(plan)
