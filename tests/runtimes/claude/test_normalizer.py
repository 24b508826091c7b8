"""Questions, garbage, drift, resuming, secrets: what a stream may do beside going well."""

from typing import Any

import msgspec
import pytest

from bridle.core import events as ev
from bridle.core.options import RunOptions
from bridle.process.spec import ProcessExit
from bridle.runtimes.claude.stream import ClaudeNormalizer
from bridle.turns.recorder import Recorder
from tests.runtimes.claude.captures import TESTDATA, Replay, read_lines, replay

PARTIAL = read_lines(TESTDATA / "stream/partial_messages.jsonl")


def line(**fields: Any) -> bytes:
    return msgspec.json.encode(fields)


def asking() -> tuple[Recorder, ClaudeNormalizer]:
    recorder = Recorder(runtime="claude", session_id="s", options=RunOptions(prompt="go"))
    normalizer = ClaudeNormalizer(recorder)
    for each in read_lines(TESTDATA / "bidi/perm_allow.stdout.jsonl"):
        normalizer.feed(each)
        if recorder.questions:
            break
    return recorder, normalizer


def test_a_permission_request_becomes_a_question_with_claudes_answers() -> None:
    recorder, _ = asking()
    (question,) = recorder.questions
    assert question.tool_name == "Bash"
    assert question.tool_call_id is not None
    allowed = msgspec.json.decode(question.answer(True, ""))["response"]
    assert allowed["request_id"] == question.request_id
    assert allowed["response"] == {"behavior": "allow", "updatedInput": question.args}
    refused = msgspec.json.decode(question.answer(False, "not now"))["response"]
    assert refused["response"] == {"behavior": "deny", "message": "not now"}
    assert question.answer(True, "").endswith(b"\n")
    words = [type(event) for event in recorder.drain()]
    assert words.index(ev.ToolExecutionStart) < words.index(ev.PermissionRequest)


def test_our_own_refusal_is_not_told_again_as_claudes() -> None:
    done = replay("bidi/perm_deny.stdout.jsonl")
    assert done.of(ev.PermissionRequest)
    assert not done.of(ev.PermissionDecision)


def test_another_control_request_is_answered_with_an_error() -> None:
    request = line(type="control_request", request_id="r9", request={"subtype": "mcp_message"})
    done = Replay([PARTIAL[0], request, PARTIAL[-1]])
    (reply,) = done.recorder.replies
    assert msgspec.json.decode(reply) == {
        "type": "control_response",
        "response": {
            "request_id": "r9",
            "subtype": "error",
            "error": "bridle does not answer mcp_message",
        },
    }
    assert not done.recorder.questions


def test_an_unknown_system_message_is_kept_whole() -> None:
    (unknown,) = Replay([line(type="system", subtype="novel", deep={"a": [1]})]).of(ev.Unknown)
    assert unknown.raw == {"type": "system", "subtype": "novel", "deep": {"a": [1]}}


def test_a_result_that_changed_its_shape_still_ends_the_run() -> None:
    result = msgspec.json.decode(PARTIAL[-1])
    result["permission_denials"] = {"moved": True}
    done = Replay([*PARTIAL[:-1], msgspec.json.encode(result)])
    assert done.result.status == "completed"
    assert done.result.usage.input_tokens == 200
    assert len(done.of(ev.Unknown)) == 1


def test_a_result_that_does_not_say_how_it_went_is_no_success() -> None:
    done = Replay([*PARTIAL[:-1], b'{"type":"result","is_error":"maybe","result":"x"}'])
    assert done.result.status == "failed"


def test_a_resumed_conversation_must_come_back() -> None:
    good = "6e61a0dd-fe8d-4bbc-a553-71efd7d19e85"
    assert Replay(PARTIAL, resumed=good).result.status == "completed"
    other = Replay(PARTIAL, resumed="11111111-2222-4333-8444-555555555555")
    assert other.recorder.stop_requested is not None
    assert other.result.error is not None
    assert other.result.error.kind == "resume_refused"


