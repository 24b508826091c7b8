"""Captured streams in, events out."""

from pathlib import Path

import pytest

from bridle.core import events as ev
from bridle.core.options import RunOptions
from bridle.core.usage import Usage
from bridle.process.spec import ProcessExit
from tests.runtimes.codex.captures import (
    TESTDATA,
    play,
    play_file,
    put_rollout,
    types,
)

NEW, OLD = TESTDATA / "0.166.0/exec", TESTDATA / "0.120.0/exec"

SHELL = [
    "session_start",
    "state",
    "agent_start",
    "message_start",
    "thinking_start",
    "thinking_delta",
    "thinking_end",
    "text_start",
    "text_delta",
    "text_end",
    "message_end",
    "tool_execution_start",
    "tool_execution_end",
    "message_start",
    "text_start",
    "text_delta",
    "text_end",
    "message_end",
    "usage",
    "agent_end",
    "state",
    "session_end",
]


@pytest.mark.parametrize("folder", [OLD, NEW], ids=["0.120.0", "0.166.0"])
def test_a_shell_turn(folder: Path, tmp_path: Path) -> None:
    events, result = play_file(folder / "success_shell.jsonl", tmp_path)
    assert types(events) == SHELL
    start = next(event for event in events if isinstance(event, ev.ToolExecutionStart))
    assert start.tool_name == "command_execution"
    assert start.args == {"command": "/bin/bash -lc 'echo hi > codex.txt; cat codex.txt'"}
    end = next(event for event in events if isinstance(event, ev.ToolExecutionEnd))
    assert (end.is_error, end.result) == (False, {"output": "hi\n", "exit_code": 0})
    assert result.text in ("Done.", "Done. sh")
    reasoning = 20 if folder is NEW else 0
    assert result.usage == Usage(
        input_tokens=1200, cache_read_tokens=800, output_tokens=100, reasoning_tokens=reasoning
    )


def test_the_transcript_fills_in_model_and_reasoning(tmp_path: Path) -> None:
    put_rollout(
        tmp_path,
        "01a1e09b-295d-7ef1-84c1-5d7afa515c08",
        TESTDATA / "0.166.0/rollout/basic_shell_turn.jsonl",
    )
    _, result = play_file(NEW / "success_shell.jsonl", tmp_path)
    assert result.model == "gpt-5.5"
    assert result.usage.total == 2100


def test_a_resumed_run_counts_only_its_own_calls(tmp_path: Path) -> None:
    thread = "01a1e0e5-ff82-7ba2-b209-9af3673d39a1"
    source = TESTDATA / "0.120.0/rollout/usage_overflow_resume.jsonl"
    lines = source.read_bytes().splitlines()
    starts = [number for number, line in enumerate(lines) if b'"task_started"' in line]
    put_rollout(tmp_path, thread, source, upto=starts[1])
    options = RunOptions(prompt="go", resume=thread)
    from bridle.runtimes.codex.stream import CodexNormalizer
    from bridle.turns.recorder import Recorder

    recorder = Recorder(runtime="codex", session_id="s", options=options)
    normalizer = CodexNormalizer(recorder, str(tmp_path))
    put_rollout(tmp_path, thread, source, upto=starts[2])
    for line in (OLD / "resume_usage_is_cumulative.jsonl").read_bytes().splitlines():
        normalizer.feed(line)
    normalizer.finish(ProcessExit(code=0))
    result = recorder.result()
    assert result.status == "completed"
    assert result.usage == Usage(
        input_tokens=600, cache_read_tokens=400, output_tokens=50, reasoning_tokens=10
    )


def test_a_resumed_run_without_a_transcript_claims_no_usage_of_others(tmp_path: Path) -> None:
    thread = "01a1e0e5-ff82-7ba2-b209-9af3673d39a1"
    lines = (OLD / "resume_usage_is_cumulative.jsonl").read_bytes().splitlines()
    _, result = play(lines, home=tmp_path, options=RunOptions(prompt="go", resume=thread))
    assert result.status == "completed"
    assert result.usage == Usage()


@pytest.mark.parametrize(
    ("capture", "names"),
    [
        ("file_change_all_kinds", ["file_change"] * 4),
        ("mcp_approved", ["mcp_tool_call"] * 2),
        ("web_search_duplicate_id_key", ["web_search"]),
        ("collab_spawn_agent", ["collab_tool_call"]),
        ("todo_list", ["todo_list"]),
        ("code_mode_model", ["command_execution", "file_change"]),
    ],
)
def test_tools_keep_codex_own_names(capture: str, names: list[str], tmp_path: Path) -> None:
    events, _ = play_file(NEW / f"{capture}.jsonl", tmp_path)
    ended = [event for event in events if isinstance(event, ev.ToolExecutionEnd)]
    assert [event.tool_name for event in ended] == names
    assert not any(event.synthetic for event in ended)


