"""Runtimes that are declared by configuration alone."""

from bridle.runtimes.preset.adapter import PresetRuntime, check_acp_section

__all__ = ["PresetRuntime", "check_acp_section"]
