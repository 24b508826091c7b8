"""What comes from the agent of a session: its lines, without secrets, and its end."""

import os

from bridle.core.redaction import Redactor
from bridle.process.run_files import HoldingFailed
from bridle.process.spec import ProcessExit
from bridle.sessions.replay import SessionPlayer

TYPE_CHECKING = False
if TYPE_CHECKING:
    from bridle.sessions.holding import SessionProcess

PIECE = 1 << 20
"""Bytes of the journal taken at once, so that one chatty session does not starve the others."""


class Intake:
    """Reads a session's process and plays what it said.

    Contract: each line is read once and played by whoever read it, in order. A run's folder that
    is gone is an agent that is gone; other trouble with it raises `HoldingFailed`.
    """

    def __init__(
        self, process: "SessionProcess", player: SessionPlayer, redactor: Redactor, folder: str
    ) -> None:
        self._process = process
        self._player = player
        self._redactor = redactor
        self._folder = folder

    @property
    def is_there(self) -> bool:
        """Whether the files of the run are still there."""
        return os.path.isdir(self._folder)

    def read(self) -> list[bytes]:
        """The next lines, as many as are taken at once; empty when there are none now."""
        try:
            return self._process.read_lines(PIECE)
        except HoldingFailed:
            if self.is_there:
                raise
            return []

    def play(self, line: bytes) -> None:
        """Play a line that was read."""
        self._player.feed(self._redactor.line(line))

    def play_last_words(self) -> None:
        """Play what the agent left without a line's end, when it is gone."""
        if last := self._process.last_words():
            self.play(last)

    def exit(self) -> ProcessExit | None:
        """How the process ended; None while it has not."""
        if not self.is_there:
            return ProcessExit(code=None)
        return self._process.exit(self._redactor)
