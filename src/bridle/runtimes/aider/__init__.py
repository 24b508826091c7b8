"""The runtime `aider`: one message for each process, no tool calls, edits in the text."""

from bridle.runtimes.lazy import from_adapter

TYPE_CHECKING = False  # type checkers treat it as true
if TYPE_CHECKING:
    from bridle.runtimes.aider.adapter import AiderRuntime

__all__ = ["AiderRuntime"]

__getattr__ = from_adapter(__name__, __all__)
