"""The runtime `gemini`."""

from bridle.runtimes.gemini.product import GeminiRuntime

__all__ = ["GeminiRuntime"]
