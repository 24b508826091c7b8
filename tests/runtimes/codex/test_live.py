"""The live wire of Codex, on captures and on what an app-server may say at a bad moment."""

import json
from pathlib import Path
from typing import Any

import pytest

from bridle.core import events as ev
from bridle.core.errors import BudgetExceeded
from bridle.core.usage import Usage
from bridle.drives.live import CompactionControl, ModelSwitch
from bridle.drives.spec import ProcessExit
from bridle.runtimes.codex.errors import app_server_error
from tests.runtimes.codex.appserver import CAPTURES, THREAD, Stage, play_capture
from tests.runtimes.codex.wires import TESTDATA, types
from tests.support.driving import check_order

CALL = Usage(input_tokens=600, output_tokens=50, cache_read_tokens=400, reasoning_tokens=10)
OTHER = "01a1e17e-e73a-7812-b961-02f676303419"


def tokens(calls: int) -> dict[str, Any]:
    counts = {"inputTokens": 1000, "cachedInputTokens": 400, "outputTokens": 50}
    counts["reasoningOutputTokens"] = 10
    return {"tokenUsage": {"total": {name: calls * value for name, value in counts.items()}}}


def times(calls: int) -> Usage:
    return sum([CALL] * calls, Usage())


def opened(**own: Any) -> Stage:
    return Stage(**own).open()


def working(name: str = "p", **own: Any) -> Stage:
    stage = opened(**own)
    stage.prompt(name)
    stage.answer({"turn": {"id": "t1"}})
    stage.started("t1")
    return stage


def left(stage: Stage, code: int = 0) -> list[ev.Event]:
    """All the events, once the process is gone as it was asked to."""
    stage.recorder.leaving = "done"
    stage.wire.leave()
    assert stage.recorder.input_done
    stage.wire.finish(ProcessExit(code=code))
    stage.settle()
    return stage.events


# -- captures -------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", CAPTURES, ids=lambda path: f"{path.parts[-3]}-{path.stem}")
def test_every_capture_keeps_the_order(path: Path) -> None:
    stage = play_capture(path)
    assert stage.recorder.is_ready
    check_order(left(stage))
    known = ("deprecationNotice",)
    strange = [each.raw for each in stage.events if isinstance(each, ev.Unknown)]
    assert [each for each in strange if each["method"] not in known] == []


@pytest.mark.parametrize("version", ["0.120.0", "0.166.0"])
def test_a_conversation_has_the_events_of_runs(version: str) -> None:
    stage = play_capture(TESTDATA / version / "appserver/basic_two_turns.jsonl")
    joined: list[str] = []
    for kind in types(stage.events):
        if not (kind.endswith("_delta") and joined[-1:] == [kind]):
            joined.append(kind)
    text = ["text_start", "text_delta", "text_end", "message_end"]
    assert joined == [
        *("session_start", "state", "state", "agent_start", "message_start"),
        *("thinking_start", "thinking_delta", "thinking_end", *text),
        *("tool_execution_start", "tool_execution_end", "message_start", *text),
        *("usage", "agent_end", "state"),
        *("state", "agent_start", "message_start", *text, "usage", "agent_end", "state"),
    ]
    ended = next(each for each in stage.events if isinstance(each, ev.ToolExecutionEnd))
    assert ended.tool_name == "command_execution"
    assert ended.result == {"output": "hi\n", "exit_code": 0}
    assert [each.usage for each in stage.ends()] == [times(2), times(1)]
    assert stage.recorder.usage == times(3)
    assert stage.recorder.model == "gpt-5.5"


STEERED: dict[str, Any] = {
    "0.120.0/appserver/steer_interrupt_compact_images.jsonl": (
        [(2, "completed"), (0, "aborted"), (1, "aborted"), *[(1, "completed")] * 3],
        {"s4": True, "s8": False},
        "gpt-5.4",
        times(6) + Usage(input_tokens=100, output_tokens=20),
    ),
    "0.166.0/appserver/steer_interrupt_followup_compact_images.jsonl": (
        [
            *((4, "completed"), (0, "aborted"), (1, "aborted"), (1, "completed")),
            *((2, "completed"), (1, "completed"), (2, "completed"), (1, "completed")),
        ],
        {"s5": True},
        "gpt-6.1-sol",
        times(13),
    ),
}


