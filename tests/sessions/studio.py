"""Scripted sessions for the tests of the library's face, in a home and a folder of their own."""

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from bridle.core.events import Event
from bridle.process.process_tree import kill_marked, marked_processes
from bridle.sessions.event_log import EventLog
from bridle.sessions.home import StateHome, user_home
from bridle.sessions.host import close_hosts
from bridle.sessions.store import SessionStore

DEADLINE = 60.0

LONG = """
- text: looking
  shell: "touch began; while [ ! -e go ]; do sleep 0.02; done"
- text: the end
- text: after that
- text: and then
"""
"""A turn that goes on until the file `go` is there."""


class Studio:
    """Where sessions are made."""

    def __init__(self, folder: Path) -> None:
        self.work = folder / "work"
        self.work.mkdir()
        self._scripts = 0

    @property
    def home(self) -> StateHome:
        return user_home(os.environ)

    def options(self, script: str, **more: Any) -> dict[str, Any]:
        """The options of a session that plays `script`."""
        self._scripts += 1
        file = self.work.parent / f"script-{self._scripts}.yaml"
        file.write_text(script)
        return {
            "cwd": self.work,
            "provider_options": {"script": str(file)},
            "permission_mode": "bypass",
            **more,
        }

    def go(self) -> None:
        """Let a turn of `LONG` end."""
        (self.work / "go").touch()

    def events(self, session_id: str) -> list[Event]:
        """The events on disk."""
        return list(EventLog(self.home.folder(session_id)).read())

    def processes(self) -> dict[str, list[int]]:
        """The processes of all sessions, those of none left out."""
        found = {name: marked_processes(name) for name in self._sessions()}
        return {name: pids for name, pids in found.items() if pids}

    def _sessions(self) -> list[str]:
        store = SessionStore(self.home)
        try:
            return [record.session_id for record in store.all()]
        finally:
            store.close()

    def close(self) -> None:
        """End all of it."""
        close_hosts()
        for name in self._sessions():
            kill_marked(name)


def numbered(events: Sequence[Event]) -> bool:
    """Whether no event is missing or doubled, from the first on."""
    return [event.seq for event in events] == list(range(1, len(events) + 1))


def of_kind(events: list[Event], kind: str) -> list[Event]:
    """The events of one type."""
    return [event for event in events if event.__struct_config__.tag == kind]


Decide = Callable[[Any], tuple[bool, str, str]]
