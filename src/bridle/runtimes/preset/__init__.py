"""Runtimes that are declared by configuration alone."""

from bridle.runtimes.preset.adapter import PresetRuntime

__all__ = ["PresetRuntime"]