@pytest.mark.parametrize("name", STEERED)
def test_steers_aborts_compaction_and_models(name: str) -> None:
    turns, steers, model, used = STEERED[name]
    stage = play_capture(TESTDATA / name)
    assert [(each.usage, each.status) for each in stage.ends()] == [
        (times(count), status) for count, status in turns
    ]
    assert {key: stage.deliveries[key].taken for key in steers} == steers
    assert all(each.taken for key, each in stage.deliveries.items() if key.startswith("p"))
    assert stage.recorder.model == model
    # The compaction is a call of its own, in no turn.
    assert stage.recorder.usage == used
    asked = [each for each in stage.events if isinstance(each, ev.AutoCompactionStart)]
    assert asked[0].reason == "asked for"
    images = [each for each in stage.sent if "localImage" in json.dumps(each)]
    assert len(images) == 1


def test_permission_requests_and_their_answers() -> None:
    stage = play_capture(TESTDATA / "0.120.0/appserver/approvals_mcp_patch.jsonl")
    asked = [each for each in stage.events if isinstance(each, ev.PermissionRequest)]
    assert [each.tool_name for each in asked] == [
        *("mcp_tool_call", "command_execution", "file_change", "command_execution")
    ]
    assert asked[0].args == {"server": "toy", "tool": "tell", "arguments": {}}
    assert asked[2].args["changes"][0]["kind"] == "add"
    assert "n.txt" in asked[3].args["command"]
    answers = [each["result"] for each in stage.sent if "result" in each]
    assert answers[0] == {"action": "accept", "content": {}}
    assert [each["decision"] for each in answers[1:]] == ["accept", "accept", "decline"]
    decided = [each for each in stage.events if isinstance(each, ev.PermissionDecision)]
    # The refused command is told once, not once more by its item.
    assert [each.decision for each in decided] == ["allow", "allow", "allow", "deny"]
    ended = [each for each in stage.events if isinstance(each, ev.ToolExecutionEnd)]
    assert [each.is_error for each in ended] == [False, False, False, True]
    assert ended[0].result["content"][0]["text"] == "told 0"


def test_a_failed_turn_is_typed_and_the_next_one_works() -> None:
    stage = play_capture(TESTDATA / "0.120.0/appserver/failed_then_good.jsonl")
    first, second = stage.ends()
    assert first.error is not None
    assert (first.error.kind, second.status) == ("not_authenticated", "completed")
    retries = [each for each in stage.events if isinstance(each, ev.Retry)]
    assert [(each.attempt, each.error.kind) for each in retries] == [(1, "not_authenticated")]
    limit = play_capture(TESTDATA / "0.120.0/appserver/usage_limit.jsonl").ends()[0]
    assert limit.error is not None
    assert (limit.error.kind, limit.error.until) == ("rate_limited", "2030-03-17T17:46:00Z")


def test_every_captured_error_is_typed() -> None:
    kinds = []
    for line in (TESTDATA / "0.166.0/appserver/errors.jsonl").read_text().splitlines():
        message = json.loads(line)["msg"]
        if message.get("method") == "turn/completed":
            error = message["params"]["turn"]["error"]
            kinds.append(app_server_error(error["message"], error["codexErrorInfo"]).kind)
    assert kinds == [
        *("billing", "rate_limited", "context_overflow", "unavailable", "not_authenticated")
    ]


@pytest.mark.parametrize(
    ("info", "kind"),
    [
        ("serverOverloaded", "overloaded"),
        ("unauthorized", "not_authenticated"),
        ({"responseTooManyFailedAttempts": {"httpStatusCode": 429}}, "rate_limited"),
        ({"httpConnectionFailed": {"httpStatusCode": None}}, "unavailable"),
        ("somethingNew", "unavailable"),
        (None, "unavailable"),
    ],
)
def test_where_words_say_nothing_codex_own_name_counts(info: Any, kind: str) -> None:
    assert app_server_error("It did not work.", info).kind == kind


# -- opening --------------------------------------------------------------------------------------


def test_the_handshake() -> None:
    stage = Stage(turn={"outputSchema": {"type": "object"}})
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


def stopped(stage: Stage) -> str:
    assert stage.recorder.stop_requested is not None
    stage.wire.finish(ProcessExit(code=0))
    assert stage.recorder.state == "failed"
    return stage.recorder.stop_requested.kind


def test_resume_is_proved_or_refused() -> None:
    stage = Stage(resume=THREAD.upper()).open()
    assert stage.sent[-1]["method"] == "thread/resume"
    assert stage.sent[-1]["params"]["threadId"] == THREAD.upper()
    assert stage.recorder.is_ready
    stage = Stage(resume=OTHER).open()
    assert not stage.recorder.is_ready
    assert stopped(stage) == "resume_refused"
    stage = Stage(resume=OTHER)
    stage.answer()
    stage.answer(error="no rollout found for thread id x")
    assert stopped(stage) == "resume_refused"


