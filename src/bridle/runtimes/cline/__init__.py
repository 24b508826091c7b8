"""The runtime `cline`: the Cline CLI."""

from bridle.runtimes.cline.product import ClineAcp, ClineRuntime

__all__ = ["ClineAcp", "ClineRuntime"]
