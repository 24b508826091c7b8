"""Captures of Gemini's wire in, normalized events out."""

import json

import pytest

from bridle.core import events as ev
from bridle.core.usage import Usage
from bridle.process.spec import ProcessExit
from bridle.runtimes.gemini.stream import GeminiNormalizer
from tests.runtimes.gemini.captures import TESTDATA, capture_lines, make_recorder, play
from tests.support.driving import kinds

CAPTURES = sorted(
    str(path.relative_to(TESTDATA))
    for pattern in ("headless-*.jsonl", "v*/run.jsonl")
    for path in TESTDATA.glob(pattern)
)
BEGIN = ["session_start", "state", "agent_start"]
STEP = ["message_start", "text_start", "text_end", "message_end"]
TOOL = ["tool_execution_start", "tool_execution_end"]
END = ["usage", "agent_end", "state", "session_end"]


def outline(events: list[ev.Event]) -> list[str]:
    return [each for each in kinds(events) if each != "text_delta"]


def test_a_tool_run_gives_the_common_events() -> None:
    events, result = play(capture_lines("headless-write.jsonl"))
    assert outline(events) == [*BEGIN, *STEP, *TOOL, *STEP, *END]
    assert result.status == "completed"
    assert result.model == "scripted"
    assert result.text == "Done writing hello.txt. "
    assert result.usage == Usage(input_tokens=140, output_tokens=40, cache_read_tokens=60)
    assert result.cost_usd is None
    assert result.cost_source == "unknown"


def test_text_streams() -> None:
    events, _ = play(capture_lines("headless-hello.jsonl"))
    deltas = [event for event in events if kinds([event]) == ["text_delta"]]
    assert len(deltas) == 5
    assert not any(delta.synthetic for delta in deltas)


def test_thoughts_are_what_the_total_has_beyond_the_rest() -> None:
    line = capture_lines("headless-hello.jsonl")[-1]
    data = json.loads(line)
    data["stats"] |= {"total_tokens": 280, "input_tokens": 230, "output_tokens": 45, "cached": 30}
    _, result = play([*capture_lines("headless-hello.jsonl")[:-1], json.dumps(data).encode()])
    assert result.usage == Usage(
        input_tokens=200, output_tokens=50, cache_read_tokens=30, reasoning_tokens=5
    )


@pytest.mark.parametrize("name", ["headless-hm-json.jsonl", "headless-pol-push.jsonl"])
def test_a_refused_tool_is_told_and_the_work_goes_on(name: str) -> None:
    events, result = play(capture_lines(name))
    (decision,) = [event for event in events if isinstance(event, ev.PermissionDecision)]
    assert decision.decision == "deny"
    assert decision.tool_name in ("write_file", "run_shell_command")
    assert decision.reason
    (end,) = [event for event in events if isinstance(event, ev.ToolExecutionEnd)]
    assert end.is_error
    assert result.status == "completed"


def test_a_tool_that_is_not_offered_is_a_refusal() -> None:
    events, _ = play(capture_lines("headless-write-default.jsonl"))
    assert [e.tool_name for e in events if isinstance(e, ev.PermissionDecision)] == ["write_file"]


def test_a_result_with_an_error_is_the_reason() -> None:
    events, result = play(capture_lines("headless-e401.jsonl"), code=145)
    assert outline(events) == [*BEGIN, "error", *END]
    assert result.error is not None
    assert result.error.kind == "not_authenticated"


def test_exit_status_0_without_a_result_is_no_success() -> None:
    _, result = play(capture_lines("headless-sigterm-group-midturn.jsonl"), code=0)
    assert result.status == "failed"
    assert result.error is not None
    assert result.error.kind == "crashed"


def test_an_answer_that_only_calls_tools_is_a_message_too() -> None:
    lines = [
        line for line in capture_lines("headless-write.jsonl") if b'"role": "assistant"' not in line
    ]
    call = next(line for line in lines if b"tool_use" in line)
    second = call.replace(b"write_file__", b"other__")
    at = lines.index(call)
    result = lines[at + 1].replace(b"write_file__", b"other__")
    events, _ = play([*lines[: at + 1], second, lines[at + 1], result, *lines[at + 2 :]])
    starts = ["tool_execution_start", "tool_execution_start"]
    ends = ["tool_execution_end", "tool_execution_end"]
    assert outline(events) == [*BEGIN, "message_start", "message_end", *starts, *ends, *END]


