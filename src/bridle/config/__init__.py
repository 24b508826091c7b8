"""Configuration: its schema, the files it is loaded from, and exact errors for mistakes."""

from bridle.config.load import apply_config, check_config, load_config
from bridle.config.schema import Config

__all__ = ["Config", "apply_config", "check_config", "load_config"]
