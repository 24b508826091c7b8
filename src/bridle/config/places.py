"""Where configuration files are: the user's, and the project's around a working directory."""

import os
import sys
from collections.abc import Mapping

PROJECT_FILE = os.path.join(".bridle", "config.yaml")
_MAC_FOLDER = os.path.join("Library", "Application Support")


def user_file(env: Mapping[str, str]) -> str:
    """The user's configuration file; it need not exist.

    `$XDG_CONFIG_HOME/bridle/config.yaml`, else `~/.config/bridle/config.yaml`. On macOS a file in
    `~/Library/Application Support/bridle` is used when only that one exists.
    """
    home = env.get("HOME") or os.path.expanduser("~")
    base = env.get("XDG_CONFIG_HOME", "")
    if os.path.isabs(base):
        return os.path.join(base, "bridle", "config.yaml")
    usual = os.path.join(home, ".config", "bridle", "config.yaml")
    if sys.platform == "darwin" and not os.path.exists(usual):
        native = os.path.join(home, _MAC_FOLDER, "bridle", "config.yaml")
        if os.path.exists(native):
            return native
    return usual


def project_file(cwd: str) -> str | None:
    """The nearest project file from `cwd` up to the root of its repository, None without one.

    A linked worktree that holds none has its main repository's. Outside of a repository only `cwd`
    itself is looked at, so that a stray file higher up never takes effect.
    """
    start = os.path.abspath(cwd)
    root = repository_root(start)
    if root is None:
        return _existing(start)
    folder = start
    while True:
        found = _existing(folder)
        if found is not None:
            return found
        if folder == root:
            break
        folder = os.path.dirname(folder)
    main = _main_repository(root)
    return _existing(main) if main is not None else None


def repository_root(cwd: str) -> str | None:
    """The folder at or above `cwd` that holds `.git`, None outside of a repository.

    Like git itself it passes over a `.git` folder that is none: sandboxes leave empty ones about.
    """
    folder = os.path.abspath(cwd)
    while not _is_git(os.path.join(folder, ".git")):
        parent = os.path.dirname(folder)
        if parent == folder:
            return None
        folder = parent
    return folder


def _is_git(path: str) -> bool:
    return os.path.isfile(path) or os.path.lexists(os.path.join(path, "HEAD"))


def new_project_file(cwd: str) -> str:
    """Where the project's file belongs, whether or not it exists."""
    return project_file(cwd) or os.path.join(
        repository_root(cwd) or os.path.abspath(cwd), PROJECT_FILE
    )


def _existing(folder: str) -> str | None:
    path = os.path.join(folder, PROJECT_FILE)
    return path if os.path.lexists(path) else None


def _main_repository(root: str) -> str | None:
    """The main working tree of the linked worktree at `root`, None for any other repository."""
    try:
        with open(os.path.join(root, ".git"), encoding="utf-8") as file:
            word, _, target = file.read(4096).strip().partition(":")
        if word != "gitdir":
            return None
        git_dir = os.path.join(root, target.strip())
        with open(os.path.join(git_dir, "commondir"), encoding="utf-8") as file:
            common = os.path.normpath(os.path.join(git_dir, file.read(4096).strip()))
    except (OSError, UnicodeDecodeError):
        return None
    return os.path.dirname(common) if os.path.basename(common) == ".git" else None
