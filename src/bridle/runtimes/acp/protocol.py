"""The Agent Client Protocol (version 1) without any input or output: its messages, the client's
side of a connection, and the meaning of its errors.

JSON-RPC 2.0, one message a line. Agents add fields, leave fields out and invent values, so incoming
messages are read loosely: a field whose type agents do not keep to is `Any`, an unknown kind of
update keeps its name, and what Bridle does not need is not read.
"""

import re
from typing import Any, TypeVar

import msgspec

from bridle._version import __version__
from bridle.core import structs
from bridle.core.errors import (
    Aborted,
    AgentError,
    Billing,
    BudgetExceeded,
    ContextOverflow,
    NotAuthenticated,
    NotInstalled,
    Overloaded,
    ProtocolDrift,
    RateLimited,
    ResumeRefused,
    Unavailable,
)
from bridle.runtimes.errors import SERVICE, ErrorRow, ErrorTable, reset_time, short
from bridle.turns.rpc import Requests, encode_line

T = TypeVar("T")

PROTOCOL_VERSION = 1

METHOD_NOT_FOUND = -32601
AUTH_REQUIRED = -32000


class _Wire(msgspec.Struct, frozen=True, rename="camel"):
    pass


class RpcError(_Wire, frozen=True):
    """The error of a response."""

    code: int = 0
    message: str = ""
    data: Any = None


class Envelope(_Wire, frozen=True):
    """Any JSON-RPC message; its fields show which one it is."""

    id: int | str | msgspec.UnsetType | None = msgspec.UNSET
    method: str | None = None
    params: msgspec.Raw = msgspec.Raw()
    result: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    error: RpcError | msgspec.UnsetType | None = msgspec.UNSET


# -- messages: the agent and its session ----------------------------------------------------------


class AgentInfo(_Wire, frozen=True):
    """Who the agent is."""

    name: str = ""
    version: str = ""


class PromptCapabilities(_Wire, frozen=True):
    """What a prompt may contain beside text."""

    image: bool = False


class McpCapabilities(_Wire, frozen=True):
    """Which MCP transports it takes beside stdio, which every agent must."""

    http: bool = False
    sse: bool = False


class AgentCapabilities(_Wire, frozen=True):
    """What an agent can do."""

    load_session: bool = False
    prompt_capabilities: PromptCapabilities = PromptCapabilities()
    mcp_capabilities: McpCapabilities = McpCapabilities()
    session_capabilities: dict[str, Any] = {}


class Initialized(_Wire, frozen=True):
    """The answer to `initialize`."""

    protocol_version: int = 0
    agent_capabilities: AgentCapabilities = AgentCapabilities()
    agent_info: AgentInfo | None = None


class ConfigOption(_Wire, frozen=True):
    """A setting of a session; the newer way to choose model and mode."""

    id: str = ""
    category: str | None = None
    current_value: Any = None
    options: Any = None


class Mode(_Wire, frozen=True):
    """A mode of a session."""

    id: str = ""


class Modes(_Wire, frozen=True):
    """The older way to choose a mode."""

    available_modes: list[Mode] = []


class Models(_Wire, frozen=True):
    """The older way to choose a model."""

    current_model_id: str | None = None


class Opened(_Wire, frozen=True):
    """The answer to `session/new`, `session/load`, which need not repeat the id, and
    `session/fork`."""

    session_id: str | None = None
    config_options: list[ConfigOption] | None = None
    modes: Modes | None = None
    models: Models | None = None


# -- messages: a turn -----------------------------------------------------------------------------


class PromptUsage(_Wire, frozen=True):
    """Tokens; what they cover differs from agent to agent."""

    input_tokens: int = 0
    output_tokens: int = 0
    cached_read_tokens: int | None = None
    cached_write_tokens: int | None = None
    thought_tokens: int | None = None


