"""The runtime `copilot`: GitHub's Copilot CLI."""

from bridle.runtimes.copilot.adapter import CopilotRuntime

__all__ = ["CopilotRuntime"]
