"""The runtime `copilot`: GitHub's Copilot CLI."""

from bridle.runtimes.copilot.product import CopilotRuntime

__all__ = ["CopilotRuntime"]
