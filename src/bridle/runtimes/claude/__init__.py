"""The runtime of Claude Code, Anthropic's coding agent."""

from bridle.runtimes.lazy import from_adapter

TYPE_CHECKING = False  # type checkers treat it as true
if TYPE_CHECKING:
    from bridle.runtimes.claude.adapter import ClaudeRuntime

__all__ = ["ClaudeRuntime"]

__getattr__ = from_adapter(__name__, __all__)
