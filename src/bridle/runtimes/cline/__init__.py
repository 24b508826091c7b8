"""The runtime `cline`: the Cline CLI."""

from bridle.runtimes.cline.product import ClineRuntime

__all__ = ["ClineRuntime"]
