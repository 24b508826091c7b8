"""Watches folders for changes: with inotify on Linux, by polling elsewhere."""

import os
import struct
import sys
import time
from typing import Protocol

_POLL_SECONDS = 0.05
"""Seconds between polls."""
_HEAD = struct.Struct("iIII")
_MODIFY, _MOVED_TO = 0x2, 0x80
_MOVED_FROM, _DELETE = 0x40, 0x200
_DELETE_SELF, _IGNORED = 0x400, 0x8000
_WANTED = _MODIFY | _MOVED_TO | _MOVED_FROM | _DELETE | _DELETE_SELF
_NONBLOCK, _CLOEXEC = 0o4000, 0o2000000


class FolderWatch(Protocol):
    """Reports which of the watched folders changed.

    Contract: a change after `add` is reported by a later `changed`, once or more often. A folder
    without a change is rarely reported. One thread uses it.
    """

    def add(self, folder: str) -> None:
        """Watch an existing folder; a repeated call has no effect."""

    def remove(self, folder: str) -> None:
        """Stop watching a folder; no effect if it is not watched."""

    def fileno(self) -> int | None:
        """A descriptor that is readable when something changed; None if there is none: then call
        `changed` every `interval` seconds."""

    @property
    def interval(self) -> float | None:
        """The polling interval; None if `fileno` gives a descriptor."""

    def changed(self) -> set[str]:
        """The folders that changed since the last call."""

    def close(self) -> None:
        """Free everything."""


def watch_folders() -> FolderWatch:
    """The best watch that this system offers."""
    if sys.platform == "linux":
        try:
            return _Inotify()
        except OSError:
            # The user has no inotify instances left: polling is slower but works.
            return _Polling()
    return _Polling()


class _Inotify:
    """Uses inotify of Linux."""

    interval = None

    def __init__(self) -> None:
        import ctypes

        self._libc = ctypes.CDLL(None, use_errno=True)
        self._handle = self._libc.inotify_init1(_NONBLOCK | _CLOEXEC)
        if self._handle < 0:
            raise OSError(ctypes.get_errno(), "inotify_init1")
        self._folders: dict[int, str] = {}
        self._watches: dict[str, int] = {}
        self._unwatched: set[str] = set()

    def add(self, folder: str) -> None:
        if folder in self._watches:
            return
        number = self._libc.inotify_add_watch(self._handle, os.fsencode(folder), _WANTED)
        if number < 0:
            # Too many watches: this folder is reported on every call.
            self._unwatched.add(folder)
            return
        self._folders[number] = folder
        self._watches[folder] = number

    def remove(self, folder: str) -> None:
        self._unwatched.discard(folder)
        number = self._watches.pop(folder, None)
        if number is not None:
            self._folders.pop(number, None)
            self._libc.inotify_rm_watch(self._handle, number)

    def fileno(self) -> int | None:
        return int(self._handle)

    def changed(self) -> set[str]:
        found = set(self._unwatched)
        try:
            data = os.read(self._handle, 1 << 16)
        except BlockingIOError:
            return found
        at = 0
        while at < len(data):
            number, mask, _, length = _HEAD.unpack_from(data, at)
            at += _HEAD.size + length
            folder = self._folders.get(number)
            if number == -1:
                # The queue overflowed: anything may have changed.
                found |= set(self._watches)
            elif folder is not None:
                found.add(folder)
                if mask & _IGNORED:
                    self._folders.pop(number, None)
                    self._watches.pop(folder, None)
        return found

    def close(self) -> None:
        if self._handle >= 0:
            os.close(self._handle)
            self._handle = -1


class _Polling:
    """Compares sizes and times of files."""

    interval = _POLL_SECONDS

    def __init__(self) -> None:
        self._seen: dict[str, object] = {}
        self._next = 0.0

    def add(self, folder: str) -> None:
        self._seen.setdefault(folder, None)

    def remove(self, folder: str) -> None:
        self._seen.pop(folder, None)

    def fileno(self) -> int | None:
        return None

    def changed(self) -> set[str]:
        now = time.monotonic()
        if now < self._next:
            return set()
        self._next = now + _POLL_SECONDS
        found = set()
        for folder, before in self._seen.items():
            here = _state_of(folder)
            if here != before:
                self._seen[folder] = here
                found.add(folder)
        return found

    def close(self) -> None:
        self._seen.clear()


def _state_of(folder: str) -> object:
    """The state of a folder's files, for comparison."""
    seen: list[tuple[int, int] | None] = []
    for name in ("journal", "exit"):
        try:
            status = os.stat(os.path.join(folder, name))
        except OSError:
            seen.append(None)
        else:
            seen.append((status.st_size, status.st_mtime_ns))
    return tuple(seen)
