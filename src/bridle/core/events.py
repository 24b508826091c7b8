"""The normalized events of a session: one struct a kind, the same for every runtime.

Order is a contract (`docs/events.md` shows traces):

    session_start
      state starting -> working
      agent_start                      one turn
        message_start                  assistant
          message_update text_start | text_delta… | text_end     (thinking likewise)
        message_end                    with this message's usage, where the runtime tells it
        tool_execution_start           after the message that asked for it
          tool_execution_update…
        tool_execution_end             exactly one for each start
        …
        usage                          running totals of the session
      agent_end                        also when the turn failed
      state working -> stopped | failed
    session_end

`retry`, `auto_compaction_*`, `permission_*` and `error` stand where they happened. An `error`
event before `agent_end` is the turn's failure; the same error is in `agent_end.error`. One outside
of any turn, right before `session_end`, says why a live session ended or never became ready.
"""

from typing import Any, Literal

import msgspec

from bridle.core.errors import ErrorInfo
from bridle.core.usage import Usage

SCHEMA_VERSION = 1

Role = Literal["assistant", "user", "system", "tool"]
UpdateKind = Literal[
    "text_start",
    "text_delta",
    "text_end",
    "thinking_start",
    "thinking_delta",
    "thinking_end",
]
RunStatus = Literal["completed", "failed", "aborted", "timed_out", "budget_exceeded"]
SessionState = Literal[
    "starting",
    "ready",
    "working",
    "waiting_permission",
    "compacting",
    "stopped",
    "failed",
    "lost",
    "unknown",
]
Drive = Literal["print", "rpc", "tmux", "embedded"]


