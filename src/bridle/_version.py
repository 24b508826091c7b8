"""The one place where Bridle's version is written."""

__version__ = "0.1.0"
