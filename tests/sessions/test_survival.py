"""What a session survives: its driver, its daemon, its agent, its files, its clock."""

import contextlib
import os
import resource
import shutil
import signal
import sqlite3
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest
from benchmarks.chaos import Run

from bridle.core import events as ev
from bridle.core.errors import Unavailable, WrongUse
from bridle.process.process_tree import marked_processes
from bridle.runtimes.registry import get_adapter
from bridle.sessions import engine, verbs
from bridle.sessions.clocks import Clocks
from bridle.sessions.lock import SessionHeld
from bridle.sessions.replay import replayed
from bridle.sessions.store import SessionStore
from bridle.testing.contract import check_event_order
from tests.sessions.place import Place, wait

SLOW = """
- text: "some words that take their time"
  shell: "touch began; sleep 0.5"
  fault: {slow: 0.01}
- text: the end
"""


def kill(file: Path) -> None:
    """Kill the process whose number stands in a file."""
    wait(file.exists)
    os.kill(int(file.read_text()), signal.SIGKILL)


def test_another_driver_takes_up_where_the_first_was(place: Place) -> None:
    first = place.host()
    record = place.start(SLOW + "- text: next\n")
    first.send(record, "go")
    first.send(record, "then this", "follow_up")
    wait((place.work / "began").exists)
    first.close()
    second = place.host()
    report = second.idle(record)
    assert (report.turn, report.text) == (2, "next")
    second.stop(record)
    events = place.events(record)
    assert check_event_order(events) == []
    assert [event.seq for event in events] == list(range(1, len(events) + 1))
    again = replayed(place.home, place.record(record), get_adapter("scripted"))
    assert [type(event) for event in again] == [type(event) for event in events]


@pytest.mark.parametrize("stopped", [False, True])
def test_a_driver_killed_before_it_wrote_the_record(place: Place, stopped: bool) -> None:
    first = place.host()
    record = place.start("- text: one\n")
    first.send(record, "go")
    assert first.idle(record).state == "ready"
    if stopped:
        first.stop(record)
    first.close()
    known = place.record(record)
    store = SessionStore(place.home)
    # All its events are in their file; the record is as it was a moment before.
    before = {"state": "working", "evidence": "prompt", "status": None, "last_turn": None}
    upto = next(e.seq for e in place.events(record) if isinstance(e, ev.AgentStart))
    store.put(msgspec.structs.replace(known, **before, usage=None, ended_at=None, seq=upto))
    store.close()
    report = place.host().idle(record)
    assert (report.state, report.turn) == ("stopped" if stopped else "ready", 1)
    assert place.record(record) == known


def test_two_drivers_cannot_hold_one_session(place: Place) -> None:
    first, second = place.host(), place.host()
    record = place.start("- text: one\n")
    first.idle(record)
    with pytest.raises(SessionHeld):
        second.driver(record)
    first.close()
    assert second.idle(record).state == "ready"