@pytest.mark.parametrize("name", CAPTURES)
def test_usage_is_taken_from_the_result_alone(name: str) -> None:
    _, result = play(capture_lines(name))
    stats = json.loads(capture_lines(name)[-1]).get("stats", {})
    assert result.usage.total == stats.get("total_tokens", 0)
    assert result.usage.input_tokens == stats.get("input", 0)


FAILED = (
    b"Attempt 1 failed with status 500. Retrying with backoff... _ApiError: "
    b'{"error":{"code":500,"message":"An internal error has occurred.","status":"INTERNAL"}}'
)
REFUSED = (
    b"Attempt 2 failed. Retrying with backoff... Error: exception TypeError: fetch failed sending"
)
LIMITED = (
    b"Attempt 1 failed: Resource has been exhausted (e.g. check quota).",
    b"Suggested retry after 300s.. Retrying after 322637ms...",
)
OVER = b'Attempt 3 failed: {"error":{"code":500,"message":"x"}}. Max attempts reached'


def test_calls_that_are_made_again_are_retries() -> None:
    recorder = make_recorder()
    normalizer = GeminiNormalizer(recorder, retry_seconds=60.0)
    lines = capture_lines("headless-hello.jsonl")
    normalizer.feed(lines[0])
    for line in (FAILED, b"    at somewhere (file.js:1:2)", b"  status: 500", REFUSED, OVER):
        normalizer.feed_stderr(line)
    assert recorder.patience is not None
    for line in lines[1:]:
        normalizer.feed(line)
    assert recorder.patience is None
    normalizer.finish(ProcessExit(code=0))
    retries = [event for event in recorder.drain() if isinstance(event, ev.Retry)]
    assert [(each.attempt, each.error.kind) for each in retries] == [
        (1, "unavailable"),
        (2, "unavailable"),
    ]
    assert recorder.result().status == "completed"


def test_a_pause_of_minutes_is_not_waited_for() -> None:
    recorder = make_recorder()
    normalizer = GeminiNormalizer(recorder, retry_seconds=60.0)
    for line in LIMITED:
        normalizer.feed_stderr(line)
    assert recorder.stop_requested is not None
    assert recorder.stop_requested.kind == "rate_limited"
    assert recorder.stop_requested.until is not None


def test_a_pause_that_is_allowed_is_waited_for() -> None:
    recorder = make_recorder()
    normalizer = GeminiNormalizer(recorder, retry_seconds=400.0)
    for line in LIMITED:
        normalizer.feed_stderr(line)
    assert recorder.stop_requested is None
    (retry,) = [event for event in recorder.drain() if isinstance(event, ev.Retry)]
    assert retry.delay_ms == 322637


@pytest.mark.parametrize(
    ("status", "kind"), [(503, "overloaded"), (429, "rate_limited")], ids=["503", "429"]
)
def test_an_error_that_only_the_lines_about_earlier_calls_name(status: int, kind: str) -> None:
    """Version 0.45.2 hides the cause in its result."""
    recorder = make_recorder()
    normalizer = GeminiNormalizer(recorder, retry_seconds=60.0)
    normalizer.feed(b'{"type":"init","session_id":"s","model":"m"}')
    said = json.dumps({"error": {"code": status, "message": "The model is overloaded."}})
    failed = f"Attempt 2 failed with status {status}. Retrying with backoff... _ApiError: {said}"
    normalizer.feed_stderr(failed.encode())
    normalizer.feed(
        b'{"type":"result","status":"error","error":{"type":"unknown",'
        b'"message":"[API Error: An unknown error occurred.]"},"stats":{}}'
    )
    normalizer.finish(ProcessExit(code=1))
    error = recorder.result().error
    assert error is not None
    assert error.kind == kind
