"""The runtime `cline`: the Cline CLI."""

from bridle.runtimes.cline.adapter import ClineAcp, ClineRuntime

__all__ = ["ClineAcp", "ClineRuntime"]