def test_what_keeps_a_thread_from_opening() -> None:
    stage = Stage()
    stage.answer(error="Invalid request: unknown client")
    assert stopped(stage) == "protocol_drift"
    stage = Stage()
    stage.answer()
    stage.answer(error="failed to load configuration")
    assert stopped(stage) == "unavailable"
    stage = Stage()
    stage.answer()
    stage.answer({"nothing": 1})
    assert stopped(stage) == "protocol_drift"
    stage = Stage()
    stage.wire.finish(ProcessExit(code=1, stderr_tail="Error: bad configuration\n"))
    assert stage.recorder.result().error is not None
    assert "bad configuration" in str(stage.recorder.result().error)


def test_totals_of_an_earlier_process_are_not_counted() -> None:
    before = {"input_tokens": 600, "cache_read_tokens": 400, "output_tokens": 50}
    stage = Stage(resume=THREAD, before={**before, "reasoning_tokens": 10}).open()
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
    stage = Stage(late_ends=True)
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


# -- what else is said ----------------------------------------------------------------------------


def test_other_threads_and_older_turns_are_not_shown() -> None:
    stage = working()
    stage.note("item/started", turnId="t0", item={"type": "commandExecution", "id": "old"})
    for method in ("turn/started", "turn/completed"):
        turn = {"id": "x", "status": "completed"}
        stage.tell({"method": method, "params": {"threadId": OTHER, "turn": turn}})
    usage = {"threadId": OTHER, "turnId": "x", **tokens(2)}
    stage.tell({"method": "thread/tokenUsage/updated", "params": usage})
    stage.completed("t1")
    assert "tool_execution_start" not in types(stage.events)
    assert stage.ends()[0].usage == times(2)


def test_a_broken_off_text_is_closed_before_the_retry() -> None:
    stage = working()
    stage.note("item/agentMessage/delta", turnId="t1", itemId="a", delta="Half a ")
    error = {"message": "Reconnecting... 2/5", "additionalDetails": "stream disconnected"}
    stage.note("error", turnId="t1", error=error, willRetry=True)
    stage.note("item/agentMessage/delta", turnId="t1", itemId="b", delta="Who")
    stage.item("completed", "t1", type="agentMessage", id="b", text="Whole.")
    stage.completed("t1")
    check_order(left(stage))
    ends = [each.text for each in stage.events if isinstance(each, ev.MessageEnd)]
    assert (ends, stage.ends()[0].text) == (["Half a ", "Whole."], "Whole.")
    retry = next(each for each in stage.events if isinstance(each, ev.Retry))
    assert (retry.attempt, retry.error.kind) == (2, "unavailable")


def test_reasoning_in_parts_and_plans() -> None:
    stage = working()
    for part, text in ((0, "One"), (0, "."), (1, "Two.")):
        stage.note(
            "item/reasoning/summaryTextDelta",
            turnId="t1",
            itemId="r",
            delta=text,
            summaryIndex=part,
        )
    stage.item("completed", "t1", type="reasoning", id="r", summary=["One.", "Two."])
    stage.item("completed", "t1", type="reasoning", id="empty", summary=[])
    for status in ("pending", "completed"):
        stage.note("turn/plan/updated", turnId="t1", plan=[{"step": "Think", "status": status}])
    stage.completed("t1")
    check_order(left(stage))
    updates = [each for each in stage.events if isinstance(each, ev.MessageUpdate)]
    told = "".join(each.text for each in updates if each.kind == "thinking_delta")
    assert told == "One.\nTwo."
    plan = next(each for each in stage.events if isinstance(each, ev.ToolExecutionEnd))
    assert (plan.tool_name, plan.is_error) == ("todo_list", False)
    assert plan.result == {"items": [{"text": "Think", "completed": True}]}


def test_compaction_on_request_is_no_turn() -> None:
    stage = opened()
    stage.wire.compact()
    stage.settle()
    assert stage.recorder.state == "compacting"
    stage.wire.abort_compaction()
    stage.answer({}, to=3)
    stage.started("c")
    assert stage.sent[-1]["method"] == "turn/interrupt"
    stage.completed("c", "interrupted")
    assert (stage.recorder.state, stage.recorder.turn) == ("ready", 0)
    stage.wire.compact()
    stage.settle()
    stage.answer(error="not now")
    assert stage.recorder.is_ready
    reasons = [e.reason for e in stage.events if isinstance(e, ev.AutoCompactionEnd)]
    assert reasons == ["interrupted", "refused"]


