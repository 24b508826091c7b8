"""Bridle drives every coding agent through one interface."""

from bridle._version import __version__

__all__ = ["__version__"]
