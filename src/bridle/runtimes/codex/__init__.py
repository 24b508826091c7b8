"""The runtime of Codex, OpenAI's coding agent."""

from bridle.runtimes.codex.adapter import CodexRuntime

__all__ = ["CodexRuntime"]
