"""Print sessions that are aborted, stopped, hung: turns end, the session goes on or is over."""

import time
from collections import Counter

import pytest

from bridle.core import events as ev
from bridle.process.process_tree import look, marked_processes
from bridle.sessions import verbs
from bridle.sessions.clocks import Clocks
from tests.sessions.place import Place, wait
from tests.sessions.print_sessions import LONG, begin, check, heard, keeper, turn_pid


def test_abort_ends_the_process_and_the_session_goes_on(place: Place) -> None:
    host = place.host()
    record = begin(place, LONG + "- text: still here\n")
    host.send(record, "go")
    wait((place.work / "began").exists)
    pid = turn_pid(place, record)
    assert host.do(verbs.Abort(session=record.session_id, reason="enough"))
    report = host.idle(record)
    assert (report.state, report.status) == ("ready", "aborted")
    assert look(pid) is None
    host.send(record, "are you there?")
    report = host.idle(record)
    assert (report.turn, report.status) == (2, "completed")
    assert heard(place, record) == Counter({"go": 1, "are you there?": 1})
    host.stop(record)
    check(place, record)


@pytest.mark.parametrize("delay", [0.0, 0.01, 0.03, 0.06, 0.1, 0.15, 0.2])
def test_abort_at_once_leaves_the_session_usable(place: Place, delay: float) -> None:
    host = place.host()
    slow = "- text: one\n  fault: {slow: 3}\n"
    record = begin(place, f"{slow}- text: two\n- text: three\n")
    message_id = "8d2b1c5e-7c3f-4a1d-9f1e-0123456789ab"

    def send_and_abort() -> None:
        driver = host.engine.adopt(record)
        driver.accept(message_id, "prompt", "go")

    host.call(send_and_abort)
    time.sleep(delay)
    host.do(verbs.Abort(session=record.session_id, reason="at once"))
    report = host.idle(record)
    assert (report.state, report.turn, report.status) == ("ready", 1, "aborted")
    host.send(record, "once more")
    report = host.idle(record)
    assert (report.turn, report.status) == (2, "completed"), report
    host.stop(record)
    check(place, record)


def test_abort_of_what_was_never_started_tells_so(place: Place) -> None:
    host = place.host()
    record = begin(place, "- text: one\n")

    def send_and_abort() -> bool:
        driver = host.engine.adopt(record)
        driver.accept("8d2b1c5e-7c3f-4a1d-9f1e-0123456789ab", "steer", "go")
        return driver.perform(verbs.Abort(session=record.session_id, reason="at once"))

    assert host.call(send_and_abort)
    assert host.idle(record).status == "aborted"
    host.send(record, "now")
    assert host.idle(record).text == "one"
    assert heard(place, record) == Counter({"now": 1})
    host.stop(record)
    check(place, record)


def test_stop_in_a_turn_ends_the_process_and_the_keeper(place: Place) -> None:
    host = place.host()
    record = begin(place, LONG)
    host.send(record, "go")
    wait((place.work / "began").exists)
    ended = host.stop(record)
    assert (ended.state, ended.status) == ("stopped", "aborted")
    check(place, record)


def test_stop_between_turns_and_resume(place: Place) -> None:
    host = place.host()
    record = begin(place, "- text: one\n- text: two\n")
    host.send(record, "first")
    host.idle(record)
    native = place.record(record).native_session_id
    assert host.stop(record).state == "stopped"
    resumed = place.resume(record)
    host.send(resumed, "second")
    report = host.idle(resumed)
    assert (report.turn, report.text) == (2, "two")
    assert place.record(record).native_session_id == native
    assert heard(place, record) == Counter({"first": 1, "second": 1})
    host.stop(resumed)
    events = check(place, record)
    totals = [event.usage.input_tokens for event in events if isinstance(event, ev.UsageTotals)]
    assert totals == [100, 200]


def test_what_a_turn_leaves_running_is_ended(place: Place) -> None:
    host = place.host()
    left = '- text: one\n  shell: "setsid sleep 300 >/dev/null 2>&1 & touch began"\n- text: two\n'
    record = begin(place, left + "- text: three\n")
    host.send(record, "go")
    assert host.idle(record).status == "completed"
    alone = [keeper(place, record)]
    wait(lambda: marked_processes(record.session_id) == alone)
    host.send(record, "next")
    assert host.idle(record).text == "three"
    host.stop(record)
    check(place, record)


def test_a_hung_turn_is_seen_hung(place: Place) -> None:
    host = place.host(Clocks(inactivity=0.6, tool_inactivity=0.6))
    record = begin(place, LONG + "- text: still here\n")
    host.send(record, "go")
    report = host.idle(record)
    assert (report.state, report.status) == ("ready", "timed_out")
    host.send(record, "next")
    assert host.idle(record).status == "completed"
    host.stop(record)
    check(place, record)
