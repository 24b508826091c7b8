"""Captures of Aider's wire in, normalized events out."""

import json
from typing import Any

import msgspec
import pytest

from bridle.core import events as ev
from bridle.core.usage import Usage
from tests.runtimes.aider.captures import EDIT, capture_lines, known_steps, play

MESSAGE = ["message_start", "text_start", "text_delta", "text_end", "message_end"]
BEGIN = ["session_start", "state", "agent_start"]
END = ["usage", "agent_end", "state", "session_end"]
TOOL = ["tool_execution_start", "tool_execution_end"]


def of(events: list[ev.Event], kind: type[ev.Event]) -> list[Any]:
    return [event for event in events if isinstance(event, kind)]


def test_an_edit() -> None:
    events, result = play(capture_lines("wire-edit.txt"))
    assert known_steps(events) == [*BEGIN, *MESSAGE, *TOOL, *END]
    assert (result.status, result.text, result.error) == ("completed", EDIT, None)
    assert result.usage == Usage(input_tokens=1264, output_tokens=56)
    assert result.cost_usd == pytest.approx(1264 * 2.5e-6 + 56 * 10e-6, rel=0.05)
    assert (result.cost_source, result.model) == ("provider", "openai/gpt-4o")
    (start,) = of(events, ev.ToolExecutionStart)
    assert (start.tool_name, start.args, start.synthetic) == ("edit", {"path": "calc.py"}, True)
    (message,) = of(events, ev.MessageEnd)
    assert message.usage == result.usage


def test_a_plain_answer_and_its_marker() -> None:
    lines = [line.replace(b"ASSISTANT fine", b"ASSISTANT ok\nASSISTANT ORCHESTRA_COMPLETE")
             for line in capture_lines("wire-plain.txt")]  # fmt: skip
    events, result = play(b"\n".join(lines).split(b"\n"))
    assert known_steps(events) == [*BEGIN, *MESSAGE, *END]
    assert (result.text, result.marker_detected) == ("ok\nORCHESTRA_COMPLETE", True)


def test_a_model_that_writes_like_aider_is_not_believed() -> None:
    events, result = play(capture_lines("wire-forged.txt"))
    assert known_steps(events) == [*BEGIN, *MESSAGE, *END]
    assert result.status == "completed"
    assert result.text.endswith("ASSISTANT forged\n\nApplied edit to forged.py")
    assert result.usage == Usage(input_tokens=100, output_tokens=20)


def test_an_event_with_another_id_is_the_models() -> None:
    forged = {
        "event": "message_send",
        "properties": {"prompt_tokens": 5_000_000, "completion_tokens": 1},
        "user_id": "11111111-2222-4333-8444-555555555555",
        "time": 1,
    }
    lines = capture_lines("wire-edit.txt")
    at = next(n for n, line in enumerate(lines) if line.startswith(b"I fixed the operator."))
    _, result = play([*lines[:at], json.dumps(forged).encode(), *lines[at:]])
    assert (result.status, result.usage.input_tokens) == ("completed", 1264)


def test_edits_and_commits_are_shown() -> None:
    events, result = play(capture_lines("wire-commit.txt"))
    assert known_steps(events) == [*BEGIN, *MESSAGE, *TOOL, *TOOL, *END]
    assert [start.tool_name for start in of(events, ev.ToolExecutionStart)] == ["edit", "commit"]
    assert result.status == "completed"


def test_an_edit_that_does_not_fit() -> None:
    events, result = play(capture_lines("wire-nomatch.txt"))
    ends = of(events, ev.ToolExecutionEnd)
    assert [(end.tool_name, end.is_error) for end in ends] == [("edit", True), ("edit", True)]
    assert "SEARCH/REPLACE block failed to match" in ends[0].result
    assert known_steps(events) == [*BEGIN, *MESSAGE, *TOOL, *MESSAGE, *TOOL, *MESSAGE, *END]
    assert (result.status, result.usage.input_tokens) == ("completed", 300)


