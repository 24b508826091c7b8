"""The runtime `opencode`."""

from bridle.runtimes.opencode.product import OpencodeAcp, OpenCodeRuntime

__all__ = ["OpenCodeRuntime", "OpencodeAcp"]
