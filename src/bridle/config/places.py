"""Where configuration files are: the user's, and the project's around a working directory."""

import os
import sys
from collections.abc import Mapping

from bridle.core.files import config_dir, home_dir
from bridle.core.git import find_git

PROJECT_FILE = os.path.join(".bridle", "config.yaml")
_MAC_FOLDER = os.path.join("Library", "Application Support")


def user_file(env: Mapping[str, str]) -> str:
    """The user's configuration file; it need not exist.

    `$XDG_CONFIG_HOME/bridle/config.yaml`, else `~/.config/bridle/config.yaml`. On macOS a file in
    `~/Library/Application Support/bridle` is used when only that one exists.
    """
    usual = os.path.join(config_dir(env), "config.yaml")
    chosen = os.path.isabs(env.get("XDG_CONFIG_HOME", ""))
    if sys.platform == "darwin" and not chosen and not os.path.exists(usual):
        native = os.path.join(home_dir(env), _MAC_FOLDER, "bridle", "config.yaml")
        if os.path.exists(native):
            return native
    return usual


def project_file(cwd: str) -> str | None:
    """The nearest project file from `cwd` up to the root of its repository, None without one.

    A linked worktree that holds none has its main repository's. Outside of a repository only `cwd`
    itself is looked at, so that a stray file higher up never takes effect.
    """
    place = find_git(cwd)
    if place is None:
        return _existing(os.path.abspath(cwd))
    folder = os.path.realpath(cwd)
    while True:
        found = _existing(folder)
        if found is not None:
            return found
        if folder == place.root:
            break
        folder = os.path.dirname(folder)
    return _existing(place.main_root) if place.main_root is not None else None


def new_project_file(cwd: str) -> str:
    """Where the project's file belongs, whether or not it exists."""
    found = project_file(cwd)
    if found is not None:
        return found
    place = find_git(cwd)
    return os.path.join(os.path.abspath(cwd) if place is None else place.root, PROJECT_FILE)


def _existing(folder: str) -> str | None:
    path = os.path.join(folder, PROJECT_FILE)
    return path if os.path.lexists(path) else None
