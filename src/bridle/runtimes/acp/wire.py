"""The messages of the Agent Client Protocol (version 1), as far as Bridle uses them.

JSON-RPC 2.0, one message a line. Agents add fields, leave fields out and invent values, so what
comes in is read loosely: a field whose type no agent keeps to is `Any`, an unknown kind of update
keeps its name, and nothing that is not needed is looked at.
"""

from typing import Any

import msgspec

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
    """Any JSON-RPC message; which one it is shows by the fields that are there."""

    id: int | str | msgspec.UnsetType | None = msgspec.UNSET
    method: str | None = None
    params: msgspec.Raw = msgspec.Raw()
    result: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    error: RpcError | msgspec.UnsetType | None = msgspec.UNSET


# -- what an agent tells of itself and of a session -----------------------------------------------


class AgentInfo(_Wire, frozen=True):
    """Who the agent is."""

    name: str = ""
    version: str = ""


class PromptCapabilities(_Wire, frozen=True):
    """What a prompt may hold beside text."""

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


# -- a turn ---------------------------------------------------------------------------------------


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
    """What a session cost so far."""

    amount: float = 0.0
    currency: str = ""


class Update(_Wire, frozen=True):
    """One `session/update` of any kind: the fields of all kinds beside one another."""

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
    """The parameters of `$/cancel_request`: the agent takes a call of its own back."""

    request_id: int | str | None = None


_envelope = msgspec.json.Decoder(Envelope)
_update = msgspec.json.Decoder(SessionUpdate)


def decode_envelope(line: bytes) -> Envelope:
    """The message that a line is; raises `msgspec.MsgspecError` or `UnicodeDecodeError`."""
    return _envelope.decode(line)


def decode_update(params: msgspec.Raw) -> SessionUpdate:
    """The parameters of a `session/update`; raises `msgspec.MsgspecError`."""
    return _update.decode(params)


def decode_cancelled(params: msgspec.Raw) -> int | str | None:
    """The id of the call that the agent takes back; raises `msgspec.MsgspecError`."""
    return msgspec.json.decode(params, type=CancelRequest).request_id


def text_of(content: Any) -> str:
    """The text inside a content block or a list of a tool's contents; empty where there is none."""
    if isinstance(content, list):
        return "".join(text_of(part) for part in content)
    if not isinstance(content, dict):
        return ""
    if content.get("type") == "content":
        return text_of(content.get("content"))
    text = content.get("text")
    return text if isinstance(text, str) else ""
