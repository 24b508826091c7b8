"""Pi's session file, translated into events as the CLI appends to it.

Entries are whole messages. An answer that ended by itself ends the turn. One that failed may be
followed by another try, of which the file says nothing: the pane tells when there is none.
"""

from typing import Any

import msgspec

from bridle.core.errors import Aborted, AgentError, ContextOverflow
from bridle.drives.tmux.transcript_wire import BaseTranscriptWire
from bridle.runtimes.pi.errors import error_from_message
from bridle.runtimes.pi.stream import _qualified, _usage
from bridle.runtimes.pi.wire import Message, ToolResult, WireUsage, blocks_of, shown_result


class _Call(msgspec.Struct):
    type: str = ""
    id: str = ""
    name: str = ""
    arguments: Any = None


class _Result(msgspec.Struct, rename="camel"):
    tool_call_id: str = ""
    tool_name: str = ""
    is_error: bool = False


class _Entry(msgspec.Struct, rename="camel"):
    type: str = ""
    id: str = ""
    message: msgspec.Raw = msgspec.Raw(b"{}")
    usage: WireUsage | None = None


_entries = msgspec.json.Decoder(_Entry)
_messages = msgspec.json.Decoder(Message)
_results = msgspec.json.Decoder(_Result)
_calls = msgspec.json.Decoder(list[_Call])


class PiFollower(BaseTranscriptWire):
    """See `bridle.drives.tmux.transcript_wire.TranscriptWire` for the contract."""

    _failure: AgentError | None = None
    _tries = 0

    def _take(self, line: bytes) -> None:
        entry = _entries.decode(line)
        recorder = self.recorder
        if recorder.options.include_raw:
            recorder.source(msgspec.json.decode(line))
        if entry.type == "session":
            recorder.session_started(entry.id)
        elif entry.type == "compaction":
            recorder.compaction_started("", synthetic=True)
            recorder.compaction_ended("success")
            if entry.usage is not None:
                recorder.set_usage(recorder.usage + _usage(entry.usage))
        elif entry.type == "message":
            message = _messages.decode(entry.message)
            if message.role == "user":
                self._tries, self._failure = 0, None
                self._told(
                    "".join(block.text for block in blocks_of(message.content)), "user entry"
                )
            elif message.role == "assistant":
                self._assistant(message)
            elif message.role == "toolResult":
                result = _results.decode(entry.message)
                recorder.tool_ended(
                    result.tool_call_id,
                    tool_name=result.tool_name,
                    is_error=result.is_error,
                    result=shown_result(ToolResult(content=message.content)),
                )

    def _assistant(self, message: Message) -> None:
        recorder = self.recorder
        self._failure = None
        self._message(message)
        if message.stop_reason == "toolUse":
            self._final = False
            for call in _calls_of(message.content):
                recorder.tool_started(call.id, call.name, call.arguments)
        elif message.stop_reason == "aborted":
            recorder.fail(Aborted(message.error_message or "interrupted at the terminal"))
            self._end_turn()
        elif message.stop_reason == "error":
            self._failed(message)
        else:
            if message.stop_reason == "length":
                recorder.fail(ContextOverflow("the answer was cut off at the model's output limit"))
            self._end_turn()

    def _message(self, message: Message) -> None:
        """An answer without words is no message, unless it was paid for."""
        recorder = self.recorder
        spoken = [block for block in blocks_of(message.content) if block.type in _SPOKEN]
        usage = _usage(message.usage)
        if not spoken and not usage.total:
            return
        recorder.message_started(message.response_id)
        for block in spoken:
            self._say(block.type, block.text or block.thinking)
        cost = message.usage.cost.total
        recorder.message_ended(
            usage=usage,
            model=_qualified(message),
            stop_reason=message.stop_reason or None,
            cost_usd=cost if cost > 0 else None,
        )

    def _failed(self, message: Message) -> None:
        error = error_from_message(message.error_message, _qualified(message))
        if not error.retryable:
            self.recorder.fail(error)
            self._end_turn()
            return
        self._tries += 1
        self._failure = error
        self.recorder.retrying(self._tries, None, error)

    def _unfinished(self) -> AgentError:
        return self._failure or super()._unfinished()


_SPOKEN = ("text", "thinking")


def _calls_of(content: msgspec.Raw) -> list[_Call]:
    try:
        return [call for call in _calls.decode(content) if call.type == "toolCall"]
    except msgspec.MsgspecError:
        return []
