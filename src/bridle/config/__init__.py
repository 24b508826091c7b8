"""What the user configured: where it is read from, what wins, and exact errors for mistakes."""

from bridle.config.apply import apply_config
from bridle.config.load import check_config, load_config
from bridle.config.schema import Config

__all__ = ["Config", "apply_config", "check_config", "load_config"]
