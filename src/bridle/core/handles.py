"""Plain data with which orchestrators start, name, message and list sessions."""

from typing import Any, Literal

import msgspec

from bridle.core.events import SessionState
from bridle.core.options import check_closed

SessionMode = Literal["minimal", "tmux"]
"""`minimal`: by the agent's own protocol on its stdin. `tmux`: its terminal interface in a pane,
which a person can look at and type into. Both behave the same."""
DeliveryWay = Literal["stdin", "tmux", "rpc"]


class SessionHints(msgspec.Struct, frozen=True, kw_only=True):
    """What a program around an agent should know about how it treats its conversation.

    Both are false for an agent that keeps its conversation itself, as all of today's do.
    """

    allow_synthetic_tool_results: bool = False
    """Whether the program may insert results for tool calls that never got one."""
    enforce_final_tag: bool = False
    """Whether only the text in `<final>` tags is the answer."""


class StartOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What `Adapter.start` is asked for."""

    work_dir: str
    runtime_name: str | None = None
    """If given, it must be the runtime's own id; it cannot select another runtime."""
    account_dir: str | None = None
    """The agent's configuration home, for one of several accounts."""
    env: dict[str, str] = {}
    """Variables added to the agent's environment."""
    initial_prompt: str | None = None
    """Sent as soon as the session is ready."""
    mode: SessionMode = "minimal"
    name: str | None = None
    """A name for people; unique among living sessions."""
    options: dict[str, Any] = {}
    """Further fields of `RunOptions`: `model`, `permission_mode`, …"""

    def __post_init__(self) -> None:
        check_closed(self)


class SessionHandle(msgspec.Struct, frozen=True, kw_only=True):
    """A reference to a session that a program can store and use later."""

    runtime: str
    session_id: str
    work_dir: str = ""
    pid: int | None = None
    started_at: str = ""
    """RFC 3339, UTC."""
    ready_at: str | None = None
    """When it could take its first prompt; None before that."""


class Message(msgspec.Struct, frozen=True, kw_only=True):
    """A message for a session's agent."""

    text: str
    delivery: DeliveryWay | None = None
    """The required delivery; refused if the session has another. None: the session's own."""
    timeout: float | None = 30.0
    """Seconds to wait until the agent has it; delivery continues after that."""

    def __post_init__(self) -> None:
        check_closed(self)


class SessionFilter(msgspec.Struct, frozen=True, kw_only=True):
    """Which sessions to list; a field that is None matches all."""

    work_dir: str | None = None
    state: SessionState | None = None
    living: bool | None = None
    """Only those whose process runs, or only those whose process is gone."""
    name: str | None = None
    project: str | None = None
    agent: str | None = None
    task: str | None = None

    def __post_init__(self) -> None:
        check_closed(self)


class ConnectionState(msgspec.Struct, frozen=True, kw_only=True):
    """What the agent at the other end of a `RuntimeConnection` does."""

    status: Literal["idle", "working", "error"]
    """`error`: its last turn failed, or it is gone."""
    current_tool: str | None = None
    """The tool that runs now; the one that began last when there are several."""