class Event(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", tag="event"):
    """The envelope every event has.

    `synthetic` marks an event that Bridle derived because the contract needs it (a text that came
    whole still gets its start and end; a tool whose agent died still gets its end). `raw` is the
    wire message behind the event, present only when it was asked for.
    """

    v: int = SCHEMA_VERSION
    seq: int = 0
    ts: str = ""
    session_id: str = ""
    runtime: str = ""
    synthetic: bool = False
    raw: Any = msgspec.UNSET


class SessionStart(Event, frozen=True, kw_only=True, tag="session_start"):
    """The agent is there and named its session. Once a process, before everything else."""

    native_session_id: str | None = None
    model: str | None = None
    cwd: str = ""
    runtime_version: str = ""
    drive: Drive = "print"


class AgentStart(Event, frozen=True, kw_only=True, tag="agent_start"):
    """A turn begins: the agent took a prompt."""

    turn: int


class MessageStart(Event, frozen=True, kw_only=True, tag="message_start"):
    """A message begins. One with the role `user` is what a person typed at the agent's own
    terminal; messages that were sent through Bridle have no events."""

    message_id: str
    role: Role = "assistant"


class MessageUpdate(Event, frozen=True, kw_only=True, tag="message_update"):
    """A piece of the open message; the deltas of a block joined are its text."""

    message_id: str
    kind: UpdateKind
    text: str = ""


class MessageEnd(Event, frozen=True, kw_only=True, tag="message_end"):
    """The message is complete; `text` is all its text blocks joined. `usage` is this message's
    own, null where the runtime only tells totals."""

    message_id: str
    role: Role = "assistant"
    text: str = ""
    usage: Usage | None = None
    model: str | None = None
    stop_reason: str | None = None


class ToolExecutionStart(Event, frozen=True, kw_only=True, tag="tool_execution_start"):
    """The agent calls a tool. `tool_name` and `args` are the runtime's own."""

    tool_call_id: str
    tool_name: str
    args: Any = None


class ToolExecutionUpdate(Event, frozen=True, kw_only=True, tag="tool_execution_update"):
    """Output of a running tool, or a sub-agent's step inside it."""

    tool_call_id: str
    text: str = ""


class ToolExecutionEnd(Event, frozen=True, kw_only=True, tag="tool_execution_end"):
    """The tool ended; `result` is what the model is shown."""

    tool_call_id: str
    tool_name: str
    is_error: bool = False
    result: Any = None


class PermissionRequest(Event, frozen=True, kw_only=True, tag="permission_request"):
    """The agent asks whether it may act."""

    request_id: str
    tool_call_id: str | None = None
    tool_name: str = ""
    args: Any = None


class PermissionDecision(Event, frozen=True, kw_only=True, tag="permission_decision"):
    """Somebody or something answered, or the agent's own mode refused without asking."""

    request_id: str
    tool_call_id: str | None = None
    tool_name: str = ""
    decision: Literal["allow", "deny"]
    by: str
    reason: str = ""


class AutoCompactionStart(Event, frozen=True, kw_only=True, tag="auto_compaction_start"):
    """The agent begins to shorten its context."""

    reason: str = ""


class AutoCompactionEnd(Event, frozen=True, kw_only=True, tag="auto_compaction_end"):
    """The context is shortened, or the attempt failed (`reason` says so)."""

    reason: str = ""


class Retry(Event, frozen=True, kw_only=True, tag="retry"):
    """A model call failed and the runtime will try again after `delay_ms`, where it tells."""

    attempt: int
    delay_ms: int | None = None
    error: ErrorInfo


class UsageTotals(Event, frozen=True, kw_only=True, tag="usage"):
    """Running totals of the session. Sent before each `agent_end`."""

    usage: Usage
    cost_usd: float | None = None


class StateChange(Event, frozen=True, kw_only=True, tag="state"):
    """The session's state changed; `evidence` names the fact that shows it."""

    old: SessionState
    new: SessionState
    evidence: str


class ErrorRaised(Event, frozen=True, kw_only=True, tag="error"):
    """Something failed; the turn's failure when `agent_end` follows with the same error."""

    kind: str
    message: str
    retryable: bool = False
    hint: str = ""


class AgentEnd(Event, frozen=True, kw_only=True, tag="agent_end"):
    """The turn is over, whatever its end. `usage` and `cost_usd` are this turn's."""

    turn: int
    status: RunStatus
    text: str = ""
    usage: Usage | None = None
    cost_usd: float | None = None
    marker_detected: bool = False
    error: ErrorInfo | None = None


class SessionEnd(Event, frozen=True, kw_only=True, tag="session_end"):
    """The agent's process is gone. `reason` is the one that was given for stopping it; when nobody
    stopped it, how the process ended."""

    exit_code: int | None = None
    signal: str | None = None
    reason: str = ""


class Unknown(Event, frozen=True, kw_only=True, tag="unknown"):
    """A wire message no dialect knows; its payload is in `raw`. It never ends a stream."""


AnyEvent = (
    SessionStart
    | AgentStart
    | MessageStart
    | MessageUpdate
    | MessageEnd
    | ToolExecutionStart
    | ToolExecutionUpdate
    | ToolExecutionEnd
    | PermissionRequest
    | PermissionDecision
    | AutoCompactionStart
    | AutoCompactionEnd
    | Retry
    | UsageTotals
    | StateChange
    | ErrorRaised
    | AgentEnd
    | SessionEnd
    | Unknown
)
"""Every kind of event; what a stored line decodes to."""

_encoder = msgspec.json.Encoder()


def encode_event(event: Event) -> bytes:
    """One event as one line of JSON, without the newline."""
    return _encoder.encode(event)


def decode_event(line: bytes | str) -> AnyEvent:
    """The event that a line of JSON stands for; raises `msgspec.ValidationError` on any other."""
    return _event_decoder().decode(line)


_decoder: "msgspec.json.Decoder[AnyEvent] | None" = None


def _event_decoder() -> "msgspec.json.Decoder[AnyEvent]":
    # Built on first use: runs write events and hardly ever read them, and it costs milliseconds.
    global _decoder
    if _decoder is None:
        _decoder = msgspec.json.Decoder(AnyEvent)
    return _decoder
