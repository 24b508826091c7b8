"""What the user configured: where it is read from, what wins, and exact errors for mistakes."""

from bridle.config.schema import Config

__all__ = ["Config"]
