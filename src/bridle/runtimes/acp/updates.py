"""Translates the updates of a turn into the common events.

The protocol has no messages and no names of tools: a message begins with the first text after a
tool call (or where the agent says so), and a tool call is put together from all updates with its
id, in any order and any number.
"""

import re
from typing import Any

import msgspec

from bridle.core.errors import AgentError
from bridle.runtimes.acp import protocol
from bridle.runtimes.acp.quirks import AcpQuirks
from bridle.runtimes.wire import raw_of
from bridle.turns.recorder import Recorder

_OVER = ("completed", "failed")
_SILENT = frozenset(
    {
        "available_commands_update",
        "config_option_update",
        "current_mode_update",
        "plan",
        "session_info_update",
        "usage_update",
        "user_message_chunk",
    }
)
"""Known updates without an event."""


_NEWS = frozenset({"agent_message_chunk", "agent_thought_chunk", "tool_call", "tool_call_update"})


def is_known(update: protocol.Update) -> bool:
    """Whether this kind of update is one of the protocol's."""
    return update.session_update in _SILENT or update.session_update in _NEWS


def is_silent(update: protocol.Update) -> bool:
    """Whether this kind of update has no event."""
    return update.session_update in _SILENT


def shows_receipt(update: protocol.Update) -> bool:
    """Whether an update shows that the agent has received the last prompt."""
    return update.session_update in _NEWS or update.session_update == "user_message_chunk"


def begins_work(update: protocol.Update) -> bool:
    """Whether an update is the first of new work, not the rest of old work."""
    return update.session_update in _NEWS and update.session_update != "tool_call_update"


class Tool(msgspec.Struct):
    """What is known of a tool call."""

    id: str
    name: str = ""
    title: str = ""
    kind: str = ""
    status: str = ""
    args: Any = None
    result: Any = None
    content: Any = None
    shown: str = ""
    """Output that was already recorded."""
    started: bool = False
    ended: bool = False
    refused: str | None = None
    """Why permission was denied, if it was."""
    blocked: bool = False
    """Whether the guard denied it."""


