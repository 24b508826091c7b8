"""The live wire against a scripted counterpart: prompts, ends, aborts, permission."""

from typing import Any

import msgspec
import pytest

from bridle.core import events as ev
from bridle.process.spec import ProcessExit
from bridle.runtimes.acp import quirks
from tests.runtimes.acp.captures import short
from tests.runtimes.acp.wire_bench import CAN, CANCELLED, MESSAGE, WireBench, opened

# -- turns ----------------------------------------------------------------------------------------


def test_two_turns_of_one_session() -> None:
    desk = WireBench()
    assert [call["method"] for call in desk.calls] == ["initialize"]
    desk.open()
    desk.prompt("one")
    desk.text("First.")
    desk.done()
    (sent,) = desk.prompt("two")
    assert sent["params"] == {"sessionId": "s1", "prompt": [{"type": "text", "text": "two"}]}
    desk.text("Second.")
    desk.done()
    turn = ["agent_start", *MESSAGE, "usage", "agent_end", "state"]
    assert desk.trace == ["session_start", "state", *["state", *turn], *["state", *turn]]
    assert [(end.turn, end.status, end.text) for end in desk.ends] == [
        (1, "completed", "First."),
        (2, "completed", "Second."),
    ]
    states = [(event.new, event.evidence) for event in desk.of(ev.StateChange)]
    assert states[:2] == [("ready", "session/new"), ("working", "session/prompt")]
    assert [(each.id, each.taken, each.turn) for each in desk.deliveries] == [
        ("m1", True, 1),
        ("m2", True, 2),
    ]


@pytest.mark.parametrize(
    ("kind", "taken"),
    [
        ("agent_thought_chunk", True),
        ("user_message_chunk", True),
        ("tool_call", True),
        ("usage_update", False),
        ("available_commands_update", False),
    ],
)
def test_a_message_is_taken_when_the_agent_works_on_it(kind: str, taken: bool) -> None:
    desk = opened()
    desk.prompt()
    assert desk.deliveries == []
    desk.update(kind, toolCallId="t", content={"type": "text", "text": "x"})
    assert [each.taken for each in desk.deliveries] == ([True] if taken else [])
    desk.answer_last("session/prompt", code=-32603, message="Internal error: HTTP 401")
    assert [(each.taken, each.turn) for each in desk.deliveries] == [(True, 1)]


def test_a_failed_turn_is_followed_by_a_good_one() -> None:
    desk = opened(quirks.COPILOT)
    desk.prompt()
    desk.answer_last("session/prompt", code=-32603, message="Internal error: HTTP 401")
    desk.prompt()
    desk.done()
    desk.prompt()
    desk.text("Error: Authentication failed with provider")
    desk.done()
    desk.prompt()
    desk.answer_last("session/prompt", {"stopReason": 3})
    desk.prompt()
    desk.text("Well.")
    desk.done()
    desk.end(leaving="done")
    kinds = [end.error.kind if end.error else None for end in desk.ends]
    assert kinds == [
        "not_authenticated",
        "unavailable",
        "not_authenticated",
        "protocol_drift",
        None,
    ]
    assert desk.recorder.state == "stopped"


# -- aborts ---------------------------------------------------------------------------------------


def test_abort_ends_the_turn_and_the_conversation_goes_on() -> None:
    desk = opened()
    desk.prompt()
    desk.update("tool_call", toolCallId="t", kind="execute", status="in_progress")
    (sent,) = desk.abort()
    assert sent == {
        "jsonrpc": "2.0",
        "method": "session/cancel",
        "params": {"sessionId": "s1"},
    }
    clock = desk.recorder.patience
    assert clock is not None
    desk.update("tool_call_update", toolCallId="t", kind="execute", status="in_progress")
    assert desk.recorder.patience is clock, "what it still says does not give it more time"
    desk.done("cancelled")
    assert desk.recorder.is_ready
    assert desk.recorder.patience is None
    desk.update("tool_call_update", toolCallId="t", status="failed")
    desk.prompt()
    desk.update("tool_call_update", toolCallId="t", status="failed")
    desk.text("Yes.")
    desk.done()
    desk.end(leaving="done")
    assert [end.status for end in desk.ends] == ["aborted", "completed"]
    assert len(desk.of(ev.ToolExecutionStart)) == 1, "the rest of a turn is no news in the next"
    assert len(desk.of(ev.Unknown)) == 2


