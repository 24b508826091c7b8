"""The rollout of Codex's older line, translated into events as the CLI appends to it.

It tells messages, and beside them the calls as the model made them and what the model was told they
came to. Usage is a running total, as in the reading of a whole rollout. Of a turn that failed it
says nothing but that it ended, without an answer; the reason stands on the screen alone.
"""

from typing import Any

import msgspec

from bridle.core.errors import Crashed
from bridle.core.usage import NO_USAGE
from bridle.runtimes.codex.following import CodexFollower
from bridle.runtimes.codex.transcript import usage_of
from bridle.runtimes.codex.wire import WireUsage

_NAMES = {"exec_command": "command_execution", "shell": "command_execution"}
_NAMES |= {"shell_command": "command_execution", "apply_patch": "file_change"}
_FAILED = ("Process exited with code ", "Exit code: ")


class _Totals(msgspec.Struct):
    total_token_usage: WireUsage | None = None


class _Payload(msgspec.Struct):
    type: str = ""
    message: str = ""
    text: str = ""
    name: str = ""
    arguments: str = ""
    input: str = ""
    call_id: str = ""
    output: Any = None
    info: _Totals | None = None
    last_agent_message: str | None = None


class _Line(msgspec.Struct):
    type: str = ""
    payload: msgspec.Raw = msgspec.Raw(b"{}")


_lines = msgspec.json.Decoder(_Line)
_payloads = msgspec.json.Decoder(_Payload)


class OlderCodexFollower(CodexFollower):
    """See `bridle.drives.tmux.transcript_wire.TranscriptWire` for the contract."""

    _total = NO_USAGE
    _answered = False

    def _take(self, line: bytes) -> None:
        entry = _lines.decode(line)
        if entry.type not in ("event_msg", "response_item"):
            super()._take(line)
            return
        payload = _payloads.decode(entry.payload)
        if self.recorder.options.include_raw:
            self.recorder.source(msgspec.json.decode(line))
        if entry.type == "response_item":
            self._call(payload)
        elif not self._told_event(payload):
            super()._take(line)

    def _told_event(self, payload: _Payload) -> bool:
        """Take an event that only this line tells so; whether it was one."""
        recorder = self.recorder
        if payload.type == "user_message":
            recorder.turn_started(evidence="user_message")
            self._user_said(payload.message)
        elif payload.type == "agent_message" and recorder.turn_open:
            self._answered = True
            if not recorder.message_open:
                recorder.message_started()
            self._say("text", payload.message)
            recorder.message_ended()
        elif payload.type == "agent_reasoning" and recorder.turn_open:
            if not recorder.message_open:
                recorder.message_started()
            self._say("thinking", payload.text)
        elif payload.type == "token_count":
            self._count(payload.info)
        elif payload.type == "task_complete" and payload.last_agent_message is None:
            if recorder.turn_open and not self._answered:
                recorder.fail(Crashed("the turn ended without an answer", hint="see its screen"))
            return False
        else:
            self._answered = self._answered and payload.type != "task_started"
            return False
        return True

    def _count(self, info: _Totals | None) -> None:
        """Totals are told again and again, and start anew after an overflow: growth counts."""
        if info is None or info.total_token_usage is None:
            return
        total = usage_of(info.total_token_usage)
        growth, self._total = total - self._total, total
        if growth.total > 0:
            self._sum += growth
            self.recorder.set_usage(self._sum)

    def _call(self, payload: _Payload) -> None:
        recorder = self.recorder
        if not recorder.turn_open:
            return
        if payload.type in ("function_call", "custom_tool_call"):
            self._answered = True
            name = _NAMES.get(payload.name, payload.name)
            recorder.tool_started(payload.call_id, name, _arguments(payload))
        elif payload.type in ("function_call_output", "custom_tool_call_output"):
            text = payload.output if isinstance(payload.output, str) else str(payload.output)
            recorder.tool_ended(payload.call_id, is_error=_failed(text), result=text)


def _arguments(payload: _Payload) -> Any:
    try:
        told = msgspec.json.decode(payload.arguments or payload.input)
    except msgspec.DecodeError:
        told = payload.arguments or payload.input
    if isinstance(told, dict) and "cmd" in told:
        return {"command": told["cmd"]}
    return told


def _failed(output: str) -> bool:
    """Whether what the model was told of a call says that it went wrong."""
    for mark in _FAILED:
        _, found, rest = output.partition(mark)
        if found:
            return not rest.startswith("0")
    return False