class PromptDone(_Wire, frozen=True):
    """The answer to `session/prompt`: the turn is over."""

    stop_reason: str = ""
    usage: PromptUsage | None = None
    meta: Any = msgspec.field(name="_meta", default=None)


class Cost(_Wire, frozen=True):
    """The cost of a session so far."""

    amount: float = 0.0
    currency: str = ""


class Update(_Wire, frozen=True):
    """One `session/update` of any kind: the fields of all kinds together."""

    session_update: str = ""
    content: Any = None
    message_id: str | None = None
    tool_call_id: str | None = None
    title: str | None = None
    kind: str | None = None
    status: str | None = None
    raw_input: Any = None
    raw_output: Any = None
    locations: Any = None
    cost: Cost | None = None
    config_options: list[ConfigOption] | None = None
    meta: Any = msgspec.field(name="_meta", default=None)


class SessionUpdate(_Wire, frozen=True):
    """The parameters of `session/update`."""

    session_id: str = ""
    update: Update = Update()


class PermissionOption(_Wire, frozen=True):
    """A way to answer a permission request; `kind` says what it means, the id is the agent's."""

    option_id: str
    kind: str = ""
    name: str = ""


class PermissionRequest(_Wire, frozen=True):
    """The parameters of `session/request_permission`."""

    session_id: str = ""
    tool_call: Update = Update()
    options: list[PermissionOption] = []


class CancelRequest(_Wire, frozen=True):
    """The parameters of `$/cancel_request`: the agent withdraws one of its calls."""

    request_id: int | str | None = None


_envelope = structs.decoder(Envelope)
_update = structs.decoder(SessionUpdate)


def decode_envelope(line: bytes) -> Envelope:
    """The message that a line is; raises `msgspec.MsgspecError` or `UnicodeDecodeError`."""
    return _envelope.decode(line)


def decode_update(params: msgspec.Raw) -> SessionUpdate:
    """The parameters of a `session/update`; raises `msgspec.MsgspecError`."""
    return _update.decode(params)


def decode_cancelled(params: msgspec.Raw) -> int | str | None:
    """The id of the call that the agent withdraws; raises `msgspec.MsgspecError`."""
    return structs.decode(params, CancelRequest).request_id


def text_of(content: Any) -> str:
    """The text inside a content block or a list of a tool's contents; empty if there is none."""
    if isinstance(content, list):
        return "".join(text_of(part) for part in content)
    if not isinstance(content, dict):
        return ""
    if content.get("type") == "content":
        return text_of(content.get("content"))
    text = content.get("text")
    return text if isinstance(text, str) else ""


# -- the client's side ----------------------------------------------------------------------------


class Answer(msgspec.Struct, frozen=True):
    """The agent's answer to Bridle's call of `method`."""

    method: str
    result: msgspec.Raw | None
    error: RpcError | None


class Call(msgspec.Struct, frozen=True):
    """The agent calls a method of its client and waits for the answer under `id`."""

    id: int | str | None
    method: str
    params: msgspec.Raw


class Notice(msgspec.Struct, frozen=True):
    """A notification of the agent; it expects no answer."""

    method: str
    params: msgspec.Raw


class Noise(msgspec.Struct, frozen=True):
    """A line that is not a message of the protocol, or an answer without a call."""


Incoming = Answer | Call | Notice | Noise


