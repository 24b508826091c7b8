"""Bridle drives every coding agent through one interface.

    import bridle

    result = await bridle.run("Fix the failing test", runtime="claude", cwd="repo")

Everything public is here; it is loaded when it is first used, so that importing `bridle` costs
nothing. `docs/library.md` shows how it is used.
"""

from bridle._version import __version__

# Type checkers take this name for true. Importing it from `typing` would cost `bridle --version`
# half its time.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from bridle.core import errors, events
    from bridle.core.errors import AgentError, BridleError
    from bridle.core.events import Event
    from bridle.core.options import DEFAULT_MARKER, RunOptions
    from bridle.core.results import RunResult
    from bridle.core.usage import Usage
    from bridle.drives.spec import Question
    from bridle.running import (
        EventStream,
        SyncEventStream,
        run,
        run_interactive,
        run_sync,
        stream,
        stream_sync,
    )
    from bridle.runtimes.base import AgentRuntime
    from bridle.runtimes.registry import available_runtimes, get_runtime

__all__ = [
    "AgentError",
    "AgentRuntime",
    "BridleError",
    "DEFAULT_MARKER",
    "Event",
    "EventStream",
    "Question",
    "RunOptions",
    "RunResult",
    "SyncEventStream",
    "Usage",
    "__version__",
    "available_runtimes",
    "errors",
    "events",
    "get_runtime",
    "run",
    "run_interactive",
    "run_sync",
    "stream",
    "stream_sync",
]

_HOMES = {
    "AgentError": "bridle.core.errors",
    "AgentRuntime": "bridle.runtimes.base",
    "available_runtimes": "bridle.runtimes.registry",
    "BridleError": "bridle.core.errors",
    "DEFAULT_MARKER": "bridle.core.options",
    "Event": "bridle.core.events",
    "EventStream": "bridle.running",
    "get_runtime": "bridle.runtimes.registry",
    "Question": "bridle.drives.spec",
    "run": "bridle.running",
    "run_interactive": "bridle.running",
    "run_sync": "bridle.running",
    "RunOptions": "bridle.core.options",
    "RunResult": "bridle.core.results",
    "stream": "bridle.running",
    "stream_sync": "bridle.running",
    "SyncEventStream": "bridle.running",
    "Usage": "bridle.core.usage",
}


if not TYPE_CHECKING:

    def __getattr__(name):
        """Load a public name on first use."""
        from importlib import import_module

        if name in ("errors", "events"):
            found = import_module(f"bridle.core.{name}")
        elif name in _HOMES:
            found = getattr(import_module(_HOMES[name]), name)
        else:
            raise AttributeError(f"module 'bridle' has no attribute {name!r}")
        globals()[name] = found
        return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
