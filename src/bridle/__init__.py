"""Bridle drives every coding agent through one interface.

    result = bridle.run_sync("Fix the failing test", runtime="codex", permission_mode="bypass")

Every public name is listed here and loaded on first use, so importing the package costs next to
nothing. Events are in `bridle.events`, errors in `bridle.errors`, usage reports in
`bridle.usage`.
"""

from bridle._version import __version__

TYPE_CHECKING = False  # type checkers treat it as true; `typing` costs as much as all of Python
if TYPE_CHECKING:
    from bridle import errors, events, usage
    from bridle.config import Config, apply_config, load_config
    from bridle.core.errors import AgentError, BridleError, ErrorInfo, WrongUse
    from bridle.core.events import AnyEvent, Event, decode_event, encode_event
    from bridle.core.features import Features
    from bridle.core.handles import (
        ConnectionState,
        Message,
        SessionFilter,
        SessionHandle,
        SessionHints,
        StartOptions,
    )
    from bridle.core.options import (
        DEFAULT_MARKER,
        HooksDef,
        ModelServer,
        OverlayContent,
        Provider,
        QualityGate,
        ResolvedModel,
        ResumeOptionsDict,
        RunOptions,
        RunOptionsDict,
        SessionOptionsDict,
        SpawnOptions,
    )
    from bridle.core.results import Availability, RunResult, TranscriptSummary
    from bridle.core.usage import Usage, normalize_usage
    from bridle.drives.connection import RpcProcess, RuntimeConnection
    from bridle.runs import (
        EventStream,
        SyncEventStream,
        run,
        run_interactive,
        run_sync,
        stream,
        stream_sync,
    )
    from bridle.runtime import AgentRuntime, create_acp_runtime, get_runtime
    from bridle.runtimes.one_shot import print_once
    from bridle.runtimes.registry import available_runtimes
    from bridle.sessions.clocks import Clocks
    from bridle.sessions.history import AgentStep, ToolUse
    from bridle.sessions.hooks import HookEvent
    from bridle.sessions.host import on_hook
    from bridle.sessions.session import Session
    from bridle.sessions.start import Identity
    from bridle.sessions.store import SessionRecord
    from bridle.sessions.sync_session import SyncSession
    from bridle.sessions.user_messages import UserMessage
    from bridle.sessions.verbs import Receipt, TurnReport
    from bridle.turns.wire import Allow, Deny, PermissionAnswer, Question

del TYPE_CHECKING

__all__ = [
    "AgentError",
    "AgentRuntime",
    "AgentStep",
    "Allow",
    "AnyEvent",
    "Availability",
    "BridleError",
    "Clocks",
    "Config",
    "ConnectionState",
    "DEFAULT_MARKER",
    "Deny",
    "ErrorInfo",
    "Event",
    "EventStream",
    "Features",
    "HookEvent",
    "HooksDef",
    "Identity",
    "Message",
    "ModelServer",
    "OverlayContent",
    "PermissionAnswer",
    "Provider",
    "QualityGate",
    "Question",
    "Receipt",
    "ResolvedModel",
    "ResumeOptionsDict",
    "RpcProcess",
    "RunOptions",
    "RunOptionsDict",
    "RunResult",
    "RuntimeConnection",
    "Session",
    "SessionFilter",
    "SessionHandle",
    "SessionHints",
    "SessionOptionsDict",
    "SessionRecord",
    "SpawnOptions",
    "StartOptions",
    "SyncEventStream",
    "SyncSession",
    "ToolUse",
    "TranscriptSummary",
    "TurnReport",
    "Usage",
    "UserMessage",
    "WrongUse",
    "__version__",
    "apply_config",
    "available_runtimes",
    "create_acp_runtime",
    "decode_event",
    "encode_event",
    "errors",
    "events",
    "get_runtime",
    "load_config",
    "normalize_usage",
    "on_hook",
    "print_once",
    "run",
    "run_interactive",
    "run_sync",
    "stream",
    "stream_sync",
    "usage",
]

_HOMES = {
    "bridle.config": ("Config", "apply_config", "load_config"),
    "bridle.core.errors": ("AgentError", "BridleError", "ErrorInfo", "WrongUse"),
    "bridle.core.events": ("AnyEvent", "Event", "decode_event", "encode_event"),
    "bridle.core.features": ("Features",),
    "bridle.core.options": (
        "DEFAULT_MARKER",
        "HooksDef",
        "ModelServer",
        "OverlayContent",
        "Provider",
        "QualityGate",
        "ResolvedModel",
        "ResumeOptionsDict",
        "RunOptions",
        "RunOptionsDict",
        "SessionOptionsDict",
        "SpawnOptions",
    ),
    "bridle.core.results": ("Availability", "RunResult", "TranscriptSummary"),
    "bridle.core.usage": ("Usage", "normalize_usage"),
    "bridle.turns.wire": ("Allow", "Deny", "PermissionAnswer", "Question"),
    "bridle.runs": (
        "EventStream",
        "SyncEventStream",
        "run",
        "run_interactive",
        "run_sync",
        "stream",
        "stream_sync",
    ),
    "bridle.runtime": ("AgentRuntime", "create_acp_runtime", "get_runtime"),
    "bridle.runtimes.one_shot": ("print_once",),
    "bridle.runtimes.registry": ("available_runtimes",),
    "bridle.core.handles": (
        "ConnectionState",
        "Message",
        "SessionFilter",
        "SessionHandle",
        "SessionHints",
        "StartOptions",
    ),
    "bridle.drives.connection": ("RpcProcess", "RuntimeConnection"),
    "bridle.sessions.clocks": ("Clocks",),
    "bridle.sessions.history": ("AgentStep", "ToolUse"),
    "bridle.sessions.hooks": ("HookEvent",),
    "bridle.sessions.host": ("on_hook",),
    "bridle.sessions.start": ("Identity",),
    "bridle.sessions.verbs": ("Receipt", "TurnReport"),
    "bridle.sessions.session": ("Session",),
    "bridle.sessions.store": ("SessionRecord",),
    "bridle.sessions.sync_session": ("SyncSession",),
    "bridle.sessions.user_messages": ("UserMessage",),
}
"""Where each public name is defined."""


def __getattr__(name: str) -> object:
    """Load a public name from the module that owns it, on first use."""
    from importlib import import_module

    if name in ("errors", "events", "usage"):
        return import_module(f"bridle.{name}")
    for module, names in _HOMES.items():
        if name in names:
            value: object = getattr(import_module(module), name)
            globals()[name] = value
            return value
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    """The public names, loaded or not."""
    return sorted({*globals(), *__all__})
