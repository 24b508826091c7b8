"""Runtimes that a configuration declares, without code."""

from bridle.runtimes.preset.adapter import PresetRuntime

__all__ = ["PresetRuntime"]
