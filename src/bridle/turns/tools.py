"""The tool calls of a turn: which are running, which have ended, and what they print."""

from typing import Any

from bridle.core import events as ev
from bridle.core.redaction import Redactor
from bridle.turns.event_writer import EventWriter


class ToolCalls:
    """Writes the start, the output and the end of each tool call.

    Contract: a call runs from its `start` to its `end`, and each is written once; the caller checks
    `is_running` and `has_ended`, because a wire may repeat itself. Secrets that arrive in pieces
    are held back until they are complete.
    """

    def __init__(self, writer: EventWriter, redactor: Redactor) -> None:
        self._writer = writer
        self._redactor = redactor
        self._running: dict[str, str] = {}
        self._held: dict[str, str] = {}
        self._ended: dict[str, bool | None] = {}

    @property
    def open(self) -> dict[str, str]:
        """The running calls: names by id, oldest first."""
        return dict(self._running)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the running tools, oldest first."""
        return tuple(self._running.values())

    def name_of(self, tool_call_id: str) -> str:
        """The name of a running tool; empty if no call with this id runs."""
        return self._running.get(tool_call_id, "")

    def is_running(self, tool_call_id: str) -> bool:
        """Whether the call was started and has not ended."""
        return tool_call_id in self._running

    def has_ended(self, tool_call_id: str) -> bool:
        """Whether the call ended in this turn."""
        return tool_call_id in self._ended

    def failed(self, tool_call_id: str) -> bool | None:
        """Whether a call that ended in this turn failed; None if it did not run or end."""
        return self._ended.get(tool_call_id)

    def knows(self, tool_call_id: str) -> bool:
        """Whether the call started in the current turn, or in the last one between turns."""
        return tool_call_id in self._running or tool_call_id in self._ended

    def begin_turn(self) -> None:
        """Forget the calls of the previous turn: agents may reuse their ids."""
        self._ended.clear()

    def count_as_ended(self, tool_call_id: str) -> None:
        """The call will not run: the wire reports only its verdict."""
        self._ended[tool_call_id] = None

    def start(self, tool_call_id: str, tool_name: str, args: Any, synthetic: bool) -> None:
        """The tool runs."""
        self._running[tool_call_id] = tool_name
        self._ended.pop(tool_call_id, None)
        self._writer.emit(
            ev.ToolExecutionStart,
            tool_call_id=tool_call_id,
            tool_name=tool_name,
            args=self._redactor.value(args),
            synthetic=synthetic,
        )

    def update(self, tool_call_id: str, text: str) -> None:
        """The next piece of the tool's output; ignored if no such tool runs."""
        if tool_call_id not in self._running:
            return
        text, held = self._redactor.split(self._held.pop(tool_call_id, "") + text)
        if held:
            self._held[tool_call_id] = held
        if text:
            self._writer.emit(ev.ToolExecutionUpdate, tool_call_id=tool_call_id, text=text)

    def end(self, tool_call_id: str, *, is_error: bool, result: Any, synthetic: bool) -> None:
        """The tool ended; output that was held back is written first. Ignored if no such tool
        runs."""
        if tool_call_id not in self._running:
            return
        held = self._redactor.text(self._held.pop(tool_call_id, ""))
        if held:
            self._writer.emit(ev.ToolExecutionUpdate, tool_call_id=tool_call_id, text=held)
        self._ended[tool_call_id] = is_error
        self._writer.emit(
            ev.ToolExecutionEnd,
            tool_call_id=tool_call_id,
            tool_name=self._running.pop(tool_call_id),
            is_error=is_error,
            result=self._redactor.value(result),
            synthetic=synthetic,
        )
