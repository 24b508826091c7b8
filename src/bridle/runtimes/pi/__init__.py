"""The runtime `pi`: the Pi coding agent in its JSON mode."""

from bridle.runtimes.pi.product import PiRuntime

__all__ = ["PiRuntime"]
