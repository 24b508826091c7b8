"""Every recorded stream of Claude Code: order, sums, and how it ended."""

from pathlib import Path

import msgspec
import pytest

from bridle.core import events as ev
from tests.runtimes.claude.captures import (
    STREAMS,
    TESTDATA,
    Replay,
    check_order,
    read_lines,
    replay,
)

OUTCOMES: dict[str, tuple[str, str | None]] = {
    "bidi_init.stdout": ("aborted", "aborted"),
    "bidi_two.stdout": ("aborted", "aborted"),
    "error_400_credit": ("failed", "billing"),
    "error_400_other": ("failed", "unavailable"),
    "error_400_prompt_too_long": ("failed", "context_overflow"),
    "error_401": ("failed", "not_authenticated"),
    "error_403": ("failed", "not_authenticated"),
    "error_404_model": ("failed", "unavailable"),
    "error_413": ("failed", "context_overflow"),
    "error_429": ("failed", "rate_limited"),
    "error_500": ("failed", "unavailable"),
    "error_529": ("failed", "overloaded"),
    "error_529_default_10_retries": ("failed", "overloaded"),
    "error_max_output_tokens": ("failed", "context_overflow"),
    "error_not_logged_in": ("failed", "not_authenticated"),
    "error_refusal": ("failed", "unavailable"),
    "error_resume_not_found": ("failed", "resume_refused"),
    "error_unreachable": ("failed", "unavailable"),
    "hook_pretooluse_defer": ("aborted", "aborted"),
    "hook_userpromptsubmit_block": ("failed", "guard_refused"),
    "interrupt": ("aborted", "aborted"),
    "max_budget": ("budget_exceeded", "budget_exceeded"),
    "max_turns": ("budget_exceeded", "budget_exceeded"),
    "perm_deny_int.stdout": ("aborted", "aborted"),
    "perm_interrupt.stdout": ("aborted", "aborted"),
    "prompt_too_long": ("failed", "context_overflow"),
    "refusal": ("failed", "unavailable"),
    "sigint_streaming": ("aborted", "aborted"),
    "sigint_tool": ("aborted", "aborted"),
    "sigterm_tool": ("failed", "crashed"),
}
"""How each capture ended; those not named here completed."""


def test_there_are_captures() -> None:
    assert len(STREAMS) > 60
    assert {path.stem for path in STREAMS} >= set(OUTCOMES)


