"""The runtime `copilot`: GitHub's Copilot CLI."""

from bridle.runtimes.copilot.product import CopilotAcp, CopilotRuntime

__all__ = ["CopilotAcp", "CopilotRuntime"]
