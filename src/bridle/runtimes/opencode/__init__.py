"""The runtime `opencode`."""

from bridle.runtimes.opencode.adapter import OpenCodeRuntime

__all__ = ["OpenCodeRuntime"]
