"""What each product's session files say was used, against what adding up everything would say."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from bridle.usage.scans import Found
from tests.usage.homes import (
    captured,
    claude_file,
    claude_line,
    look,
    opencode_database,
    place,
    totals,
)


def test_claude_counts_each_message_once(tmp_path: Path) -> None:
    captures = captured("claude") / "transcripts"
    projects = tmp_path / ".claude/projects/-work"
    place(captures / "fork_source.jsonl", projects / "source.jsonl")
    place(captures / "fork_copy.jsonl", projects / "copy.jsonl")
    found = look(tmp_path)
    by_session = {row.session: row.input_tokens for row in found.rows}
    # Both files together have 700 tokens in their messages, 300 of which the fork copied.
    assert by_session == {"source": 300, "copy": 100}
    assert found.skipped == []


def test_a_fork_counts_everything_when_its_source_is_gone(tmp_path: Path) -> None:
    capture = captured("claude") / "transcripts/fork_copy.jsonl"
    place(capture, tmp_path / ".claude/projects/-work/copy.jsonl")
    assert totals(look(tmp_path)) == (400, 80)


def test_claude_adds_sub_agents_and_leaves_out_messages_that_claude_made_up(
    tmp_path: Path,
) -> None:
    captures = captured("claude") / "transcripts"
    projects = tmp_path / ".claude/projects/-work"
    place(captures / "with_subagent.jsonl", projects / "s.jsonl")
    place(
        captures / "with_subagent.subagents.jsonl", projects / "s" / "subagents" / "agent-a.jsonl"
    )
    place(captures / "api_error_403.jsonl", projects / "error.jsonl")
    rows = look(tmp_path).rows
    agents = {row.agent: row.requests for row in rows if row.session == "s"}
    assert agents == {"": 2, "general-purpose": 2}
    assert {row.session for row in rows} == {"s"}
    assert "<synthetic>" not in {row.model for row in rows}


@pytest.mark.parametrize(
    ("change", "tokens"),
    [
        pytest.param({}, 100, id="as Claude writes it"),
        pytest.param({"message": {"content": '"usage":{"input_tokens":9}'}}, 100, id="in a text"),
        pytest.param(
            {
                "message": {
                    "content": [{"type": "tool_use", "input": {"usage": {"input_tokens": 9}}}]
                }
            },
            100,
            id="in a tool's input",
        ),
        pytest.param({"toolUseResult": {"usage": {"input_tokens": 9}}}, 100, id="beside it"),
        pytest.param({"type": "user"}, 0, id="not an answer"),
        pytest.param({"message": {"usage": None}}, 0, id="without usage"),
    ],
)
def test_claude_takes_the_usage_of_the_message_itself(
    tmp_path: Path, change: dict[str, Any], tokens: int
) -> None:
    claude_file(tmp_path, "s", claude_line(1, **change))
    assert totals(look(tmp_path))[0] == tokens


def test_claude_reads_any_order_of_keys(tmp_path: Path) -> None:
    line = json.loads(claude_line(1))
    message = line.pop("message")
    turned = {**line, "message": dict(reversed(message.items()))}
    first = claude_line(2, message={"content": "x" * 5000})
    claude_file(tmp_path, "s", json.dumps(turned), first, json.dumps(json.loads(claude_line(3))))
    assert totals(look(tmp_path)) == (300, 60)


def test_the_last_line_of_a_message_counts(tmp_path: Path) -> None:
    lines = [
        claude_line(1, usage={"output_tokens": 1}),
        claude_line(1, usage={"output_tokens": 50}),
    ]
    claude_file(tmp_path, "s", *lines, claude_line(2, usage={"output_tokens": 7}))
    assert totals(look(tmp_path)) == (200, 57)


def test_a_broken_last_line_of_a_message_leaves_the_one_before(tmp_path: Path) -> None:
    broken = claude_line(1).replace('"requestId"', '"requestId')
    claude_file(tmp_path, "s", claude_line(1), broken, claude_line(2))
    found = look(tmp_path)
    assert totals(found) == (200, 40)
    assert [each.reason for each in found.skipped] == ["1 line could not be read"]


def test_codex_counts_records_and_not_totals(tmp_path: Path) -> None:
    folder = captured("codex")
    capture = next(folder.rglob("usage_overflow_compaction_resume.jsonl"))
    day = tmp_path / ".codex/sessions/2026/11/15"
    place(capture, day / "rollout-2026-11-15T18-42-21-x.jsonl")
    found = look(tmp_path)
    # The sum of `last_token_usage` is 566605, the last running total 261550.
    assert sum(totals(found)) == 7350
    assert {row.model for row in found.rows} == {"gpt-5.5"}


def _codex(home: Path, name: str, *payloads: tuple[str, Mapping[str, object]]) -> Path:
    path = home / ".codex/sessions/2026/11/15" / f"rollout-2026-11-15T18-00-00-{name}.jsonl"
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = [
        json.dumps({"timestamp": "2026-11-15T18:00:00.000Z", "type": kind, "payload": payload})
        for kind, payload in payloads
    ]
    path.write_text("".join(f"{line}\n" for line in lines))
    return path


def _total(tokens: int) -> tuple[str, Mapping[str, object]]:
    info = {"total_token_usage": {"input_tokens": tokens, "cached_input_tokens": tokens // 2}}
    return "event_msg", {"type": "token_count", "info": info}


def test_an_older_codex_is_counted_by_the_growth_of_its_total(tmp_path: Path) -> None:
    meta = ("session_meta", {"id": "0b", "cwd": "/app"})
    turn = ("turn_context", {"turn_id": "0c", "model": "gpt-5"})
    _codex(tmp_path, "0b", meta, turn, _total(100), _total(100), _total(300))
    found = look(tmp_path)
    assert totals(found) == (300, 0)
    assert sum(row.requests for row in found.rows) == 2
    assert sum(row.cache_read_tokens for row in found.rows) == 150


def test_a_fork_of_an_older_codex_counts_only_its_own(tmp_path: Path) -> None:
    source = ("session_meta", {"id": "0b", "cwd": "/app"})
    turn = ("turn_context", {"turn_id": "0c", "model": "gpt-5"})
    _codex(tmp_path, "0b", source, turn, _total(100))
    own = ("session_meta", {"id": "0f", "cwd": "/app", "forked_from_id": "0b"})
    later = ("turn_context", {"turn_id": "10", "model": "gpt-5"})
    _codex(tmp_path, "0f", own, source, turn, _total(100), later, _total(160))
    assert {row.session: row.requests for row in look(tmp_path).rows} == {"0b": 1, "0f": 1}
    assert totals(look(tmp_path)) == (160, 0)


def test_a_sub_agent_of_codex_belongs_to_its_root(tmp_path: Path) -> None:
    record = {"response_id": "r1", "usage": {"input_tokens": 10, "output_tokens": 2}}
    source = {"subagent": {"thread_spawn": {"parent_thread_id": "0b"}}}
    meta = {
        "id": "0d",
        "session_id": "0b",
        "cwd": "/app",
        "source": source,
        "agent_nickname": "Ada",
    }
    _codex(tmp_path, "0d", ("session_meta", meta), ("token_usage_record", record))
    (row,) = look(tmp_path).rows
    assert (row.session, row.agent, row.project) == ("0b", "Ada", "/app")


def test_pi_counts_a_capture_of_json_mode_at_the_end_of_each_message(tmp_path: Path) -> None:
    capture = next(captured("pi").rglob("json-guard-0.74.2.jsonl"))
    place(capture, tmp_path / ".pi/agent/sessions/--app--/x_y.jsonl")
    # Every event together: 3900/343.
    assert totals(look(tmp_path)) == (400, 80)


def test_pi_counts_compactions_and_failed_messages(tmp_path: Path) -> None:
    capture = next(captured("pi").rglob("session-compaction-1.5.0.jsonl"))
    place(capture, tmp_path / ".pi/agent/sessions/--app--/x_y.jsonl")
    found = look(tmp_path)
    with capture.open() as lines:
        entries = [json.loads(line) for line in lines]
    said = [each.get("usage") or each.get("message", {}).get("usage") for each in entries]
    assert sum(row.output_tokens for row in found.rows) == sum(
        each["output"] for each in said if each
    )
    assert sum(row.told for row in found.rows) > 0


def test_a_fork_of_pi_counts_only_its_own(tmp_path: Path) -> None:
    sessions = tmp_path / ".pi/agent/sessions/--app--"
    sessions.mkdir(parents=True)

    def entry(key: str, second: int) -> dict[str, object]:
        usage = {"input": 10, "output": 5, "cost": {"total": 0}}
        message = {"role": "assistant", "provider": "lab", "model": "m", "usage": usage}
        stamp = f"2026-11-15T18:00:{second:02d}.000Z"
        return {"type": "message", "id": key, "timestamp": stamp, "message": message}

    def write(name: str, *entries: Mapping[str, object]) -> str:
        path = sessions / f"2026_{name}.jsonl"
        path.write_text("".join(f"{json.dumps(each)}\n" for each in entries))
        return str(path)

    head = {"type": "session", "id": "b-source", "timestamp": "2026-11-15T18:00:00.000Z"}
    source = write("b-source", head, entry("01", 1), entry("02", 2))
    fork = {"type": "session", "id": "a-fork", "timestamp": "2026-11-15T18:00:09.000Z"}
    write(
        "a-fork", fork | {"parentSession": source}, entry("01", 1), entry("02", 2), entry("03", 10)
    )
    rows = look(tmp_path).rows
    assert {row.session: row.requests for row in rows} == {"b-source": 2, "a-fork": 1}
    assert {row.model for row in rows} == {"lab/m"}
    assert all(row.told == 0 for row in rows), "a cost of 0 means that Pi knows no price"


def test_copilot_counts_its_records(tmp_path: Path) -> None:
    capture = captured("copilot") / "transcript-events.jsonl"
    place(capture, tmp_path / ".copilot/session-state/58aad2ba/events.jsonl")
    (row,) = look(tmp_path).rows
    assert (row.requests, row.input_tokens, row.cache_read_tokens) == (2, 140, 60)
    assert (row.output_tokens, row.told) == (40, 0)


def test_opencode_leaves_out_what_a_fork_copied(tmp_path: Path) -> None:
    opencode_database(tmp_path)
    found = look(tmp_path)
    assert {(row.session, row.agent): row.requests for row in found.rows} == {
        ("ses_a", ""): 2,
        ("ses_fork", ""): 1,
        ("ses_a", "explore"): 1,
    }
    assert totals(found) == (400, 80)
    assert sum(row.reasoning_tokens for row in found.rows) == 20
    assert sum(row.told_usd for row in found.rows) == pytest.approx(0.004)


def test_gemini_counts_the_last_writing_of_an_answer(tmp_path: Path) -> None:
    capture = captured("gemini") / "transcript.jsonl"
    path = tmp_path / ".gemini/tmp/app/chats/session-2026-11-15T18-43-b7a6ed0f.jsonl"
    place(capture, path)
    (tmp_path / ".gemini/tmp/app/.project_root").write_text("/home/dev/app\n")
    (row,) = look(tmp_path).rows
    assert (row.requests, row.input_tokens, row.cache_read_tokens) == (2, 140, 60)
    # Thoughts are part of the output: 3 of each answer.
    assert (row.output_tokens, row.reasoning_tokens) == (46, 6)
    assert row.project == "/home/dev/app"


def test_cline_counts_the_metrics_of_its_messages(tmp_path: Path) -> None:
    name = "1794769345287_d4psq"
    folder = tmp_path / f".cline/data/sessions/{name}"
    place(captured("cline") / "session.messages.json", folder / f"{name}.messages.json")
    place(captured("cline") / "session.json", folder / f"{name}.json")
    (row,) = look(tmp_path).rows
    assert (row.requests, row.input_tokens, row.cache_read_tokens) == (2, 140, 60)
    assert (row.output_tokens, row.model, row.told) == (40, "scripted", 0)
    assert row.project == "{{WORKTREE}}"


def test_aider_counts_the_lines_for_people(tmp_path: Path) -> None:
    capture = captured("aider") / "chat-history.md"
    place(capture, tmp_path / ".aider/bridle/home-dev-app/abc.md")
    found = look(tmp_path)
    said = capture.read_text().count("> Tokens: ")
    assert sum(row.requests for row in found.rows) == said > 0
    assert {row.model for row in found.rows} == {"openai/scripted"}
    assert sum(row.told for row in found.rows) > 0


@pytest.mark.parametrize(
    "path",
    [
        ".codex/sessions/2026/11/15/rollout-x.jsonl",
        ".pi/agent/sessions/--app--/x_y.jsonl",
        ".copilot/session-state/x/events.jsonl",
        ".local/share/opencode/opencode.db",
        ".gemini/tmp/app/chats/session-x.jsonl",
        ".cline/data/sessions/x/x.messages.json",
    ],
)
@pytest.mark.parametrize("content", [b"\x1f\x8b\x08garbage\n\xff\xfe" * 1000, b"[1]\n", b"\0" * 99])
def test_a_file_of_something_else_is_named_and_not_counted(
    tmp_path: Path, path: str, content: bytes
) -> None:
    target = tmp_path / path
    target.parent.mkdir(parents=True)
    target.write_bytes(content)
    claude_file(tmp_path, "s", claude_line(1))
    found: Found = look(tmp_path)
    assert totals(found) == (100, 20)
    assert [each.path for each in found.skipped] == [str(target)]
    assert found.skipped[0].reason
