"""The live wire against a scripted counterpart: prompts, ends, aborts, permission, usage."""

from pathlib import Path
from typing import Any

import msgspec
import pytest

from bridle.core import events as ev
from bridle.core.usage import Usage
from bridle.drives.spec import ProcessExit
from bridle.runtimes.acp import agents
from bridle.runtimes.acp.history import History
from bridle.runtimes.acp.live import CompactingWire
from bridle.runtimes.acp.prompt_history import Span
from tests.runtimes.acp.live_support import CAN, LiveDesk
from tests.runtimes.acp.support import short

MESSAGE = ["message_start", "text_start", "text_delta", "text_end", "message_end"]
CANCELLED = {"outcome": {"outcome": "cancelled"}}


def opened(agent: agents.AcpAgent = agents.PLAIN, **fields: Any) -> LiveDesk:
    desk = LiveDesk(agent, **fields)
    desk.open()
    return desk


def test_two_turns_of_one_session() -> None:
    desk = LiveDesk()
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
    desk = opened(agents.COPILOT)
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
    desk = opened(agents.CLAUDE)
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


# -- usage ----------------------------------------------------------------------------------------


def told(count: int) -> dict[str, Any]:
    return {"usage": {"inputTokens": count, "outputTokens": count}}


def test_usage_of_agents_that_count_each_prompt() -> None:
    desk = opened(agents.CLAUDE)
    for count in (10, 30):
        desk.prompt()
        desk.text("x")
        desk.done(**told(count))
    assert [end.usage.input_tokens for end in desk.ends] == [10, 30]
    assert [event.usage.input_tokens for event in desk.of(ev.UsageTotals)] == [10, 40]


def test_usage_of_agents_that_count_the_session() -> None:
    desk = opened(agents.COPILOT)
    for count in (10, 40):
        desk.prompt()
        desk.text("x")
        desk.done(**told(count))
    assert [end.usage.input_tokens for end in desk.ends] == [10, 30]
    assert desk.recorder.usage.input_tokens == 40


def test_usage_and_cost_from_files() -> None:
    spent = [1, 2, 30, 400]
    asked: list[Span] = []

    def read(session_id: str, span: Span) -> History | None:
        asked.append(span)
        counts = spent[span.first : span.first + span.count]
        usage = Usage(input_tokens=sum(counts))
        return History(usage=usage, model="p/m", cost_usd=sum(counts) / 1000)

    desk = opened(agents.OPENCODE, history=read, earlier=2)
    for _ in range(2):
        desk.prompt()
        desk.text("x")
        desk.done(**told(7))
    assert asked == [Span(2, 1), Span(2, 2)]
    assert [end.usage.input_tokens for end in desk.ends] == [30, 400]
    assert [end.cost_usd for end in desk.ends] == [0.03, pytest.approx(0.4)]
    assert desk.recorder.model == "p/m"


def test_commands_that_no_file_holds_do_not_count() -> None:
    asked: list[int] = []

    def read(session_id: str, span: Span) -> History | None:
        asked.append(span.count)
        return History(usage=Usage(input_tokens=span.count))

    desk = opened(agents.GEMINI, history=read)
    nothing: dict[str, Any] = {"_meta": {"quota": {"model_usage": []}}}
    some = {"_meta": {"quota": {"model_usage": [{"model": "m"}]}}}
    for text, quota in (("go", some), ("/memory", nothing), ("/tmp is full", some), ("?", nothing)):
        desk.prompt(text)
        desk.text("x")
        desk.done(**quota)
    # The last one was a prompt: its model gave nothing that could be counted.
    assert asked == [1, 1, 2, 3]


def test_silence_keeps_its_own_reason() -> None:
    desk = opened(agents.GEMINI, session={"silence_timeout": 5.0})
    desk.prompt()
    assert desk.recorder.patience is not None
    error = desk.recorder.patience.error
    assert error is not None
    desk.recorder.request_stop(error)
    desk.recorder.fail(error)
    tail = "Attempt 1 failed: Resource has been exhausted. Retrying after 62705ms...\n"
    desk.wire.finish(ProcessExit(code=1, stderr_tail=tail))
    told = desk.recorder.result().error
    # What it logs may be of any turn before, so it is shown, not taken for the reason.
    assert told is not None
    assert (told.kind, told.stderr_tail) == ("unavailable", tail)


def test_the_cost_of_a_loaded_session() -> None:
    cost = {"amount": 0.5, "currency": "USD"}
    for row, expected in ((agents.CLAUDE, 0.5), (agents.OPENCODE, None)):
        desk = LiveDesk(row, session={"resume": "s1"})
        desk.open()
        desk.prompt()
        desk.text("x")
        desk.update("usage_update", used=1, cost=cost)
        desk.done()
        assert desk.recorder.cost_usd == expected, "OpenCode tells that of the whole session"


# -- models and images ----------------------------------------------------------------------------

MODELS: dict[str, Any] = {
    "configOptions": [{"id": "model", "category": "model", "currentValue": "small"}]
}


def test_a_prompt_waits_for_the_change_of_the_model() -> None:
    desk = LiveDesk()
    desk.open(**MODELS)
    desk.wire.set_model("big")
    (change,) = desk.collect()
    assert change["params"] == {"sessionId": "s1", "configId": "model", "value": "big"}
    assert desk.prompt() == []
    (sent,) = desk.answer(change["id"], {})
    assert sent["method"] == "session/prompt"
    desk.text("x")
    desk.done()
    assert desk.recorder.model == "big"
    assert [each.taken for each in desk.deliveries] == [True]


