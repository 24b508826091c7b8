"""The live wire of Codex: opening, steering and aborting, also at a bad moment."""

import json

import pytest

from bridle.core import events as ev
from bridle.core.errors import BudgetExceeded
from bridle.core.usage import Usage
from bridle.process.spec import ProcessExit
from bridle.turns.wire import CompactionControl, ModelSwitch
from tests.runtimes.codex.wire_bench import (
    OTHER,
    THREAD,
    WireBench,
    left,
    opened,
    times,
    tokens,
    working,
)
from tests.support.driving import check_order

# -- opening --------------------------------------------------------------------------------------


def test_the_handshake() -> None:
    stage = WireBench(turn={"outputSchema": {"type": "object"}})
    assert stage.methods() == ["initialize"]
    assert stage.recorder.state == "starting"
    stage.open()
    assert stage.methods() == ["initialize", "initialized", "thread/start"]
    assert stage.sent[-1]["params"] == {"cwd": "/repo"}
    assert stage.recorder.is_ready
    assert stage.recorder.native_session_id == THREAD
    stage.prompt("m1", "Look.", "/pictures/a.png")
    assert stage.sent[-1]["params"] == {
        "threadId": THREAD,
        "clientUserMessageId": "m1",
        "outputSchema": {"type": "object"},
        "input": [
            {"type": "text", "text": "Look."},
            {"type": "localImage", "path": "/pictures/a.png"},
        ],
    }
    assert isinstance(stage.wire, ModelSwitch)
    assert isinstance(stage.wire, CompactionControl)


def stopped(stage: WireBench) -> str:
    assert stage.recorder.stop_requested is not None
    stage.wire.finish(ProcessExit(code=0))
    assert stage.recorder.state == "failed"
    return stage.recorder.stop_requested.kind


def test_resume_is_proved_or_refused() -> None:
    stage = WireBench(resume=THREAD.upper()).open()
    assert stage.sent[-1]["method"] == "thread/resume"
    assert stage.sent[-1]["params"]["threadId"] == THREAD.upper()
    assert stage.recorder.is_ready
    stage = WireBench(resume=OTHER).open()
    assert not stage.recorder.is_ready
    assert stopped(stage) == "resume_refused"
    stage = WireBench(resume=OTHER)
    stage.answer()
    stage.answer(error="no rollout found for thread id x")
    assert stopped(stage) == "resume_refused"


def test_a_fork_is_proved_or_refused() -> None:
    def forked(**thread: str) -> WireBench:
        stage = WireBench(resume=OTHER.upper(), fork=True)
        stage.answer()
        stage.answer({"thread": thread})
        assert stage.methods()[-1] == "thread/fork"
        assert stage.sent[-1]["params"]["threadId"] == OTHER.upper()
        return stage

    stage = forked(id=THREAD, forkedFromId=OTHER)
    assert stage.recorder.is_ready
    assert stage.recorder.native_session_id == THREAD
    for refused in (
        forked(id=THREAD),
        forked(id=THREAD, forkedFromId=THREAD),
        forked(id=OTHER, forkedFromId=OTHER),
    ):
        assert not refused.recorder.is_ready
        assert stopped(refused) == "resume_refused"


def test_what_keeps_a_thread_from_opening() -> None:
    stage = WireBench()
    stage.answer(error="Invalid request: unknown client")
    assert stopped(stage) == "protocol_drift"
    stage = WireBench()
    stage.answer()
    stage.answer(error="failed to load configuration")
    assert stopped(stage) == "unavailable"
    stage = WireBench()
    stage.answer()
    stage.answer({"nothing": 1})
    assert stopped(stage) == "protocol_drift"
    stage = WireBench()
    stage.wire.finish(ProcessExit(code=1, stderr_tail="Error: bad configuration\n"))
    assert stage.recorder.result().error is not None
    assert "bad configuration" in str(stage.recorder.result().error)


def test_totals_of_an_earlier_process_are_not_counted() -> None:
    before = {"input_tokens": 600, "cache_read_tokens": 400, "output_tokens": 50}
    stage = WireBench(resume=THREAD, before={**before, "reasoning_tokens": 10}).open()
    stage.note("thread/tokenUsage/updated", turnId="old", **tokens(1))
    assert stage.recorder.usage == Usage()
    stage.prompt("p")
    stage.started("t1")
    stage.note("thread/tokenUsage/updated", turnId="t1", **tokens(1))
    stage.note("thread/tokenUsage/updated", turnId="t1", **tokens(3))
    # The context overflowed: the total begins anew.
    stage.note("thread/tokenUsage/updated", turnId="t1", **tokens(0))
    stage.note("thread/tokenUsage/updated", turnId="t1", **tokens(1))
    stage.completed("t1")
    assert stage.ends()[0].usage == times(3)


