"""Sessions with a process for each turn (the drive `print`), on the scripted agent."""

import json
import os
import signal
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from bridle.core import events as ev
from bridle.core.errors import UnsupportedOption
from bridle.drives.processes import look, marked_processes
from bridle.drives.turns.records import mark_in
from bridle.runtimes.registry import get_runtime
from bridle.sessions.clocks import Clocks
from bridle.sessions.desk import default_drive
from bridle.sessions.replay import replayed
from bridle.sessions.store import SessionRecord
from bridle.testing.contract import check_event_order
from tests.sessions.place import Host, Place, kinds, wait

SLOW = """
- text: "some words that take their time"
  shell: "touch began; sleep 0.5"
  fault: {slow: 0.01}
- text: the end
"""
LONG = '- text: working\n  shell: "touch began; sleep 60"\n'


def begin(place: Place, script: str, **more: Any) -> SessionRecord:
    """A print session."""
    return place.start(script, drive="print", **more)


def heard(place: Place, record: SessionRecord) -> Counter[str]:
    """What the agent's own transcript says that it was told."""
    native = place.record(record).native_session_id
    [transcript] = (place.folder / "account").rglob(f"{native}.jsonl")
    entries = map(json.loads, transcript.read_text().splitlines())
    return Counter(each["text"] for each in entries if each["type"] == "user")


def check(place: Place, record: SessionRecord) -> list[ev.Event]:
    """What must be so of every session that is over; returns its events."""
    events = place.events(record)
    assert check_event_order(events) == []
    again = replayed(place.home, place.record(record), get_runtime("scripted"))
    assert [bare(event) for event in again] == [bare(event) for event in events]
    wait(lambda: marked_processes(record.session_id) == [])
    return events


def bare(event: ev.Event) -> str:
    """An event without the moment it was written down."""
    return str(event).replace(event.ts, "")


def turn_pid(place: Place, record: SessionRecord, number: int = 1) -> int:
    """The process of a turn, once it is there."""
    file = place.run_file(record, f"{number}.pid")
    wait(file.exists)
    return int(file.read_text())


def keeper(place: Place, record: SessionRecord, run: int = 1) -> int:
    """The process between turns."""
    file = place.run_file(record, "holder", run)
    wait(file.exists)
    return int(file.read_text())


# -- a conversation -------------------------------------------------------------------------------


def test_each_turn_has_a_process_and_remembers_the_one_before(place: Place) -> None:
    host = place.host()
    record = begin(place, "- text: one\n- text: two\n")
    assert host.driver(record).record.state == "ready"
    for number, text in enumerate(("one", "two"), 1):
        host.send(record, f"say {text}")
        report = host.idle(record)
        assert (report.turn, report.text, report.status) == (number, text, "completed")
        assert place.record(record).pid is None
    assert heard(place, record) == Counter({"say one": 1, "say two": 1})
    assert host.stop(record).state == "stopped"
    events = check(place, record)
    assert kinds(events) == [
        *("session_start", "state", "state", "agent_start", "message_start", "message_end"),
        *("usage", "agent_end", "state"),
        *("state", "agent_start", "message_start", "message_end", "usage", "agent_end", "state"),
        *("state", "session_end"),
    ]
    totals = [event.usage.input_tokens for event in events if isinstance(event, ev.UsageTotals)]
    turns = [event.usage for event in events if isinstance(event, ev.AgentEnd)]
    assert totals == [100, 200]
    assert [usage.input_tokens for usage in turns if usage is not None] == [100, 100]


def test_evidence_says_that_no_process_is_there(place: Place) -> None:
    host = place.host()
    record = begin(place, LONG)
    shown = host.driver(record).record
    assert (shown.state, shown.pid) == ("ready", None)
    assert "no process" in shown.evidence
    host.send(record, "go")
    wait((place.work / "began").exists)
    wait(lambda: place.record(record).pid is not None)
    assert place.record(record).pid == turn_pid(place, record)
    assert place.record(record).state == "working"
    host.call(lambda: host.service.abort(record.session_id, "enough"))
    host.idle(record)
    shown = place.record(record)
    assert (shown.state, shown.pid, shown.status) == ("ready", None, "aborted")
    assert "no process" in shown.evidence


def test_what_is_sent_meanwhile_waits_and_becomes_turns_of_its_own(place: Place) -> None:
    host = place.host()
    record = begin(place, SLOW + "- text: steered\n- text: followed\n")
    host.send(record, "go")
    wait((place.work / "began").exists)
    host.send(record, "afterwards", "follow_up")
    host.send(record, "mind this", "steer")
    report = host.idle(record)
    assert (report.turn, report.text) == (3, "followed")
    host.stop(record)
    starts = [e for e in check(place, record) if isinstance(e, ev.AgentStart)]
    assert [event.turn for event in starts] == [1, 2, 3]
    assert heard(place, record) == Counter({"go": 1, "mind this": 1, "afterwards": 1})


def test_a_message_of_a_megabyte(place: Place) -> None:
    host = place.host()
    record = begin(place, "- text: one\n- text: two\n")
    text = "ä word " * 150_000
    host.send(record, text)
    assert host.idle(record).status == "completed"
    host.send(record, "and a short one")
    assert host.idle(record).text == "two"
    assert heard(place, record)[text] == 1
    host.stop(record)
    check(place, record)


