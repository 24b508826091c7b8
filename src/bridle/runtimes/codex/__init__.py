"""OpenAI's Codex CLI as a runtime."""

from bridle.runtimes.codex.product import CodexRuntime

__all__ = ["CodexRuntime"]
