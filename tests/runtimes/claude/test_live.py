"""The live wire on single lines: turns, deliveries, races, requests."""

from typing import Any

import pytest

from bridle.core import events as ev
from bridle.core.errors import ResumeRefused
from bridle.process.spec import ProcessExit
from bridle.turns.wire import Outgoing
from tests.runtimes.claude.captures import TESTDATA, read_lines
from tests.runtimes.claude.wire_bench import (
    ABORTED,
    NATIVE,
    READY,
    WOKEN,
    WireBench,
    ack,
    echo,
    init,
    message_id,
    notified,
    result,
    starts,
)

# -- the beginning --------------------------------------------------------------------------------


def test_it_is_ready_when_the_greeting_is_answered() -> None:
    talk = WireBench()
    assert talk.asked == ["initialize"]
    assert not talk.recorder.is_ready
    talk.hear(READY)
    assert talk.recorder.is_ready
    start, state = talk.events
    assert isinstance(start, ev.SessionStart)
    assert (start.native_session_id, start.drive) == (NATIVE, "rpc")
    assert isinstance(state, ev.StateChange)


def test_a_greeting_that_fails_ends_it() -> None:
    answer = {"subtype": "error", "request_id": "bridle-1", "error": "no such luck"}
    talk = WireBench().hear({"type": "control_response", "response": answer})
    assert "no such luck" in str(talk.recorder.stop_requested)
    assert not talk.recorder.is_ready


def test_a_conversation_that_is_not_there() -> None:
    talk = WireBench(resume=NATIVE).hear(
        *read_lines(TESTDATA / "stream/error_resume_not_found.jsonl")
    )
    assert isinstance(talk.recorder.stop_requested, ResumeRefused)
    assert not talk.recorder.is_ready
    talk.wire.finish(ProcessExit(code=1))
    talk.events += talk.recorder.drain()
    assert talk.recorder.state == "failed"
    assert not talk.of(ev.AgentStart)


def test_another_conversation_than_the_one_to_resume() -> None:
    talk = WireBench(resume=NATIVE).hear(READY).say(1).hear(init("another"))
    assert isinstance(talk.recorder.stop_requested, ResumeRefused)


def test_a_later_change_of_the_id_is_only_noted() -> None:
    talk = WireBench(resume=NATIVE).hear(READY).say(1).hear(init(), echo(1), result())
    talk.say(2).hear(init("cleared"), echo(2), result())
    assert talk.recorder.stop_requested is None
    assert talk.recorder.native_session_id == "cleared"


# -- messages -------------------------------------------------------------------------------------


def test_a_message_that_the_conversation_holds_begins_nothing() -> None:
    talk = WireBench().hear(READY).say(1).hear(echo(1))
    assert talk.recorder.is_ready
    assert talk.taken == [(1, 1)]
    (end,) = talk.of(ev.AgentEnd)
    assert (end.status, "already" in end.error.message) == ("failed", True)
    assert talk.say(2).hear(init(), echo(2), result()).finish().statuses == ["failed", "completed"]


def test_messages_that_are_joined_come_back_before_the_turn_is_announced() -> None:
    talk = WireBench().hear(READY).say(1).say(2, steer=True).hear(echo(1))
    assert talk.recorder.turn_open
    talk.hear(init(), starts(), echo(2), result())
    assert talk.finish().taken == [(1, 1), (2, 1)]
    assert talk.statuses == ["completed"]


def test_a_prompt_that_meets_a_turn_of_the_agents_own() -> None:
    """The first result is not its own, so it is still to come."""
    talk = WireBench().hear(READY).say(1).hear(init(), echo(1), result(), notified())
    talk.say(2).hear(init(), starts(), result("woken", origin=WOKEN))
    assert talk.taken == [(1, 1)]
    assert talk.recorder.turn_open
    talk.hear(init(), starts(), echo(2), result("own"))
    assert talk.finish().taken == [(1, 1), (2, 3)]
    assert [end.text for end in talk.of(ev.AgentEnd)] == ["done", "woken", "own"]


def test_an_abort_of_a_prompt_that_meets_a_turn_of_the_agents_own() -> None:
    talk = WireBench().hear(READY).say(1).hear(init(), echo(1), result(), notified())
    talk.say(2).abort().hear(init(), ack(2), result("", origin=WOKEN, **ABORTED))
    assert talk.recorder.turn_open
    assert talk.asked == ["initialize", "interrupt"]
    talk.hear(init())
    assert talk.asked == ["initialize", "interrupt", "interrupt"]
    talk.hear(echo(2), ack(3), result("", **ABORTED))
    assert talk.finish().statuses == ["completed", "aborted", "aborted"]


def test_a_prompt_is_taken_when_the_model_begins_to_answer() -> None:
    talk = WireBench().hear(READY).say(1).hear(init())
    assert talk.taken == []
    assert talk.hear(starts()).taken == [(1, 1)]


