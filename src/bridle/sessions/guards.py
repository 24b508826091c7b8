"""Answers the hooks of guarded sessions, in the process that drives them."""

from typing import TYPE_CHECKING

from bridle.core.errors import GuardRefused

if TYPE_CHECKING:
    from bridle.guard.lasting import HostedSession
    from bridle.guard.service import JudgeService


class GuardHost:
    """The judge of an engine's sessions; costs nothing until one is guarded.

    Contract: one thread uses it. A session that it does not host is held all the same: its hooks
    judge alone.
    """

    def __init__(self) -> None:
        self.sessions: dict[str, HostedSession] = {}
        self._service: JudgeService | None = None

    def host(self, session_id: str, folder: str) -> None:
        """Answer the hooks of a session whose guard's files are in `folder`, from now on."""
        from bridle.guard.lasting import HostedSession
        from bridle.guard.service import JudgeService

        if session_id in self.sessions:
            return
        self._service = self._service or JudgeService()
        try:
            session = HostedSession(self._service, folder)
            session.open()
        except (GuardRefused, OSError):
            # Its hooks cannot be answered better than they answer themselves: they refuse.
            return
        self.sessions[session_id] = session

    def leave(self, session_id: str) -> None:
        """Answer a session's hooks no more; they judge alone."""
        session = self.sessions.pop(session_id, None)
        if session is not None:
            session.close()

    def close(self) -> None:
        """Leave all of them."""
        for session_id in list(self.sessions):
            self.leave(session_id)
        if self._service is not None:
            self._service.close()
            self._service = None
