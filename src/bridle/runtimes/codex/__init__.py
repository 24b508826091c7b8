"""OpenAI's Codex CLI as a runtime."""

from bridle.runtimes.codex.adapter import CodexRuntime

__all__ = ["CodexRuntime"]