# -- steering and aborting ------------------------------------------------------------------------


def test_a_steer_waits_for_the_turn_to_begin() -> None:
    stage = opened()
    stage.prompt("p")
    stage.steer("s")
    assert stage.methods()[-1] == "turn/start"
    stage.answer({"turn": {"id": "t1"}})
    assert stage.methods()[-1] == "turn/start"
    stage.started("t1")
    assert stage.sent[-1]["method"] == "turn/steer"
    assert stage.sent[-1]["params"]["expectedTurnId"] == "t1"
    stage.item("started", "t1", type="userMessage", id="u1")
    stage.answer({"turnId": "t1"})
    assert set(stage.deliveries) == {"p"}
    stage.item("started", "t1", type="userMessage", id="u2")
    assert {key: each.turn for key, each in stage.deliveries.items()} == {"p": 1, "s": 1}


@pytest.mark.parametrize("answer", ["before the end", "after the end", "refused"])
def test_a_steer_at_the_end_of_a_turn_is_refused_once(answer: str) -> None:
    stage = working()
    stage.item("started", "t1", type="userMessage", id="u1")
    stage.steer("s")
    number = stage.sent[-1]["id"]
    if answer == "before the end":
        stage.answer({"turnId": "t1"}, to=number)
    stage.completed("t1")
    if answer == "after the end":
        assert "s" not in stage.deliveries
        stage.answer({"turnId": "t1"}, to=number)
    elif answer == "refused":
        stage.answer(error="no active turn to steer", to=number)
    assert not stage.deliveries["s"].taken
    assert stage.recorder.is_ready


def test_a_steer_that_was_read_is_taken_whenever_its_answer_comes() -> None:
    stage = working()
    stage.item("started", "t1", type="userMessage", id="u1")
    stage.steer("s")
    number = stage.sent[-1]["id"]
    stage.item("started", "t1", type="userMessage", id="u2")
    stage.completed("t1")
    stage.answer({"turnId": "t1"}, to=number)
    assert stage.deliveries["s"].taken


def test_a_message_is_not_taken_for_one_of_the_turn_before() -> None:
    stage = working()
    stage.item("started", "t1", type="userMessage", id="u1")
    stage.steer("s")
    number = stage.sent[-1]["id"]
    stage.completed("t1")
    stage.prompt("q")
    stage.started("t2")
    stage.item("started", "t2", type="userMessage", id="u2")
    assert stage.deliveries["q"].taken
    assert "s" not in stage.deliveries
    stage.answer(error="no active turn to steer", to=number)
    assert not stage.deliveries["s"].taken


def test_messages_are_known_by_their_ids_where_codex_tells_them() -> None:
    stage = working(told_ids=True)
    stage.item("started", "t1", type="userMessage", id="u0", clientId=None)
    stage.item("started", "t1", type="userMessage", id="u1", clientId="a stranger's")
    assert stage.deliveries == {}
    stage.item("started", "t1", type="userMessage", id="u2", clientId="p")
    assert stage.deliveries["p"].taken


def test_an_abort_waits_for_the_turn_and_ends_what_runs() -> None:
    stage = opened()
    stage.prompt("p")
    stage.abort()
    stage.answer({"turn": {"id": "t1"}})
    assert stage.methods()[-1] == "turn/start"
    stage.started("t1")
    assert stage.sent[-1]["params"] == {"threadId": THREAD, "turnId": "t1"}
    stage.abort()
    assert stage.methods().count("turn/interrupt") == 1
    stage.item("started", "t1", type="commandExecution", id="c1", command="sleep 9")
    stage.completed("t1", "interrupted")
    assert stage.methods()[-1] == "thread/backgroundTerminals/clean"
    assert stage.recorder.turn_open
    stage.steer("late")
    stage.item("completed", "t1", type="commandExecution", id="c1", status="failed", exitCode=-1)
    stage.answer({})
    assert stage.recorder.is_ready
    assert (stage.ends()[0].status, stage.deliveries["late"].taken) == ("aborted", False)
    # Nobody waits for the answer of the interrupt.
    assert not stage.deliveries["p"].taken


def test_an_abort_that_comes_too_late_is_harmless() -> None:
    stage = working()
    stage.abort()
    stage.completed("t1")
    stage.answer({})
    assert stage.recorder.is_ready
    stage.wire.abort()
    stage.settle()
    assert stage.methods()[-1] == "thread/backgroundTerminals/clean"
    stage.prompt("next")
    stage.answer({"turn": {"id": "t2"}})
    stage.started("t2")
    assert stage.methods()[-1] == "turn/start"
    stage.completed("t2")
    assert [each.status for each in stage.ends()] == ["aborted", "completed"]


