"""The runtime `cline`: the Cline CLI."""

from bridle.runtimes.cline.adapter import ClineRuntime

__all__ = ["ClineRuntime"]
