"""The conversation of a session: messages, tool calls and notices in their order.

Made from the events and the user's messages, for exports and for the brief of a handover.
"""

from collections import deque
from collections.abc import Iterator
from typing import Any, Literal

import msgspec

from bridle.core import events as ev
from bridle.core.errors import Unavailable
from bridle.core.usage import Usage
from bridle.sessions.event_log import EventLog
from bridle.sessions.home import StateHome
from bridle.sessions.store import SessionRecord
from bridle.sessions.user_messages import TextCleaner, UserMessage, user_messages

_OUTPUT = 1 << 16
"""Characters of a tool's streamed output to keep, for a tool that never gave a result."""

NoticeKind = Literal[
    "session_start", "turn_end", "session_end", "compaction", "retry", "permission", "error"
]


class ToolUse(msgspec.Struct, kw_only=True):
    """One call of a tool."""

    id: str
    name: str
    args: Any = None
    result: Any = None
    is_error: bool = False
    is_open: bool = True
    """Whether it has not ended yet."""
    output: str = ""
    """The end of what it printed while it ran; for a tool without a result."""

    @property
    def result_text(self) -> str:
        """Its result, as text."""
        return self.output if self.result is None else as_text(self.result)


class AgentStep(msgspec.Struct, kw_only=True):
    """A message of the agent with the tools that it called after it; either may be missing."""

    ts: str = ""
    turn: int = 0
    text: str = ""
    thinking: str = ""
    model: str | None = None
    usage: Usage | None = None
    stop_reason: str | None = None
    tools: list[ToolUse] = []


class Notice(msgspec.Struct, frozen=True, kw_only=True):
    """Anything else that a reader should know; `event` is its source."""

    kind: NoticeKind
    text: str
    ts: str
    turn: int
    event: ev.Event


Part = UserMessage | AgentStep | Notice


def session_events(home: StateHome, record: SessionRecord) -> Iterator[ev.AnyEvent]:
    """The events of a session that are on disk; `Unavailable` for a line that is not an event."""
    for number, line in enumerate(EventLog(home.folder(record.session_id)).lines(), 1):
        try:
            yield ev.decode_event(line)
        except msgspec.MsgspecError:
            raise damaged(record, number) from None


def damaged(record: SessionRecord, line: int) -> Unavailable:
    """The error of an event file that another program changed."""
    return Unavailable(
        f"session {record.session_id}: line {line} of its events cannot be read",
        hint="the file was changed by something else; the agent's own transcript may be whole",
    )


def conversation(
    home: StateHome, record: SessionRecord, cleaner: TextCleaner | None = None
) -> Iterator[Part]:
    """The parts of a session in their order; messages that reached no turn come last.

    Streamed: only the user's messages and steps with running tools are held in memory.
    """
    return _Builder(user_messages(home, record, cleaner)).parts(session_events(home, record))


