"""Runtimes that are declared by configuration alone."""

from bridle.runtimes.preset.product import PresetRuntime

__all__ = ["PresetRuntime"]