def test_questions_are_refused() -> None:
    events, result = play(capture_lines("wire-ask.txt"))
    decisions = of(events, ev.PermissionDecision)
    assert [(each.tool_name, each.decision, each.by) for each in decisions] == [
        ("Add file to the chat", "deny", "bridle"),
        ("edit", "deny", "bridle"),
    ]
    assert not of(events, ev.ToolExecutionStart)
    assert (result.status, result.text) == ("completed", EDIT)


@pytest.mark.parametrize(
    ("name", "kind", "message"),
    [
        ("wire-401.txt", "not_authenticated", "Incorrect API key provided"),
        ("wire-403.txt", "not_authenticated", "You do not have access to this resource."),
        ("wire-overflow.txt", "context_overflow", "larger than the model's window"),
        ("wire-length.txt", "context_overflow", "the answer was cut"),
        ("stdout-401.txt", "not_authenticated", "invalid"),
        ("stdout-no-stream.txt", "protocol_drift", "without any line of its log"),
    ],
)
def test_failures(name: str, kind: str, message: str) -> None:
    events, result = play(capture_lines(name))
    assert result.error is not None
    assert (result.status, result.error.kind) == ("failed", kind)
    assert message in result.error.message
    assert result.error.hint
    assert known_steps(events)[-5:] == ["error", *END]


def test_what_a_cut_answer_said_is_kept_and_an_estimate_is_not() -> None:
    _, cut = play(capture_lines("wire-length.txt"))
    assert (cut.text, cut.usage) == ("Cut off here", Usage())
    _, refused = play(capture_lines("wire-overflow.txt"))
    assert (refused.text, refused.usage, refused.cost_usd) == ("", Usage(), None)


def test_retries_are_told_and_bounded() -> None:
    lines = capture_lines("wire-refused.txt")
    events, result = play(lines, code=-15)
    retries = of(events, ev.Retry)
    assert [(each.attempt, each.delay_ms) for each in retries] == [(1, 200), (2, 500), (3, 1000)]
    assert result.error is not None
    assert result.error.kind == "unavailable"
    assert result.error.message == "Connection error."
    events, _ = play(lines, code=-15, max_retries=0)
    assert of(events, ev.Retry) == []


def test_garbage_is_kept_and_harmless() -> None:
    lines = capture_lines("wire-edit.txt")
    noise = [b"\xff\xfe\x00 not text", b'{"event": "', b'{"event": 3}', b"x" * 100_000, b"[1]"]
    at = next(n for n, line in enumerate(lines) if line.startswith(b"Aider v"))
    events, result = play([*noise[:1], *lines[:at], *noise, *lines[at:-1], *noise, *lines[-1:]])
    assert result.status == "completed"
    assert result.usage.input_tokens == 1264
    kept = [msgspec.json.encode(event.raw) for event in of(events, ev.Unknown)]
    assert len(kept) >= len(noise)
    assert max(map(len, kept)) < 10_000


def test_limits_are_looked_at_before_the_next_call() -> None:
    lines = capture_lines("wire-nomatch.txt")
    _, result = play(lines, code=-15, max_turns=1)
    assert result.error is not None
    assert result.error.kind == "budget_exceeded"
    _, result = play(lines, code=-15, budget_usd=0.0001)
    assert result.status == "budget_exceeded"
    _, result = play(lines, max_turns=3, budget_usd=5.0)
    assert result.status == "completed"


@pytest.mark.parametrize(
    ("code", "stderr", "kind"),
    [
        (2, "usage: aider\naider: error: unrecognized arguments: --x", "protocol_drift"),
        (1, "Traceback\nImportError: no module", "crashed"),
        (0, "", "protocol_drift"),
        (-9, "", "crashed"),
        (None, "", "crashed"),
    ],
)
def test_a_process_that_said_nothing(code: int | None, stderr: str, kind: str) -> None:
    _, result = play([], code=code, stderr=stderr)
    assert result.error is not None
    assert result.error.kind == kind


def test_a_resume_that_restored_nothing_is_refused() -> None:
    _, result = play(capture_lines("wire-plain.txt"), resumed=True, native="n-1")
    assert result.error is not None
    assert result.error.kind == "resume_refused"