def test_compaction_in_a_turn() -> None:
    stage = working()
    stage.item("started", "t1", type="contextCompaction", id="c")
    stage.item("completed", "t1", type="contextCompaction", id="c")
    states = [each.new for each in stage.events if isinstance(each, ev.StateChange)]
    assert states == ["ready", "working", "compacting", "working"]


@pytest.mark.parametrize(
    "method",
    ["item/tool/call", "item/tool/requestUserInput", "attestation/generate", "new/question"],
)
def test_a_question_nobody_knows_is_answered_with_an_error(method: str) -> None:
    stage = working()
    stage.tell({"id": 0, "method": method, "params": {"threadId": THREAD}})
    assert stage.sent[-1]["id"] == 0
    assert stage.sent[-1]["error"]["code"] == -32601
    assert isinstance(stage.events[-1], ev.Unknown)
    # What an MCP server asks the user is none of ours either.
    ask = {"threadId": THREAD, "serverName": "toy", "mode": "form", "message": "Name?"}
    stage.tell({"id": 1, "method": "mcpServer/elicitation/request", "params": ask})
    assert stage.sent[-1]["error"]["code"] == -32601


def command_question(number: int, thread: str = THREAD) -> dict[str, Any]:
    params = {"threadId": thread, "turnId": "t1", "itemId": "c1", "command": "rm x", "cwd": "/r"}
    return {"id": number, "method": "item/commandExecution/requestApproval", "params": params}


def test_an_answer_that_comes_too_late_is_not_sent() -> None:
    stage = working()
    stage.tell(command_question(0))
    assert stage.recorder.state == "waiting_permission"
    stage.abort()
    stage.completed("t1", "interrupted")
    stage.answer({})
    question = stage.questions["0"]
    assert question.answer(True, "yes") == b""
    stage.recorder.permission_decided(
        "0", tool_name=question.tool_name, decision="allow", by="somebody"
    )
    assert stage.recorder.is_ready
    stage.prompt("next")
    stage.started("t2")
    stage.tell(command_question(1))
    stage.note("serverRequest/resolved", requestId=1)
    assert stage.questions["1"].answer(True, "") == b""


def test_questions_of_agents_that_were_left_behind_are_refused() -> None:
    stage = working()
    stage.tell(command_question(0, OTHER))
    stage.completed("t1")
    assert stage.sent[-1] == {"id": 0, "result": {"decision": "decline"}}
    stage.tell(command_question(1, OTHER))
    assert stage.sent[-1] == {"id": 1, "result": {"decision": "decline"}}
    assert stage.recorder.is_ready


def test_permissions_are_granted_as_asked_or_not_at_all() -> None:
    wanted = {"network": {"enabled": True}}
    for allowed, granted in ((True, wanted), (False, {})):
        stage = working()
        params = {"threadId": THREAD, "itemId": "c", "permissions": wanted, "cwd": "/r"}
        stage.tell({"id": 7, "method": "item/permissions/requestApproval", "params": params})
        said = json.loads(stage.questions["7"].answer(allowed, ""))
        assert said == {"id": 7, "result": {"permissions": granted}}


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"no json",
        b"[]",
        b"\xff\xfe",
        b'{"id": 99, "result": {}}',
        b'{"id": "a", "result": 1}',
        b'{"method": "item/completed", "params": {"threadId": 1}}',
        b'{"method": "turn/started"}',
        b'{"method": "error", "params": null}',
        b'{"method": "brand/new", "params": {}}',
        b'{"id": 3, "method": "item/fileChange/requestApproval", "params": []}',
    ],
)
def test_nothing_that_is_said_breaks_the_wire(line: bytes) -> None:
    stage = working()
    stage.wire.feed(line)
    stage.settle()
    stage.item("completed", "t1", type="somethingNew", id="n")
    stage.item("completed", "t1", type="agentMessage", id="a", text="Fine.")
    stage.completed("t1")
    assert stage.ends()[0].text == "Fine."
    check_order(left(stage))


def test_the_model_is_what_codex_says() -> None:
    stage = opened()
    stage.wire.set_model("gpt-7")
    stage.prompt("p")
    assert stage.sent[-1]["params"]["model"] == "gpt-7"
    stage.answer({"turn": {"id": "t1"}})
    stage.started("t1")
    assert stage.recorder.model == "gpt-7"
    stage.note("model/rerouted", turnId="t1", fromModel="gpt-7", toModel="gpt-6", reason="x")
    assert stage.recorder.model == "gpt-6"
    stage.note("thread/settings/updated", threadSettings={"model": "gpt-5"})
    assert stage.recorder.model == "gpt-5"
    stage.completed("t1")
    stage.prompt("q")
    assert "model" not in stage.sent[-1]["params"]
