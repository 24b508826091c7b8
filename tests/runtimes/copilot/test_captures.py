"""Captures of Copilot's wire in, normalized events out."""

import json
from typing import Any

import pytest

from bridle.core import events as ev
from bridle.core.usage import Usage
from bridle.runtimes.copilot.transcript import Afterwards
from bridle.testing.contract import kinds
from tests.runtimes.copilot.captures import capture_lines, play

WRITE = [
    *("session_start", "state", "agent_start"),
    *("message_start", "text_start", *["text_delta"] * 6, "text_end", "message_end"),
    *("tool_execution_start", "tool_execution_end"),
    *("message_start", "text_start", *["text_delta"] * 3, "text_end", "message_end"),
    *("usage", "agent_end", "state", "session_end"),
]


def line(kind: str, **data: Any) -> bytes:
    return json.dumps({"type": kind, "data": data, "id": "x"}).encode()


def test_a_run_with_a_tool() -> None:
    used = Afterwards(usage=Usage(input_tokens=140, output_tokens=40, cache_read_tokens=60))
    events, result = play(capture_lines("headless-write.jsonl"), after=used)
    assert kinds(events) == WRITE
    assert (result.status, result.error) == ("completed", None)
    assert result.text.strip() == "Done writing hello.txt."
    assert result.model == "scripted"
    assert result.usage == used.usage
    assert result.native_session_id == "58aad2ba-7ed3-4351-8b7c-f94517cbd9dc"
    (end,) = [event for event in events if isinstance(event, ev.ToolExecutionEnd)]
    assert (end.tool_name, end.is_error) == ("create", False)
    assert "Created file" in end.result
    (start,) = [event for event in events if isinstance(event, ev.SessionStart)]
    assert start.native_session_id == "chosen"


@pytest.mark.parametrize(
    ("name", "kind", "retries"),
    [("headless-e401.jsonl", "not_authenticated", 2), ("headless-e500.jsonl", "unavailable", 5)],
)
def test_a_failed_call(name: str, kind: str, retries: int) -> None:
    events, result = play(capture_lines(name), code=1)
    assert result.error is not None
    assert result.error.kind == kind
    seen = [event for event in events if isinstance(event, ev.Retry)]
    assert [event.attempt for event in seen] == list(range(1, retries + 1))
    assert {event.error.kind for event in seen} == {kind}


def test_more_retries_than_the_caller_wants_end_the_run() -> None:
    events, result = play(capture_lines("headless-e500.jsonl"), max_retries=3, code=0)
    assert len([event for event in events if isinstance(event, ev.Retry)]) == 3
    assert result.error is not None
    assert (result.error.kind, result.error.message) == ("unavailable", "scripted error 500")


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("headless-deny.jsonl", "shell(git push)"),
        ("headless-write-noallow.jsonl", "no interactive user"),
    ],
)
def test_a_refused_tool(name: str, words: str) -> None:
    events, result = play(capture_lines(name))
    assert result.status == "completed"
    (decision,) = [event for event in events if isinstance(event, ev.PermissionDecision)]
    assert (decision.decision, decision.by) == ("deny", "copilot")
    assert words in decision.reason
    (end,) = [event for event in events if isinstance(event, ev.ToolExecutionEnd)]
    assert end.is_error


def test_a_run_that_was_stopped_is_no_success_in_spite_of_exit_0() -> None:
    _, result = play(capture_lines("headless-nTERM.jsonl"), code=0)
    assert (result.status, result.exit_code) == ("aborted", 0)


def test_an_answer_that_was_cut_is_no_success() -> None:
    cut = Afterwards(finish_reason="length")
    _, result = play(capture_lines("headless-hello.jsonl"), after=cut)
    assert result.error is not None
    assert result.error.kind == "context_overflow"


def test_the_last_line_is_needed() -> None:
    lines = capture_lines("headless-write.jsonl")
    assert json.loads(lines[-1])["type"] == "result"
    _, result = play(lines[:-1], code=0)
    assert result.error is not None
    assert result.error.kind == "crashed"
    _, killed = play(lines[:-1], code=-9)
    assert killed.error is not None
    assert killed.error.kind == "crashed"


