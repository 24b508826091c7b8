"""The runtime `opencode`."""

from bridle.runtimes.opencode.product import OpenCodeRuntime

__all__ = ["OpenCodeRuntime"]