def test_a_call_id_may_be_used_again_in_the_next_turn() -> None:
    desk = opened()
    for _ in range(2):
        desk.prompt()
        desk.update("tool_call", toolCallId="t", kind="execute", status="in_progress")
        desk.update("tool_call_update", toolCallId="t", status="completed")
        desk.done()
    assert [end.status for end in desk.ends] == ["completed", "completed"]
    assert len(desk.of(ev.ToolExecutionEnd)) == 2


def test_an_abort_that_meets_the_end_of_the_turn_is_harmless() -> None:
    desk = opened()
    desk.prompt()
    desk.text("All done.")
    desk.abort()
    desk.done("end_turn")
    assert desk.recorder.is_ready
    desk.prompt()
    desk.text("More.")
    desk.done()
    assert [end.status for end in desk.ends] == ["aborted", "completed"]


def test_an_agent_that_answers_a_cancel_with_an_error() -> None:
    desk = opened()
    desk.prompt()
    desk.abort()
    desk.answer_last("session/prompt", code=-32800, message="Request cancelled")
    assert [end.status for end in desk.ends] == ["aborted"]
    assert desk.recorder.is_ready


# -- permission -----------------------------------------------------------------------------------


def test_permission_is_asked_and_answered() -> None:
    desk = opened()
    desk.prompt()
    desk.ask(70)
    assert desk.recorder.state == "waiting_permission"
    assert desk.recorder.patience is None, "a person may take their time"
    desk.decide(desk.questions[0], allowed=True)
    desk.update("tool_call_update", toolCallId="t", status="completed")
    desk.ask("a-8", tool="u")
    desk.decide(desk.questions[1], allowed=False, reason="not today")
    desk.text("Well.")
    desk.done()
    chosen = [call["result"]["outcome"]["optionId"] for call in desk.calls if "result" in call]
    assert chosen == ["y", "n"]
    ends = [(event.is_error, event.result) for event in desk.of(ev.ToolExecutionEnd)]
    assert ends == [(False, None), (True, "not today")]


def test_an_aborted_turn_takes_its_questions_with_it() -> None:
    desk = opened()
    desk.prompt()
    desk.ask(70)
    cancel, answer = desk.abort()
    assert cancel["method"] == "session/cancel"
    assert answer == {"jsonrpc": "2.0", "id": 70, "result": CANCELLED}
    assert desk.ask(71) == [{"jsonrpc": "2.0", "id": 71, "result": CANCELLED}]
    desk.done("cancelled")
    assert desk.recorder.is_ready
    before = len(desk.events)
    assert desk.decide(desk.questions[0], allowed=True) == b""
    assert len(desk.events) == before, "an answer that came too late changes nothing"
    assert [event.decision for event in desk.of(ev.PermissionDecision)] == ["deny"]
    assert len(desk.questions) == 1


def test_an_agent_takes_a_question_back() -> None:
    desk = opened()
    desk.prompt()
    desk.ask(70)
    notice = {"jsonrpc": "2.0", "method": "$/cancel_request", "params": {"requestId": 70}}
    (sent,) = desk.say(msgspec.json.encode(notice))
    assert (sent["id"], sent["result"]) == (70, CANCELLED)
    assert desk.say(msgspec.json.encode(notice)) == []
    assert desk.recorder.state == "working"
    assert desk.decide(desk.questions[0], allowed=True) == b""
    desk.done()
    assert [end.status for end in desk.ends] == ["completed"]


def test_calls_of_the_agent_are_never_left_open() -> None:
    desk = opened()
    for call_id in (1, 2):
        (sent,) = desk.call(call_id, "_vendor/thing", {})
        assert (sent["id"], sent["error"]["code"]) == (call_id, -32601)
        desk.prompt()
    (sent,) = desk.call(3, "session/request_permission", {"options": 3})
    assert sent["result"] == CANCELLED
    desk.text("Well.")
    desk.done()
    (sent,) = desk.ask(4)
    assert (sent["id"], sent["result"]) == (4, CANCELLED), "no turn is open that it belongs to"
    assert desk.recorder.is_ready


# -- what is said between turns -------------------------------------------------------------------