class _Builder:
    """Assembles events into parts."""

    def __init__(self, messages: list[UserMessage]) -> None:
        self._prompts: dict[int, list[UserMessage]] = {}
        self._steers: dict[int, list[UserMessage]] = {}
        self._rest = [each for each in messages if each.turn is None]
        for each in messages:
            if each.turn is not None:
                place = self._steers if each.steered else self._prompts
                place.setdefault(each.turn, []).append(each)
        self._waiting: deque[Part] = deque()
        self._step: AgentStep | None = None
        self._tools: dict[str, ToolUse] = {}
        self._text: list[str] = []
        self._thinking: list[str] = []
        self._turn = 0
        self._typed: str | None = None

    def parts(self, events: Iterator[ev.AnyEvent]) -> Iterator[Part]:
        for event in events:
            self._take(event)
            yield from self._ready()
        self._close_message()
        self._step = None
        yield from self._waiting
        for left in (*self._prompts.values(), *self._steers.values()):
            yield from left
        yield from self._rest

    def _ready(self) -> Iterator[Part]:
        """The parts at the front that are complete."""
        while self._waiting:
            part = self._waiting[0]
            if part is self._step:
                return
            if isinstance(part, AgentStep) and any(tool.is_open for tool in part.tools):
                return
            yield self._waiting.popleft()

    def _take(self, event: ev.AnyEvent) -> None:
        match event:
            case ev.AgentStart():
                self._turn = event.turn
                self._step = None
                self._waiting.extend(self._prompts.pop(event.turn, ()))
            case ev.MessageStart():
                self._steered(event.ts)
                self._close_message()
                # A message that a person typed is among the user's messages.
                self._typed = event.message_id if event.role == "user" else None
                if self._typed is None:
                    self._begin_step(event.ts)
            case ev.MessageUpdate(message_id=name) | ev.MessageEnd(message_id=name) if (
                name == self._typed
            ):
                pass
            case ev.MessageUpdate():
                self._update(event)
            case ev.MessageEnd():
                self._end_message(event)
            case ev.ToolExecutionStart() | ev.ToolExecutionUpdate() | ev.ToolExecutionEnd():
                self._take_tool(event)
            case ev.AgentEnd():
                self._steered(None)
                self._close_message()
                self._step = None
                self._notice("turn_end", event.status.replace("_", " "), event)
            case ev.SessionEnd():
                self._step = None
                self._abandon_tools()
                self._notice("session_end", event.reason, event)
            case _:
                self._take_notice(event)

    def _take_notice(self, event: ev.AnyEvent) -> None:
        match event:
            case ev.SessionStart():
                words = " ".join(filter(None, [event.runtime, event.runtime_version]))
                self._notice("session_start", words, event)
            case ev.AutoCompactionEnd():
                self._notice("compaction", event.reason, event)
            case ev.Retry():
                self._notice("retry", f"attempt {event.attempt}: {event.error.message}", event)
            case ev.PermissionDecision():
                how = "allowed" if event.decision == "allow" else "refused"
                why = f": {event.reason}" if event.reason else ""
                self._notice("permission", f"{event.tool_name} {how} by {event.by}{why}", event)
            case ev.ErrorRaised():
                self._notice("error", f"{event.kind}: {event.message}", event)
            case _:
                pass

    def _notice(self, kind: NoticeKind, text: str, event: ev.Event) -> None:
        self._waiting.append(
            Notice(kind=kind, text=text, ts=event.ts, turn=self._turn, event=event)
        )

    def _steered(self, ts: str | None) -> None:
        """Insert the steers that were sent before `ts`; all of them for None."""
        waiting = self._steers.get(self._turn, [])
        while waiting and (ts is None or (waiting[0].sent_at or "") <= ts):
            self._waiting.append(waiting.pop(0))

    # -- the agent's messages -------------------------------------------------------------------

    def _begin_step(self, ts: str) -> AgentStep:
        self._step = AgentStep(ts=ts, turn=self._turn, tools=[])
        self._waiting.append(self._step)
        return self._step

    def _update(self, event: ev.MessageUpdate) -> None:
        if event.kind == "text_delta":
            self._text.append(event.text)
        elif event.kind == "thinking_delta":
            self._thinking.append(event.text)
        elif event.kind == "thinking_start" and self._thinking:
            self._thinking.append("\n\n")

    def _end_message(self, event: ev.MessageEnd) -> None:
        step = self._step or self._begin_step(event.ts)
        step.text = event.text
        step.model, step.usage, step.stop_reason = event.model, event.usage, event.stop_reason
        self._text.clear()
        self._close_message()

    def _close_message(self) -> None:
        """Keep the text of an open message so far."""
        if self._step is not None:
            self._step.text = self._step.text or "".join(self._text)
            self._step.thinking = self._step.thinking or "".join(self._thinking)
        self._text.clear()
        self._thinking.clear()

    # -- tools ----------------------------------------------------------------------------------

    def _take_tool(
        self, event: ev.ToolExecutionStart | ev.ToolExecutionUpdate | ev.ToolExecutionEnd
    ) -> None:
        if isinstance(event, ev.ToolExecutionStart):
            self._steered_between(event.ts)
            tool = ToolUse(id=event.tool_call_id, name=event.tool_name, args=event.args)
            step = self._step or self._begin_step(event.ts)
            step.tools.append(tool)
            self._tools[tool.id] = tool
            return
        found = self._tools.get(event.tool_call_id)
        if found is None:
            return
        if isinstance(event, ev.ToolExecutionUpdate):
            found.output = (found.output + event.text)[-_OUTPUT:]
        else:
            found.result, found.is_error, found.is_open = event.result, event.is_error, False
            del self._tools[event.tool_call_id]

    def _abandon_tools(self) -> None:
        for tool in self._tools.values():
            tool.is_open = False
        self._tools.clear()

    def _steered_between(self, ts: str) -> None:
        """Insert steers between two steps; one between two tools of a step comes after the step."""
        if self._step is None:
            self._steered(ts)


def as_text(value: Any) -> str:
    """A tool's arguments or result for people: its text, else indented JSON."""
    if value is None:
        return ""
    if isinstance(value, str):
        return value
    if isinstance(value, list) and value and all(_is_text_block(each) for each in value):
        return "\n".join(each["text"] for each in value)
    return msgspec.json.format(msgspec.json.encode(value), indent=2).decode()


def _is_text_block(value: Any) -> bool:
    return (
        isinstance(value, dict)
        and value.get("type") == "text"
        and isinstance(value.get("text"), str)
    )


def usage_words(usage: Usage | None, cost_usd: float | None) -> str:
    """Tokens and cost in a few words; "" when unknown."""
    words = []
    if usage is not None and usage.total:
        words.append(f"{usage.input_tokens:,} tokens in")
        for count, name in (
            (usage.cache_read_tokens, "from cache"),
            (usage.cache_write_tokens, "into cache"),
        ):
            if count:
                words.append(f"{count:,} {name}")
        words.append(f"{usage.output_tokens:,} out")
    if cost_usd is not None:
        words.append(f"${cost_usd:.4f}")
    return ", ".join(words)
