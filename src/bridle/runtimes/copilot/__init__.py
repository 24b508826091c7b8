"""The runtime `copilot`: GitHub's Copilot CLI."""

from bridle.runtimes.lazy import from_adapter

TYPE_CHECKING = False  # type checkers treat it as true
if TYPE_CHECKING:
    from bridle.runtimes.copilot.adapter import CopilotAcp, CopilotRuntime

__all__ = ["CopilotAcp", "CopilotRuntime"]

__getattr__ = from_adapter(__name__, __all__)
