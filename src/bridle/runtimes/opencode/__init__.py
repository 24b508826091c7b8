"""The runtime `opencode`."""

from bridle.runtimes.opencode.adapter import OpencodeAcp, OpenCodeRuntime

__all__ = ["OpenCodeRuntime", "OpencodeAcp"]
