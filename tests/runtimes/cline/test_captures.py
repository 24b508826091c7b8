"""Captures of Cline's wire in, normalized events out."""

import json
from typing import Any

import pytest

from bridle.core import events as ev
from bridle.core.usage import Usage
from bridle.runtimes.cline.transcript import Afterwards, FailedCall
from tests.runtimes.agents import assert_order, kinds
from tests.runtimes.cline.support import TESTDATA, lines_of, play

CAPTURES = sorted(
    str(path.relative_to(TESTDATA))
    for pattern in ("[!r]*.jsonl", "v*/run.jsonl")
    for path in TESTDATA.glob(pattern)
)

WRITE = [
    *("session_start", "state", "agent_start"),
    *("message_start", "text_start", *["text_delta"] * 6, "text_end", "message_end"),
    *("tool_execution_start", "tool_execution_end"),
    *("message_start", "text_start", *["text_delta"] * 3, "text_end", "message_end"),
    *("usage", "agent_end", "state", "session_end"),
]


def event(kind: str, **data: Any) -> bytes:
    return json.dumps({"type": "agent_event", "event": {"type": kind, **data}}).encode()


def test_a_run_with_a_tool() -> None:
    events, result = play(lines_of("headless-write.jsonl"), session_id="17_abc")
    assert kinds(events) == WRITE
    assert (result.status, result.error) == ("completed", None)
    assert result.text.strip() == "Done writing hello.txt."
    assert (result.model, result.native_session_id) == ("scripted", "17_abc")
    assert result.usage == Usage(input_tokens=140, output_tokens=40, cache_read_tokens=60)
    ends = [found for found in events if isinstance(found, ev.MessageEnd)]
    each = Usage(input_tokens=70, output_tokens=20, cache_read_tokens=30)
    assert [end.usage for end in ends] == [each, each]
    (end,) = [found for found in events if isinstance(found, ev.ToolExecutionEnd)]
    assert (end.tool_name, end.is_error) == ("editor", False)


@pytest.mark.parametrize("name", CAPTURES)
def test_the_order_contract_holds_and_nothing_is_unknown(name: str) -> None:
    events, _ = play(lines_of(name))
    assert_order(events)
    assert not [found.raw for found in events if isinstance(found, ev.Unknown)]


def test_reasoning_stands_before_its_text() -> None:
    events, result = play(lines_of("local-think.jsonl"))
    assert kinds(events)[3:11] == [
        *("message_start", "thinking_start", "thinking_delta", "thinking_end"),
        *("text_start", "text_delta", "text_end", "message_end"),
    ]
    assert result.usage == Usage(
        input_tokens=300, output_tokens=40, cache_read_tokens=70, cache_write_tokens=5
    )


def test_a_command_that_failed_and_what_it_printed() -> None:
    events, result = play(lines_of("local-bash-fails.jsonl"))
    ends = [found for found in events if isinstance(found, ev.ToolExecutionEnd)]
    assert [(end.tool_name, end.is_error) for end in ends] == [
        ("run_commands", True),
        ("editor", False),
    ]
    updates = [found.text for found in events if isinstance(found, ev.ToolExecutionUpdate)]
    assert updates == ["hi\n", "there\n"]
    assert result.status == "completed"


@pytest.mark.parametrize(
    ("name", "call", "kind"),
    [
        ("local-e401.jsonl", None, "not_authenticated"),
        ("local-e401.jsonl", FailedCall(status_code=401), "not_authenticated"),
        ("local-e529.jsonl", None, "overloaded"),
        ("local-e529.jsonl", FailedCall(status_code=529), "overloaded"),
        ("local-context.jsonl", None, "context_overflow"),
        ("local-length.jsonl", None, "context_overflow"),
        ("headless-e401.jsonl", FailedCall(status_code=401), "not_authenticated"),
        ("headless-e500.jsonl", FailedCall(status_code=500), "unavailable"),
        ("headless-e500.jsonl", None, "unavailable"),
        ("headless-e500.jsonl", FailedCall(message="Cannot connect to API"), "unavailable"),
    ],
)
def test_a_failed_run(name: str, call: FailedCall | None, kind: str) -> None:
    events, result = play(lines_of(name), code=1, call=call)
    assert result.error is not None
    assert result.error.kind == kind
    assert kinds(events)[-5:] == ["error", "usage", "agent_end", "state", "session_end"]


def test_when_to_try_again() -> None:
    call = FailedCall(status_code=429, response_headers={"retry-after": "7"})
    _, result = play(lines_of("headless-e500.jsonl"), code=1, call=call)
    assert result.error is not None
    assert result.error.kind == "rate_limited"
    assert result.error.until is not None


def test_an_old_failure_in_the_log_does_not_spoil_success() -> None:
    _, result = play(lines_of("headless-hello.jsonl"), call=FailedCall(status_code=500))
    assert result.status == "completed"


def test_compaction_is_shown_once() -> None:
    events, _ = play(lines_of("local-length.jsonl"))
    assert kinds(events).count("auto_compaction_start") == 1
    assert kinds(events).count("auto_compaction_end") == 1


def test_a_tool_that_nobody_could_allow() -> None:
    events, result = play(lines_of("headless-noapprove.jsonl"))
    (decision,) = [found for found in events if isinstance(found, ev.PermissionDecision)]
    assert (decision.decision, decision.by, decision.tool_name) == ("deny", "cline", "editor")
    assert decision.reason.startswith("Tool approval requires an interactive session")
    (end,) = [found for found in events if isinstance(found, ev.ToolExecutionEnd)]
    assert end.is_error
    assert result.status == "completed"


