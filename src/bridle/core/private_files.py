"""Folders and files that belong to one run alone."""

import contextlib
import os
from collections.abc import Mapping


def state_dir(env: Mapping[str, str]) -> str:
    """Where Bridle keeps what belongs to running agents."""
    home = env.get("HOME") or os.path.expanduser("~")
    base = env.get("XDG_STATE_HOME") or os.path.join(home, ".local", "state")
    return os.path.join(base, "bridle")


def new_private_dir(env: Mapping[str, str], runtime: str, name: str | None = None) -> str:
    """A new empty folder that only this user can read; the caller sees to its removal. It is
    called by `name` where no other folder is."""
    parent = os.path.join(state_dir(env), "run")
    os.makedirs(parent, mode=0o700, exist_ok=True)
    if name is not None:
        folder = os.path.join(parent, f"{runtime}-{name}")
        with contextlib.suppress(FileExistsError):
            os.mkdir(folder, 0o700)
            return folder
    folder = os.path.join(parent, f"{runtime}-{os.urandom(8).hex()}")
    os.mkdir(folder, 0o700)
    return folder


def write_private(folder: str, name: str, content: str | bytes) -> str:
    """Write a file that only this user can read, its folders too; returns its path."""
    path = os.path.join(folder, name)
    inner = folder
    for part in name.split("/")[:-1]:
        # One by one: `makedirs` gives its mode to the last folder only.
        inner = os.path.join(inner, part)
        if not os.path.isdir(inner):
            os.mkdir(inner, 0o700)
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600)
    with os.fdopen(handle, "wb") as file:
        file.write(content.encode() if isinstance(content, str) else content)
    return path