def test_a_turn_that_begins_before_the_last_one_is_cleaned_up() -> None:
    stage = working()
    stage.abort()
    stage.completed("t1", "interrupted")
    number = stage.sent[-1]["id"]
    stage.started("t2")
    stage.answer({}, to=number)
    assert stage.recorder.turn == 2
    assert stage.recorder.turn_open
    stage.completed("t2")
    assert [each.status for each in stage.ends()] == ["aborted", "completed"]


@pytest.mark.parametrize("told", [True, False])
def test_the_end_of_a_command_that_comes_after_the_turns(told: bool) -> None:
    stage = working(late_ends=True)
    stage.item("started", "t1", type="commandExecution", id="c1", command="true")
    stage.completed("t1")
    assert stage.sent[-1]["method"] == "command/exec"
    assert stage.recorder.turn_open
    stage.abort()
    stage.steer("late")
    if told:
        stage.item("completed", "t1", type="commandExecution", id="c1", exitCode=0)
        assert stage.recorder.is_ready
    stage.answer({"exitCode": 0}, to=4)
    assert stage.recorder.is_ready
    assert not stage.deliveries["late"].taken
    end = next(each for each in stage.events if isinstance(each, ev.ToolExecutionEnd))
    assert (end.is_error, end.synthetic) == (not told, not told)
    check_order(left(stage))


@pytest.mark.parametrize("known", [True, False])
def test_output_that_codex_keeps_to_itself_is_looked_up(known: bool) -> None:
    stage = WireBench(late_ends=True)
    stage.answer()
    stage.answer({"thread": {"id": THREAD, "path": "/home/rollout.jsonl"}, "model": "gpt-5.5"})
    stage.prompt("p")
    stage.started("t1")
    stage.item("started", "t1", type="commandExecution", id="c1", command="echo hi")
    stage.item("completed", "t1", type="commandExecution", id="c1", exitCode=0)
    asked = stage.sent[-1]
    assert asked["method"] == "command/exec"
    assert asked["params"]["command"] == ["grep", "-F", "-e", "c1", "--", "/home/rollout.jsonl"]
    stage.completed("t1")
    assert stage.recorder.turn_open
    told = {"type": "function_call_output", "call_id": "c1", "output": "Exit 0\nOutput:\nhi\n"}
    line = json.dumps({"type": "response_item", "payload": told})
    stage.answer({"stdout": f"no json\n{line}\n" if known else ""}, to=asked["id"])
    assert stage.recorder.is_ready
    end = next(each for each in stage.events if isinstance(each, ev.ToolExecutionEnd))
    assert end.result == {"output": "hi\n" if known else "", "exit_code": 0}
    assert not end.is_error
    check_order(left(stage))


def test_a_refused_prompt_is_a_failed_turn_and_not_the_end() -> None:
    stage = opened()
    stage.prompt("p")
    stage.steer("s")
    stage.answer(error="thread not found")
    assert [each.status for each in stage.ends()] == ["failed"]
    assert [each.taken for each in stage.deliveries.values()] == [False, False]
    assert stage.recorder.is_ready


def test_a_prompt_in_a_turn_would_be_a_steer() -> None:
    stage = working()
    stage.prompt("q")
    assert stage.methods().count("turn/start") == 1
    assert not stage.deliveries["q"].taken


def test_turns_that_codex_begins_are_turns() -> None:
    stage = opened()
    stage.started("own")
    assert stage.recorder.turn_open
    stage.item("completed", "own", type="agentMessage", id="a", text="By myself.")
    stage.completed("own")
    assert stage.ends()[0].text == "By myself."
    assert stage.recorder.is_ready


def test_a_death_in_a_turn() -> None:
    stage = working()
    stage.item("started", "t1", type="userMessage", id="u1")
    stage.steer("s")
    stage.wire.finish(ProcessExit(code=-9))
    stage.settle()
    end = stage.ends()[0]
    assert end.error is not None
    assert (end.error.kind, stage.recorder.state) == ("crashed", "failed")
    assert (stage.deliveries["p"].taken, stage.deliveries["s"].taken) == (True, False)


def test_a_limit_of_ours_stays_the_reason() -> None:
    stage = working()
    stage.recorder.request_stop(BudgetExceeded("enough"))
    stage.wire.finish(ProcessExit(code=0))
    stage.settle()
    assert stage.ends()[0].status == "budget_exceeded"
