"""Copilot's `events.jsonl`, translated into events as the CLI appends to it.

One `assistant.turn_start` and `assistant.turn_end` stand around each model call; the turn is over
after a call whose message asked for no tool. A call that failed has no message, and the error comes
after its end. A prompt interrupted before the first word is cut out of the file again.
"""

from typing import Any

import msgspec

from bridle.drives.tmux.transcript_wire import BaseTranscriptWire
from bridle.runtimes.copilot import wire
from bridle.runtimes.copilot.errors import error_of_session
from bridle.runtimes.copilot.transcript import _decode_counts, _decode_model, _decode_record

_PASTED_FILE = "<pasted_content file="


class _User(msgspec.Struct, rename="camel"):
    content: str = ""


class _Start(msgspec.Struct, rename="camel"):
    session_id: str | None = None
    selected_model: str | None = None
    copilot_version: str | None = None


class _Message(msgspec.Struct, rename="camel"):
    message_id: str | None = None
    model: str | None = None
    content: str = ""
    reasoning_text: str | None = None
    tool_requests: list[Any] = []
    parent_tool_call_id: str | None = None


class _Line(msgspec.Struct):
    type: str = ""
    data: msgspec.Raw = msgspec.Raw(b"{}")


_lines = msgspec.json.Decoder(_Line)
_users = msgspec.json.Decoder(_User)
_starts = msgspec.json.Decoder(_Start)
_messages = msgspec.json.Decoder(_Message)
_tool_starts = msgspec.json.Decoder(wire.ToolStart)
_tool_ends = msgspec.json.Decoder(wire.ToolComplete)
_failures = msgspec.json.Decoder(wire.Failure)


class CopilotFollower(BaseTranscriptWire):
    """See `bridle.drives.tmux.transcript_wire.TranscriptWire` for the contract."""

    def _take(self, line: bytes) -> None:
        entry = _lines.decode(line)
        recorder = self.recorder
        if recorder.options.include_raw:
            recorder.source(msgspec.json.decode(line))
        match entry.type:
            case "session.start" | "session.resume":
                start = _starts.decode(entry.data)
                recorder.session_started(
                    start.session_id,
                    model=start.selected_model,
                    runtime_version=start.copilot_version,
                )
            case "user.message":
                self._told(_users.decode(entry.data).content, "user.message")
            case "assistant.message":
                self._message(_messages.decode(entry.data))
            case "assistant.turn_end":
                if self._final:
                    self._end_turn()
            case "tool.execution_start" | "tool.execution_complete":
                self._tool(entry)
            case "session.usage_record":
                self._used(entry.data)
            case "session.error":
                if recorder.turn_open:
                    recorder.fail(error_of_session(_failures.decode(entry.data), None))
                    self._end_turn()
            case "abort":
                self._aborted("interrupted at the terminal")
            case "session.compaction_start":
                recorder.compaction_started("automatic")
            case "session.compaction_complete":
                recorder.compaction_ended("automatic")
            case _:
                # The rest says nothing that the events have a place for.
                pass

    def _receipt(self, text: str) -> str | None:
        """A very long paste is kept as a file, and the entry only names it."""
        if text.startswith(_PASTED_FILE):
            return self._pending.take_oldest()
        return super()._receipt(text)

    def _message(self, message: _Message) -> None:
        recorder = self.recorder
        if message.parent_tool_call_id is not None:
            recorder.tool_updated(message.parent_tool_call_id, message.content)
            return
        recorder.message_started(message.message_id)
        for kind, text in (("thinking", message.reasoning_text), ("text", message.content)):
            if text:
                self._say(kind, text)
        recorder.message_ended(model=message.model)
        self._final = not message.tool_requests

    def _tool(self, entry: _Line) -> None:
        recorder = self.recorder
        if entry.type == "tool.execution_start":
            start = _tool_starts.decode(entry.data)
            if start.parent_tool_call_id is None:
                recorder.tool_started(start.tool_call_id, start.tool_name, start.arguments)
            return
        end = _tool_ends.decode(entry.data)
        if end.parent_tool_call_id is None and recorder.turn_open:
            result = end.result.content if end.result is not None else None
            recorder.tool_ended(
                end.tool_call_id,
                is_error=not end.success,
                result=end.error.message if result is None and end.error else result,
            )

    def _used(self, data: msgspec.Raw) -> None:
        """Each model call has one record; side calls are paid for too."""
        used = _decode_record(data).usage
        self.recorder.set_usage(self.recorder.usage + _decode_counts(used).usage())
        self.recorder.model = _decode_model(used).model or self.recorder.model