def test_a_hundred_messages_at_once(place: Place) -> None:
    host = place.host()
    record = begin(place, "- text: yes\n" * 100)
    texts = [f"message {number}" for number in range(100)]
    with ThreadPoolExecutor(20) as pool:
        list(pool.map(lambda text: host.send(record, text, "follow_up"), texts))
    for _ in range(5):
        if host.idle(record).turn == 100:
            break
    assert host.idle(record).turn == 100
    host.stop(record)
    check(place, record)
    assert heard(place, record) == Counter(texts)


def test_a_question_of_the_agent_is_answered(place: Place) -> None:
    host = place.host()
    script = '- text: may I\n  shell: "touch allowed"\n- text: done\n- text: next\n'
    record = begin(place, script, options={"permission_mode": "ask"})
    host.send(record, "go")
    wait(lambda: place.record(record).state == "waiting_permission")
    driver = host.driver(record)
    [request] = driver.player.questions
    host.call(lambda: driver.commands.answer(request, True, "user"))
    assert host.idle(record).text == "done"
    assert (place.work / "allowed").exists()
    host.send(record, "again")
    assert host.idle(record).text == "next"
    host.stop(record)
    check(place, record)


def test_the_model_can_be_changed_between_turns(place: Place) -> None:
    host = place.host()
    record = begin(place, "- text: one\n- text: two\n")
    host.send(record, "go")
    host.idle(record)
    driver = host.driver(record)
    host.call(lambda: driver.commands.set_model("another"))
    host.send(record, "and now")
    host.idle(record)
    host.stop(record)
    check(place, record)
    marks = [mark_in(line) for line in place.run_file(record, "journal").read_bytes().split(b"\n")]
    plans = [mark.plan.model for mark in marks if mark is not None and mark.plan is not None]
    assert plans == [None, "another"]


# -- ending ---------------------------------------------------------------------------------------


def test_abort_ends_the_process_and_the_session_goes_on(place: Place) -> None:
    host = place.host()
    record = begin(place, LONG + "- text: still here\n")
    host.send(record, "go")
    wait((place.work / "began").exists)
    pid = turn_pid(place, record)
    assert host.call(lambda: host.service.abort(record.session_id, "enough"))
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
        driver.commands.accept(message_id, "prompt", "go")

    host.call(send_and_abort)
    time.sleep(delay)
    host.call(lambda: host.service.abort(record.session_id, "at once"))
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
        driver.commands.accept("8d2b1c5e-7c3f-4a1d-9f1e-0123456789ab", "steer", "go")
        return driver.commands.abort("at once")

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


# -- killing --------------------------------------------------------------------------------------


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


# -- what is refused ------------------------------------------------------------------------------


def test_a_program_that_is_gone_fails_the_turn_alone(place: Place, tmp_path: Path) -> None:
    host = place.host()
    record = begin(place, "- text: one\n- text: two\n")
    host.send(record, "first")
    host.idle(record)
    script = place.folder / "script-0.yaml"
    kept = script.read_text()
    script.unlink()
    host.send(record, "second")
    report = host.idle(record)
    assert (report.state, report.status) == ("ready", "failed")
    script.write_text(kept)
    host.send(record, "third")
    assert host.idle(record).text == "two"
    host.stop(record)
    check(place, record)


def test_the_default_is_rpc_where_it_is_there_and_print_elsewhere() -> None:
    wanted = {"claude": "rpc", "opencode-acp": "rpc"}
    others = dict.fromkeys(("aider", "cline", "gemini", "opencode", "copilot"), "print")
    for name, drive in (wanted | others).items():
        assert default_drive(get_runtime(name)) == drive


def test_features_of_a_print_session_say_what_it_cannot() -> None:
    here = get_runtime("scripted").features
    features = here.in_session("print")
    assert (features.steer, features.fork, features.compaction) == (False, False, False)
    assert (features.abort, features.follow_up) == (True, True)
    assert here.in_session("rpc") == here


def test_an_agent_whose_protocol_holds_a_conversation_is_not_driven_so(place: Place) -> None:
    from bridle.core.options import RunOptions
    from bridle.sessions.turn_planning import plan_session

    with pytest.raises(UnsupportedOption, match="drive print"):
        plan_session(get_runtime("opencode-acp"), RunOptions(prompt=""), place.env, "x")


def test_a_runtime_without_resume_has_one_turn(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    from bridle.sessions import turn_planning

    whole = turn_planning.plan_session

    def without(*arguments: Any) -> Any:
        import msgspec

        plan = whole(*arguments)
        assert plan.live is not None
        live = msgspec.structs.replace(plan.live, own={**plan.live.own, "resumes": False})
        return msgspec.structs.replace(plan, live=live)

    monkeypatch.setattr(turn_planning, "plan_session", without)
    host = place.host()
    record = begin(place, "- text: one\n- text: two\n")
    host.send(record, "first")
    assert host.idle(record).text == "one"
    receipt = host.send(record, "second")
    assert receipt is not None
    assert (receipt.delivered, receipt.queued) == (False, False)
    assert "cannot take up" in (receipt.error or "")
    assert host.idle(record).state == "ready"
    host.stop(record)
    check(place, record)