def test_a_fault_of_ours_ends_one_session_and_no_other(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    host = place.host()
    ill, well = place.start("- text: one\n"), place.start("- text: other\n")
    host.idle(ill)
    driver = host.driver(ill)

    def broken(most: int) -> None:
        raise TypeError("nobody thought of that")

    monkeypatch.setattr(driver._process, "read_lines", broken)
    host.send(ill, "go")
    report = host.idle(ill)
    assert report.state == "lost"
    assert "nobody thought of that" in str(place.record(ill).error)
    assert marked_processes(ill.session_id) == []
    host.send(well, "go")
    assert host.idle(well).text == "other"


def test_an_agent_that_is_killed_is_seen_dead_and_goes_on(place: Place) -> None:
    host = place.host()
    record = place.start(SLOW + "- text: more\n")
    host.send(record, "go")
    wait((place.work / "began").exists)
    kill(place.run_file(record, "pid"))
    report = host.idle(record)
    assert (report.state, report.status) == ("failed", "failed")
    assert report.error is not None
    assert report.error["kind"] == "crashed"
    assert marked_processes(record.session_id) == []
    resumed = place.resume(record)
    assert resumed.run == 2
    host.send(resumed, "go on")
    assert host.idle(resumed).status == "completed"
    host.stop(resumed)
    assert check_event_order(place.events(record)) == []


def test_a_session_that_lives_is_not_resumed(place: Place) -> None:
    record = place.start("- text: one\n")
    with pytest.raises(WrongUse, match="is alive"):
        place.resume(record)


def test_a_killed_holder_is_a_lost_session(place: Place) -> None:
    host = place.host()
    record = place.start(SLOW)
    host.send(record, "go")
    wait((place.work / "began").exists)
    kill(place.run_file(record, "holder"))
    assert host.idle(record).state == "lost"
    assert marked_processes(record.session_id) == []


def test_after_a_reboot_the_files_tell(place: Place) -> None:
    record = place.start(SLOW)
    host = place.host()
    host.send(record, "go")
    wait((place.work / "began").exists)
    host.close()
    # Everything is gone at once and nobody could write how it ended.
    for name in ("holder", "pid"):
        kill(place.run_file(record, name))
    place.run_file(record, "exit").unlink(missing_ok=True)
    after = place.host()
    assert after.idle(record).state == "lost"
    resumed = place.resume(record)
    after.send(resumed, "hello again")
    assert after.idle(resumed).status == "completed"


def test_a_hung_agent_is_called_hung(place: Place) -> None:
    host = place.host(Clocks(inactivity=0.4, abort=0.4))
    record = place.start("- text: begun\n  fault: {stall: 60}\n")
    host.send(record, "go")
    report = host.idle(record)
    assert report.status == "timed_out"


def test_a_tool_may_be_silent_for_longer(place: Place) -> None:
    host = place.host(Clocks(inactivity=0.3, tool_inactivity=30.0))
    record = place.start('- shell: "sleep 1"\n- text: done\n')
    host.send(record, "go")
    assert host.idle(record).status == "completed"


def test_a_turn_has_its_own_limit(place: Place) -> None:
    host = place.host(Clocks(turn=0.5, abort=5.0))
    record = place.start('- shell: "sleep 20"\n- text: done\n- text: fine\n')
    host.send(record, "go")
    report = host.idle(record)
    assert (report.state, report.status) == ("ready", "timed_out")
    host.send(record, "again")
    assert host.idle(record).status == "completed"


def test_an_agent_that_never_gets_ready_is_ended(place: Place) -> None:
    record = place.start("- text: one\n")
    # It is stopped before it can say a word.
    wait(place.run_file(record, "pid").exists)
    place.run_file(record, "journal").write_bytes(b"")
    os.kill(int(place.run_file(record, "pid").read_text()), signal.SIGSTOP)
    place.run_file(record, "journal").write_bytes(b"")
    host = place.host(Clocks(startup=0.5))
    report = host.idle(record)
    assert report.state == "failed"
    assert marked_processes(record.session_id) == []


def test_a_journal_that_vanishes_ends_the_session(place: Place) -> None:
    host = place.host()
    record = place.start(SLOW)
    host.send(record, "go")
    wait((place.work / "began").exists)
    place.run_file(record, "journal").unlink()
    report = host.idle(record)
    assert report.state == "lost"
    assert report.error is not None
    assert "journal" in report.error["message"]
    assert marked_processes(record.session_id) == []


def test_a_fifo_that_vanishes_does_not_matter(place: Place) -> None:
    host = place.host()
    record = place.start("- text: one\n- text: two\n")
    host.send(record, "go")
    host.idle(record)
    place.run_file(record, "stdin").unlink()
    host.send(record, "again")
    assert host.idle(record).text == "two"


def test_a_full_disk_loses_nothing(place: Place) -> None:
    host = place.host()
    record = place.start("- text: one\n- text: two\n")
    driver = host.driver(record)
    host.idle(record)
    size = os.stat(Path(place.home.folder(record.session_id)) / "ledger.jsonl").st_size
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    try:
        # No file of this process may grow beyond what the ledger is now.
        resource.setrlimit(resource.RLIMIT_FSIZE, (size + 10, hard))
        with pytest.raises(Unavailable, match="ledger"):
            host.send(record, "x" * 4096, message_id="refused")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert driver.player.is_idle
    host.send(record, "go", message_id="taken")
    assert host.idle(record).text == "one"


def test_a_clock_that_is_set_back_does_no_harm(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    import time

    host = place.host(Clocks(inactivity=20.0))
    record = place.start('- shell: "touch began; sleep 0.5"\n- text: one\n')
    host.send(record, "go")
    wait((place.work / "began").exists)
    host.close()
    now = time.time
    monkeypatch.setattr(time, "time", lambda: now() - 86400)
    assert place.host().idle(record).status == "completed"


def test_an_agent_killed_in_the_middle_of_a_line(place: Place) -> None:
    host = place.host()
    record = place.start("- text: one\n")
    host.idle(record)
    with place.run_file(record, "journal").open("ab") as journal:
        journal.write(b'{"type":"text","te')
    kill(place.run_file(record, "pid"))
    wait(place.run_file(record, "exit").exists)
    report = host.idle(record)
    assert report.state == "failed"
    events = place.events(record)
    assert check_event_order(events) == []
    assert any(isinstance(event, ev.Unknown) for event in events)


def test_a_store_can_be_used_by_many_at_once(place: Place) -> None:
    record = place.start("- text: one\n")
    code = (
        "import sys\n"
        "from bridle.sessions.home import StateHome\n"
        "from bridle.sessions.store import SessionStore\n"
        "store = SessionStore(StateHome(sys.argv[1]))\n"
        "for _ in range(200): store.put(store.get(sys.argv[2]))\n"
    )
    words = [sys.executable, "-c", code, place.home.root, record.session_id]
    running = [subprocess.Popen(words) for _ in range(4)]
    assert [process.wait(60) for process in running] == [0, 0, 0, 0]
    store = SessionStore(place.home)
    assert store.get(record.session_id).session_id == record.session_id
    store.close()


@pytest.mark.parametrize("number", range(8))
def test_kills_at_random_moments(tmp_path: Path, number: int) -> None:
    Run(tmp_path, number, seed=os.getpid()).play()


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells of ends unasked")
@pytest.mark.parametrize("gone", ["holder", "journal", "folder"])
def test_what_is_gone_is_heard_of_without_a_look(
    place: Place, monkeypatch: pytest.MonkeyPatch, gone: str
) -> None:
    monkeypatch.setattr(engine, "LIVENESS", 3600.0)
    host = place.host()
    record = place.start("- text: hello\n")
    host.send(record, "go")
    host.idle(record)
    path = place.run_file(record, gone)
    if gone == "holder":
        kill(path)
    elif gone == "journal":
        path.unlink()
    else:
        shutil.rmtree(path.parent)
    # Nothing is asked of the engine meanwhile: that would make it look.
    wait(lambda: place.record(record).state == "lost")


def test_a_process_whose_end_cannot_be_heard_of_is_looked_at(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine, "_most_ends", lambda: 0)
    host = place.host()
    record = place.start("- text: hello\n")
    host.send(record, "go")
    host.idle(record)
    kill(place.run_file(record, "holder"))
    wait(lambda: place.record(record).state == "lost")


def test_a_resume_is_not_ended_with_what_the_process_before_left(place: Place) -> None:
    host = place.host()
    stubborn = "trap '' TERM; touch began; sleep 60; sleep 60"
    record = place.start(f'- text: go\n  shell: "{stubborn}"\n- text: the end\n')
    host.send(record, "go")
    wait((place.work / "began").exists)
    kill(place.run_file(record, "pid"))
    wait(lambda: place.record(record).state == "failed")
    assert marked_processes(record.session_id), "what it left is not ended yet"
    assert host.do(verbs.Release(session=record.session_id, timeout=30.0)) is not None
    assert marked_processes(record.session_id) == []
    resumed = place.resume(record)
    host.send(resumed, "hello again")
    report = host.idle(resumed)
    assert (report.state, report.status) == ("ready", "completed")


def test_a_host_that_ends_while_it_cleans_keeps_the_session(place: Place) -> None:
    host = place.host()
    stubborn = "trap '' TERM; touch began; sleep 60; sleep 60"
    record = place.start(f'- text: go\n  shell: "{stubborn}"\n- text: the end\n')
    host.send(record, "go")
    wait((place.work / "began").exists)
    kill(place.run_file(record, "pid"))
    wait(lambda: place.record(record).state == "failed")
    host.close()
    with pytest.raises(SessionHeld):
        place.resume(record)
    wait(lambda: not marked_processes(record.session_id))
    after = place.host()

    def resumed() -> bool:
        try:
            place.resume(record)
        except SessionHeld:
            return False
        return True

    wait(resumed)
    after.send(record, "hello again")
    assert after.idle(record).status == "completed"


def test_a_resume_that_the_agent_refuses_is_told(place: Place) -> None:
    host = place.host()
    record = place.start("- text: hello\n")
    host.send(record, "go")
    host.idle(record)
    known = host.stop(record)
    [transcript] = (place.folder / "account").rglob(f"{known.native_session_id}.jsonl")
    transcript.unlink()
    place.resume(record)
    report = host.idle(record)
    assert report.state == "failed"
    error = place.record(record).error
    assert error is not None
    assert error["kind"] == "resume_refused"
    assert check_event_order(place.events(record)) == []


def test_what_a_session_leaves_on_disk_is_private(place: Place) -> None:
    """Whatever the user's mask is; the records are kept so that readers and a writer do not wait
    for one another."""
    before = os.umask(0)
    try:
        record = place.start('- shell: "echo one"\n- text: done\n')
        host = place.host()
        host.send(record, "go")
        host.idle(record)
        host.stop(record)
    finally:
        os.umask(before)
    found = [os.path.join(at, each) for at, _, files in os.walk(place.home.root) for each in files]
    assert {os.path.basename(path) for path in found} >= {"sessions.db", "ledger.jsonl", "journal"}
    folders = [at for at, _, _ in os.walk(place.home.root)]
    open_to_others = [p for p in (*found, *folders) if os.stat(p).st_mode & 0o077]
    assert open_to_others == []
    with contextlib.closing(sqlite3.connect(place.home.database)) as database:
        assert database.execute("PRAGMA journal_mode").fetchone() == ("wal",)