def test_a_prompt_that_a_hook_refuses() -> None:
    talk = WireBench().hear(READY).say(1)
    talk.hear(*read_lines(TESTDATA / "stream/hook_userpromptsubmit_block.jsonl"))
    assert talk.recorder.is_ready
    assert talk.taken == [(1, 1)]
    assert talk.of(ev.AgentEnd)[0].error.kind == "guard_refused"
    assert talk.say(2).hear(init(), echo(2), result()).statuses == ["failed", "completed"]


def test_a_prompt_that_is_a_command_of_the_clis() -> None:
    output = {"type": "user", "message": {"content": "Compacted"}, "uuid": "u", "isReplay": True}
    talk = WireBench().hear(READY).say(1).hear(init(), output, result(""))
    assert talk.recorder.is_ready
    assert talk.finish().taken == [(1, 1)]


def test_a_message_that_the_agent_drops() -> None:
    dropped = {"type": "command_lifecycle", "command_uuid": message_id(1), "state": "cancelled"}
    talk = WireBench().hear(READY).say(1).hear(dropped)
    assert [each.taken for each in talk.deliveries] == [False]
    assert talk.recorder.is_ready
    assert talk.finish().statuses == ["aborted"]


def test_an_image_that_is_not_there() -> None:
    talk = WireBench().hear(READY)
    talk.wire.prompt(Outgoing(id=message_id(1), text="look", images=("/nowhere.png",)))
    (delivery,) = talk.recorder.deliveries
    assert not delivery.taken
    assert "/nowhere.png" in str(delivery.error)
    assert talk.recorder.is_ready
    assert [line["type"] for line in talk.sent] == ["control_request"]


# -- aborts ---------------------------------------------------------------------------------------


def test_an_interrupt_that_was_heard_too_early_is_sent_again() -> None:
    talk = WireBench().hear(READY).say(1).abort().hear(ack(2, still_queued=[message_id(1)]))
    assert talk.asked == ["initialize", "interrupt"]
    talk.hear(init(), starts())
    assert talk.asked == ["initialize", "interrupt", "interrupt"]
    assert talk.hear(result("", **ABORTED)).recorder.is_ready


def test_an_interrupt_that_met_nothing_is_sent_again_when_the_turn_goes_on() -> None:
    talk = WireBench().hear(READY).say(1).hear(init()).abort().hear(ack(2), starts())
    assert talk.asked == ["initialize", "interrupt", "interrupt"]


def test_the_turn_may_end_by_itself_meanwhile() -> None:
    talk = WireBench().hear(READY).say(1).hear(init(), starts()).abort().hear(result(), ack(2))
    assert talk.recorder.is_ready
    talk.say(2).hear(init(), starts("msg_b"), echo(2), result("next"))
    assert talk.finish().statuses == ["aborted", "completed"]
    assert talk.asked == ["initialize", "interrupt"]


def test_what_an_aborted_turn_runs_in_the_background_is_stopped() -> None:
    def started(name: str) -> dict[str, Any]:
        return {"type": "system", "subtype": "task_started", "task_id": name}

    talk = WireBench().hear(READY).say(1).hear(init(), started("old"), result())
    talk.say(2).hear(init(), started("new"), started("ended"))
    talk.hear({"type": "system", "subtype": "task_notification", "task_id": "ended"})
    talk.abort().hear(ack(2), result("", **ABORTED))
    stopped = [line["request"]["task_id"] for line in talk.sent[-1:]]
    assert stopped == ["new"]
    talk.wire.leave()
    assert talk.recorder.input_done
    assert [line["request"]["task_id"] for line in talk.sent[-2:]] == ["new", "old"]


# -- questions ------------------------------------------------------------------------------------


def permission(name: str = "q1") -> dict[str, Any]:
    request = {"subtype": "can_use_tool", "tool_name": "Bash", "input": {"command": "x"}}
    return {"type": "control_request", "request_id": name, "request": request}


@pytest.mark.parametrize(
    "request_body",
    [{"subtype": "hook_callback"}, {"subtype": "from_the_future"}, {"subtype": 5}, "a text", {}],
)
def test_a_request_nobody_knows_is_refused_at_once(request_body: Any) -> None:
    request = {"type": "control_request", "request_id": "r9", "request": request_body}
    talk = WireBench().hear(READY).say(1).hear(init(), request)
    answer = talk.sent[-1]
    assert (answer["type"], answer["response"]["request_id"]) == ("control_response", "r9")
    assert answer["response"]["subtype"] == "error"
    assert talk.recorder.turn_open


def test_a_question_that_is_taken_back() -> None:
    talk = WireBench().hear(READY).say(1).hear(init(), permission())
    (question,) = talk.recorder.questions
    talk.hear({"type": "control_cancel_request", "request_id": "q1"})
    assert not talk.recorder.questions
    states = [change.new for change in talk.of(ev.StateChange)]
    assert states[-2:] == ["waiting_permission", "working"]
    talk.hear(result())
    # Somebody answers all the same.
    question.answer(True, "")
    talk.recorder.permission_decided("q1", tool_name="Bash", decision="allow", by="me")
    assert talk.recorder.is_ready
    (decision,) = talk.finish().of(ev.PermissionDecision)
    assert (decision.decision, decision.by) == ("deny", "claude")


