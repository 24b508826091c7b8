"""A session's pane as somebody has it who looks at it and types."""

import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager

from bridle.drives.tmux.server import TmuxServer, read_place
from bridle.runtimes.alternatives import as_terminal
from tests.conftest import wait_until
from tests.guard.sessions import DEADLINE, GuardedSession


@contextmanager
def looking_at(session: GuardedSession) -> Iterator[tuple[TmuxServer, str]]:
    """The server of a session and the name of its pane, by a client of their own."""
    place = read_place(session.home.run_folder(session.record.session_id, session.record.run))
    assert place is not None
    assert os.path.isdir(place.server)
    server = TmuxServer(place.server)
    try:
        yield server, place.name
    finally:
        server.close()


def type_in(session: GuardedSession, text: str) -> None:
    """Type a text and submit it when it shows in the input line."""
    facts = as_terminal(session.runtime).terminal_facts()
    with looking_at(session) as (server, name):
        server.send_keys(name, *("Space" if char == " " else char for char in text))
        wait_until(lambda: facts.holds(server.capture(name), text), seconds=DEADLINE)
        server.send_keys(name, "Enter")


def kill_server(session: GuardedSession) -> None:
    """Kill the server that the agent runs in, without a farewell."""
    with looking_at(session) as (server, _):
        asked = ["tmux", "-S", server.socket, "display-message", "-p", "#{pid}"]
        pid = int(subprocess.run(asked, capture_output=True, check=True, timeout=20).stdout)
        os.kill(pid, signal.SIGKILL)
