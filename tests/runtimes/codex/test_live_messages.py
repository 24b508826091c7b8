"""What else an app-server may say: other threads, retries, compaction, questions, nonsense."""

import json
from typing import Any

import pytest

from bridle.core import events as ev
from tests.runtimes.codex.captures import types
from tests.runtimes.codex.wire_bench import OTHER, THREAD, left, opened, times, tokens, working
from tests.support.driving import check_order


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
