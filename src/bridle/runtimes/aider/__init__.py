"""The runtime `aider`: one message for each process, no tool calls, edits in the text."""

from bridle.runtimes.aider.adapter import AiderRuntime

__all__ = ["AiderRuntime"]
