"""The user's own prices, from the configuration."""

import os
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING

from bridle.core.files import config_dir
from bridle.usage.prices import Prices, Rate, Tiers

if TYPE_CHECKING:
    from bridle.config.schema import PerMillion


def own_prices(cwd: str, env: Mapping[str, str]) -> dict[str, Prices]:
    """The prices in the configuration that applies in `cwd`, by model.

    The configuration is loaded only if there is one: to load it takes as long as a report. Raises
    `ConfigError` for a wrong one.
    """
    if not _has_config(cwd, env):
        return {}
    from bridle.config import load_config

    return {
        name: Prices(
            input=_rate(each.input),
            output=_rate(each.output),
            cache_read=_rate(each.cache_read),
            cache_write=_rate(each.cache_write),
            cache_write_1h=_rate(each.cache_write_1h),
        )
        for name, each in load_config(cwd, env).prices.items()
    }


def _rate(found: "PerMillion | None") -> Rate | None:
    if found is None or isinstance(found, float | int):
        return found
    return Tiers(found.base, tuple(sorted(found.tiers)))


def _has_config(cwd: str, env: Mapping[str, str]) -> bool:
    """Whether a configuration file may apply in `cwd`."""
    if sys.platform == "darwin" or os.path.lexists(os.path.join(config_dir(env), "config.yaml")):
        return True
    folder = os.path.realpath(cwd)
    while True:
        # A linked worktree, which has a file `.git`, uses the configuration of its repository.
        if os.path.lexists(os.path.join(folder, ".bridle", "config.yaml")) or os.path.isfile(
            os.path.join(folder, ".git")
        ):
            return True
        above = os.path.dirname(folder)
        if above == folder:
            return False
        folder = above