class AcpClient:
    """The client's side of one connection to one agent.

    Contract: `request` and `notify` return the bytes to write, in order; `receive` takes each line
    once and never raises. Ids count from 0 and are never used twice.
    """

    def __init__(self) -> None:
        self._requests: Requests[int, None] = Requests(int, first=0)

    @property
    def pending(self) -> list[str]:
        """Methods of the calls without an answer, the oldest first."""
        return self._requests.pending

    def request(self, method: str, params: dict[str, Any]) -> bytes:
        """The frame of a call; its answer will come out of `receive` under the method's name."""
        call_id = self._requests.open(method)
        return encode_line({"jsonrpc": "2.0", "id": call_id, "method": method, "params": params})

    def notify(self, method: str, params: dict[str, Any]) -> bytes:
        """The frame of a message that is not answered."""
        return encode_line({"jsonrpc": "2.0", "method": method, "params": params})

    def receive(self, line: bytes) -> Incoming:
        """What a line of the agent means."""
        try:
            message = decode_envelope(line)
        except (msgspec.MsgspecError, UnicodeDecodeError):
            return Noise()
        if message.method is not None:
            if message.id is msgspec.UNSET:
                return Notice(message.method, message.params)
            return Call(message.id, message.method, message.params)
        method = self._requests.close(message.id)
        if method is None:
            return Noise()
        error = message.error if isinstance(message.error, RpcError) else None
        result = message.result if isinstance(message.result, msgspec.Raw) else None
        return Answer(method, result, error)


def result_of(answer: Answer, type_: type[T]) -> T:
    """An answer's result as `type_`; raises `msgspec.MsgspecError`."""
    return structs.decode(answer.result if answer.result is not None else b"{}", type_)


def initialize_params() -> dict[str, Any]:
    """What Bridle says about itself.

    It offers no file system and no terminal: an agent that can read files through its client
    believes that they exist (Gemini then cannot create any), and no agent needs it.
    """
    return {
        "protocolVersion": PROTOCOL_VERSION,
        "clientCapabilities": {
            "fs": {"readTextFile": False, "writeTextFile": False},
            "terminal": False,
        },
        "clientInfo": {"name": "bridle", "title": "Bridle", "version": __version__},
    }


def respond(call_id: int | str | None, result: Any) -> bytes:
    """The frame that answers an agent's call."""
    return encode_line({"jsonrpc": "2.0", "id": call_id, "result": result})


def refuse(call_id: int | str | None, method: str) -> bytes:
    """The frame that refuses a call: the client has no such method."""
    error = {"code": METHOD_NOT_FOUND, "message": f"Method not found: {method}"}
    return encode_line({"jsonrpc": "2.0", "id": call_id, "error": error})


def permission_answer(
    call_id: int | str | None, options: list[PermissionOption], allowed: bool
) -> bytes:
    """The frame that answers a permission request.

    The option is chosen by its kind, because every agent names its options differently, and for
    this call only if there is a choice. Without a matching option the request is cancelled.
    """
    wanted = ("allow_once", "allow_always") if allowed else ("reject_once", "reject_always")
    for kind in wanted:
        for option in options:
            if option.kind == kind:
                outcome = {"outcome": "selected", "optionId": option.option_id}
                return respond(call_id, {"outcome": outcome})
    return permission_cancelled(call_id)


def permission_cancelled(call_id: int | str | None) -> bytes:
    """The frame that answers a permission request that nobody will decide."""
    return respond(call_id, {"outcome": {"outcome": "cancelled"}})


# -- errors ---------------------------------------------------------------------------------------

_STATUS = re.compile(
    r"(?:\bstatus(?: code)?|\bHTTP|\bcode|\berror)\W{0,4}([45]\d\d)\b|^\W*([45]\d\d)\b",
    re.IGNORECASE,
)

ERRORS = ErrorTable(
    calls=(
        # Claude's names of a failure, in `data.errorKind`.
        ErrorRow(NotAuthenticated, tags=("authentication_failed",)),
        ErrorRow(Billing, tags=("billing_error",)),
        ErrorRow(ContextOverflow, tags=("max_output_tokens",)),
        ErrorRow(Overloaded, tags=("overloaded",)),
        ErrorRow(RateLimited, tags=("rate_limit",)),
        # Google refuses a wrong key with status 400, others an overflow or missing credit.
        *(msgspec.structs.replace(row, statuses=(400,)) for row in SERVICE),
    ),
    exits=(
        ErrorRow(
            ProtocolDrift,
            ("unknown option", "unknown argument", "unexpected arg"),
            hint="this version does not know the flag; see its --help",
        ),
        ErrorRow(
            NotInstalled,
            ("cannot find module", "could not find"),
            hint="install the agent again; a part of it is missing",
        ),
        *(row for row in SERVICE if row.error is NotAuthenticated),
        ErrorRow(
            ProtocolDrift,
            statuses=(0,),
            message="the agent ended without answering `initialize`",
            hint="check that this command and its flags start an ACP agent",
        ),
    ),
    noise=("at ", "Node.js v"),
    complaint="last",
    crash="the agent did not start: {text}",
)
"""The protocol defines codes for its own failures and none for those of the model service. Agents
put the service's status into the code (Gemini), into a text (Codex, Copilot), into data of their
own (Claude), or report only the service's words (OpenCode)."""