def test_a_result_without_an_idle_or_with_a_status_is_a_failure() -> None:
    begun = [line("user.message")]
    for result_line in (b'{"type":"result","sessionId":"n","exitCode":0}',):
        _, result = play([*begun, result_line])
        assert result.status == "failed"
    _, result = play(
        [*begun, line("assistant.idle"), b'{"type":"result","sessionId":"n","exitCode":3}'], code=3
    )
    assert result.error is not None
    assert result.error.kind == "crashed"


def test_reasoning_opens_its_message() -> None:
    events, _ = play(
        [
            line("user.message"),
            line("assistant.reasoning_delta", reasoningId="r", deltaContent="hm"),
            line("assistant.message_start", messageId="m"),
            line("assistant.message_delta", messageId="m", deltaContent="yes"),
            line("assistant.message", messageId="m", content="yes", model="x"),
            line("assistant.reasoning", reasoningId="r", content="hm"),
        ]
    )
    assert kinds(events)[3:11] == [
        *("message_start", "thinking_start", "thinking_delta", "thinking_end"),
        *("text_start", "text_delta", "text_end", "message_end"),
    ]


def test_a_text_that_comes_whole() -> None:
    events, result = play(
        [line("user.message"), line("assistant.message", content="whole", reasoningText="why")]
    )
    assert kinds(events)[3:11] == [
        *("message_start", "thinking_start", "thinking_delta", "thinking_end"),
        *("text_start", "text_delta", "text_end", "message_end"),
    ]
    assert result.text == "whole"


def test_tool_output_is_passed_on_once_and_a_sub_agent_speaks_inside_its_tool() -> None:
    events, _ = play(
        [
            line("user.message"),
            line("tool.execution_start", toolCallId="t", toolName="task", arguments={}),
            line("tool.execution_partial_result", toolCallId="t", partialOutput="a\n"),
            line("tool.shell_output", toolCallId="t", text="a\n"),
            line("tool.execution_partial_result", toolCallId="t", partialOutput="a\nb\n"),
            line("assistant.message_start", messageId="s", parentToolCallId="t"),
            line("assistant.message_delta", deltaContent="x", parentToolCallId="t"),
            line("assistant.message", content="inner", parentToolCallId="t"),
            line("tool.execution_start", toolCallId="u", toolName="bash", parentToolCallId="t"),
            line("tool.execution_complete", toolCallId="u", success=True, parentToolCallId="t"),
            line("tool.execution_complete", toolCallId="t", success=True, result={"content": "r"}),
        ]
    )
    updates = [event.text for event in events if isinstance(event, ev.ToolExecutionUpdate)]
    assert updates == ["a\n", "b\n", "inner"]
    ends = [event for event in events if isinstance(event, ev.ToolExecutionEnd)]
    assert [(end.tool_call_id, end.result) for end in ends] == [("t", "r")]


def test_compaction() -> None:
    events, _ = play(
        [
            line("user.message"),
            line("session.compaction_start"),
            line("session.compaction_complete", success=False),
        ]
    )
    found = [event for event in events if isinstance(event, ev.AutoCompactionEnd)]
    assert [event.reason for event in found] == ["automatic: failed"]


def test_raw_lines_are_kept_when_asked_for() -> None:
    events, _ = play(capture_lines("headless-hello.jsonl"), include_raw=True)
    (start,) = [event for event in events if isinstance(event, ev.MessageStart)]
    assert start.raw["type"] == "assistant.message_start"


@pytest.mark.parametrize("version", ["1.0.24", "1.0.50", "1.0.78"])
def test_a_version_that_may_not_say_when_it_is_idle(version: str) -> None:
    lines = capture_lines(f"v{version}/run.jsonl")
    events, result = play(lines, idles=False)
    assert not [event.raw for event in events if isinstance(event, ev.Unknown)]
    assert (result.status, result.text.strip()) == ("completed", "All three are there.")
    ends = [event for event in events if isinstance(event, ev.ToolExecutionEnd)]
    assert [end.is_error for end in ends] == [False] * 3


@pytest.mark.parametrize("version", ["1.0.24", "1.0.50"])
def test_such_a_version_that_ends_inside_a_turn(version: str) -> None:
    lines = capture_lines(f"v{version}/run.jsonl")
    last = max(at for at, each in enumerate(lines) if b'"assistant.turn_end"' in each)
    _, result = play([*lines[:last], *lines[last + 1 :]], idles=False)
    assert result.error is not None
    assert "before its turn was over" in result.error.message
