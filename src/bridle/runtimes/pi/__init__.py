"""The runtime `pi`: the Pi coding agent."""

from bridle.runtimes.pi.adapter import PiRuntime

__all__ = ["PiRuntime"]
