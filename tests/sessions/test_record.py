"""A session's record: what it says of the last turn, costs, questions and the end, and when."""

import json
import os
import signal
import sqlite3

import msgspec
import pytest

from bridle.core.events import AgentEnd, Drive, PermissionRequest, SessionEnd, StateChange
from bridle.core.usage import Usage
from bridle.sessions import verbs
from bridle.sessions.hooks import hook_events
from bridle.sessions.store import OpenQuestion, SessionRecord, SessionStore
from tests.sessions.place import Place, wait

LONG = '- shell: "touch began; while [ ! -e go ]; do sleep 0.02; done"\n- text: the end\n'
NEW_FIELDS = (
    *("last_turn", "usage", "cost_usd", "questions", "last_activity", "stop_reason", "seq"),
)


def test_the_last_turn_stands_in_the_record(place: Place) -> None:
    host = place.host()
    record = place.start(
        "- text: one\n  usage: {input_tokens: 7, output_tokens: 3}\n"
        "- text: ORCHESTRA_COMPLETE\n  usage: {input_tokens: 5, output_tokens: 2}\n"
    )
    assert host.idle(record).turn == 0
    for _ in range(2):
        host.send(record, "go")
        host.idle(record)
    now = place.record(record)
    assert now.last_turn is not None
    assert (now.turn, now.last_turn.turn, now.last_turn.status) == (2, 2, "completed")
    assert (now.last_turn.text, now.last_turn.marker_detected) == ("ORCHESTRA_COMPLETE", True)
    assert now.last_turn.usage == Usage(input_tokens=5, output_tokens=2)
    assert now.usage == Usage(input_tokens=12, output_tokens=5)
    ends = [event for event in place.events(record) if isinstance(event, AgentEnd)]
    assert now.last_turn.ended_at == ends[-1].ts
    assert now.last_activity is not None
    assert now.last_activity >= ends[-1].ts
    assert host.idle(record).marker_detected


@pytest.mark.parametrize("drive", ["rpc", "print"])
def test_the_open_turn_has_its_number_at_once(place: Place, drive: Drive) -> None:
    host = place.host()
    record = place.start(LONG, drive=drive)
    receipt = host.send(record, "go")
    assert receipt is not None
    assert receipt.turn == 1
    now = host.do(verbs.Show(session=record.session_id))
    assert (now.state, now.turn, now.last_turn) == ("working", 1, None)
    (place.work / "go").touch()
    assert host.idle(record).turn == 1


def test_a_failed_turn_stands_in_the_record(place: Place) -> None:
    host = place.host()
    record = place.start("- fault: {status: 401, times: 1}\n- text: well\n")
    host.send(record, "go")
    report = host.idle(record)
    now = place.record(record)
    assert now.last_turn is not None
    assert now.last_turn.error is not None
    assert (now.state, now.status) == ("ready", "failed")
    assert now.last_turn.error.kind == "not_authenticated"
    assert now.last_turn.error.hint
    assert now.error is not None
    assert now.error["kind"] == "not_authenticated"
    assert now.error["hint"]
    assert report.error is not None
    assert report.error["hint"] == now.error["hint"]
    host.send(record, "again")
    host.idle(record)
    assert place.record(record).error is None


@pytest.mark.parametrize("working", [True, False])
def test_a_killed_agent_stands_in_the_record(place: Place, working: bool) -> None:
    host = place.host()
    record = place.start(LONG)
    host.idle(record)
    if working:
        host.send(record, "go")
        wait(lambda: (place.work / "began").exists())
    pid = place.record(record).pid
    assert pid is not None
    os.kill(pid, signal.SIGKILL)
    wait(lambda: host.idle(record).state == "failed")
    report = host.idle(record)
    now = place.record(record)
    assert now.error is not None
    assert now.error["kind"] == "crashed"
    assert report.error is not None
    assert report.error["message"] == now.error["message"]


def test_open_questions_stand_in_the_record(place: Place) -> None:
    host = place.host()
    record = place.start('- shell: "echo hi"\n- text: done\n', options={"permission_mode": "ask"})
    host.send(record, "go")
    wait(lambda: place.record(record).state == "waiting_permission")
    [asked] = [event for event in place.events(record) if isinstance(event, PermissionRequest)]
    expected = OpenQuestion(
        request_id=asked.request_id, tool_name="shell", args=asked.args, since=asked.ts
    )
    wait(lambda: place.record(record).questions == (expected,))
    # Another driver finds the same, with the time at which it was asked.
    host.close()
    second = place.host()
    now = second.do(verbs.Show(session=record.session_id))
    assert now.questions == (expected,)
    second.do(verbs.Permit(session=record.session_id, request_id=asked.request_id, allowed=True))
    second.idle(record)
    assert place.record(record).questions == ()


def test_the_stop_reason_stands_in_the_record(place: Place) -> None:
    host = place.host()
    record = place.start("- text: one\n")
    host.idle(record)
    ended = host.stop(record)
    assert (ended.state, ended.stop_reason) == ("stopped", "done")
    assert ended.evidence == "done: process exited 0"
    last = place.events(record)[-1]
    assert isinstance(last, SessionEnd)
    assert (last.reason, last.exit_code) == ("done", 0)
    [told] = hook_events(ended, [last])
    assert (told.event, told.data["reason"]) == ("SessionStop", "done")
    place.resume(record)
    second = place.host()
    second.idle(record)
    assert place.record(record).stop_reason is None


def test_a_new_driver_changes_no_time(place: Place) -> None:
    host = place.host()
    record = place.start("- text: one\n")
    host.send(record, "go")
    host.idle(record)
    host.close()
    known = place.record(record)
    assert place.host().idle(record).state == "ready"
    assert place.record(record) == known
    last = [event for event in place.events(record) if isinstance(event, StateChange)][-1]
    assert known.last_activity == last.ts


@pytest.mark.parametrize("over", [True, False])
def test_a_record_of_an_older_bridle_loads_and_is_completed(place: Place, over: bool) -> None:
    host = place.host()
    record = place.start("- text: one\n")
    host.send(record, "go")
    host.idle(record)
    if over:
        host.stop(record)
    host.close()
    known = place.record(record)
    _forget_new_fields(place, known)
    assert place.record(record).last_turn is None
    second = place.host()
    shown = second.do(verbs.Show(session=record.session_id))
    assert shown.last_turn == known.last_turn != None  # noqa: E711
    assert (shown.usage, shown.seq) == (known.usage, known.seq)
    assert second.idle(record).text == "one"


def _forget_new_fields(place: Place, record: SessionRecord) -> None:
    """Store a record as it was before it had the fields of today."""
    document = msgspec.to_builtins(record)
    for name in NEW_FIELDS:
        del document[name]
    store = SessionStore(place.home)
    store.close()
    with sqlite3.connect(place.home.database) as database:
        database.execute(
            "UPDATE sessions SET record = ? WHERE session_id = ?",
            (json.dumps(document), record.session_id),
        )
    database.close()
