"""Captures of OpenCode's wire in, normalized events out."""

import json

import pytest

from bridle.core import events as ev
from bridle.core.usage import Usage
from tests.runtimes.opencode.captures import TESTDATA, capture_lines, play
from tests.support.driving import kinds

CAPTURES = sorted(
    str(path.relative_to(TESTDATA))
    for pattern in ("run-*.jsonl", "v*/run*.jsonl")
    for path in TESTDATA.glob(pattern)
)
STEP = ("message_start", "text_start", "text_delta", "text_end", "message_end")
TOOL = ("tool_execution_start", "tool_execution_end")
END = ("usage", "agent_end", "state", "session_end")
BEGIN = ("session_start", "state", "agent_start")


@pytest.mark.parametrize("name", ["run-write.jsonl", "run-bash.jsonl"])
def test_a_tool_run_gives_the_common_events(name: str) -> None:
    events, result = play(capture_lines(name))
    assert kinds(events) == [*BEGIN, *STEP, *TOOL, *STEP, *END]
    assert result.status == "completed"
    assert result.model == "lab/scripted"
    assert result.usage == Usage(input_tokens=140, output_tokens=40, cache_read_tokens=60)
    assert result.cost_usd == pytest.approx(0.000226)
    assert result.cost_source == "provider"


def test_text_that_comes_after_its_tool_is_still_said_before_it() -> None:
    lines = capture_lines("run-inline.jsonl")
    order = [json.loads(line)["type"] for line in lines]
    assert order.index("tool_use") < order.index("text")
    events, result = play(lines)
    assert kinds(events) == [*BEGIN, *STEP, *TOOL, *STEP, *END]
    assert result.status == "completed"


def test_thinking_is_told_whole() -> None:
    events, result = play(capture_lines("run-think.jsonl"))
    seen = kinds(events)
    assert seen.count("thinking_start") == seen.count("thinking_end") == 1
    assert seen.index("thinking_end") < seen.index("text_start")
    assert result.status == "completed"


def test_a_refused_permission_that_ends_the_run_is_no_success() -> None:
    stderr = capture_lines("run-perm-ask.stderr")
    events, result = play(capture_lines("run-perm-ask.jsonl"), stderr=stderr)
    decisions = [event for event in events if isinstance(event, ev.PermissionDecision)]
    assert [(each.decision, each.tool_name) for each in decisions] == [("deny", "write")]
    assert result.status == "failed"
    assert result.error is not None
    assert result.error.kind == "guard_refused"
    assert "permission" in result.error.hint


def test_a_rule_that_forbids_a_call_does_not_end_the_work() -> None:
    events, result = play(capture_lines("run-perm-push.jsonl"))
    assert [e.by for e in events if isinstance(e, ev.PermissionDecision)] == ["opencode"]
    assert result.status == "completed"
    ends = [event for event in events if isinstance(event, ev.ToolExecutionEnd)]
    assert [end.is_error for end in ends] == [True]


def test_an_error_line_is_the_reason_of_the_failure() -> None:
    events, result = play(capture_lines("run-e401.jsonl"), code=1)
    assert kinds(events) == [*BEGIN, "error", *END]
    assert result.error is not None
    assert result.error.kind == "not_authenticated"


def test_a_run_that_was_killed_failed() -> None:
    _, result = play(capture_lines("run-sTERM.jsonl"), code=-15)
    assert result.status == "failed"
    assert result.error is not None
    assert result.error.kind == "crashed"


def test_exit_status_0_alone_proves_nothing() -> None:
    lines = capture_lines("run-hello.jsonl")[:-1]
    _, result = play(lines, code=0)
    assert result.error is not None
    assert result.error.kind == "crashed"


@pytest.mark.parametrize(
    ("reason", "kind"), [("length", "context_overflow"), ("content-filter", "unavailable")]
)
def test_an_answer_that_was_cut_off_is_no_success(reason: str, kind: str) -> None:
    lines = capture_lines("run-hello.jsonl")
    lines[-1] = lines[-1].replace(b'"reason": "stop"', f'"reason": "{reason}"'.encode())
    _, result = play(lines)
    assert result.error is not None
    assert result.error.kind == kind
    assert result.text.startswith("Hello")


@pytest.mark.parametrize("name", CAPTURES)
def test_usage_is_counted_once(name: str) -> None:
    _, result = play(capture_lines(name))
    steps = [json.loads(line)["part"] for line in capture_lines(name) if b"step_finish" in line]
    total = sum(step["tokens"]["total"] for step in steps)
    assert result.usage.total == total
    assert (result.cost_usd or 0.0) == pytest.approx(sum(step["cost"] for step in steps))


def test_a_budget_is_kept_between_steps() -> None:
    _, result = play(capture_lines("run-write.jsonl"), budget_usd=0.0001)
    assert result.status == "budget_exceeded"


def test_a_budget_over_a_model_without_price_is_refused() -> None:
    lines = [
        line.replace(b'"cost": 0.000113', b'"cost": 0') for line in capture_lines("run-write.jsonl")
    ]
    _, result = play(lines, budget_usd=5.0)
    assert result.error is not None
    assert "price" in result.error.message
