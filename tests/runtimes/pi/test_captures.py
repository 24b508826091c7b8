"""Captures of Pi's wire in, normalized events out."""

import json
from typing import Any

import pytest

from bridle.core import events as ev
from bridle.core.usage import Usage
from tests.runtimes.pi.captures import TESTDATA, capture_lines, play
from tests.support.driving import kinds

CAPTURES = sorted(
    path.name for path in TESTDATA.glob("*.jsonl") if path.name.startswith(("json-", "rpc-"))
)

TOOL_RUN = [
    "session_start",
    "state",
    "agent_start",
    *("message_start", "text_start", "text_delta", "text_delta", "text_delta", "text_delta"),
    *("text_end", "message_end"),
    *("tool_execution_start", "tool_execution_update", "tool_execution_update"),
    "tool_execution_end",
    *("message_start", "text_start", "text_delta", "text_end", "message_end"),
    *("tool_execution_start", "tool_execution_start"),
    *("tool_execution_end", "tool_execution_end"),
]


@pytest.mark.parametrize(("version", "settles"), [("0.74.2", False), ("1.5.0", True)])
def test_a_tool_run_gives_the_same_events_in_both_dialects(version: str, settles: bool) -> None:
    events, result = play(capture_lines(f"json-tool-{version}.jsonl"), settles=settles)
    seen = kinds(events)
    assert seen[: len(TOOL_RUN)] == TOOL_RUN
    assert seen[-4:] == ["usage", "agent_end", "state", "session_end"]
    assert result.status == "completed"
    assert result.error is None
    assert result.model == "lab-anth/scripted"
    assert result.cost_source == "provider"


def test_both_dialects_agree_on_the_whole_run() -> None:
    old, _ = play(capture_lines("json-tool-0.74.2.jsonl"), settles=False)
    new, _ = play(capture_lines("json-tool-1.5.0.jsonl"), settles=True)
    without_updates = [
        [kind for kind in kinds(events) if kind not in ("text_delta", "tool_execution_update")]
        for events in (old, new)
    ]
    assert without_updates[0] == without_updates[1]


def _wire_sum(name: str) -> tuple[Usage, float]:
    """Usage by the rule of the ground truth, counted independently of the adapter."""
    total, cost = Usage(), 0.0
    for line in capture_lines(name):
        data = json.loads(line)
        message = data.get("message", {})
        used = None
        if data["type"] == "message_end" and message.get("role") == "assistant":
            used = message["usage"]
        elif data["type"] == "compaction_end":
            used = (data.get("result") or {}).get("usage")
        if used:
            cost += used["cost"]["total"]
            total += Usage(
                input_tokens=used["input"],
                output_tokens=used["output"],
                cache_read_tokens=used["cacheRead"],
                cache_write_tokens=used["cacheWrite"],
                reasoning_tokens=used.get("reasoning", 0),
            )
    return total, cost


@pytest.mark.parametrize("name", CAPTURES)
def test_usage_is_counted_once(name: str) -> None:
    _, result = play(capture_lines(name), settles="1.5.0" in name)
    usage, cost = _wire_sum(name)
    assert result.usage == usage
    assert result.cost_usd == (pytest.approx(cost) if cost else None)


@pytest.mark.parametrize("version", ["0.74.2", "1.5.0"])
def test_a_blocked_tool_is_a_tool_that_failed(version: str) -> None:
    events, result = play(capture_lines(f"json-guard-{version}.jsonl"), settles=version == "1.5.0")
    ends = [event for event in events if isinstance(event, ev.ToolExecutionEnd)]
    assert any(end.is_error and "git push is not allowed" in str(end.result) for end in ends)
    assert result.status == "completed"


def test_a_cut_answer_is_no_success() -> None:
    _, result = play(capture_lines("json-length-1.5.0.jsonl"))
    assert result.error is not None
    assert result.error.kind == "context_overflow"
    assert result.text == "cut off here"


def test_tool_output_is_passed_on_once() -> None:
    events, _ = play(capture_lines("json-tool-0.74.2.jsonl"), settles=False)
    updates = [event.text for event in events if isinstance(event, ev.ToolExecutionUpdate)]
    assert updates == ["one\n", "two\n"]
    ends = [event.result for event in events if isinstance(event, ev.ToolExecutionEnd)]
    assert ends[0] == "one\ntwo\n"


def test_the_older_dialect_ends_only_with_its_process() -> None:
    lines = capture_lines("json-tool-0.74.2.jsonl")
    _, killed = play(lines[:-1], settles=False, code=-9)
    assert killed.error is not None
    assert killed.error.kind == "crashed"