def test_failed_and_refused_tools_are_errors_of_the_tool_alone(tmp_path: Path) -> None:
    events, result = play_file(NEW / "command_failed.jsonl", tmp_path)
    end = next(event for event in events if isinstance(event, ev.ToolExecutionEnd))
    assert end.is_error
    assert result.status == "completed"
    events, result = play_file(NEW / "mcp_needs_approval.jsonl", tmp_path)
    refusals = [event for event in events if isinstance(event, ev.PermissionDecision)]
    assert [(event.decision, event.by) for event in refusals] == [("deny", "codex")] * 2
    assert result.status == "completed"


def test_a_warning_is_kept_and_does_not_fail_the_turn(tmp_path: Path) -> None:
    events, result = play_file(NEW / "model_metadata_warning.jsonl", tmp_path)
    warning = next(event for event in events if isinstance(event, ev.Unknown))
    assert "Model metadata" in warning.raw["item"]["message"]
    assert "error" not in types(events)
    assert result.status == "completed"


def test_a_command_left_running_is_closed(tmp_path: Path) -> None:
    events, result = play_file(NEW / "background_command_left_running.jsonl", tmp_path)
    end = next(event for event in events if isinstance(event, ev.ToolExecutionEnd))
    assert end.synthetic
    assert result.status == "completed"


def test_retries_are_events(tmp_path: Path) -> None:
    events, _ = play_file(NEW / "err_401.jsonl", tmp_path)
    retries = [event for event in events if isinstance(event, ev.Retry)]
    assert [event.attempt for event in retries] == [1, 2, 3, 4, 5]
    assert {event.error.kind for event in retries} == {"not_authenticated"}
    line = b'{"type":"error","message":"Reconnecting... waiting for network (Connection failed)"}'
    events, _ = play([line, line], home=tmp_path)
    retries = [event for event in events if isinstance(event, ev.Retry)]
    assert [(event.attempt, event.error.kind) for event in retries] == [
        (1, "unavailable"),
        (2, "unavailable"),
    ]


def test_garbage_never_ends_a_run(tmp_path: Path) -> None:
    good = (NEW / "success_shell.jsonl").read_bytes().splitlines()
    bad = [
        b"\xff\xfe\x00garbage",
        b'{"type":"item.comp',
        b"[]",
        b"null",
        b"{}",
        b'{"type":"thread.started"}',
        b'{"type":"item.completed","item":{"type":"hologram","id":"x"}}',
        b'{"type":"turn.completed","usage":"many"}',
        b'{"type":"item.completed","item":{"id":"i","type":"agent_message","text":"\xff"}}',
        b"x" * 10_000_000,
        b"",
    ]
    mixed = [line for each in good for line in (*bad, each)]
    events, result = play(mixed, home=tmp_path)
    unknown = [event for event in events if isinstance(event, ev.Unknown)]
    assert len(unknown) == (len(bad) - 1) * len(good)
    assert max(len(str(event.raw)) for event in unknown) <= 4096
    rest = [event for event in events if not isinstance(event, ev.Unknown)]
    assert types(rest) == SHELL
    assert result.status == "completed"


def test_raw_lines_come_along_when_asked_for(tmp_path: Path) -> None:
    lines = (NEW / "success_shell.jsonl").read_bytes().splitlines()
    options = RunOptions(prompt="go", include_raw=True)
    events, _ = play(lines, home=tmp_path, options=options)
    first = events[0]
    assert first.raw == {
        "type": "thread.started",
        "thread_id": "01a1e09b-295d-7ef1-84c1-5d7afa515c08",
    }


def test_a_command_whose_end_was_never_printed_is_closed_with_its_result(tmp_path: Path) -> None:
    """Codex 0.120 loses the end of a command when the answer comes right behind it."""
    thread = "01a1e0e5-ff82-7ba2-b209-9af3673d39a1"
    put_rollout(tmp_path, thread, TESTDATA / "0.120.0/rollout/usage_overflow_resume.jsonl")
    lines = (OLD / "success_shell.jsonl").read_bytes().splitlines()
    assert b'"exit_code":0' in lines[5]
    late = [*lines[:5], lines[6], lines[5], lines[7]]
    for kept in (late, [*lines[:5], *lines[6:]]):
        events, result = play(kept, home=tmp_path)
        assert types(events) == SHELL
        end = next(event for event in events if isinstance(event, ev.ToolExecutionEnd))
        assert (end.synthetic, end.is_error) == (True, False)
        assert end.result == {"output": "hi\n", "exit_code": 0}
        assert result.status == "completed"
