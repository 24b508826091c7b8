"""The runtime of Codex, OpenAI's coding agent."""

from bridle.runtimes.lazy import from_adapter

TYPE_CHECKING = False  # type checkers treat it as true
if TYPE_CHECKING:
    from bridle.runtimes.codex.adapter import CodexRuntime

__all__ = ["CodexRuntime"]

__getattr__ = from_adapter(__name__, __all__)
