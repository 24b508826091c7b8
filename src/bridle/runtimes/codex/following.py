"""Codex's rollout, translated into events as the CLI appends to it.

Items are written when they are complete, so a tool's start and end come together, as the print
drive names them. What belongs to no open turn (a background command that ends later) is left out.
"""

from typing import Any

import msgspec

from bridle.core.usage import NO_USAGE, Usage
from bridle.drives.tmux.transcript_wire import BaseTranscriptWire
from bridle.runtimes.codex.errors import turn_error
from bridle.runtimes.codex.transcript import usage_of
from bridle.runtimes.codex.wire import WireUsage

_READ = frozenset({"session_meta", "turn_context", "event_msg", "token_usage_record", "compacted"})


class _Failure(msgspec.Struct):
    message: str = ""


class _Payload(msgspec.Struct):
    type: str = ""
    id: str = ""
    cli_version: str | None = None
    model: str | None = None
    item: dict[str, Any] | None = None
    response_id: str = ""
    usage: WireUsage | None = None
    error: _Failure | None = None
    reason: str = ""


class _Line(msgspec.Struct):
    type: str = ""
    payload: msgspec.Raw = msgspec.Raw(b"{}")


_lines = msgspec.json.Decoder(_Line)
_payloads = msgspec.json.Decoder(_Payload)


class CodexFollower(BaseTranscriptWire):
    """See `bridle.drives.tmux.transcript_wire.TranscriptWire` for the contract."""

    _thread: str | None = None
    _sum: Usage = NO_USAGE
    _counted: frozenset[str] = frozenset()

    def _take(self, line: bytes) -> None:
        entry = _lines.decode(line)
        if entry.type not in _READ:
            return
        payload = _payloads.decode(entry.payload)
        recorder = self.recorder
        if recorder.options.include_raw:
            recorder.source(msgspec.json.decode(line))
        if entry.type == "session_meta":
            # A resumed or forked thread repeats the header of the one it came from.
            if self._thread is None:
                self._thread = payload.id
                recorder.session_started(payload.id, runtime_version=payload.cli_version)
        elif entry.type == "turn_context":
            recorder.model = payload.model or recorder.model
        elif entry.type == "token_usage_record":
            self._used(payload)
        elif entry.type == "compacted":
            recorder.compaction_started("", synthetic=True)
            recorder.compaction_ended("success")
        else:
            self._event(payload)

    def _event(self, payload: _Payload) -> None:
        if payload.type == "task_started":
            self._final = False
            self.recorder.turn_started(evidence="task_started")
        elif payload.type == "task_complete":
            if payload.error is not None:
                model = self.recorder.options.model or self.recorder.model
                self.recorder.fail(turn_error(payload.error.message, model))
            self._end_turn()
        elif payload.type == "turn_aborted":
            self._aborted(payload.reason or "interrupted at the terminal")
        elif payload.type == "item_completed" and payload.item is not None:
            self._item(payload.item)

    def _used(self, payload: _Payload) -> None:
        """Each model call once, whatever is written twice."""
        if payload.usage is None or payload.response_id in self._counted:
            return
        self._counted |= {payload.response_id}
        self._sum += usage_of(payload.usage)
        self.recorder.set_usage(self._sum)

    def _item(self, item: dict[str, Any]) -> None:
        recorder = self.recorder
        kind, item_id = str(item.get("type")), str(item.get("id") or "")
        if kind == "UserMessage":
            self._user(item)
        elif not recorder.turn_open:
            return
        elif kind == "AgentMessage":
            if not recorder.message_open:
                recorder.message_started(item_id or None)
            self._say("text", _joined(item.get("content")))
            recorder.message_ended()
        elif kind == "Reasoning":
            if not recorder.message_open:
                recorder.message_started(item_id or None)
            self._say("thinking", "\n\n".join(map(str, item.get("summary_text") or [])))
        elif kind == "CommandExecution":
            self._command(item_id, item)
        elif kind not in _NOT_TOOLS:
            self._tool(item_id, kind, item)

    def _user(self, item: dict[str, Any]) -> None:
        """Codex opens its turn before it writes the message, and takes others into it."""
        self.recorder.turn_started(evidence="UserMessage")
        self._user_said(_joined(item.get("content")))

    def _command(self, item_id: str, item: dict[str, Any]) -> None:
        from shlex import join

        words = item.get("command")
        command = join(map(str, words)) if isinstance(words, list) else str(words or "")
        code = item.get("exit_code")
        output = item.get("aggregated_output")
        self.recorder.tool_started(
            item_id, "command_execution", {"command": command}, synthetic=True
        )
        self.recorder.tool_ended(
            item_id,
            is_error=code not in (0, None) or item.get("status") in _BAD,
            result={"output": output or "", "exit_code": code},
        )

    def _tool(self, item_id: str, kind: str, item: dict[str, Any]) -> None:
        told = {name: value for name, value in item.items() if name not in ("type", "id")}
        self.recorder.tool_started(item_id, _snake(kind), told, synthetic=True)
        self.recorder.tool_ended(item_id, is_error=item.get("status") in _BAD, result=told)


_BAD = ("failed", "declined")
_NOT_TOOLS = frozenset({"Plan", "HookPrompt", "ContextCompaction", "EnteredReviewMode"})


def _joined(content: Any) -> str:
    """The text of a message's content blocks."""
    if not isinstance(content, list):
        return str(content or "")
    return "".join(str(block.get("text") or "") for block in content if isinstance(block, dict))


def _snake(name: str) -> str:
    return "".join(f"_{char.lower()}" if char.isupper() else char for char in name).lstrip("_")
