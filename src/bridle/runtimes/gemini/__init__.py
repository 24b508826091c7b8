"""The runtime `gemini`."""

from bridle.runtimes.gemini.adapter import GeminiAcp, GeminiRuntime

__all__ = ["GeminiAcp", "GeminiRuntime"]