@pytest.mark.parametrize(
    ("exit", "kind"),
    [
        (ProcessExit(code=1, stderr_tail="error: unknown option '--nope'"), "protocol_drift"),
        (ProcessExit(code=1, stderr_tail="Error: Invalid MCP configuration:"), "protocol_drift"),
        (ProcessExit(code=1, stderr_tail="Not logged in · Please run /login"), "not_authenticated"),
        (
            ProcessExit(code=1, stderr_tail="No conversation found with session ID: x"),
            "resume_refused",
        ),
        (ProcessExit(code=1), "crashed"),
        (ProcessExit(code=0), "crashed"),
        (ProcessExit(code=-11, stderr_tail="unknown option"), "crashed"),
        (ProcessExit(code=143), "crashed"),
        (ProcessExit(code=130), "aborted"),
        (ProcessExit(code=None), "crashed"),
    ],
)
def test_a_process_that_gave_no_result_is_judged_by_its_end(exit: ProcessExit, kind: str) -> None:
    result = Replay([], exit=exit).result
    assert result.status != "completed"
    assert result.error is not None
    assert result.error.kind == kind


def test_the_raw_message_is_kept_when_asked_for() -> None:
    done = Replay(PARTIAL, include_raw=True)
    deltas = [event for event in done.of(ev.MessageUpdate) if event.kind == "text_delta"]
    assert deltas[0].raw["event"]["delta"]["text"] == "I "


def test_a_secret_cut_in_two_by_the_stream_does_not_pass() -> None:
    secret = "will write"
    lines = [each.replace(b'"I will write the file."', b'"x"') for each in PARTIAL]
    done = Replay(lines, secrets=(secret,))
    text = "".join(each.text for each in done.of(ev.MessageUpdate))
    assert secret not in text
    assert "I [redacted] the file." in text


def test_a_custom_model_has_no_price() -> None:
    lines = [each.replace(b"claude-opus-4-8[1m]", b"my-model") for each in PARTIAL]
    done = Replay(lines)
    assert (done.result.cost_usd, done.result.cost_source) == (None, "unknown")
    assert done.result.usage.input_tokens == 200


def test_a_budget_over_a_custom_model_ends_at_its_first_message() -> None:
    lines = [
        each.replace(b"claude-opus-4-8[1m]", b"my-model").replace(b"claude-opus-4-8", b"my-model")
        for each in PARTIAL
    ]
    done = Replay(lines, budget_usd=5.0)
    assert done.result.status == "budget_exceeded"
    assert done.result.error is not None
    assert "the price of my-model is not known" in done.result.error.message
    assert done.recorder.stop_requested is not None
    first = [type(event) for event in done.events].index(ev.MessageEnd)
    assert ev.AgentEnd not in [type(event) for event in done.events[:first]]
    # What Claude says itself, without a model call, costs nothing.
    told = line(
        type="assistant",
        error="rate_limit",
        message={
            "id": "m",
            "model": "<synthetic>",
            "content": [{"type": "text", "text": "Request rejected (429)"}],
            "usage": {"input_tokens": 0, "output_tokens": 0},
        },
    )
    done = Replay([PARTIAL[0], told], budget_usd=5.0, exit=ProcessExit(code=1))
    assert done.recorder.stop_requested is None


@pytest.mark.parametrize(
    ("text", "until"),
    [
        ("Claude AI usage limit reached|1794778760", "2026-11-15T21:39:20Z"),
        ("limit reached, resets at 1794778760", "2026-11-15T21:39:20Z"),
        ("Request rejected (429)", None),
    ],
)
def test_a_limit_tells_until_when_where_claude_does(text: str, until: str | None) -> None:
    init = PARTIAL[0]
    error = line(
        type="assistant",
        error="rate_limit",
        message={"id": "m", "model": "<synthetic>", "content": [{"type": "text", "text": text}]},
    )
    result = line(
        type="result", subtype="success", is_error=True, api_error_status=429, result=text
    )
    info = Replay([init, error, result]).result.error
    assert info is not None
    assert (info.kind, info.until) == ("rate_limited", until)
    limit = line(type="rate_limit_event", rate_limit_info={"resetsAt": 1794778760})
    info = Replay([init, limit, error, result]).result.error
    assert info is not None
    assert info.until == "2026-11-15T21:39:20Z"
