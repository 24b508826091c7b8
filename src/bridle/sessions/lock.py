"""The right to drive a session, and the refusals of those who may not or cannot."""

import fcntl
import os

from bridle.core.errors import WrongUse
from bridle.sessions.store import SessionRecord


class SessionHeld(WrongUse):
    """Another driver holds the session."""

    def __init__(self, session_id: str) -> None:
        super().__init__(
            f"session {session_id} is driven by another process",
            hint="talk to it with `bridle session`, or end that process first",
        )


class SessionOver(WrongUse):
    """The session's process is gone."""

    def __init__(self, record: SessionRecord) -> None:
        super().__init__(
            f"session {record.name or record.session_id} is {record.state}",
            hint=f"resume it with `bridle session resume {record.name or record.session_id}`",
        )


class SessionLock:
    """The right to drive a session; it ends with the process that holds it."""

    def __init__(self, folder: str, session_id: str) -> None:
        os.makedirs(folder, mode=0o700, exist_ok=True)
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC
        self._handle = os.open(os.path.join(folder, "lock"), flags, 0o600)
        try:
            fcntl.flock(self._handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(self._handle)
            raise SessionHeld(session_id) from None

    def release(self) -> None:
        """Let it go; again has no effect."""
        if self._handle >= 0:
            # Closing alone would not do: a process that is being started right now has a copy.
            fcntl.flock(self._handle, fcntl.LOCK_UN)
            os.close(self._handle)
            self._handle = -1
