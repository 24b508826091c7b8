"""The runtime `copilot`: GitHub's Copilot CLI."""

from bridle.runtimes.copilot.adapter import CopilotAcp, CopilotRuntime

__all__ = ["CopilotAcp", "CopilotRuntime"]
