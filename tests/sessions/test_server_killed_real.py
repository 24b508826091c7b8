"""A terminal session whose tmux server is killed: told, nothing left running, and gone on with."""

import os
import signal
import subprocess
from collections.abc import Iterator

import pytest

from bridle.drives.tmux.server import read_place, server_in
from bridle.process.process_tree import marked_processes
from bridle.testing import ScriptedModel
from bridle.testing.contract import check_event_order
from tests.sessions.place import Place, wait
from tests.sessions.real import LONG, begin, go_on, real_place, rest
from tests.support.real_cli import newest

pytestmark = [pytest.mark.real_cli, pytest.mark.timeout(300)]
TURNS = [{"text": "One."}, {"text": "Two."}]


@pytest.fixture
def place() -> Iterator[Place]:
    with real_place() as here:
        yield here


@pytest.mark.parametrize("name", ["claude", "pi"])
def test_the_tmux_server_is_killed(place: Place, name: str) -> None:
    runtime = newest(name)
    with ScriptedModel(TURNS) as model:
        record = begin(place, runtime, "tmux", model)
        host = place.host()
        host.send(record, "The first.")
        assert rest(host, record) == "One."
        pane = read_place(place.home.run_folder(record.session_id, 1))
        assert pane is not None
        asked = ["tmux", "-S", server_in(pane.server).socket, "display-message", "-p", "#{pid}"]
        told = subprocess.run(asked, capture_output=True, text=True, check=True, timeout=20)
        os.kill(int(told.stdout), signal.SIGKILL)
        wait(lambda: place.record(record).is_over, LONG)
        assert host.idle(record).state == "lost"
        wait(lambda: not marked_processes(record.session_id), LONG)
        resumed = go_on(place, runtime, record)
        host.send(resumed, "The second.")
        assert rest(host, resumed) == "Two."
        heard = str(model.requests[-1].body)
        assert [heard.count(text) for text in ("The first.", "The second.")] == [1, 1]
        host.stop(resumed)
    assert check_event_order(place.events(record)) == []
