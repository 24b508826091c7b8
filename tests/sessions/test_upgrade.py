"""A daemon of another version: an older one is replaced and nothing is lost, a newer one stays."""

import os
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import msgspec
import pytest

from bridle._version import __version__
from bridle.core.ids import new_session_id
from bridle.guard.hooks.guard_folder import read_notes
from bridle.process.process_tree import look
from bridle.sessions import verbs
from bridle.sessions.client import DaemonClient, daemon_status
from bridle.sessions.ledger import Told, ledger_entries
from bridle.sessions.protocol import PROTOCOL, DaemonAhead, Peer, standing
from tests.sessions.place import DEADLINE, Place, wait
from tests.sessions.print_sessions import heard
from tests.sessions.studio import LONG, numbered
from tests.sessions.test_daemon import end_daemon

ROOT = Path(__file__).parents[2]
OLDER = [
    (0, "0.0.9"),
    (PROTOCOL - 1, "0.0.9"),
    (PROTOCOL, "0.0.9"),
    (PROTOCOL, f"{__version__}.dev1"),
]
Begin = Callable[[int, str], int]


@pytest.fixture
def begin(place: Place, monkeypatch: pytest.MonkeyPatch) -> Iterator[Begin]:
    """Starts a daemon of another version at the place; returns its process's number."""
    monkeypatch.setenv("BRIDLE_DAEMON_IDLE", "60")
    running: list[subprocess.Popen[bytes]] = []

    def start(protocol: int, version: str) -> int:
        place.home.make()
        words = [sys.executable, "-m", "tests.sessions.other_daemon", str(protocol), version]
        running.append(subprocess.Popen([*words, place.home.root], cwd=ROOT))
        wait(lambda: daemon_status(place.home)["running"])
        return running[-1].pid

    yield start
    end_daemon(place.home)
    for daemon in running:
        daemon.wait(DEADLINE)


@pytest.mark.parametrize(("protocol", "version"), OLDER)
def test_an_older_daemon_is_replaced_in_the_middle_of_a_turn(
    place: Place,
    begin: Begin,
    capfd: pytest.CaptureFixture[str],
    protocol: int,
    version: str,
) -> None:
    old = begin(protocol, version)
    record = place.start(LONG)
    session = record.session_id
    with DaemonClient(place.home, start=False) as before:
        before.call(verbs.WaitReady(session=session, timeout=DEADLINE))
        first = new_session_id()
        before.call(verbs.Send(session=session, kind="prompt", text="one", message_id=first))
        queued = new_session_id()
        before.call(verbs.Send(session=session, kind="follow_up", text="two", message_id=queued))
    wait((place.work / "began").exists)
    capfd.readouterr()
    with DaemonClient(place.home) as client:
        status = client.call(verbs.Status())
        assert (status["version"], status["protocol"]) == (__version__, PROTOCOL)
        assert status["pid"] != old
        [line] = capfd.readouterr().err.splitlines()
        assert "replacing the daemon" in line
        # A client that asks again after the loss of the old daemon doubles nothing.
        again = verbs.Send(session=session, kind="prompt", text="one", message_id=first)
        client.call(msgspec.structs.replace(again, timeout=DEADLINE))
        client.call(
            verbs.Send(session=session, kind="follow_up", text="three", message_id=new_session_id())
        )
        (place.work / "go").touch()
        report = client.call(verbs.WaitIdle(session=session, timeout=DEADLINE))
        assert report is not None
        assert (report.turn, report.status) == (3, "completed")
        client.call(verbs.Stop(session=session, timeout=DEADLINE))
    assert heard(place, record) == Counter({"one": 1, "two": 1, "three": 1})
    assert numbered(place.events(record))


def test_many_clients_replace_it_once(place: Place, begin: Begin) -> None:
    old = begin(0, "0.0.9")

    def ask(_: int) -> int:
        with DaemonClient(place.home) as client:
            return int(client.call(verbs.Status())["pid"])

    with ThreadPoolExecutor(6) as pool:
        pids = set(pool.map(ask, range(6)))
    assert len(pids) == 1
    assert old not in pids


