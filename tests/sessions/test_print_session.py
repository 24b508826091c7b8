"""Sessions with a process for each turn (the drive `print`): conversations, and what is refused."""

from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from bridle.core import events as ev
from bridle.core.errors import UnsupportedOption
from bridle.core.options import RunOptions
from bridle.drives.print_session.records import mark_in
from bridle.runtimes.registry import get_adapter
from bridle.sessions import verbs
from bridle.sessions.manager import SessionManager, default_drive
from bridle.sessions.start import start_session
from bridle.sessions.store import SessionRecord, SessionStore
from tests.sessions.place import Place, kinds, wait
from tests.sessions.print_sessions import LONG, SLOW, begin, check, heard, turn_pid


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
    host.do(verbs.Abort(session=record.session_id, reason="enough"))
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


@pytest.mark.timeout(400)
def test_a_hundred_messages_at_once(place: Place) -> None:
    host = place.host()
    record = begin(place, "- text: yes\n" * 100)
    texts = [f"message {number}" for number in range(100)]
    with ThreadPoolExecutor(20) as pool:
        list(pool.map(lambda text: host.send(record, text, "follow_up"), texts))
    for _ in range(5):
        # Each of them is a process.
        if host.idle(record, 300.0).turn == 100:
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
    host.do(verbs.Permit(session=record.session_id, request_id=request, allowed=True))
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
    host.do(verbs.SetModel(session=record.session_id, model="another"))
    host.send(record, "and now")
    host.idle(record)
    host.stop(record)
    check(place, record)
    marks = [mark_in(line) for line in place.run_file(record, "journal").read_bytes().split(b"\n")]
    plans = [mark.plan.model for mark in marks if mark is not None and mark.plan is not None]
    assert plans == [None, "another"]


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
    over_acp = ("cline", "copilot", "gemini", "opencode", "opencode-acp")
    for name in ("claude", "codex", "pi", *over_acp):
        assert default_drive(get_adapter(name)) == "rpc"
    assert default_drive(get_adapter("aider")) == "print"


def test_features_of_a_print_session_say_what_it_cannot() -> None:
    here = get_adapter("scripted").features
    features = here.in_session("print")
    assert (features.steer, features.fork, features.compact) == (False, False, False)
    assert (features.abort, features.follow_up) == (True, True)
    assert here.in_session("rpc") == here


def test_an_agent_whose_protocol_holds_a_conversation_is_not_driven_so(place: Place) -> None:
    from bridle.core.options import RunOptions
    from bridle.sessions.print_plan import plan_session

    with pytest.raises(UnsupportedOption, match="drive print"):
        plan_session(get_adapter("opencode-acp"), RunOptions(prompt=""), place.env, "x")


def test_a_runtime_without_resume_has_one_turn(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    from bridle.sessions import print_plan

    whole = print_plan.plan_session

    def without(*arguments: Any) -> Any:
        import msgspec

        plan = whole(*arguments)
        assert plan.live is not None
        live = msgspec.structs.replace(plan.live, own={**plan.live.own, "resumes": False})
        return msgspec.structs.replace(plan, live=live)

    monkeypatch.setattr(print_plan, "plan_session", without)
    host = place.host()
    record = begin(place, "- text: one\n- text: two\n")
    host.send(record, "first")
    assert host.idle(record).text == "one"
    receipt = host.send(record, "second")
    assert receipt is not None
    assert (receipt.delivered, receipt.queued) == (False, False)
    assert "cannot resume" in (receipt.error or "")
    assert host.idle(record).state == "ready"
    host.stop(record)
    check(place, record)


def test_images_are_refused_before_anything_is_accepted(
    place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gemini = get_adapter("gemini")
    options = RunOptions(prompt="look", images=("a.png",), cwd=str(tmp_path))
    store = SessionStore(place.home)
    with pytest.raises(UnsupportedOption) as refusal:
        start_session(place.home, store, gemini, options, env={}, drive="print")
    store.close()
    assert (refusal.value.option, refusal.value.exit_code) == ("images", 4)
    record = SessionRecord(
        session_id="s1",
        runtime="gemini",
        drive="print",
        workdir=str(tmp_path),
        started_at="",
        run=1,
    )
    manager = SessionManager(str(tmp_path))
    monkeypatch.setattr(manager, "find", lambda name: (place.home, record))
    monkeypatch.setattr(manager, "_client", lambda home: pytest.fail("it was sent"))
    with pytest.raises(UnsupportedOption, match="images"):
        manager.send("s1", "look", images=("a.png",))
