"""The runtime `gemini`."""

from bridle.runtimes.gemini.product import GeminiAcp, GeminiRuntime

__all__ = ["GeminiAcp", "GeminiRuntime"]
