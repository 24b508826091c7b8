"""Runtimes that are declared by configuration alone."""

from bridle.runtimes.preset.product import PresetRuntime, check_declaration

__all__ = ["PresetRuntime", "check_declaration"]
