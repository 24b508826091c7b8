"""Live sessions of the scripted agent: turns, steering, queues, aborts, permissions."""

import json
from pathlib import Path

import pytest

from bridle.core import events as ev
from bridle.core.errors import WrongUse
from bridle.core.events import Drive
from bridle.process.process_tree import marked_processes
from bridle.sessions import verbs
from bridle.sessions.clocks import Clocks
from bridle.sessions.lock import SessionOver
from bridle.sessions.store import UnknownSession
from bridle.testing.contract import check_event_order
from tests.sessions.place import Place, kinds, wait

SLEEPER = """
- text: working
  shell: "touch began; sleep 30"
- text: the end
"""


def test_turn_after_turn(place: Place) -> None:
    host = place.host()
    record = place.start("- text: one\n- shell: echo hi\n- text: two\n")
    assert host.send(record, "first") is not None
    assert host.idle(record).text == "one"
    receipt = host.send(record, "second")
    assert receipt is not None
    assert (receipt.delivered, receipt.turn) == (True, 2)
    report = host.idle(record)
    assert (report.state, report.turn, report.status, report.text) == (
        "ready",
        2,
        "completed",
        "two",
    )
    ended = host.stop(record)
    assert (ended.state, ended.evidence) == ("stopped", "done: process exited 0")
    events = place.events(record)
    assert check_event_order(events) == []
    assert kinds(events) == [
        *("session_start", "state"),
        *("state", "agent_start", "message_start", "message_end", "usage", "agent_end", "state"),
        *("state", "agent_start", "message_start", "message_end"),
        *("tool_execution_start", "tool_execution_end", "message_start", "message_end"),
        *("usage", "agent_end", "state"),
        *("state", "session_end"),
    ]
    wait(lambda: not marked_processes(record.session_id))


def test_follow_ups_wait_and_keep_their_order(place: Place) -> None:
    host = place.host()
    record = place.start('- shell: "sleep 0.3"\n- text: first\n' + "- text: more\n" * 100)
    host.send(record, "go")
    receipts = [host.send(record, f"message {n}", "follow_up") for n in range(100)]
    assert receipts[0] is not None
    assert receipts[0].queued
    assert host.idle(record).turn == 101
    transcript = next(Path(place.folder / "account").rglob("*.jsonl")).read_text()
    told = [transcript.index(f'"message {n}"') for n in range(100)]
    assert told == sorted(told)


def test_a_steer_reaches_the_turn_that_runs(place: Place) -> None:
    host = place.host()
    record = place.start('- shell: "touch began; sleep 2"\n- text: after\n- text: next\n')
    host.send(record, "go")
    wait((place.work / "began").exists)
    receipt = host.send(record, "rather this", "steer")
    assert receipt is not None
    assert (receipt.delivered, receipt.turn) == (True, 1)
    assert host.idle(record).turn == 1


def test_a_steer_without_a_turn_is_a_prompt(place: Place) -> None:
    host = place.host()
    record = place.start("- text: one\n")
    host.idle(record)
    receipt = host.send(record, "hello", "steer")
    assert receipt is not None
    assert (receipt.delivered, receipt.turn) == (True, 1)
    assert host.idle(record).text == "one"


def test_an_abort_ends_the_turn_and_not_the_session(place: Place) -> None:
    host = place.host()
    record = place.start(SLEEPER + "- text: still here\n")
    host.send(record, "go")
    wait((place.work / "began").exists)
    told = host.do(verbs.Abort(session=record.session_id, reason="no more"))
    assert told["aborted"]
    report = host.idle(record)
    assert (report.state, report.status) == ("ready", "aborted")
    assert report.error is not None
    assert report.error["message"] == "no more"
    host.send(record, "again")
    assert host.idle(record).status == "completed"


def test_an_abort_when_idle_changes_nothing(place: Place) -> None:
    host = place.host()
    record = place.start("- text: one\n")
    host.idle(record)
    told = host.do(verbs.Abort(session=record.session_id, reason="no"))
    assert not told["aborted"]
    host.send(record, "hi")
    assert host.idle(record).status == "completed"


def test_an_abort_can_clear_the_queue(place: Place) -> None:
    host = place.host()
    record = place.start(SLEEPER)
    host.send(record, "go")
    host.send(record, "later", "follow_up", message_id="later")
    wait((place.work / "began").exists)
    told = host.do(verbs.Abort(session=record.session_id, reason="no", clear=True))
    assert told["dropped"] == ["later"]
    assert host.idle(record).turn == 1


