"""The daemon: started on demand, replaced when it is killed, closed to strangers."""

import json
import os
import signal
import socket
import stat
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from bridle._version import __version__
from bridle.core.errors import Unavailable, WrongUse
from bridle.core.events import AgentEnd, StateChange
from bridle.sessions import verbs
from bridle.sessions.client import DaemonClient, daemon_status
from bridle.sessions.home import StateHome, socket_path, token_path
from bridle.sessions.lock import SessionOver
from bridle.sessions.protocol import PROTOCOL
from bridle.sessions.store import UnknownSession
from tests.sessions.place import DEADLINE, Place, kinds, wait


@pytest.fixture
def client(place: Place, monkeypatch: pytest.MonkeyPatch) -> Iterator[DaemonClient]:
    """A client of the place's daemon, which is ended after the test."""
    monkeypatch.setenv("BRIDLE_DAEMON_IDLE", "30")
    with DaemonClient(place.home) as talking:
        yield talking
    end_daemon(place.home)


def end_daemon(home: StateHome) -> None:
    """End the daemon of a home and wait until it is gone."""
    try:
        with DaemonClient(home, start=False) as last:
            last.call(verbs.Shutdown())
            last.wait_gone()
    except Unavailable:
        return


def test_it_is_started_on_demand_and_only_once(place: Place, client: DaemonClient) -> None:
    assert daemon_status(place.home)["running"] is False

    def ask(_: int) -> int:
        with DaemonClient(place.home) as another:
            return int(another.call(verbs.Status())["pid"])

    with ThreadPoolExecutor(6) as pool:
        pids = set(pool.map(ask, range(6)))
    assert len(pids) == 1
    status = daemon_status(place.home)
    assert status == {
        "running": True,
        "pid": pids.pop(),
        "socket": socket_path(place.home),
        "sessions": 0,
        "protocol": PROTOCOL,
        "version": __version__,
    }


def test_a_killed_daemon_is_replaced_and_nothing_is_lost(
    place: Place, client: DaemonClient
) -> None:
    record = place.start('- shell: "touch began; sleep 0.5"\n- text: one\n- text: two\n')
    name = record.session_id
    client.call(verbs.WaitReady(session=name, timeout=DEADLINE))
    client.call(verbs.Send(session=name, kind="prompt", text="a", message_id="a", timeout=DEADLINE))
    wait((place.work / "began").exists)
    first = client.call(verbs.Status())["pid"]
    os.kill(first, signal.SIGKILL)
    told = client.call(verbs.WaitIdle(session=name, timeout=DEADLINE))
    assert told is not None
    assert (told.state, told.turn, told.text) == ("ready", 1, "one")
    assert client.call(verbs.Status())["pid"] != first
    again = client.call(
        verbs.Send(session=name, kind="prompt", text="a", message_id="a", timeout=DEADLINE)
    )
    assert again is not None
    assert (again.delivered, again.turn) == (True, 1)
    client.call(verbs.Stop(session=name, timeout=DEADLINE))
    assert [event.seq for event in client.events(name)] == list(
        range(1, len(place.events(record)) + 1)
    )


def test_events_are_followed_over_a_kill(place: Place, client: DaemonClient) -> None:
    record = place.start("- text: one\n- text: two\n")
    name = record.session_id
    client.call(verbs.WaitReady(session=name, timeout=DEADLINE))
    pid = client.call(verbs.Status())["pid"]
    with DaemonClient(place.home) as follower:
        seen = []
        for event in follower.events(name):
            seen.append(event)
            if isinstance(event, StateChange) and event.new == "ready" and len(seen) < 4:
                os.kill(pid, signal.SIGKILL)
                client.call(
                    verbs.Send(
                        session=name, kind="prompt", text="a", message_id="a", timeout=DEADLINE
                    )
                )
            elif isinstance(event, AgentEnd):
                client.call(verbs.Stop(session=name, timeout=DEADLINE))
    assert [event.seq for event in seen] == list(range(1, len(seen) + 1))
    assert kinds(list(seen))[-1] == "session_end"


def test_strangers_are_not_served(place: Place, client: DaemonClient) -> None:
    client.call(verbs.Status())
    assert stat.S_IMODE(os.stat(socket_path(place.home)).st_mode) == 0o600
    assert stat.S_IMODE(os.stat(token_path(place.home)).st_mode) == 0o600
    assert stat.S_IMODE(os.stat(place.home.root).st_mode) == 0o700
    assert stat.S_IMODE(os.stat(place.home.database).st_mode) == 0o600
    for line in (
        b'{"id":1,"op":"status"}\n',
        b'{"id":1,"op":"status","token":"wrong"}\n',
        b"no json at all\n",
        b"\xff\xfe\n",
    ):
        with socket.socket(socket.AF_UNIX) as stranger:
            stranger.settimeout(DEADLINE)
            stranger.connect(socket_path(place.home))
            stranger.sendall(line)
            assert stranger.recv(100) == b""
    assert client.call(verbs.Status())["running"] is True


class Dance(verbs.Verb[Any], frozen=True, kw_only=True, tag="dance"):
    """A request that no daemon knows."""


class ShowNothing(verbs.Verb[Any], frozen=True, kw_only=True, tag="show"):
    """A request that lacks a field."""


def test_errors_keep_their_types(place: Place, client: DaemonClient) -> None:
    with pytest.raises(UnknownSession, match="no session nobody"):
        client.call(verbs.Show(session="nobody"))
    with pytest.raises(WrongUse, match="does not know 'dance'"):
        client.call(Dance())
    record = place.start("- text: one\n")
    client.call(verbs.Stop(session=record.session_id, timeout=DEADLINE))
    with pytest.raises(SessionOver, match="is stopped"):
        client.call(
            verbs.Send(
                session=record.session_id, kind="prompt", text="x", message_id="x", timeout=1
            )
        )
    with pytest.raises(WrongUse, match=r"'show' is wrong: .*missing required field `session`"):
        client.call(ShowNothing())
    with pytest.raises(WrongUse, match=r"'events' is wrong: Expected `str`.*`\$\.session`"):
        list(client.events(None))  # type: ignore[arg-type]
    assert client.call(verbs.Status())["running"] is True


def test_it_ends_when_it_is_idle(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BRIDLE_DAEMON_IDLE", "0.3")
    record = place.start("- text: one\n")
    with DaemonClient(place.home) as talking:
        talking.call(verbs.WaitReady(session=record.session_id, timeout=DEADLINE))
    # Asking it would keep it busy.
    wait(lambda: not os.path.exists(socket_path(place.home)))
    # The session did not notice.
    with DaemonClient(place.home) as talking:
        name = record.session_id
        talking.call(
            verbs.Send(session=name, kind="prompt", text="hi", message_id="m", timeout=DEADLINE)
        )
        report = talking.call(verbs.WaitIdle(session=name, timeout=DEADLINE))
        assert report is not None
        assert report.text == "one"
        talking.call(verbs.Stop(session=name, timeout=DEADLINE))
    end_daemon(place.home)


def test_a_home_with_a_long_path(tmp_path_factory: pytest.TempPathFactory) -> None:
    deep = tmp_path_factory.mktemp("deep") / ("d" * 60) / ("e" * 60)
    home = StateHome(str(deep / "state"))
    with DaemonClient(home) as talking:
        status = talking.call(verbs.Status())
    assert len(status["socket"]) < 100
    assert json.dumps(status)
    end_daemon(home)
