"""The runtime `gemini`."""

from bridle.runtimes.lazy import from_adapter

TYPE_CHECKING = False  # type checkers treat it as true
if TYPE_CHECKING:
    from bridle.runtimes.gemini.adapter import GeminiAcp, GeminiRuntime

__all__ = ["GeminiAcp", "GeminiRuntime"]

__getattr__ = from_adapter(__name__, __all__)
