"""The lock that a session's driver holds, and the errors of a session that cannot be driven."""

import fcntl
import os
import time

from bridle.core.errors import WrongUse
from bridle.core.files import make_private_dir
from bridle.process.process_tree import look
from bridle.sessions.store import SessionRecord

_STARTING = 5.0
"""Seconds for a process that a killed driver was just starting to drop its copy of the lock."""
_TICK = 0.01


class SessionHeld(WrongUse):
    """Another process drives the session."""

    def __init__(self, session_id: str) -> None:
        super().__init__(
            f"session {session_id} is driven by another process",
            hint="talk to it with `bridle session`, or end that process first",
        )


class SessionOver(WrongUse):
    """The session's process has ended."""

    def __init__(self, record: SessionRecord) -> None:
        super().__init__(
            f"session {record.name or record.session_id} is {record.state}",
            hint=f"resume it with `bridle session resume {record.name or record.session_id}`",
        )


class SessionLock:
    """The right to drive a session; it ends with the process that holds it.

    Raises `SessionHeld` when another process holds it. A driver that is killed while it starts a
    process leaves a copy of the lock in that process until it executes its program. The file names
    the holder, so that such a copy is recognized and waited for.
    """

    def __init__(self, folder: str, session_id: str) -> None:
        make_private_dir(folder)
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC
        self._handle = os.open(os.path.join(folder, "lock"), flags, 0o600)
        until = time.monotonic() + _STARTING
        while not self._taken():
            if self._holder_lives() or time.monotonic() > until:
                os.close(self._handle)
                raise SessionHeld(session_id)
            time.sleep(_TICK)
        os.ftruncate(self._handle, 0)
        os.pwrite(self._handle, b"%d" % os.getpid(), 0)

    def _taken(self) -> bool:
        try:
            fcntl.flock(self._handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return False
        return True

    def _holder_lives(self) -> bool:
        """Whether the process that took the lock lives; assumed when the file does not name it."""
        pid = os.pread(self._handle, 20, 0)
        return not pid.isdigit() or look(int(pid)) is not None

    def release(self) -> None:
        """Release it; a repeated call has no effect."""
        if self._handle >= 0:
            # Closing is not enough: a process that is being started right now has a copy.
            fcntl.flock(self._handle, fcntl.LOCK_UN)
            os.close(self._handle)
            self._handle = -1
