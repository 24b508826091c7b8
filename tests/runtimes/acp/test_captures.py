"""Every recorded conversation through the state machine: what it sends, and what comes out."""

from typing import Any

import pytest

from bridle.core import events as ev
from bridle.core.usage import Usage
from bridle.runtimes.acp import quirks
from tests.runtimes.acp.captures import CAPTURES, Played, parts, row_of, short

EVERY = [(name, number) for name in CAPTURES for number in range(len(parts(name)))]

START = ["session_start", "state", "agent_start"]
MESSAGE = ["message_start", "text_start", "text_delta", "text_end", "message_end"]
ASKED = ["state", "permission_request", "permission_decision", "state"]
END = ["usage", "agent_end", "state", "session_end"]


def play(name: str, number: int, **options: Any) -> Played:
    return Played(parts(name)[number], row_of(name), **options)


@pytest.mark.parametrize(("name", "number"), EVERY)
def test_it_sends_what_the_recorded_client_sent(name: str, number: int) -> None:
    part = parts(name)[number]
    played = Played(part, row_of(name))
    for method in ("session/new", "session/load", "session/set_mode", "session/prompt"):
        recorded = [
            message["params"]
            for way, message in [*part.opening, part.turn[0]]
            if way == ">" and message.get("method") == method
        ]
        assert played.requests(method) == recorded
    asked = {
        message["id"]
        for way, message in part.turn
        if way == "<" and message.get("method") == "session/request_permission"
    }
    for call_id in asked:
        assert played.answers[call_id] == played.expected[call_id]


@pytest.mark.parametrize(("name", "number"), EVERY)
def test_every_call_of_the_agent_is_answered(name: str, number: int) -> None:
    part = parts(name)[number]
    played = Played(part, row_of(name))
    for way, message in part.turn:
        if way == "<" and "method" in message and "id" in message:
            answer = played.answers[message["id"]]
            if message["method"] != "session/request_permission":
                assert answer["code"] == -32601, "files and terminals were not offered"


@pytest.mark.parametrize(("name", "number"), EVERY)
def test_the_text_is_that_of_the_turn_alone(name: str, number: int) -> None:
    part = parts(name)[number]
    played = Played(part, row_of(name))
    told = "".join(
        message["params"]["update"]["content"].get("text", "")
        for way, message in part.turn
        if way == "<"
        and message.get("method") == "session/update"
        and message["params"]["update"]["sessionUpdate"] == "agent_message_chunk"
    )
    ours = "".join(event.text for event in played.of(ev.MessageEnd))
    notices = "".join(
        event.raw["params"]["update"]["content"]["text"]
        for event in played.of(ev.Unknown)
        if event.raw.get("method") == "session/update"
    )
    retries = "".join(event.error.message for event in played.of(ev.Retry))
    assert len(ours) + len(notices) + len(retries) == len(told)
    assert all(event.text in told for event in played.of(ev.MessageEnd))


@pytest.mark.parametrize(
    ("name", "number", "tool"),
    [
        ("claude-agent-acp.jsonl", 1, "Write"),
        ("claude-agent-acp.jsonl", 2, "Bash"),
        ("cline.jsonl", 2, "run_commands"),
        ("cline-write.jsonl", 0, "run_commands"),
        ("gemini-nofs.jsonl", 0, "write_file"),
        ("gemini-fs-new-file-fails.jsonl", 2, "run_shell_command"),
    ],
)
def test_a_turn_with_an_approved_tool(name: str, number: int, tool: str) -> None:
    played = play(name, number)
    tools = ["tool_execution_start", *ASKED, "tool_execution_end"]
    assert short(played.trace) == [*START, *MESSAGE, *tools, *MESSAGE, *END]
    assert [event.tool_name for event in played.of(ev.ToolExecutionStart)] == [tool]
    assert [event.is_error for event in played.of(ev.ToolExecutionEnd)] == [False]
    assert played.result.status == "completed"


@pytest.mark.parametrize(
    ("name", "number", "before"),
    [
        ("opencode.jsonl", 1, []),
        ("opencode-load-401.jsonl", 0, []),
        ("cline-write.jsonl", 1, []),
        ("codex-acp-auto-write.jsonl", 0, ["unknown"]),
        ("codex-acp-1.jsonl", 0, []),
        ("codex-acp-1.7.jsonl", 0, []),
        ("codex-acp-2.jsonl", 0, []),
    ],
)
def test_a_turn_with_a_tool_that_nobody_asked_about(
    name: str, number: int, before: list[str]
) -> None:
    played = play(name, number)
    tools = ["tool_execution_start", "tool_execution_end"]
    assert short(played.trace) == [*START, *before, *MESSAGE, *tools, *MESSAGE, *END]


