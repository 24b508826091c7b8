"""Print sessions of which something is killed or deleted: told, and taken up again."""

import os
import signal
import time
from collections import Counter

import pytest

from bridle.process.process_tree import look, marked_processes
from bridle.sessions.store import SessionRecord
from tests.sessions.place import Host, Place, wait
from tests.sessions.print_sessions import LONG, SLOW, begin, check, heard, keeper, turn_pid


def test_an_agent_killed_in_a_turn_fails_it_and_the_session_goes_on(place: Place) -> None:
    host = place.host()
    record = begin(place, LONG + "- text: still here\n")
    host.send(record, "go")
    wait((place.work / "began").exists)
    os.kill(turn_pid(place, record), signal.SIGKILL)
    report = host.idle(record)
    assert (report.state, report.status) == ("ready", "failed")
    assert report.error is not None
    assert report.error["kind"] == "crashed"
    host.send(record, "next")
    assert host.idle(record).status == "completed"
    assert heard(place, record) == Counter({"go": 1, "next": 1})
    host.stop(record)
    check(place, record)


def test_a_killed_holder_of_a_turn_fails_it_and_the_session_goes_on(place: Place) -> None:
    host = place.host()
    record = begin(place, LONG + "- text: still here\n")
    host.send(record, "go")
    wait((place.work / "began").exists)
    agent = turn_pid(place, record)
    os.kill(int(place.run_file(record, "1.holder").read_text()), signal.SIGKILL)
    report = host.idle(record)
    assert (report.state, report.status) == ("ready", "failed")
    host.send(record, "next")
    assert host.idle(record).status == "completed"
    assert agent not in marked_processes(record.session_id)
    host.stop(record)
    check(place, record)


@pytest.mark.parametrize("in_turn", [False, True])
def test_a_killed_keeper_is_a_lost_session_that_can_be_resumed(place: Place, in_turn: bool) -> None:
    host = place.host()
    record = begin(place, "- text: one\n" + LONG * in_turn + "- text: back again\n" * 2)
    host.send(record, "first")
    host.idle(record)
    if in_turn:
        host.send(record, "second")
        wait((place.work / "began").exists)
    os.kill(keeper(place, record), signal.SIGKILL)
    wait(lambda: place.record(record).is_over)
    assert host.idle(record).state == "lost"
    wait(lambda: marked_processes(record.session_id) == [])
    resumed = place.resume(record)
    host.send(resumed, "third")
    report = host.idle(resumed)
    assert report.state == "ready"
    assert heard(place, record)["first"] == heard(place, record)["third"] == 1
    host.stop(resumed)
    check(place, record)


def test_another_driver_takes_up_in_the_middle_of_a_turn(place: Place) -> None:
    first = place.host()
    record = begin(place, SLOW + "- text: next\n- text: last\n")
    first.send(record, "go")
    first.send(record, "then this", "follow_up")
    wait((place.work / "began").exists)
    first.close()
    second = place.host()
    report = second.idle(record)
    assert (report.turn, report.text) == (2, "next")
    second.close()
    third = place.host()
    assert third.idle(record).turn == 2
    third.send(record, "and the last")
    assert third.idle(record).text == "last"
    third.stop(record)
    check(place, record)
    assert heard(place, record) == Counter({"go": 1, "then this": 1, "and the last": 1})


@pytest.mark.parametrize("moment", range(8))
def test_a_driver_that_is_killed_at_any_moment(place: Place, moment: int) -> None:
    record = begin(place, "- text: a few words\n  fault: {slow: 0.02}\n- text: two\n" * 3)
    child = os.fork()
    if child == 0:
        drive_until_killed(place, record)
    time.sleep(0.05 + 0.06 * moment)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    host = place.host()
    report = host.idle(record)
    assert report.state == "ready"
    host.send(record, "last")
    assert host.idle(record).status == "completed"
    host.stop(record)
    check(place, record)
    assert all(count == 1 for count in heard(place, record).values())


def drive_until_killed(place: Place, record: SessionRecord) -> None:
    """In a process of its own."""
    try:
        host = Host(place.home)
        for text in ("one", "two", "three"):
            host.send(record, text, "follow_up")
        time.sleep(60)
    finally:
        os._exit(1)


@pytest.mark.parametrize("in_turn", [False, True])
def test_a_journal_that_is_deleted_ends_the_session(place: Place, in_turn: bool) -> None:
    host = place.host()
    record = begin(place, LONG)
    host.driver(record)
    if in_turn:
        host.send(record, "go")
        wait((place.work / "began").exists)
    place.run_file(record, "journal").unlink()
    wait(lambda: place.record(record).is_over)
    assert place.record(record).state == "lost"
    wait(lambda: marked_processes(record.session_id) == [])


def test_much_that_is_said_at_once_is_copied(place: Place) -> None:
    host = place.host()
    record = begin(place, f'- text: "{"many words " * 300_000}"\n- text: next\n')
    host.send(record, "go")
    report = host.idle(record)
    assert (report.status, len(report.text)) == ("completed", 3_300_000)
    host.send(record, "and on")
    assert host.idle(record).text == "next"
    host.stop(record)
    check(place, record)


def test_after_a_reboot_the_files_tell(place: Place) -> None:
    record = begin(place, "- text: one\n" + LONG + "- text: back\n")
    host = place.host()
    host.send(record, "first")
    host.idle(record)
    host.send(record, "second")
    wait((place.work / "began").exists)
    host.close()
    # Everything is gone at once and nobody could write how it ended.
    for pid in (keeper(place, record), *marked_processes(record.session_id)):
        if look(pid) is not None:
            os.kill(pid, signal.SIGKILL)
    later = place.host()
    assert later.idle(record).state == "lost"
    resumed = place.resume(record)
    later.send(resumed, "third")
    assert later.idle(resumed).state == "ready"
    assert heard(place, record) == Counter({"first": 1, "second": 1, "third": 1})
    later.stop(resumed)
    check(place, record)