def test_a_message_of_a_megabyte(place: Place) -> None:
    host = place.host()
    record = place.start("- text: got it\n")
    text = "long \u2028 text " * 100_000
    host.send(record, text)
    assert host.idle(record).status == "completed"
    assert len(place.run_file(record, "input").read_bytes()) > 1_000_000


def test_the_same_message_twice_is_sent_once(place: Place) -> None:
    host = place.host()
    record = place.start("- text: one\n- text: two\n")
    for _ in range(3):
        receipt = host.send(record, "hello", message_id="same")
        assert receipt is not None
        assert receipt.turn == 1
    assert host.idle(record).turn == 1


def test_permission_is_asked_and_answered(place: Place) -> None:
    host = place.host()
    record = place.start(
        '- shell: "touch made"\n- text: done\n', options={"permission_mode": "ask"}
    )
    driver = host.driver(record)
    host.send(record, "go")
    wait(lambda: driver.record.state == "waiting_permission")
    [request_id] = driver.player.questions
    host.do(verbs.Permit(session=record.session_id, request_id=request_id, allowed=True, by="test"))
    assert host.idle(record).status == "completed"
    assert (place.work / "made").exists()
    decisions = [e for e in place.events(record) if isinstance(e, ev.PermissionDecision)]
    assert [(each.decision, each.by) for each in decisions] == [("allow", "test")]
    with pytest.raises(WrongUse, match="no permission request"):
        host.do(
            verbs.Permit(session=record.session_id, request_id=request_id, allowed=True, by="test")
        )


def test_permission_that_nobody_gives_is_refused(place: Place) -> None:
    host = place.host(Clocks(permission=0.2))
    record = place.start(
        '- shell: "touch made"\n- text: done\n', options={"permission_mode": "ask"}
    )
    host.send(record, "go")
    assert host.idle(record).status == "completed"
    assert not (place.work / "made").exists()
    [decision] = [e for e in place.events(record) if isinstance(e, ev.PermissionDecision)]
    assert (decision.decision, decision.by) == ("deny", "bridle")


def test_who_is_not_there(place: Place) -> None:
    host = place.host()
    with pytest.raises(UnknownSession):
        host.do(verbs.Send(session="nobody", kind="prompt", text="hi", message_id="m"))
    record = place.start("- text: one\n")
    host.idle(record)
    with pytest.raises(WrongUse, match="empty"):
        host.send(record, "  ")
    host.stop(record)
    with pytest.raises(SessionOver, match="stopped"):
        host.send(record, "too late")
    assert host.stop(record).state == "stopped"
    assert host.idle(record).state == "stopped"


def test_a_stop_in_a_turn_ends_everything(place: Place) -> None:
    host = place.host()
    record = place.start(SLEEPER)
    host.send(record, "go")
    wait((place.work / "began").exists)
    ended = host.stop(record)
    assert (ended.state, ended.status) == ("stopped", "aborted")
    assert marked_processes(record.session_id) == []
    assert check_event_order(place.events(record)) == []


def test_usage_adds_up_over_processes(place: Place) -> None:
    host = place.host()
    record = place.start(
        "- {text: one, usage: {input_tokens: 10, output_tokens: 1}}\n"
        "- {text: two, usage: {input_tokens: 20, output_tokens: 2}}\n"
    )
    host.send(record, "a")
    host.idle(record)
    host.stop(record)
    record = place.resume(record)
    host.send(record, "b")
    assert host.idle(record).turn == 2
    host.stop(record)
    events = place.events(record)
    totals = [event.usage.input_tokens for event in events if isinstance(event, ev.UsageTotals)]
    assert totals == [10, 30]
    assert check_event_order(events) == []


@pytest.mark.parametrize("drive", ["rpc", "print"])
def test_a_running_shell_tells_what_it_prints(place: Place, drive: Drive) -> None:
    host = place.host()
    shell = r"printf 'first \303'; while [ ! -e go ]; do sleep 0.02; done; printf '\251 last'"
    record = place.start(json.dumps([{"shell": shell}, {"text": "done"}]), drive=drive)

    def pieces() -> list[str]:
        return [e.text for e in place.events(record) if isinstance(e, ev.ToolExecutionUpdate)]

    host.send(record, "go")
    wait(pieces)
    assert pieces() == ["first "]
    (place.work / "go").touch()
    host.idle(record)
    [end] = [e for e in place.events(record) if isinstance(e, ev.ToolExecutionEnd)]
    assert end.result == "first é last"
    assert end.result.startswith("".join(pieces()))