def test_a_run_that_was_stopped_is_no_success_in_spite_of_exit_0() -> None:
    _, result = play(lines_of("headless-sTERM.jsonl"), code=0)
    assert result.status == "aborted"


def test_a_hook_that_ended_the_run() -> None:
    _, result = play(lines_of("hook-cancel.jsonl"), code=0)
    assert result.error is not None
    assert result.error.kind == "guard_refused"


def test_the_last_line_is_needed() -> None:
    lines = lines_of("headless-write.jsonl")
    assert json.loads(lines[-1])["type"] == "run_result"
    for code in (0, -9, 1):
        _, result = play(lines[:-1], code=code)
        assert result.error is not None
        assert result.error.kind == "crashed"


def test_lines_that_were_lost_at_the_end() -> None:
    """Cline leaves before a slow reader has taken all; its record then tells how it went."""
    lines = lines_of("headless-write.jsonl")[:18]
    used = Usage(input_tokens=9, output_tokens=9)
    record = Afterwards(session_id="17_abc", completed=True, text="Done, all of it.", usage=used)
    events, result = play(lines, code=0, after=record)
    assert (result.status, result.text, result.usage) == ("completed", "Done, all of it.", used)
    assert_order(events)
    for code, completed in ((0, False), (-9, True), (1, True)):
        told = Afterwards(session_id="17_abc", completed=completed, text="x")
        _, result = play(lines, code=code, after=told)
        assert result.status == "failed"


@pytest.mark.parametrize(
    ("reason", "kind"),
    [
        ("aborted", "aborted"),
        ("max_iterations", "budget_exceeded"),
        ("max_tokens", "context_overflow"),
        ("mistake_limit", "crashed"),
        ("", "crashed"),
    ],
)
def test_other_ends(reason: str, kind: str) -> None:
    end = json.dumps({"type": "run_result", "finishReason": reason}).encode()
    _, result = play([event("iteration_start"), end])
    assert result.error is not None
    assert result.error.kind == kind


def test_retries_that_it_tells() -> None:
    about = {"kind": "provider_error_retry", "attempt": 1, "delayMs": 500, "providerError": "busy"}
    events, _ = play(
        [
            event("iteration_start"),
            event("notice", message="m", metadata=about),
            event("error", error={"message": "busy"}, errorClass="unknown", recoverable=True),
            event("error", error={"message": "1 tool call(s) failed"}, recoverable=True),
        ]
    )
    found = [seen for seen in events if isinstance(seen, ev.Retry)]
    assert [(seen.attempt, seen.delay_ms) for seen in found] == [(1, 500), (1, None)]


def test_a_message_of_a_tool_alone_and_one_of_nothing() -> None:
    events, _ = play(
        [
            event("iteration_start"),
            event("usage", inputTokens=5, outputTokens=1),
            event("content_start", contentType="tool", toolCallId="t", toolName="x"),
            event("content_end", contentType="tool", toolCallId="t", toolName="x", output="o"),
            event("iteration_end"),
            event("iteration_start"),
            event("usage", inputTokens=5, outputTokens=1),
            event("iteration_end"),
        ]
    )
    assert kinds(events)[3:9] == [
        *("message_start", "message_end", "tool_execution_start", "tool_execution_end"),
        *("message_start", "message_end"),
    ]


def test_a_text_that_comes_whole() -> None:
    events, _ = play(
        [event("iteration_start"), event("content_end", contentType="text", text="whole")]
    )
    assert kinds(events)[3:7] == ["message_start", "text_start", "text_delta", "text_end"]


@pytest.mark.parametrize(
    "garbage",
    [
        b"\xff\xfe\x00binary",
        b'{"type":"agent_ev',
        b"[" * 5000,
        b"null",
        b'{"type":"from_the_future","x":1}',
        b'{"type":"agent_event","event":{"type":"from_the_future"}}',
        b'{"type":"agent_event"}',
        b'{"no":"type"}',
        b"plain words",
    ],
)
def test_garbage_is_kept_and_ends_nothing(garbage: bytes) -> None:
    lines = lines_of("headless-write.jsonl")
    events, result = play([*lines[:5], garbage, b"", b"   ", *lines[5:]])
    assert len([found for found in events if isinstance(found, ev.Unknown)]) == 1
    assert result.status == "completed"


def test_the_turn_limit_stops_before_the_next_call() -> None:
    _, result = play(lines_of("headless-write.jsonl"), max_turns=1)
    assert result.status == "budget_exceeded"
    _, result = play(lines_of("headless-write.jsonl"), max_turns=2)
    assert result.status == "completed"


def test_the_budget_needs_a_price() -> None:
    _, result = play(lines_of("headless-write.jsonl"), budget_usd=1.0)
    assert result.error is not None
    assert "is not known" in result.error.message
    paid = [
        event("iteration_start"),
        event("content_start", contentType="text", text="a"),
        event("usage", inputTokens=5, outputTokens=1, cost=0.75),
        event("iteration_end"),
        event("iteration_start"),
        event("content_start", contentType="text", text="b"),
    ]
    _, result = play(paid, budget_usd=0.5)
    assert result.status == "budget_exceeded"
    assert (result.cost_usd, result.cost_source) == (0.75, "provider")
