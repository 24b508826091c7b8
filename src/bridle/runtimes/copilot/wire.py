"""The lines that `copilot --output-format json` prints, as far as Bridle reads them.

A line is an envelope with `type` and `data`; only what is used is declared, and what is not is
skipped without being built.
"""

from typing import Any

import msgspec

from bridle.core import structs


class Envelope(msgspec.Struct, frozen=True):
    """Any line, also of a transcript; `data` is decoded once the type is known to matter."""

    type: str = ""
    data: msgspec.Raw = msgspec.Raw(b"{}")


class Nothing(msgspec.Struct, frozen=True):
    """Data that Bridle does not read."""


class TurnStart(msgspec.Struct, frozen=True, rename="camel"):
    """The agent is about to call the model."""

    parent_tool_call_id: str | None = None


class MessageStart(msgspec.Struct, frozen=True, rename="camel"):
    """A message begins."""

    message_id: str | None = None
    parent_tool_call_id: str | None = None


class Delta(msgspec.Struct, frozen=True, rename="camel"):
    """A piece of text or reasoning."""

    delta_content: str = ""
    parent_tool_call_id: str | None = None


class Message(msgspec.Struct, frozen=True, rename="camel"):
    """A whole message of the assistant; of a sub-agent when it names a tool call."""

    message_id: str | None = None
    model: str | None = None
    content: str = ""
    reasoning_text: str | None = None
    parent_tool_call_id: str | None = None


class Reasoning(msgspec.Struct, frozen=True):
    """A whole piece of reasoning, printed after the message it belongs to."""

    content: str = ""


class ToolStart(msgspec.Struct, frozen=True, rename="camel"):
    """A tool begins."""

    tool_call_id: str
    tool_name: str = "unknown"
    arguments: Any = None
    parent_tool_call_id: str | None = None


class ToolPartial(msgspec.Struct, frozen=True, rename="camel"):
    """All that a running tool printed so far."""

    tool_call_id: str
    partial_output: str = ""


class ToolResult(msgspec.Struct, frozen=True):
    """What the model gets."""

    content: Any = None


class ToolError(msgspec.Struct, frozen=True):
    """Why a tool failed; `code` is `denied` for a call that was not allowed."""

    message: str = ""
    code: str | None = None


class ToolComplete(msgspec.Struct, frozen=True, rename="camel"):
    """A tool ended."""

    tool_call_id: str
    success: bool = False
    result: ToolResult | None = None
    error: ToolError | None = None
    parent_tool_call_id: str | None = None


class CallFailure(msgspec.Struct, frozen=True, rename="camel"):
    """A model call failed; it may be retried."""

    model: str | None = None
    status_code: int | None = None
    retry_attempt: int = 0
    error_message: str = ""


class Failure(msgspec.Struct, frozen=True, rename="camel"):
    """Why the turn ended."""

    error_type: str = ""
    message: str = ""
    status_code: int | None = None


class Compaction(msgspec.Struct, frozen=True):
    """The conversation is being shortened, or was."""

    success: bool | None = None
    error: Any = None


class Idle(msgspec.Struct, frozen=True):
    """Nothing more follows in this turn."""

    aborted: bool = False


class Result(msgspec.Struct, frozen=True, rename="camel"):
    """The last line. It has no `data`: its fields are in the line itself."""

    session_id: str | None = None
    exit_code: int | None = None


DATA: dict[str, type[msgspec.Struct]] = {
    "user.message": Nothing,
    "assistant.turn_start": TurnStart,
    "assistant.turn_end": TurnStart,
    "assistant.message_start": MessageStart,
    "assistant.message_delta": Delta,
    "assistant.reasoning_delta": Delta,
    "assistant.message": Message,
    "assistant.reasoning": Reasoning,
    "assistant.turn_retry": Nothing,
    "assistant.idle": Idle,
    "tool.execution_start": ToolStart,
    "tool.execution_partial_result": ToolPartial,
    "tool.execution_complete": ToolComplete,
    "model.call_failure": CallFailure,
    "session.error": Failure,
    "session.compaction_start": Compaction,
    "session.compaction_complete": Compaction,
    "abort": Nothing,
}
"""Lines that are read, by type; except `result`, see there."""

SILENT = frozenset(
    {
        "agent.interrupted",
        "assistant.intent",
        "assistant.streaming_delta",
        "assistant.tool_call_delta",
        "assistant.usage",
        "hook.end",
        "hook.start",
        "model.call_final_result",
        "model.call_finished",
        "model.call_start",
        "pending_messages.modified",
        "session.background_tasks_changed",
        "session.custom_agents_updated",
        "session.info",
        "session.mcp_server_status_changed",
        "session.mcp_servers_loaded",
        "session.model_change",
        "session.resume",
        "session.shutdown",
        "session.skills_loaded",
        "session.start",
        "session.title_changed",
        "session.tools_updated",
        "session.truncation",
        "session.usage_info",
        "session.usage_record",
        "session.warning",
        "subagent.completed",
        "subagent.failed",
        "subagent.selected",
        "subagent.started",
        "system.message",
        "tool.execution_progress",
        "tool.shell_output",
    }
)
"""Known lines whose content other lines say better."""

decode_envelope = structs.decoder(Envelope).decode
_decode_result = structs.decoder(Result).decode
_DECODERS = {name: structs.decoder(kind) for name, kind in DATA.items()}


def decode_line(line: bytes) -> tuple[str, Any]:
    """A line's type and its data, None for a line of `SILENT`.

    Raises `msgspec.MsgspecError` for what no known version prints.
    """
    envelope = decode_envelope(line)
    if envelope.type == "result":
        return "result", _decode_result(line)
    decoder = _DECODERS.get(envelope.type)
    if decoder is not None:
        return envelope.type, decoder.decode(envelope.data)
    if envelope.type in SILENT:
        return envelope.type, None
    raise msgspec.ValidationError(f"unknown line: {envelope.type}")