def error_of_call(error: RpcError, *, model: str | None = None) -> AgentError:
    """The error behind a JSON-RPC error of any call."""
    text = message_of(error)
    if error.code == AUTH_REQUIRED:
        return NotAuthenticated(text)
    tag = error.data.get("errorKind") if isinstance(error.data, dict) else None
    status = error.code if 400 <= error.code < 600 else _status_in(text)
    return ERRORS.of_call(
        text, status=status, tag=str(tag or ""), until=reset_time(text), model=model
    )


def error_of_load(error: RpcError, session_id: str) -> AgentError:
    """Why the agent did not continue a session."""
    if error.code == AUTH_REQUIRED:
        return error_of_call(error)
    return ResumeRefused(
        f"the agent did not take up session {session_id}: {message_of(error)}",
        hint="start a new session; this one is gone, or belongs to another folder",
    )


def error_of_text(text: str, *, model: str | None = None) -> AgentError:
    """The error that an agent's words describe."""
    return ERRORS.of_call(text, status=_status_in(text), until=reset_time(text), model=model)


def _status_in(text: str) -> int | None:
    found = _STATUS.search(text)
    return int(found[1] or found[2]) if found else None


_STOPS: dict[str, tuple[type[AgentError], str, str]] = {
    "max_tokens": (ContextOverflow, "the answer was cut at the model's output limit", ""),
    "max_turn_requests": (BudgetExceeded, "the agent reached its own limit of model calls", ""),
    "refusal": (Unavailable, "the model refused", "rephrase, or use another model"),
    "cancelled": (Aborted, "the turn was cancelled", ""),
}


def error_of_stop(reason: str) -> AgentError | None:
    """The failure that a stop reason means; None for success."""
    if reason == "end_turn":
        return None
    if reason in _STOPS:
        kind, message, hint = _STOPS[reason]
        return kind(message, hint=hint)
    return ProtocolDrift(
        f"the agent stopped for a reason that Bridle does not know: {reason or 'none'}"
    )


def error_of_silence(meaning: str) -> AgentError:
    """The failure of a turn that ended like a success without any output; `meaning` is the row's
    `silent_error`."""
    message = "the agent ended its turn without doing anything"
    hint = "check the agent's login and model; its log may say more"
    if meaning == "not_authenticated":
        return NotAuthenticated(f"{message}, as it does if its key is refused", hint=hint)
    return Unavailable(message, hint=hint)


def message_of(error: RpcError) -> str:
    """The text of a JSON-RPC error, with the agent's own data."""
    inner = _text_in(error.data)
    text = error.message
    if text.startswith("{"):
        text = _text_in(_json(text)) or text
    if inner and inner not in text:
        text = inner if text in ("", "Internal error") else f"{text}: {inner}"
    return short(text or f"error {error.code}")


def _text_in(data: Any) -> str:
    """The sentence inside an error's data, at any depth."""
    if isinstance(data, str):
        return data
    if isinstance(data, dict):
        for key in ("message", "details", "error", "errorMessage"):
            text = _text_in(data.get(key))
            if text:
                return text
    return ""


def _json(text: str) -> Any:
    try:
        return msgspec.json.decode(text)
    except msgspec.MsgspecError:
        return None
