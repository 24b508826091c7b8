"""The sync face of sessions, and what several programs can do with one session."""

import os
import signal
import subprocess
import sys
import textwrap
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from bridle.core import events as ev
from bridle.core.errors import TimedOut, WrongUse
from bridle.core.events import Event
from bridle.sessions import verbs
from bridle.sessions.client import DaemonClient, daemon_status
from bridle.sessions.host import close_hosts
from bridle.sessions.lock import SessionHeld
from bridle.sessions.session import Session
from bridle.sessions.sync_session import SyncSession
from bridle.turns.wire import Deny, Question
from tests.sessions.place import wait
from tests.sessions.studio import DEADLINE, LONG, Studio, numbered, of_kind
from tests.sessions.test_daemon import end_daemon

WAIT: dict[str, Any] = {"timeout": DEADLINE}


@pytest.fixture
def studio(tmp_path: Path) -> Iterator[Studio]:
    made = Studio(tmp_path)
    yield made
    made.close()
    end_daemon(made.home)


def public(cls: type) -> set[str]:
    return {name for name in dir(cls) if not name.startswith("_")}


def test_both_faces_have_the_same_names() -> None:
    assert public(Session) == public(SyncSession)


def test_a_conversation(studio: Studio) -> None:
    options = studio.options("- text: one\n- text: two\n")
    heard: list[Event] = []
    with SyncSession.start("scripted", "first", **options) as session:
        assert session.wait_idle(**WAIT).text == "one"
        stop = session.subscribe(heard.append)
        assert session.prompt("second", **WAIT).delivered
        assert session.wait_idle(**WAIT).text == "two"
        wait(lambda: of_kind(heard, "agent_end"))
        stop()
        session.set_model("other")
        with pytest.raises(WrongUse):
            session.answer("nobody", True)
        assert session.abort() is False
        assert session.abort_compaction() is False
        session.stop("enough")
        events = list(session.events())
    assert numbered(events)
    assert heard == events[heard[0].seq - 1 : heard[-1].seq]
    assert session.state == "stopped"
    assert studio.processes() == {}


def test_events_as_they_happen_and_a_policy(studio: Studio) -> None:
    def decide(question: Question) -> Deny:
        return Deny("not today", by="policy")

    script = '- text: may I?\n  shell: "touch allowed"\n- text: done\n'
    options = studio.options(script, permission_mode="ask")
    with SyncSession.start("scripted", "go", permission=decide, **options) as session:
        for event in session.events():
            if isinstance(event, ev.AgentEnd):
                break
    assert not (studio.work / "allowed").exists()
    [decision] = of_kind(studio.events(session.session_id), "permission_decision")
    assert getattr(decision, "reason", "") == "not today"


def test_a_reader_in_another_thread_ends_with_detach(studio: Studio) -> None:
    session = SyncSession.start("scripted", "go", **studio.options(LONG))
    wait((studio.work / "began").exists)
    seen: list[Event] = []
    reader = threading.Thread(target=lambda: seen.extend(session.events()))
    reader.start()
    with pytest.raises(TimedOut):
        session.wait_idle(timeout=0.1)
    session.detach()
    reader.join(DEADLINE)
    assert not reader.is_alive()
    assert numbered(seen)
    studio.go()
    with SyncSession.open(session.session_id) as again:
        assert again.wait_idle(**WAIT).text == "the end"
        again.stop()
        again.detach()
    with SyncSession.resume(session.session_id) as third:
        assert third.prompt("next", **WAIT).turn == 2


def test_a_session_is_taken_over_from_the_daemon(studio: Studio) -> None:
    session = SyncSession.start("scripted", "go", name="moved", **studio.options(LONG))
    wait((studio.work / "began").exists)
    session.detach()
    with DaemonClient(studio.home) as client:
        assert client.call(verbs.Show(session="moved")).state == "working"
        assert client.call(verbs.Status())["sessions"] == 1
        with SyncSession.open("moved") as mine:
            assert client.call(verbs.Status())["sessions"] == 0
            studio.go()
            assert mine.wait_idle(**WAIT).text == "the end"
            mine.detach()
        assert client.call(verbs.Show(session="moved")).state == "ready"
        # The daemon has it again, and resuming what lives is refused without taking it away.
        with pytest.raises(WrongUse, match="is alive"):
            SyncSession.resume("moved")
        assert client.call(verbs.Status())["sessions"] == 1
        client.call(verbs.Stop(session="moved", timeout=DEADLINE))
        with SyncSession.resume("moved") as mine:
            assert mine.prompt("more", **WAIT).delivered
            assert mine.wait_idle(**WAIT).text == "after that"
        assert numbered(studio.events(session.session_id))


PROGRAM = """
    import sys
    import bridle
    session = bridle.SyncSession.start("scripted", "go", name="left", cwd=sys.argv[1],
        permission_mode="bypass", provider_options=dict(script=sys.argv[2]))
    print(session.session_id, flush=True)
    {end}
"""


def program(studio: Studio, end: str) -> "subprocess.Popen[str]":
    options = studio.options(LONG)
    return subprocess.Popen(
        [
            *(sys.executable, "-c", textwrap.dedent(PROGRAM.format(end=end))),
            *(str(options["cwd"]), options["provider_options"]["script"]),
        ],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=studio.work,
    )


def test_a_session_outlives_its_program(studio: Studio) -> None:
    child = program(studio, "")
    out, err = child.communicate(timeout=DEADLINE)
    assert (child.returncode, err) == (0, "")
    assert studio.processes() != {}
    with SyncSession.open(out.strip()) as session:
        studio.go()
        assert session.wait_idle(**WAIT).text == "the end"
        session.stop()
        assert numbered(list(session.events()))


def test_a_program_that_is_killed_loses_nothing(studio: Studio) -> None:
    child = program(studio, "import time; time.sleep(1000)")
    assert child.stdout is not None
    name = child.stdout.readline().strip()
    with pytest.raises(SessionHeld):
        SyncSession.open(name)
    os.kill(child.pid, signal.SIGKILL)
    child.communicate(timeout=DEADLINE)
    with SyncSession.open(name) as session:
        studio.go()
        assert session.wait_idle(**WAIT).text == "the end"
        session.stop()
        assert numbered(list(session.events()))
    assert daemon_status(studio.home)["running"] is False


def test_closing_the_host_is_told(studio: Studio) -> None:
    session = SyncSession.start("scripted", **studio.options("- text: one\n"))
    close_hosts()
    with pytest.raises(Exception, match="no longer driven"):
        session.prompt("hello")
    with SyncSession.open(session.session_id) as again:
        assert again.prompt("hello", **WAIT).delivered