@pytest.mark.parametrize("version", ["1", "1.7", "2"])
def test_a_text_after_the_mark_of_a_failure_is_its_reason(version: str) -> None:
    played = play(f"codex-acp-{version}.jsonl", 1)
    assert played.result.status == "failed"
    assert played.result.error is not None
    assert played.result.error.kind == "unavailable"
    assert "high demand" in played.result.error.message
    assert played.result.text == ""


def test_with_bypass_every_request_is_allowed_and_none_is_shown() -> None:
    played = play("copilot.jsonl", 2, permission_mode="bypass")
    tools = ["tool_execution_start", "tool_execution_update", "tool_execution_end"]
    assert short(played.trace) == [*START, *MESSAGE, *tools, *MESSAGE, *END]
    assert list(played.answers.values()) == [
        {"outcome": {"outcome": "selected", "optionId": "allow_once"}}
    ]


def test_a_denied_tool_of_which_the_agent_says_nothing_more_is_ended() -> None:
    played = play("gemini-load-deny-401.jsonl", 0)
    (end,) = played.of(ev.ToolExecutionEnd)
    assert (end.is_error, end.synthetic, end.result) == (True, True, "not now")
    assert played.trace.index("tool_execution_end") < played.trace.index("usage") - 5


def test_arguments_that_come_late_are_waited_for() -> None:
    (start,) = play("opencode.jsonl", 2).of(ev.ToolExecutionStart)
    assert start.args["command"] == "echo ran-by-tool && pwd"
    (start,) = play("claude-agent-acp.jsonl", 1).of(ev.ToolExecutionStart)
    assert start.args["content"] == "hi from tool\n"


def test_a_tool_that_is_announced_twice_starts_once() -> None:
    played = play("cline-write.jsonl", 0)
    assert len(played.of(ev.ToolExecutionStart)) == len(played.of(ev.ToolExecutionEnd)) == 1


def test_thoughts_and_text_are_one_message() -> None:
    for name, number in (("opencode.jsonl", 3), ("claude-agent-acp.jsonl", 3), ("cline.jsonl", 3)):
        thoughts = ["message_start", "thinking_start", "thinking_delta", "thinking_end"]
        assert short(play(name, number).trace) == [*START, *thoughts, *MESSAGE[1:], *END]


@pytest.mark.parametrize(
    ("name", "number", "usage"),
    [
        # Copilot's counts are the session's so far, cache included in the input.
        ("copilot.jsonl", 0, Usage(input_tokens=70, output_tokens=20, cache_read_tokens=30)),
        (
            "claude-agent-acp.jsonl",
            1,
            Usage(input_tokens=200, output_tokens=40, cache_read_tokens=22, cache_write_tokens=14),
        ),
        ("gemini-nofs.jsonl", 0, Usage()),
        # The last call only, or nothing: these are read from files.
        ("opencode.jsonl", 1, Usage()),
        ("cline.jsonl", 2, Usage()),
        ("codex-acp-auto-write.jsonl", 0, Usage()),
    ],
)
def test_usage_by_what_each_agent_means(name: str, number: int, usage: Usage) -> None:
    assert play(name, number).result.usage == usage


@pytest.mark.parametrize(
    ("name", "number", "kind"),
    [
        ("cline-load-401.jsonl", 1, "not_authenticated"),
        ("codex-acp-load-401.jsonl", 1, "not_authenticated"),
        ("copilot-load-deny-401.jsonl", 1, "not_authenticated"),
        ("gemini-load-deny-401.jsonl", 1, "not_authenticated"),
        ("opencode-load-401.jsonl", 1, "not_authenticated"),
        ("claude-agent-acp-load-deny.jsonl", 1, "crashed"),
        ("opencode.jsonl", 4, "aborted"),
    ],
)
def test_failures(name: str, number: int, kind: str) -> None:
    result = play(name, number).result
    assert result.error is not None
    assert result.error.kind == kind


def test_retries_that_are_told_as_text_are_retries() -> None:
    played = play("copilot-load-deny-401.jsonl", 1)
    assert [event.attempt for event in played.of(ev.Retry)] == [1, 2]
    assert played.result.text == ""


@pytest.mark.parametrize("name", [name for name in CAPTURES if "load" in name])
def test_old_turns_that_are_told_again_are_no_events(name: str) -> None:
    played = play(name, 0)
    texts = [event.text.strip() for event in played.of(ev.MessageEnd)]
    assert "I will write the file now." in texts
    assert not any("Hello from" in text or "Thought about" in text for text in texts)
    assert played.result.native_session_id == parts(name)[0].turn[0][1]["params"]["sessionId"]


def test_the_table_names_a_capture_for_each_row() -> None:
    rows = (quirks.CLAUDE, quirks.CLINE, quirks.CODEX_FLAGS, quirks.COPILOT, quirks.GEMINI)
    for row in (*rows, quirks.OPENCODE):
        assert row.capture in CAPTURES
        assert row.seen