def test_a_model_that_the_agent_refuses() -> None:
    desk = LiveDesk()
    desk.open(**MODELS)
    desk.wire.set_model("none")
    desk.collect()
    desk.prompt()
    desk.answer_last("session/set_config_option", code=-32602, message="unknown model none")
    assert desk.recorder.is_ready
    desk.wire.set_model("none")
    desk.collect()
    desk.answer_last("session/set_config_option", code=-32602, message="unknown model none")
    desk.prompt(id="second")
    desk.prompt(id="third")
    desk.text("x")
    desk.done()
    assert [(each.id, each.taken) for each in desk.deliveries] == [
        ("m1", False),
        ("second", False),
        ("third", True),
    ]
    assert [end.status for end in desk.ends] == ["failed", "completed"]
    assert desk.recorder.model == "small"


def test_an_aborted_prompt_that_waited_is_never_sent() -> None:
    desk = LiveDesk()
    desk.open(**MODELS)
    desk.wire.set_model("big")
    desk.collect()
    desk.prompt()
    assert desk.abort() == []
    assert desk.recorder.is_ready
    assert desk.answer_last("session/set_config_option", {}) == []
    assert [each.taken for each in desk.deliveries] == [False]
    assert [end.status for end in desk.ends] == ["aborted"]


def test_an_agent_without_a_choice_of_models() -> None:
    desk = opened()
    desk.wire.set_model("big")
    assert desk.prompt() == []
    (refused,) = desk.deliveries
    assert refused.error is not None
    assert "no choice of model" in refused.error.message
    assert desk.recorder.is_ready


def test_images(tmp_path: Path) -> None:
    image = tmp_path / "a.png"
    image.write_bytes(b"\x89PNG\r\n\x1a\n" + b"0" * 8)
    (tmp_path / "b.png").write_text("no image")
    desk = opened()
    for problem in ({"images": (str(tmp_path / "b.png"),)}, {"text": "\ud800"}):
        assert desk.prompt(**problem) == []
        assert desk.recorder.is_ready
    (sent,) = desk.prompt(images=(str(image),))
    assert [block["type"] for block in sent["params"]["prompt"]] == ["text", "image"]
    assert [each.taken for each in desk.deliveries] == [False, False]
    blind = LiveDesk()
    blind.open({})
    assert blind.prompt(images=(str(image),)) == []
    assert [each.taken for each in blind.deliveries] == [False]


# -- compaction -----------------------------------------------------------------------------------


def compacting(desk: LiveDesk) -> CompactingWire:
    assert isinstance(desk.wire, CompactingWire)
    desk.wire.compact()
    (sent,) = desk.collect()
    assert sent["params"]["prompt"] == [{"type": "text", "text": "/compact"}]
    assert desk.recorder.state == "compacting"
    return desk.wire


def test_compaction_is_no_turn() -> None:
    desk = opened(agents.CLAUDE)
    compacting(desk)
    desk.text("Compacting...")
    desk.text("\n\nCompacting completed.")
    desk.done(**told(50))
    assert desk.recorder.is_ready
    assert desk.ends == []
    assert desk.recorder.usage.input_tokens == 50
    desk.prompt()
    desk.text("x")
    desk.done(**told(7))
    assert [end.usage.input_tokens for end in desk.ends] == [7]
    assert [event.reason for event in desk.of(ev.AutoCompactionEnd)] == ["asked for"]


def test_a_compaction_that_fails_says_why() -> None:
    desk = opened(agents.CLAUDE)
    compacting(desk)
    desk.text("\n\nCompacting failed: too short")
    desk.done()
    compacting(desk)
    desk.answer_last("session/prompt", code=-32603, message="Internal error: HTTP 500")
    compacting(desk)
    desk.answer_last("session/prompt", {"stopReason": 3})
    wire = compacting(desk)
    wire.abort_compaction()
    (cancel,) = desk.collect()
    assert cancel["method"] == "session/cancel"
    desk.done("cancelled")
    assert desk.recorder.is_ready
    wire.abort_compaction()
    assert desk.collect() == []
    reasons = [event.reason for event in desk.of(ev.AutoCompactionEnd)]
    assert reasons[0] == "Compacting failed: too short"
    assert "500" in reasons[1]
    assert "is no answer" in reasons[2]
    assert reasons[3] == "the turn was cancelled"


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
    desk = LiveDesk(session=session)
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
    desk = LiveDesk(session={"resume": "s0"})
    desk.answer(0, {"protocolVersion": 1, "agentCapabilities": {"loadSession": True}})
    desk.answer(1, code=-32002, message="Resource not found: s0")
    assert desk.recorder.stop_requested is not None
    assert desk.recorder.stop_requested.kind == "resume_refused"


def test_old_turns_are_no_news() -> None:
    desk = LiveDesk(agents.GEMINI, session={"resume": "s1"})
    desk.answer(0, {"protocolVersion": 1, "agentCapabilities": {"loadSession": True}})
    desk.text("an old answer")
    desk.answer(1, {})
    desk.text("another")
    assert not desk.recorder.is_ready
    desk.update("available_commands_update", availableCommands=[])
    assert desk.recorder.is_ready
    assert short(desk.trace) == ["session_start", "state"]


def test_leaving() -> None:
    desk = LiveDesk()
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
    desk = LiveDesk()
    desk.end(ProcessExit(code=1, stderr_tail="error: unknown option '--acp'"))
    assert desk.recorder.error is not None
    assert desk.recorder.error.kind == "protocol_drift"
