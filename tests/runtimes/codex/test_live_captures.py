"""The live wire of Codex on captures: the events of whole conversations, and their errors."""

import json
from pathlib import Path
from typing import Any

import pytest

from bridle.core import events as ev
from bridle.core.usage import Usage
from bridle.runtimes.codex.stream import turn_error
from tests.runtimes.codex.captures import TESTDATA, types
from tests.runtimes.codex.wire_bench import CAPTURES, left, play_capture, times
from tests.support.driving import check_order


@pytest.mark.parametrize("path", CAPTURES, ids=lambda path: f"{path.parts[-3]}-{path.stem}")
def test_every_capture_keeps_the_order(path: Path) -> None:
    stage = play_capture(path)
    assert stage.recorder.is_ready
    check_order(left(stage))
    known = ("deprecationNotice",)
    strange = [each.raw for each in stage.events if isinstance(each, ev.Unknown)]
    assert [each for each in strange if each["method"] not in known] == []


@pytest.mark.parametrize("version", ["0.120.0", "0.166.0"])
def test_a_conversation_has_the_events_of_runs(version: str) -> None:
    stage = play_capture(TESTDATA / version / "appserver/basic_two_turns.jsonl")
    joined: list[str] = []
    for kind in types(stage.events):
        if not (kind.endswith("_delta") and joined[-1:] == [kind]):
            joined.append(kind)
    text = ["text_start", "text_delta", "text_end", "message_end"]
    assert joined == [
        *("session_start", "state", "state", "agent_start", "message_start"),
        *("thinking_start", "thinking_delta", "thinking_end", *text),
        *("tool_execution_start", "tool_execution_end", "message_start", *text),
        *("usage", "agent_end", "state"),
        *("state", "agent_start", "message_start", *text, "usage", "agent_end", "state"),
    ]
    ended = next(each for each in stage.events if isinstance(each, ev.ToolExecutionEnd))
    assert ended.tool_name == "command_execution"
    assert ended.result == {"output": "hi\n", "exit_code": 0}
    assert [each.usage for each in stage.ends()] == [times(2), times(1)]
    assert stage.recorder.usage == times(3)
    assert stage.recorder.model == "gpt-5.5"


STEERED: dict[str, Any] = {
    "0.120.0/appserver/steer_interrupt_compact_images.jsonl": (
        [(2, "completed"), (0, "aborted"), (1, "aborted"), *[(1, "completed")] * 3],
        {"s4": True, "s8": False},
        "gpt-5.4",
        times(6) + Usage(input_tokens=100, output_tokens=20),
    ),
    "0.166.0/appserver/steer_interrupt_followup_compact_images.jsonl": (
        [
            *((4, "completed"), (0, "aborted"), (1, "aborted"), (1, "completed")),
            *((2, "completed"), (1, "completed"), (2, "completed"), (1, "completed")),
        ],
        {"s5": True},
        "gpt-6.1-sol",
        times(13),
    ),
}


@pytest.mark.parametrize("name", STEERED)
def test_steers_aborts_compaction_and_models(name: str) -> None:
    turns, steers, model, used = STEERED[name]
    stage = play_capture(TESTDATA / name)
    assert [(each.usage, each.status) for each in stage.ends()] == [
        (times(count), status) for count, status in turns
    ]
    assert {key: stage.deliveries[key].taken for key in steers} == steers
    assert all(each.taken for key, each in stage.deliveries.items() if key.startswith("p"))
    assert stage.recorder.model == model
    # The compaction is a call of its own, in no turn.
    assert stage.recorder.usage == used
    asked = [each for each in stage.events if isinstance(each, ev.AutoCompactionStart)]
    assert asked[0].reason == "asked for"
    images = [each for each in stage.sent if "localImage" in json.dumps(each)]
    assert len(images) == 1


def test_permission_requests_and_their_answers() -> None:
    stage = play_capture(TESTDATA / "0.120.0/appserver/approvals_mcp_patch.jsonl")
    asked = [each for each in stage.events if isinstance(each, ev.PermissionRequest)]
    assert [each.tool_name for each in asked] == [
        *("mcp_tool_call", "command_execution", "file_change", "command_execution")
    ]
    assert asked[0].args == {"server": "toy", "tool": "tell", "arguments": {}}
    assert asked[2].args["changes"][0]["kind"] == "add"
    assert "n.txt" in asked[3].args["command"]
    answers = [each["result"] for each in stage.sent if "result" in each]
    assert answers[0] == {"action": "accept", "content": {}}
    assert [each["decision"] for each in answers[1:]] == ["accept", "accept", "decline"]
    decided = [each for each in stage.events if isinstance(each, ev.PermissionDecision)]
    # The refused command is told once, not once more by its item.
    assert [each.decision for each in decided] == ["allow", "allow", "allow", "deny"]
    ended = [each for each in stage.events if isinstance(each, ev.ToolExecutionEnd)]
    assert [each.is_error for each in ended] == [False, False, False, True]
    assert ended[0].result["content"][0]["text"] == "told 0"


def test_a_failed_turn_is_typed_and_the_next_one_works() -> None:
    stage = play_capture(TESTDATA / "0.120.0/appserver/failed_then_good.jsonl")
    first, second = stage.ends()
    assert first.error is not None
    assert (first.error.kind, second.status) == ("not_authenticated", "completed")
    retries = [each for each in stage.events if isinstance(each, ev.Retry)]
    assert [(each.attempt, each.error.kind) for each in retries] == [(1, "not_authenticated")]
    limit = play_capture(TESTDATA / "0.120.0/appserver/usage_limit.jsonl").ends()[0]
    assert limit.error is not None
    assert (limit.error.kind, limit.error.until) == ("rate_limited", "2030-03-17T17:46:00Z")


def test_every_captured_error_is_typed() -> None:
    kinds = []
    for line in (TESTDATA / "0.166.0/appserver/errors.jsonl").read_text().splitlines():
        message = json.loads(line)["msg"]
        if message.get("method") == "turn/completed":
            error = message["params"]["turn"]["error"]
            kinds.append(turn_error(error["message"], info=error["codexErrorInfo"]).kind)
    assert kinds == [
        *("billing", "rate_limited", "context_overflow", "unavailable", "not_authenticated")
    ]


@pytest.mark.parametrize(
    ("info", "kind"),
    [
        ("serverOverloaded", "overloaded"),
        ("unauthorized", "not_authenticated"),
        ({"responseTooManyFailedAttempts": {"httpStatusCode": 429}}, "rate_limited"),
        ({"httpConnectionFailed": {"httpStatusCode": None}}, "unavailable"),
        ("somethingNew", "unavailable"),
        (None, "unavailable"),
    ],
)
def test_where_words_say_nothing_codex_own_name_counts(info: Any, kind: str) -> None:
    assert turn_error("It did not work.", info=info).kind == kind
