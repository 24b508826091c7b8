"""What is wrong with the place that state is kept in, in words that say what to do.

A full disk, a read-only folder, a broken database and one of a newer Bridle are facts about the
user's machine: each is an error of its own, with the path and the way out.
"""

import errno
import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager

from bridle.core.errors import BridleError, Unavailable, WrongUse

_NO_ROOM = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
_NOT_WRITABLE = frozenset({errno.EROFS, errno.EACCES, errno.EPERM})
_OF_PROJECT = f"{os.sep}.bridle{os.sep}state"


class NoRoom(Unavailable):
    """The disk, or the user's share of it, is full; the same call works once there is room."""

    def __init__(self, path: str, why: str = "") -> None:
        said = f" ({why})" if why else ""
        super().__init__(
            f"there is no room left to write {path}{said}",
            hint=f"free some disk space below {_folder(path)}, then try again",
        )


class StateUnusable(WrongUse):
    """The folder that Bridle keeps its state in cannot be used as it is."""


def state_error(problem: OSError, path: str) -> BridleError:
    """The error of a file below the state folder `path` that could not be made or written."""
    where = os.fsdecode(problem.filename) if problem.filename else path
    why = problem.strerror or str(problem)
    if problem.errno in _NO_ROOM:
        return NoRoom(where, why)
    if problem.errno in _NOT_WRITABLE:
        return StateUnusable(
            f"{where} cannot be written ({why})", hint=f"make {path} writable{_or_that_is(path)}"
        )
    return StateUnusable(
        f"{where} cannot be used ({why})",
        hint=f"see that {path} is a folder that can be written{_or_that_is(path)}",
    )


def database_error(problem: sqlite3.Error, path: str) -> BridleError:
    """The error of the database `path` that could not be read or written."""
    code = getattr(problem, "sqlite_errorcode", None)
    primary = code & 0xFF if code is not None else None
    if primary == sqlite3.SQLITE_FULL:
        return NoRoom(path, str(problem))
    if primary in (sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_CORRUPT):
        return StateUnusable(
            f"{path} is broken ({problem})",
            hint=f"move {path} away, or restore a copy of it; running agents are not touched, and"
            f" what each session said stays in {_folder(path)}/sessions",
        )
    if primary in (sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_PERM):
        return StateUnusable(
            f"{path} cannot be written ({problem})",
            hint=f"make {_folder(path)} and the files in it writable{_or_that_is(path)}",
        )
    if primary in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
        return Unavailable(
            f"{path} is locked by another process ({problem})", hint="try again in a moment"
        )
    if primary == sqlite3.SQLITE_IOERR:
        return Unavailable(
            f"{path} cannot be read or written ({problem})",
            hint=f"check that the disk below {_folder(path)} works and has room, then try again",
        )
    return Unavailable(f"{path} cannot be used ({problem})", hint="try again")


@contextmanager
def explained(path: str) -> Iterator[None]:
    """Raise `state_error` for what the system refuses below the state folder `path`."""
    try:
        yield
    except OSError as problem:
        raise state_error(problem, path) from problem


def other_place(path: str, which: str) -> str:
    """The end of a hint that leads to another state folder; nothing for the one of a project, which
    stays where the project is."""
    return "" if _OF_PROJECT in path else f", or set XDG_STATE_HOME to {which}"


def _or_that_is(path: str) -> str:
    return other_place(path, "a folder that is")


def _folder(path: str) -> str:
    return path if os.path.isdir(path) else os.path.dirname(path)
