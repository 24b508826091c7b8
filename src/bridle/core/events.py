"""The normalized events of a session: one struct for each kind, the same for every runtime.

Order is a contract (`docs/events.md` shows traces):

    session_start
      state starting -> working
      agent_start                      one turn
        message_start                  assistant
          message_update text_start | text_delta… | text_end     (thinking likewise)
        message_end                    with this message's usage, where the runtime reports it
        tool_execution_start           after the message that asked for it
          tool_execution_update…
        tool_execution_end             exactly one for each start
        …
        usage                          running totals of the session
      agent_end                        also when the turn failed
      state working -> stopped | failed
    session_end

`retry`, `auto_compaction_*`, `permission_*` and `error` come where they happened. An `error`
event before `agent_end` is the turn's failure; the same error is in `agent_end.error`. One outside
of any turn, right before `session_end`, says why a live session ended or never became ready.
"""

from typing import Any, ClassVar, Literal

import msgspec

from bridle.core import structs
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

    `synthetic` marks an event that Bridle derived because the contract needs it (text that came
    whole still gets its start and end; a tool whose agent died still gets its end). `raw` is the
    wire message behind the event, present only when it was asked for. `type` is the name that the
    event has in JSON, a literal type in each class.
    """

    type: ClassVar[str] = "event"
    v: int = SCHEMA_VERSION
    """Version of the event schema."""
    seq: int = 0
    """Counts the events of a session from 1, without gaps."""
    ts: str = ""
    """When it happened, in UTC."""
    session_id: str = ""
    """Bridle's id of the session or run."""
    runtime: str = ""
    """The runtime it comes from."""
    synthetic: bool = False
    """Whether Bridle derived it."""
    raw: Any = msgspec.UNSET
    """The wire message behind it, with `include_raw`; always there on `unknown`."""


class SessionStart(Event, frozen=True, kw_only=True, tag="session_start"):
    """The agent has started and named its session. Once for each process, before everything
    else."""

    type: ClassVar[Literal["session_start"]] = "session_start"
    native_session_id: str | None = None
    model: str | None = None
    cwd: str = ""
    runtime_version: str = ""
    drive: Drive = "print"


class AgentStart(Event, frozen=True, kw_only=True, tag="agent_start"):
    """A turn begins: the agent took a prompt."""

    type: ClassVar[Literal["agent_start"]] = "agent_start"
    turn: int


class MessageStart(Event, frozen=True, kw_only=True, tag="message_start"):
    """A message begins. One with the role `user` is what a person typed at the agent's own
    terminal; messages that were sent through Bridle have no events."""

    type: ClassVar[Literal["message_start"]] = "message_start"
    message_id: str
    role: Role = "assistant"


class MessageUpdate(Event, frozen=True, kw_only=True, tag="message_update"):
    """A piece of the open message; the deltas of a block joined are its text."""

    type: ClassVar[Literal["message_update"]] = "message_update"
    message_id: str
    kind: UpdateKind
    text: str = ""


class MessageEnd(Event, frozen=True, kw_only=True, tag="message_end"):
    """The message is complete; `text` is all its text blocks joined. `usage` is this message's
    own, null where the runtime only reports totals."""

    type: ClassVar[Literal["message_end"]] = "message_end"
    message_id: str
    role: Role = "assistant"
    text: str = ""
    usage: Usage | None = None
    model: str | None = None
    stop_reason: str | None = None


class ToolExecutionStart(Event, frozen=True, kw_only=True, tag="tool_execution_start"):
    """The agent calls a tool. `tool_name` and `args` are the runtime's own."""

    type: ClassVar[Literal["tool_execution_start"]] = "tool_execution_start"
    tool_call_id: str
    tool_name: str
    args: Any = None


class ToolExecutionUpdate(Event, frozen=True, kw_only=True, tag="tool_execution_update"):
    """Output of a running tool, or a sub-agent's step inside it."""

    type: ClassVar[Literal["tool_execution_update"]] = "tool_execution_update"
    tool_call_id: str
    text: str = ""


