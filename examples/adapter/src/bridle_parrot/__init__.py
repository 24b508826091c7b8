"""The runtime `parrot`: what an adapter outside of Bridle looks like."""

from bridle_parrot.adapter import ParrotRuntime

__all__ = ["ParrotRuntime"]