def test_who_waits_at_the_old_daemon_goes_on_at_the_new_one(place: Place, begin: Begin) -> None:
    begin(PROTOCOL, "0.0.9")
    record = place.start(LONG)
    with DaemonClient(place.home, start=False) as before:
        before.call(verbs.WaitReady(session=record.session_id, timeout=DEADLINE))
        before.call(
            verbs.Send(
                session=record.session_id, kind="prompt", text="go", message_id=new_session_id()
            )
        )
    wait((place.work / "began").exists)

    with DaemonClient(place.home, start=False) as waiting, DaemonClient(place.home) as client:
        waiting._connect()
        waiting._say(verbs.WaitIdle(session=record.session_id))
        client.call(verbs.Status())
        with pytest.raises(EOFError):
            # No answer that would read as a time that ran out: it has to ask again.
            waiting._answer()
        waiting.close()
        (place.work / "go").touch()
        report = waiting.call(verbs.WaitIdle(session=record.session_id, timeout=DEADLINE))
        assert report is not None
        assert report.status == "completed"


def test_a_newer_daemon_is_left_alone(place: Place, begin: Begin) -> None:
    new = begin(PROTOCOL + 1, "99.0")
    with DaemonClient(place.home) as client, pytest.raises(DaemonAhead) as refused:
        client.call(verbs.List())
    assert "99.0" in refused.value.message
    assert "bridle daemon stop" in refused.value.hint
    assert refused.value.exit_code == 2
    status = daemon_status(place.home)
    assert (status["pid"], status["version"], status["protocol"]) == (new, "99.0", PROTOCOL + 1)


def test_a_newer_version_of_the_same_protocol_is_used(place: Place, begin: Begin) -> None:
    new = begin(PROTOCOL, "99.0")
    with DaemonClient(place.home) as client:
        assert client.call(verbs.Status())["pid"] == new


def test_a_daemon_without_versions_is_known_by_its_status(place: Place, begin: Begin) -> None:
    pid = begin(0, "0.0.9")
    status = daemon_status(place.home)
    assert (status["pid"], status["version"], status["protocol"]) == (pid, None, 0)


def test_how_versions_stand() -> None:
    assert standing(Peer(PROTOCOL, __version__)) == "same"
    assert standing(Peer()) == "behind"
    assert standing(Peer(PROTOCOL, None)) == "behind"
    assert standing(Peer(PROTOCOL, "0.0.10")) == "behind"
    assert standing(Peer(PROTOCOL + 1, "0.0.1")) == "ahead"


def test_a_daemon_whose_home_is_deleted_ends(place: Place, begin: Begin) -> None:
    pid = begin(PROTOCOL, __version__)
    shutil.rmtree(place.home.root)
    assert daemon_status(place.home)["running"] is False
    wait(lambda: look(pid) is None)
    assert os.path.exists(place.home.root) is False


def test_a_ledger_of_before_the_one_verdict_is_read(tmp_path: Path) -> None:
    """A guarded session keeps its verdicts when Bridle is upgraded while it lives."""
    note = b'{"kind":"verdict","tool_name":"Bash","verdict":{"allowed":%s,"rule":"r"}}'
    for word, allowed in ((b"true", True), (b"false", False)):
        stored = note % word
        (tmp_path / "ledger.jsonl").write_bytes(b'{"do":"told","note":%s,"upto":9}\n' % stored)
        (tmp_path / "notes").write_bytes(stored + b"\n")
        (entry,) = ledger_entries(str(tmp_path))
        assert isinstance(entry, Told)
        ((read, end),) = read_notes(str(tmp_path / "notes"), 0)
        assert end == len(stored) + 1
        for found in (entry.note, read):
            assert found.verdict is not None
            assert found.verdict.allowed is allowed