class ToolExecutionEnd(Event, frozen=True, kw_only=True, tag="tool_execution_end"):
    """The tool ended; `result` is what the model sees."""

    type: ClassVar[Literal["tool_execution_end"]] = "tool_execution_end"
    tool_call_id: str
    tool_name: str
    is_error: bool = False
    result: Any = None


class PermissionRequest(Event, frozen=True, kw_only=True, tag="permission_request"):
    """The agent asks whether it may act."""

    type: ClassVar[Literal["permission_request"]] = "permission_request"
    request_id: str
    tool_call_id: str | None = None
    tool_name: str = ""
    args: Any = None


class PermissionDecision(Event, frozen=True, kw_only=True, tag="permission_decision"):
    """Somebody or something answered, or the agent's own mode refused without asking."""

    type: ClassVar[Literal["permission_decision"]] = "permission_decision"
    request_id: str
    tool_call_id: str | None = None
    tool_name: str = ""
    decision: Literal["allow", "deny"]
    by: str
    reason: str = ""


class AutoCompactionStart(Event, frozen=True, kw_only=True, tag="auto_compaction_start"):
    """The agent begins to shorten its context."""

    type: ClassVar[Literal["auto_compaction_start"]] = "auto_compaction_start"
    reason: str = ""


class AutoCompactionEnd(Event, frozen=True, kw_only=True, tag="auto_compaction_end"):
    """The context is shortened, or the attempt failed (`reason` says so)."""

    type: ClassVar[Literal["auto_compaction_end"]] = "auto_compaction_end"
    reason: str = ""


class Retry(Event, frozen=True, kw_only=True, tag="retry"):
    """A model call failed and the runtime will try again after `delay_ms`, if it reports one."""

    type: ClassVar[Literal["retry"]] = "retry"
    attempt: int
    delay_ms: int | None = None
    error: ErrorInfo


class UsageTotals(Event, frozen=True, kw_only=True, tag="usage"):
    """Running totals of the session. Sent before each `agent_end`."""

    type: ClassVar[Literal["usage"]] = "usage"
    usage: Usage
    cost_usd: float | None = None


class StateChange(Event, frozen=True, kw_only=True, tag="state"):
    """The session's state changed; `evidence` names the fact that shows it."""

    type: ClassVar[Literal["state"]] = "state"
    old: SessionState
    new: SessionState
    evidence: str


class ErrorRaised(Event, frozen=True, kw_only=True, tag="error"):
    """Something failed; the turn's failure when `agent_end` follows with the same error."""

    type: ClassVar[Literal["error"]] = "error"
    kind: str
    message: str
    retryable: bool = False
    hint: str = ""
    last_words: str = ""
    """What a process that died printed last outside its protocol: the end of its standard error, of
    its screen in a terminal, or of its stdout. Secrets are removed."""


class AgentEnd(Event, frozen=True, kw_only=True, tag="agent_end"):
    """The turn is over, however it ended. `usage` and `cost_usd` are this turn's."""

    type: ClassVar[Literal["agent_end"]] = "agent_end"
    turn: int
    status: RunStatus
    text: str = ""
    usage: Usage | None = None
    cost_usd: float | None = None
    marker_detected: bool = False
    error: ErrorInfo | None = None


class SessionEnd(Event, frozen=True, kw_only=True, tag="session_end"):
    """The agent's process is gone. `reason` says why it was stopped or, if nobody stopped it, how
    the process ended."""

    type: ClassVar[Literal["session_end"]] = "session_end"
    exit_code: int | None = None
    signal: str | None = None
    reason: str = ""


class Unknown(Event, frozen=True, kw_only=True, tag="unknown"):
    """A wire message that no dialect knows; its payload is in `raw`. It never ends a stream."""

    type: ClassVar[Literal["unknown"]] = "unknown"


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
    """The event in a line of JSON; raises `msgspec.ValidationError` on any other."""
    return _event_decoder().decode(line)


_decoder: "msgspec.json.Decoder[AnyEvent] | None" = None


def _event_decoder() -> "msgspec.json.Decoder[AnyEvent]":
    # Built on first use: runs write events and hardly ever read them, and it costs milliseconds.
    global _decoder
    if _decoder is None:
        _decoder = structs.decoder(AnyEvent)
    return _decoder