def test_a_question_left_open_ends_with_its_turn() -> None:
    talk = WireBench().hear(READY).say(1).hear(init(), permission(), result("", **ABORTED))
    assert talk.recorder.is_ready
    assert not talk.recorder.questions
    assert talk.finish().statuses == ["aborted"]


def test_an_answer_that_was_given_stands() -> None:
    talk = WireBench().hear(READY).say(1).hear(init(), permission())
    talk.recorder.permission_decided("q1", tool_name="Bash", decision="allow", by="me")
    talk.hear(result())
    (decision,) = talk.of(ev.PermissionDecision)
    assert (decision.decision, decision.by) == ("allow", "me")


# -- compaction, model ----------------------------------------------------------------------------


def test_compaction_on_demand_is_no_turn() -> None:
    talk = WireBench().hear(READY).say(1).hear(init(), echo(1), result())
    talk.wire.compact()
    assert talk.recorder.state == "compacting"
    talk.hear(
        {"type": "system", "subtype": "status", "status": "compacting"},
        {"type": "system", "subtype": "status", "compact_result": "success"},
    )
    # The result is still to come and must not be taken for that of a prompt.
    assert talk.recorder.state == "compacting"
    talk.hear(init(), result(""))
    assert talk.recorder.is_ready
    assert talk.finish().statuses == ["completed"]
    assert [end.reason for end in talk.of(ev.AutoCompactionEnd)] == ["success"]


def test_a_compaction_can_be_given_up() -> None:
    talk = WireBench().hear(READY)
    talk.wire.compact()
    talk.wire.abort_compaction()
    talk.hear(ack(2), {"type": "system", "subtype": "status", "status": "compacting"})
    assert talk.asked == ["initialize", "interrupt", "interrupt"]
    failed = {"compact_result": "failed", "compact_error": "aborted"}
    talk.hear({"type": "system", "subtype": "status", **failed}, init(), result(""))
    assert [end.reason for end in talk.of(ev.AutoCompactionEnd)] == ["failed: aborted"]
    assert talk.recorder.is_ready


def test_compaction_by_itself_belongs_to_its_turn() -> None:
    talk = WireBench().hear(READY).say(1)
    talk.hear(*read_lines(TESTDATA / "stream/compact_auto_reactive.jsonl"))
    assert talk.recorder.is_ready
    assert talk.finish().statuses == ["completed"]
    assert len(talk.of(ev.AutoCompactionEnd)) == 1
    states = [change.new for change in talk.of(ev.StateChange)]
    assert states == ["ready", "working", "compacting", "working", "ready", "stopped"]


def test_a_model_that_is_refused_is_told() -> None:
    talk = WireBench().hear(READY)
    talk.wire.set_model("nothing")
    answer = {"subtype": "error", "request_id": "bridle-2", "error": "no such model"}
    talk.hear({"type": "control_response", "response": answer})
    (told,) = talk.of(ev.Unknown)
    assert told.raw["response"]["error"] == "no such model"


# -- what is left over ----------------------------------------------------------------------------


def test_background_work_alone_is_no_turn() -> None:
    talk = WireBench().hear(READY).say(1)
    talk.hear(init(), {"type": "system", "subtype": "task_started", "task_id": "t"}, echo(1))
    talk.hear(result(), notified("stopped"))
    assert talk.recorder.is_ready
    assert talk.finish().statuses == ["completed"]


def test_usage_and_cost_of_several_turns_are_counted_once() -> None:
    def used(tokens: int, cost: float) -> dict[str, Any]:
        totals = {"inputTokens": tokens, "outputTokens": tokens // 10, "costUSD": cost}
        return {"modelUsage": {"claude-sonnet-4-5": totals}, "total_cost_usd": cost}

    talk = WireBench().hear(READY).say(1).hear(init(), echo(1), result(**used(100, 0.01)))
    talk.say(2).hear(init(), echo(2), result(**used(250, 0.03))).finish()
    assert [end.usage.input_tokens for end in talk.of(ev.AgentEnd)] == [100, 150]
    assert [end.cost_usd for end in talk.of(ev.AgentEnd)] == pytest.approx([0.01, 0.02])
    assert [total.usage.input_tokens for total in talk.of(ev.UsageTotals)] == [100, 250]


@pytest.mark.parametrize("odd", [b"not json", b"null", b'{"type":"new"}', b"\xff", b'{"type":5}'])
def test_an_odd_line_changes_nothing(odd: bytes) -> None:
    talk = (
        WireBench().hear(odd, READY, odd).say(1).hear(odd, init(), odd, echo(1), odd, result(), odd)
    )
    assert talk.recorder.is_ready
    assert talk.finish().statuses == ["completed"]
    assert len(talk.of(ev.Unknown)) == 6
