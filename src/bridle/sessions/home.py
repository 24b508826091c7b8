"""Where sessions live on disk: the user's state folder, or a project's own."""

import os
from collections.abc import Mapping

import msgspec

from bridle.core.errors import WrongUse
from bridle.core.files import make_private_dir, state_dir, write_private
from bridle.core.git import find_project

_NAME_LENGTH = 90
"""Longest path of a Unix socket that every system takes, with some room."""


class StateHome(msgspec.Struct, frozen=True):
    """One place that sessions are kept in, with its own store and its own daemon.

    Every folder in it is private to the user.
    """

    root: str
    project: str | None = None
    """The project it belongs to, None for the user's own."""

    @property
    def database(self) -> str:
        """The store's file."""
        return os.path.join(self.root, "sessions.db")

    def folder(self, session_id: str) -> str:
        """The folder of one session."""
        return os.path.join(self.root, "sessions", session_id)

    def run_folder(self, session_id: str, run: int) -> str:
        """The folder of a session's process number `run`, counted from 1."""
        return os.path.join(self.folder(session_id), "runs", f"{run:04d}")

    def make(self) -> None:
        """Make the folders, private, where they are missing."""
        os.makedirs(os.path.dirname(self.root), exist_ok=True)
        for path in (self.root, os.path.join(self.root, "sessions")):
            make_private_dir(path)
        if self.project is not None:
            ignore = os.path.join(self.root, ".gitignore")
            if not os.path.exists(ignore):
                with open(ignore, "w") as file:
                    file.write("*\n")


def token_path(home: StateHome) -> str:
    """Where the daemon of a home keeps the token that it asks for."""
    return os.path.join(home.root, "daemon.token")


def socket_path(home: StateHome) -> str:
    """Where the daemon of a home listens: in it, unless that path is too long for a socket; then
    in a private folder of the user's that is named after it."""
    path = os.path.join(home.root, "daemon.sock")
    if len(os.fsencode(path)) <= _NAME_LENGTH:
        return path
    import hashlib

    folder = os.path.join(os.environ.get("XDG_RUNTIME_DIR") or "/tmp", f"bridle-{os.getuid()}")
    make_private_dir(folder)
    status = os.stat(folder)
    if status.st_uid != os.getuid() or status.st_mode & 0o077:
        raise WrongUse(f"{folder} is not private to you", hint="remove it, or set XDG_RUNTIME_DIR")
    name = hashlib.sha256(os.fsencode(os.path.realpath(home.root))).hexdigest()[:16]
    return os.path.join(folder, f"{name}.sock")


def user_home(env: Mapping[str, str]) -> StateHome:
    """The user's own place (`XDG_STATE_HOME`, else `~/.local/state`)."""
    return StateHome(state_dir(env))


def project_home(folder: str) -> StateHome | None:
    """The place of the project around `folder`: the nearest folder upwards with a `.bridle`; None
    outside of any."""
    found = find_project(folder)
    return None if found is None else StateHome(os.path.join(found, ".bridle", "state"), found)


def remember_home(home: StateHome, env: Mapping[str, str]) -> None:
    """Note a project's place in the user's own, so that `known_homes` finds it. A note that cannot
    be written is left out: it only makes lists longer."""
    if home.project is None:
        return
    import contextlib
    import hashlib

    own = user_home(env)
    name = hashlib.sha256(os.fsencode(home.project)).hexdigest()[:16]
    path = os.path.join(own.root, "projects", name)
    if os.path.exists(path):
        return
    with contextlib.suppress(OSError):
        own.make()
        write_private(own.root, f"projects/{name}", os.fsencode(home.project))


def known_homes(env: Mapping[str, str]) -> list[StateHome]:
    """Every place of this user that holds sessions: the user's own, and those of projects that a
    session was ever started in."""
    own = user_home(env)
    found = [own]
    folder = os.path.join(own.root, "projects")
    for name in sorted(os.listdir(folder)) if os.path.isdir(folder) else ():
        try:
            with open(os.path.join(folder, name), "rb") as file:
                project = os.fsdecode(file.read())
        except OSError:
            continue
        found.append(StateHome(os.path.join(project, ".bridle", "state"), project))
    return [home for home in found if os.path.exists(home.database)]


def homes(folder: str, env: Mapping[str, str]) -> list[StateHome]:
    """The places to look for a session in from `folder`: its project's, then the user's. New
    sessions go to the first."""
    project = project_home(folder)
    return [*([project] if project else []), user_home(env)]