def test_words_between_turns_are_kept_and_open_nothing() -> None:
    desk = opened()
    desk.text("by the way")
    desk.update("usage_update", used=3)
    desk.say(b"noise")
    assert desk.recorder.is_ready
    assert desk.ends == []
    assert len(desk.of(ev.Unknown)) == 2


def test_turns_of_the_agents_own() -> None:
    desk = opened(quirks.CLAUDE)
    desk.text("The build has ended.")
    assert desk.recorder.state == "working"
    assert desk.recorder.patience is None
    desk.update("tool_call", toolCallId="t", title="Bash", status="in_progress", rawInput={"a": 1})
    desk.update("tool_call_update", toolCallId="t", status="completed")
    desk.update("usage_update", used=3, cost={"amount": 0.5, "currency": "USD"})
    assert desk.recorder.is_ready
    assert [(end.status, end.cost_usd) for end in desk.ends] == [("completed", 0.5)]
    desk.ask(70)
    (cancel, answer) = desk.abort()
    assert (cancel["method"], answer["id"]) == ("session/cancel", 70)
    assert desk.recorder.is_ready, "no answer would come that ends it later"
    assert [end.status for end in desk.ends] == ["completed", "aborted"]
    assert desk.deliveries == []


# -- begin and end --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("session", "answers", "kind"),
    [
        ({}, [{"protocolVersion": 2}], "protocol_drift"),
        ({}, [{"protocolVersion": 1}, None], "not_authenticated"),
        ({"resume": "s0"}, [{"protocolVersion": 1}], "protocol_drift"),
        (
            {"resume": "s0"},
            [{"protocolVersion": 1, "agentCapabilities": CAN}, {"sessionId": "other"}],
            "resume_refused",
        ),
    ],
)
def test_a_session_that_cannot_be_opened(
    session: dict[str, Any], answers: list[Any], kind: str
) -> None:
    desk = WireBench(session=session)
    for number, result in enumerate(answers):
        if result is None:
            desk.answer(number, code=-32000, message="Authentication required")
        else:
            desk.answer(number, result)
    assert desk.recorder.stop_requested is not None
    assert desk.recorder.stop_requested.kind == kind
    desk.end(ProcessExit(code=-15))
    assert desk.recorder.state == "failed"


def test_a_session_that_is_gone_is_refused() -> None:
    desk = WireBench(session={"resume": "s0"})
    desk.answer(0, {"protocolVersion": 1, "agentCapabilities": {"loadSession": True}})
    desk.answer(1, code=-32002, message="Resource not found: s0")
    assert desk.recorder.stop_requested is not None
    assert desk.recorder.stop_requested.kind == "resume_refused"


def test_old_turns_are_no_news() -> None:
    desk = WireBench(quirks.GEMINI, session={"resume": "s1"})
    desk.answer(0, {"protocolVersion": 1, "agentCapabilities": {"loadSession": True}})
    desk.text("an old answer")
    desk.answer(1, {})
    desk.text("another")
    assert not desk.recorder.is_ready
    desk.update("available_commands_update", availableCommands=[])
    assert desk.recorder.is_ready
    assert short(desk.trace) == ["session_start", "state"]


def test_leaving() -> None:
    desk = WireBench()
    desk.open({"sessionCapabilities": {"close": {}}})
    desk.wire.leave()
    (close,) = desk.collect()
    assert close["method"] == "session/close"
    assert not desk.recorder.input_done
    desk.answer(close["id"], {})
    assert desk.recorder.input_done
    plain = opened()
    plain.wire.leave()
    assert plain.recorder.input_done


def test_a_death_in_a_turn() -> None:
    desk = opened()
    desk.prompt()
    desk.text("half")
    desk.end(ProcessExit(code=-9))
    assert [(end.status, end.error.kind) for end in desk.ends] == [("failed", "crashed")]
    assert [each.taken for each in desk.deliveries] == [True]
    assert desk.recorder.state == "failed"


def test_a_death_before_the_prompt_was_taken() -> None:
    desk = opened()
    desk.prompt()
    desk.end(ProcessExit(code=1))
    (refused,) = desk.deliveries
    assert (refused.taken, refused.error and refused.error.kind) == (False, "crashed")


def test_a_death_before_anything_tells_why() -> None:
    desk = WireBench()
    desk.end(ProcessExit(code=1, stderr_tail="error: unknown option '--acp'"))
    assert desk.recorder.error is not None
    assert desk.recorder.error.kind == "protocol_drift"