@pytest.mark.parametrize("path", STREAMS, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_a_capture_keeps_the_order_and_ends_as_it_did(path: Path) -> None:
    done = Replay(read_lines(path))
    check_order(done.events)
    assert not done.of(ev.Unknown)
    status, kind = OUTCOMES.get(path.stem, ("completed", None))
    assert (done.result.status, done.result.error and done.result.error.kind) == (status, kind)


@pytest.mark.parametrize("path", STREAMS, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_an_update_is_output_and_not_the_command(path: Path) -> None:
    done = Replay(read_lines(path))
    given = [start.args for start in done.of(ev.ToolExecutionStart) if isinstance(start.args, dict)]
    told = {str(args.get(name)) for args in given for name in ("command", "description")}
    assert not [each.text for each in done.of(ev.ToolExecutionUpdate) if each.text in told]


KILLED = "sigterm_tool"
"""The one capture whose process gave no totals."""


@pytest.mark.parametrize(
    "path",
    [path for path in STREAMS if path.stem != KILLED],
    ids=lambda path: f"{path.parent.name}/{path.stem}",
)
def test_usage_is_that_of_the_last_result(path: Path) -> None:
    lines = [msgspec.json.decode(line) for line in read_lines(path)]
    totals = [line["modelUsage"] for line in lines if line.get("type") == "result"]
    usage = Replay(read_lines(path)).result.usage
    models = totals[-1].values()
    assert usage.input_tokens == sum(model["inputTokens"] for model in models)
    assert usage.output_tokens == sum(model["outputTokens"] for model in models)


def test_a_turn_with_thinking_text_and_a_tool() -> None:
    done = replay("stream/partial_messages.jsonl")
    assert done.trace == [
        "session_start",
        "state",
        "agent_start",
        "message_start",
        "thinking_start",
        *["thinking_delta"] * 6,
        "thinking_end",
        "text_start",
        *["text_delta"] * 5,
        "text_end",
        "message_end",
        "tool_execution_start",
        "tool_execution_end",
        "message_start",
        "text_start",
        *["text_delta"] * 2,
        "text_end",
        "message_end",
        "usage",
        "agent_end",
        "state",
        "session_end",
    ]
    assert not any(event.synthetic for event in done.events)
    first, last = done.of(ev.MessageEnd)
    assert (first.text, first.stop_reason) == ("I will write the file.", "tool_use")
    assert (first.usage.input_tokens, first.usage.output_tokens) == (100, 20)
    assert (last.text, last.model) == ("Done. ORCHESTRA_COMPLETE", "claude-opus-4-8")
    start, end = done.of(ev.ToolExecutionStart)[0], done.of(ev.ToolExecutionEnd)[0]
    assert start.tool_name == "Bash"
    assert start.args["command"] == "echo hi > hello.txt && cat hello.txt"
    assert (end.is_error, end.result) == (False, "hi")
    assert done.result.marker_detected
    assert done.result.text == "Done. ORCHESTRA_COMPLETE"
    assert (done.result.cost_usd, done.result.cost_source) == (0.002, "provider")
    assert (done.result.usage.input_tokens, done.result.usage.output_tokens) == (200, 40)


def test_a_stream_without_pieces_gives_the_same_kinds() -> None:
    done = replay("stream/success_tool_thinking.jsonl")
    assert done.trace == [
        "session_start",
        "state",
        "agent_start",
        "message_start",
        *["thinking_start", "thinking_delta", "thinking_end"],
        *["text_start", "text_delta", "text_end"],
        "message_end",
        "tool_execution_start",
        "tool_execution_end",
        "message_start",
        *["text_start", "text_delta", "text_end"],
        "message_end",
        "usage",
        "agent_end",
        "state",
        "session_end",
    ]
    assert all(event.synthetic for event in done.of(ev.MessageUpdate))
    # The placeholder counts of an `assistant` line are nobody's usage.
    assert [event.usage for event in done.of(ev.MessageEnd)] == [None, None]


def test_parallel_tools_start_after_their_message_and_end_once() -> None:
    done = replay("stream/parallel_tools.jsonl")
    words = [word for word in done.trace if word.startswith(("tool", "message"))]
    assert words == [
        *["message_start", "message_end"],
        *["tool_execution_start"] * 3,
        *["tool_execution_end"] * 3,
        *["message_start", "message_end"],
    ]
    assert [event.is_error for event in done.of(ev.ToolExecutionEnd)] == [False, True, False]


def test_a_sub_agents_steps_are_updates_of_its_tool() -> None:
    done = replay("stream/subagent_foreground.jsonl")
    assert [event.text for event in done.of(ev.ToolExecutionUpdate)] == [
        "SUBTASK-MARK please",
        'Bash {"command":"echo from-sub","description":"sub echo"}',
        "from-sub",
    ]
    assert [event.tool_name for event in done.of(ev.ToolExecutionStart)] == ["Agent"]
    assert done.result.usage.input_tokens == 224


@pytest.mark.parametrize(
    ("name", "text", "tokens"),
    [
        ("stream/background_bash_two_results.jsonl", "noticed", (300, 60)),
        (
            "stream/subagent_background_two_results.jsonl",
            "parent done after notification",
            (324, 70),
        ),
        ("v2.1.325/subagent_default_background.jsonl", "parent done", (324, 70)),
    ],
)
def test_background_work_is_one_turn_that_the_last_result_judges(
    name: str, text: str, tokens: tuple[int, int]
) -> None:
    done = replay(name)
    assert len(done.of(ev.AgentStart)) == len(done.of(ev.AgentEnd)) == 1
    assert done.result.text == text
    assert (done.result.usage.input_tokens, done.result.usage.output_tokens) == tokens


def test_stdin_is_closed_when_no_background_task_is_left() -> None:
    lines = read_lines(TESTDATA / "stream/background_bash_two_results.jsonl")
    first = next(n for n, line in enumerate(lines) if b'"type":"result"' in line)
    assert not Replay(lines[: first + 1]).recorder.input_done
    assert Replay(lines).recorder.input_done


def test_retries_are_told_with_their_cause() -> None:
    done = replay("stream/retry_then_ok_429.jsonl")
    retries = done.of(ev.Retry)
    assert [(event.attempt, event.delay_ms) for event in retries] == [(1, 1000), (2, 1155)]
    assert {event.error.kind for event in retries} == {"rate_limited"}
    assert done.result.status == "completed"


def test_compaction_is_bracketed_and_its_tokens_counted() -> None:
    done = replay("stream/compact_auto_reactive.jsonl")
    words = [word for word in done.trace if "compaction" in word]
    assert words == ["auto_compaction_start", "auto_compaction_end"]
    assert done.of(ev.AutoCompactionEnd)[0].reason == "success"
    assert (done.result.usage.input_tokens, done.result.usage.output_tokens) == (458000, 2820)


def test_a_failed_compaction_says_why_and_is_no_failure_of_the_run() -> None:
    done = replay("stream/compact_not_enough.jsonl")
    assert done.of(ev.AutoCompactionEnd)[0].reason == "failed: Not enough messages to compact."
    assert done.result.status == "completed"


@pytest.mark.parametrize(
    "name",
    ["stream/permission_denied_default.jsonl", "v2.1.325/permission_denied.jsonl"],
)
def test_a_refused_tool_is_one_decision_of_claudes(name: str) -> None:
    (decision,) = replay(name).of(ev.PermissionDecision)
    assert (decision.by, decision.decision, decision.tool_name) == ("claude", "deny", "Write")
    assert "haven't granted it" in decision.reason


def test_a_cut_stream_that_claude_mended_is_a_success() -> None:
    done = replay("stream/sse_error_nonstream_fallback.jsonl")
    assert done.result.status == "completed"
    assert done.result.usage.output_tokens == 20
    # It came whole, so its own counts are the true ones.
    assert done.of(ev.MessageEnd)[0].usage.output_tokens == 20


@pytest.mark.parametrize(
    ("name", "kind"), [("error_401", "not_authenticated"), ("error_529", "overloaded")]
)
def test_a_version_that_has_the_status_only_in_its_text(name: str, kind: str) -> None:
    done = Replay(read_lines(TESTDATA / "v2.0.36" / f"{name}.jsonl"))
    check_order(done.events)
    assert done.result.error is not None
    assert done.result.error.kind == kind
