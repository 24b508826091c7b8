"""Where sessions live on disk: the user's state folder or a project's, and its errors.

A full disk, a read-only folder and a broken database are facts about the user's machine: each has
its own error, with the path and what to do.
"""

import errno
import hashlib
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress

import msgspec

from bridle.core.errors import BridleError, Unavailable, WrongUse
from bridle.core.files import make_private_dir, state_dir, write_private
from bridle.core.git import find_project

_SOCKET_PATH = 90
"""Longest socket path, in bytes, that every system accepts, with some room."""
_NO_SPACE = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
_NOT_WRITABLE = frozenset({errno.EROFS, errno.EACCES, errno.EPERM})
_OF_PROJECT = f"{os.sep}.bridle{os.sep}state"


class StateHome(msgspec.Struct, frozen=True):
    """A folder that sessions are kept in, with its own store and its own daemon.

    Every folder in it is private to the user.
    """

    root: str
    project: str | None = None
    """The project it belongs to; None for the user's."""

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
    """The file with the token that the daemon of a home requires."""
    return os.path.join(home.root, "daemon.token")


def socket_path(home: StateHome) -> str:
    """The socket of a home's daemon: in the home, or, when that path is too long for a socket, in a
    private folder of the user's, named after the home."""
    path = os.path.join(home.root, "daemon.sock")
    if len(os.fsencode(path)) <= _SOCKET_PATH:
        return path
    folder = os.path.join(os.environ.get("XDG_RUNTIME_DIR") or "/tmp", f"bridle-{os.getuid()}")
    make_private_dir(folder)
    status = os.stat(folder)
    if status.st_uid != os.getuid() or status.st_mode & 0o077:
        raise WrongUse(f"{folder} is not private to you", hint="remove it, or set XDG_RUNTIME_DIR")
    return os.path.join(folder, f"{_digest(os.path.realpath(home.root))}.sock")


def user_home(env: Mapping[str, str]) -> StateHome:
    """The user's home of sessions (`XDG_STATE_HOME`, else `~/.local/state`)."""
    return StateHome(state_dir(env))


def project_home(folder: str) -> StateHome | None:
    """The home of the project around `folder` (the nearest parent with a `.bridle` folder); None
    outside of a project."""
    found = find_project(folder)
    return None if found is None else StateHome(os.path.join(found, ".bridle", "state"), found)


def homes(folder: str, env: Mapping[str, str]) -> list[StateHome]:
    """Where to look for a session from `folder`: its project's home, then the user's. New sessions
    go to the first."""
    project = project_home(folder)
    return [*([project] if project else []), user_home(env)]


def remember_home(home: StateHome, env: Mapping[str, str]) -> None:
    """Note a project's home in the user's, so that `known_homes` finds it. A note that cannot be
    written is left out: it only makes lists longer."""
    if home.project is None:
        return
    own = user_home(env)
    name = _digest(home.project)
    if os.path.exists(os.path.join(own.root, "projects", name)):
        return
    with suppress(OSError):
        own.make()
        write_private(own.root, f"projects/{name}", os.fsencode(home.project))


def known_homes(env: Mapping[str, str]) -> list[StateHome]:
    """Every home of this user that holds sessions: the user's, and those of all projects that a
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


def _digest(path: str) -> str:
    return hashlib.sha256(os.fsencode(path)).hexdigest()[:16]


# -- errors of the folder -----------------------------------------------------------------------


class NoRoom(Unavailable):
    """The disk, or the user's quota, is full; the same call works once there is space."""

    def __init__(self, path: str, why: str = "") -> None:
        detail = f" ({why})" if why else ""
        super().__init__(
            f"there is no room left to write {path}{detail}",
            hint=f"free some disk space below {folder_of(path)}, then try again",
        )


class StateUnusable(WrongUse):
    """The folder that Bridle keeps its state in cannot be used."""


def state_error(problem: OSError, path: str) -> BridleError:
    """The error of a file below the state folder `path` that could not be made or written."""
    where = os.fsdecode(problem.filename) if problem.filename else path
    why = problem.strerror or str(problem)
    if problem.errno in _NO_SPACE:
        return NoRoom(where, why)
    if problem.errno in _NOT_WRITABLE:
        return StateUnusable(
            f"{where} cannot be written ({why})", hint=f"make {path} writable{or_usable(path)}"
        )
    return StateUnusable(
        f"{where} cannot be used ({why})",
        hint=f"check that {path} is a folder that can be written{or_usable(path)}",
    )


@contextmanager
def explained(path: str) -> Iterator[None]:
    """Raise `state_error` for an `OSError` below the state folder `path`."""
    try:
        yield
    except OSError as problem:
        raise state_error(problem, path) from problem


def other_place(path: str, which: str) -> str:
    """The end of a hint that names another state folder; empty for a project's folder, which stays
    with its project."""
    return "" if _OF_PROJECT in path else f", or set XDG_STATE_HOME to {which}"


def or_usable(path: str) -> str:
    """The end of a hint that asks for a usable state folder."""
    return other_place(path, "a folder that is")


def folder_of(path: str) -> str:
    """`path` if it is a folder, else the folder that holds it."""
    return path if os.path.isdir(path) else os.path.dirname(path)