def test_the_newer_dialect_needs_its_last_word() -> None:
    lines = capture_lines("json-tool-1.5.0.jsonl")
    assert json.loads(lines[-1])["type"] == "agent_settled"
    _, result = play(lines[:-1])
    assert result.error is not None
    assert result.error.kind == "crashed"


def test_a_handler_that_never_answers_is_a_crash_in_spite_of_exit_0() -> None:
    lines = capture_lines("json-guard-1.5.0.jsonl")
    first_tool = next(
        number
        for number, line in enumerate(lines)
        if json.loads(line)["type"] == "tool_execution_start"
    )
    events, result = play(lines[:first_tool], code=0)
    assert result.status == "failed"
    assert result.error is not None
    assert result.error.kind == "crashed"
    assert kinds(events)[-3:] == ["agent_end", "state", "session_end"]


def test_retries_are_shown_and_do_not_end_the_turn() -> None:
    def message(stop: str, text: str = "", error: str = "") -> dict[str, Any]:
        content = [{"type": "text", "text": text}] if text else []
        return {
            "role": "assistant",
            "content": content,
            "provider": "p",
            "model": "m",
            "stopReason": stop,
            "errorMessage": error,
        }

    overloaded = '529 {"type":"error","error":{"type":"overloaded_error","message":"Busy"}}'
    failed = message("error", error=overloaded)
    wire: list[dict[str, Any]] = [
        {"type": "session", "id": "n"},
        {"type": "agent_start"},
        {"type": "message_start", "message": failed},
        {"type": "message_end", "message": failed},
        {"type": "agent_end", "messages": [], "willRetry": True},
        {"type": "auto_retry_start", "attempt": 1, "delayMs": 2000, "errorMessage": overloaded},
        {"type": "agent_start"},
        {"type": "message_start", "message": message("stop")},
        {"type": "message_end", "message": message("stop", "whole")},
        {"type": "auto_retry_end", "success": True, "attempt": 1},
        {"type": "agent_end", "messages": [], "willRetry": False},
        {"type": "agent_settled", "aborted": False},
    ]
    lines = [json.dumps(line).encode() for line in wire]
    events, result = play(lines)
    assert kinds(events) == [
        *("session_start", "state", "agent_start", "retry"),
        *("message_start", "text_start", "text_delta", "text_end", "message_end"),
        *("usage", "agent_end", "state", "session_end"),
    ]
    retry = next(event for event in events if isinstance(event, ev.Retry))
    assert (retry.error.kind, retry.error.message) == ("overloaded", "Busy (overloaded_error)")
    assert retry.delay_ms == 2000
    assert (result.status, result.text) == ("completed", "whole")
    assert result.cost_usd is None, "no price is not a price of nothing"
    # The older dialect says the same without `willRetry` and `agent_settled`.
    for line in wire:
        line.pop("willRetry", None)
    older = [json.dumps(line).encode() for line in wire[:-1]]
    assert kinds(play(older, settles=False)[0]) == kinds(events)


def test_another_conversation_than_the_one_asked_for_is_refused() -> None:
    lines = capture_lines("json-tool-1.5.0.jsonl")
    _, result = play(lines, resumed="another")
    assert result.error is not None
    assert result.error.kind == "resume_refused"
    _, result = play(lines, resumed="another", fork=True)
    assert result.error is not None
    assert "instead of a copy of another" in result.error.message
    header = json.dumps({**json.loads(lines[0]), "parentSession": "/sessions/1_another.jsonl"})
    _, result = play([header.encode(), *lines[1:]], resumed="another", fork=True)
    assert result.error is None


def test_an_abort_is_told_by_the_last_word_not_by_the_stop_reason() -> None:
    _, result = play(
        [
            b'{"type":"session","id":"n"}',
            b'{"type":"agent_start"}',
            b'{"type":"message_end","message":{"role":"assistant","stopReason":"error",'
            b'"errorMessage":"This operation was aborted"}}',
            b'{"type":"agent_end","willRetry":false}',
            b'{"type":"agent_settled","aborted":true}',
        ]
    )
    assert result.status == "aborted"


def test_a_budget_without_a_price_stops_the_agent() -> None:
    line = (
        b'{"type":"message_end","message":{"role":"assistant","provider":"p","model":"m",'
        b'"content":[],"stopReason":"toolUse","usage":{"input":5,"output":1}}}'
    )
    start = [b'{"type":"session","id":"n"}', b'{"type":"agent_start"}']
    _, result = play([*start, line], budget_usd=1.0, code=143)
    assert result.status == "budget_exceeded"
    assert result.error is not None
    assert "the price of p/m is not known" in result.error.message
