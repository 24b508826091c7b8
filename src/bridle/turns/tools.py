"""The tool calls of a turn: which run now, which have ended, and what they print."""

from typing import Any

from bridle.core import events as ev
from bridle.core.redaction import Redactor
from bridle.turns.tape import EventTape


class ToolCalls:
    """Tells the start, the output and the end of each call.

    Contract: a call runs from its `start` to its `end`, and both are told once; the caller asks
    `is_running` and `has_ended` where the wire may repeat itself. Secrets that arrive in pieces are
    held back until they are whole.
    """

    def __init__(self, tape: EventTape, redactor: Redactor) -> None:
        self._tape = tape
        self._redactor = redactor
        self._running: dict[str, str] = {}
        self._held: dict[str, str] = {}
        self._ended: dict[str, bool | None] = {}

    @property
    def open(self) -> dict[str, str]:
        """The calls that run: names by id, the oldest first."""
        return dict(self._running)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the tools that run, oldest first."""
        return tuple(self._running.values())

    def name_of(self, tool_call_id: str) -> str:
        """The name of a tool that runs; empty when none of that id does."""
        return self._running.get(tool_call_id, "")

    def is_running(self, tool_call_id: str) -> bool:
        """Whether the call was started and has not ended."""
        return tool_call_id in self._running

    def has_ended(self, tool_call_id: str) -> bool:
        """Whether the call ended in this turn."""
        return tool_call_id in self._ended

    def failed(self, tool_call_id: str) -> bool | None:
        """Whether a call that ended in this turn failed; None when it did not run or end."""
        return self._ended.get(tool_call_id)

    def knows(self, tool_call_id: str) -> bool:
        """Whether the call was told in the turn that runs, or ran last."""
        return tool_call_id in self._running or tool_call_id in self._ended

    def begin_turn(self) -> None:
        """Ids may be used again."""
        self._ended.clear()

    def count_as_ended(self, tool_call_id: str) -> None:
        """The call will not run: its verdict is all that the wire tells of it."""
        self._ended[tool_call_id] = None

    def start(self, tool_call_id: str, tool_name: str, args: Any, synthetic: bool) -> None:
        """The tool runs."""
        self._running[tool_call_id] = tool_name
        self._ended.pop(tool_call_id, None)
        self._tape.emit(
            ev.ToolExecutionStart,
            tool_call_id=tool_call_id,
            tool_name=tool_name,
            args=self._redactor.value(args),
            synthetic=synthetic,
        )

    def update(self, tool_call_id: str, text: str) -> None:
        """The next piece of what it prints; ignored when no such tool runs."""
        if tool_call_id not in self._running:
            return
        text, held = self._redactor.split(self._held.pop(tool_call_id, "") + text)
        if held:
            self._held[tool_call_id] = held
        if text:
            self._tape.emit(ev.ToolExecutionUpdate, tool_call_id=tool_call_id, text=text)

    def end(self, tool_call_id: str, *, is_error: bool, result: Any, synthetic: bool) -> None:
        """The tool ended; what it printed last is told first. Ignored when no such tool runs."""
        if tool_call_id not in self._running:
            return
        held = self._redactor.text(self._held.pop(tool_call_id, ""))
        if held:
            self._tape.emit(ev.ToolExecutionUpdate, tool_call_id=tool_call_id, text=held)
        self._ended[tool_call_id] = is_error
        self._tape.emit(
            ev.ToolExecutionEnd,
            tool_call_id=tool_call_id,
            tool_name=self._running.pop(tool_call_id),
            is_error=is_error,
            result=self._redactor.value(result),
            synthetic=synthetic,
        )
