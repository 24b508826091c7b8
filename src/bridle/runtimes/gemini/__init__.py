"""The runtime `gemini`."""

from bridle.runtimes.gemini.adapter import GeminiRuntime

__all__ = ["GeminiRuntime"]