class UpdateTranslator:
    """Translates the updates of a turn into calls of the `Recorder`.

    Contract: never raises; unknown updates go to `Recorder.unknown`. `close` ends a turn; the
    updates after it are those of the next.
    """

    def __init__(self, recorder: Recorder, quirks: AcpQuirks) -> None:
        self._recorder = recorder
        self._quirks = quirks
        self._notice = _either(quirks.notices)
        self._retry = _either(quirks.retry_notices)
        self._error = _either(quirks.error_notices)
        self._tools: dict[str, Tool] = {}
        self._past: set[str] = set()
        self._text_id: str | None = None
        self._retries = 0
        self._failing = False
        """Whether the agent said that the turn failed; its reason comes as a text."""
        self.saw_work = False
        """Whether the turn brought any text, thought or tool call."""
        self.failure: AgentError | None = None
        """The error that the agent's last text describes, although the turn ends normally."""
        self.suspect = ""
        """The last text, if it begins like such an error; it is one if no model was used."""

    @property
    def running(self) -> bool:
        """Whether a tool call is running."""
        return any(tool.started and not tool.ended for tool in self._tools.values())

    def take(self, update: protocol.Update, line: bytes) -> bool:
        """Translate one update, which came as `line`; returns whether it shows progress."""
        kind = update.session_update
        if kind in ("agent_message_chunk", "agent_thought_chunk"):
            self._chunk(update, line, thought=kind == "agent_thought_chunk")
            return True
        if kind in ("tool_call", "tool_call_update") and update.tool_call_id:
            if kind == "tool_call_update" and self._is_past(update.tool_call_id):
                self._recorder.unknown(raw_of(line))
                return False
            self._tool(update)
            return True
        if kind == "session_info_update" and self._quirks.failure_mark:
            self._failing |= _holds(update.meta, self._quirks.failure_mark)
        if kind not in _SILENT:
            self._recorder.unknown(raw_of(line))
        return False

    def close(self) -> None:
        """The turn is over: record what was held back."""
        self._end_refused()
        for tool in self._tools.values():
            self._start(tool)
        self._past = set(self._tools)
        self._tools.clear()
        self._text_id = None
        self._retries = 0
        self._failing = False
        self.saw_work = False
        self.failure = None
        self.suspect = ""

    # -- text -----------------------------------------------------------------------------------

    def _chunk(self, update: protocol.Update, line: bytes, *, thought: bool) -> None:
        recorder = self._recorder
        text = protocol.text_of(update.content)
        if not text:
            return
        parent = _parent_of(update)
        if parent is not None:
            recorder.tool_updated(parent, text)
            return
        if not thought and self._is_notice(text, line):
            return
        if self._failing and not thought and update.message_id is None:
            recorder.unknown(raw_of(line))
            self.failure = protocol.error_of_text(text.strip())
            return
        self.saw_work = True
        self.failure = None
        start = self._quirks.error_start
        first = not recorder.message_open and not thought
        self.suspect = text if start and first and text.startswith(start) else ""
        self._start_held()
        self._end_refused()
        if thought:
            recorder.thinking_delta(text.removeprefix(self._quirks.thought_prefix))
            return
        if self._text_id and update.message_id and update.message_id != self._text_id:
            recorder.message_ended()
        self._text_id = update.message_id if recorder.message_open or update.message_id else None
        recorder.text_delta(text)

    def _is_notice(self, text: str, line: bytes) -> bool:
        """Whether a text comes from the agent, not from the model; it is then handled here."""
        if self._retry is not None and self._retry.match(text):
            self._retries += 1
            self._recorder.retrying(self._retries, None, protocol.error_of_text(text))
        elif self._error is not None and self._error.match(text):
            self._recorder.unknown(raw_of(line))
            self.failure = protocol.error_of_text(text.removeprefix("Error: "))
        elif self._notice is not None and self._notice.match(text):
            self._recorder.unknown(raw_of(line))
        else:
            return False
        return True

    # -- tools ----------------------------------------------------------------------------------

    def asked(self, call: protocol.Update) -> Tool:
        """The tool call that a permission request is about, which may be new."""
        tool = self._known(call.tool_call_id or "")
        self._merge(tool, call, asking=True)
        self._start(tool)
        self.saw_work = True
        return tool

    def refused(self, tool: Tool, reason: str) -> None:
        """Permission for `tool` was denied; not every agent then reports its end."""
        tool.refused = reason or "permission denied"

    def blocked(self, tool: Tool, reason: str) -> None:
        """The guard refused `tool`: it ends now, with the guard's reason, which the agent does not
        get."""
        tool.refused = reason
        tool.blocked = True
        if not tool.ended:
            tool.ended = True
            self._recorder.tool_ended(tool.id, is_error=True, result=reason, synthetic=True)

    def _is_past(self, tool_call_id: str) -> bool:
        """Whether this is a late update of a call of the turn before, which ended early."""
        return tool_call_id in self._past and tool_call_id not in self._tools

    def _known(self, tool_call_id: str) -> Tool:
        return self._tools.setdefault(tool_call_id, Tool(id=tool_call_id))

    def _tool(self, update: protocol.Update) -> None:
        parent = _parent_of(update)
        if parent is not None:
            if update.session_update == "tool_call":
                self._recorder.tool_updated(parent, f"{update.title or update.kind or ''}\n")
            return
        self.saw_work = True
        self.failure = None
        self.suspect = ""
        tool = self._known(update.tool_call_id or "")
        if tool.ended:
            if tool.blocked and update.status == "completed":
                self._recorder.verdicts.ran_without_permission(self.name_of(tool))
            return
        self._merge(tool, update)
        if tool.status in _OVER:
            self._start(tool)
            self._end(tool)
        elif self._is_whole(tool):
            self._start(tool)
            self._show(tool, update)

    def _merge(self, tool: Tool, update: protocol.Update, *, asking: bool = False) -> None:
        """Add the fields of an update. Those of a permission request replace no known ones."""
        tool.name = _name_in(update.meta) or tool.name
        tool.title = tool.title or update.title or ""
        tool.kind = tool.kind or update.kind or ""
        if update.raw_input is not None and not (asking and tool.args):
            tool.args = update.raw_input
        elif isinstance(tool.args, dict) and isinstance(update.raw_input, dict):
            # With late arguments, only the request may have what it asks about.
            more = update.raw_input if self._quirks.late_input else {}
            tool.args = {**more, **tool.args}
        if update.status and not asking:
            tool.status = update.status
        if update.raw_output is not None:
            tool.result = update.raw_output
        if update.content:
            tool.content = update.content

    def _is_whole(self, tool: Tool) -> bool:
        """Whether the arguments are complete, as far as is known before the tool ends."""
        if tool.status != "pending":
            return bool(tool.args) or tool.status == "in_progress"
        return bool(tool.args) and not self._quirks.late_input

    def _start(self, tool: Tool) -> None:
        if tool.started:
            return
        tool.started = True
        # Some agents describe what they do only in the title.
        args = tool.args if tool.args is not None else {"title": tool.title}
        if self._recorder.message_open:
            self._recorder.message_ended()
        self._text_id = None
        self._recorder.tool_started(tool.id, self.name_of(tool), args)

    def _start_held(self) -> None:
        for tool in self._tools.values():
            self._start(tool)

    def _show(self, tool: Tool, update: protocol.Update) -> None:
        """Record new output of a running tool; each update repeats the whole content."""
        running = update.status == "in_progress" or (
            update.status is None and update.raw_input is None
        )
        text = protocol.text_of(update.content) if running else ""
        if text and text != tool.shown:
            new = text[len(tool.shown) :] if text.startswith(tool.shown) else text
            tool.shown = text
            self._recorder.tool_updated(tool.id, new)

    def _end(self, tool: Tool) -> None:
        tool.ended = True
        result = tool.result if tool.result is not None else _plain(tool.content)
        self._recorder.tool_ended(tool.id, is_error=tool.status == "failed", result=result)

    def _end_refused(self) -> None:
        """End the denied calls whose end the agent did not report."""
        for tool in self._tools.values():
            if tool.refused is not None and not tool.ended:
                tool.ended = True
                self._recorder.tool_ended(
                    tool.id, is_error=True, result=tool.refused, synthetic=True
                )

    def name_of(self, tool: Tool) -> str:
        """The tool's name: in a field beside the protocol, or where this agent puts it."""
        source = self._quirks.names
        name = tool.name
        if not name and source == "title":
            name = tool.title
        elif not name and source == "title_prefix":
            name = tool.title.partition(":")[0].strip()
        elif not name and source == "id_prefix":
            name = tool.id.partition("__")[0] if "__" in tool.id else ""
        return name or tool.kind or tool.title or "other"


def _either(patterns: tuple[str, ...]) -> "re.Pattern[str] | None":
    return re.compile("|".join(f"(?:{pattern})" for pattern in patterns)) if patterns else None


def _inner(meta: Any, key: str) -> str | None:
    """A text under `key` in any vendor's section of `_meta`."""
    if isinstance(meta, dict):
        for section in meta.values():
            if isinstance(section, dict) and isinstance(section.get(key), str):
                return str(section[key])
    return None


def _name_in(meta: Any) -> str | None:
    return _inner(meta, "toolName")


def _holds(meta: Any, path: tuple[str, ...]) -> bool:
    """Whether the keys of `path` lead to its last word in `meta`."""
    for key in path[:-1]:
        if not isinstance(meta, dict):
            return False
        meta = meta.get(key)
    return bool(meta == path[-1])


def _parent_of(update: protocol.Update) -> str | None:
    """The tool call of the sub-agent that an update comes from; None for the agent itself."""
    return _inner(update.meta, "parentToolUseId")


def _plain(content: Any) -> Any:
    """A tool's content; as text if it is only text."""
    return protocol.text_of(content) or content
