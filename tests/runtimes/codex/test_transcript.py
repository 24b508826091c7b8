"""Transcripts: exact sums, each model call once."""

import json
import shutil
from pathlib import Path

import pytest

from bridle.core.usage import Usage
from bridle.runtimes.codex import CodexRuntime
from bridle.runtimes.codex.transcript import find_rollout, read_rollout, subagent_files
from tests.runtimes.codex.captures import TESTDATA

OVERFLOW = TESTDATA / "0.166.0/rollout/usage_overflow_compaction_resume.jsonl"
OLDER = TESTDATA / "0.120.0/rollout/usage_overflow_resume.jsonl"


def test_growth_gives_the_same_as_records_where_both_are_there(tmp_path: Path) -> None:
    lines = OVERFLOW.read_bytes().splitlines(keepends=True)
    bare = tmp_path / "rollout.jsonl"
    bare.write_bytes(b"".join(line for line in lines if b"token_usage_record" not in line))
    counted, recorded = read_rollout(str(bare)), read_rollout(str(OVERFLOW))
    assert counted is not None
    assert recorded is not None
    assert counted.usage == recorded.usage
    assert counted.usage.total == 7350


@pytest.mark.parametrize("source", [OVERFLOW, OLDER], ids=["records", "counts"])
def test_parts_add_up_to_the_whole(source: Path, tmp_path: Path) -> None:
    data = source.read_bytes()
    starts, position = [], 0
    for line in data.splitlines(keepends=True):
        if b'"task_started"' in line:
            starts.append(position)
        position += len(line)
    whole = read_rollout(str(source))
    assert whole is not None
    for offset in (0, *starts, len(data)):
        head = tmp_path / "head.jsonl"
        head.write_bytes(data[:offset])
        before, after = read_rollout(str(head)), read_rollout(str(source), offset)
        assert before is not None
        assert after is not None
        assert before.usage + after.usage == whole.usage


def test_repeated_records_count_once(tmp_path: Path) -> None:
    doubled = tmp_path / "rollout.jsonl"
    doubled.write_bytes(OVERFLOW.read_bytes() * 2)
    part = read_rollout(str(doubled))
    assert part is not None
    assert part.usage.total == 7350


def test_missing_unreadable_and_foreign_files(tmp_path: Path) -> None:
    runtime = CodexRuntime()
    assert runtime.parse_transcript(str(tmp_path / "none.jsonl")) is None
    foreign = tmp_path / "foreign.jsonl"
    foreign.write_bytes(b'\xff\xfe token_count\n{"type":"assistant"}\n{"half')
    assert runtime.parse_transcript(str(foreign)) is None
    broken = tmp_path / "broken.jsonl"
    broken.write_bytes(
        b"token_count nonsense\n" + OVERFLOW.read_bytes() + b'{"type":"token_usage_r'
    )
    summary = runtime.parse_transcript(str(broken))
    assert summary is not None
    assert summary.input_tokens == 4200


def test_sub_agents_are_added(tmp_path: Path) -> None:
    folder = tmp_path / "2026/11/15"
    folder.mkdir(parents=True)
    child = json.loads((TESTDATA / "0.166.0/rollout/subagent_session_meta.json").read_text())
    parent_id, child_id = child["payload"]["parent_thread_id"], child["payload"]["id"]
    fork = json.loads((TESTDATA / "0.166.0/rollout/fork_session_meta.json").read_text())
    fork["payload"] |= {"forked_from_id": parent_id}
    body = b"".join(
        line
        for line in OVERFLOW.read_bytes().splitlines(keepends=True)
        if b'"session_meta"' not in line
    )
    parent_meta = {"type": "session_meta", "payload": {"id": parent_id, "source": "exec"}}
    parent = folder / f"rollout-2026-11-15T18-47-20-{parent_id}.jsonl"
    parent.write_bytes(json.dumps(parent_meta).encode() + b"\n" + body)
    inner = folder / f"rollout-2026-11-15T18-47-20-{child_id}.jsonl"
    inner.write_bytes(json.dumps(child).encode() + b"\n" + body)
    other = folder / "rollout-2026-11-15T18-50-00-01a1e084-7df4-7e61-9053-4dbcca572c53.jsonl"
    other.write_bytes(json.dumps(fork).encode() + b"\n" + body)
    assert subagent_files(str(parent)) == [str(inner)]
    assert subagent_files(str(inner)) == []
    summary = CodexRuntime().parse_transcript(str(parent))
    assert summary is not None
    assert summary.input_tokens == 2 * 4200


def test_a_thread_is_found_by_its_id(tmp_path: Path) -> None:
    thread = "01a1e08d-b9d3-7b23-8afb-18d07dbc265a"
    for day in ("2026/11/15", "2031/01/02"):
        folder = tmp_path / "sessions" / day
        folder.mkdir(parents=True)
        target = folder / f"rollout-2026-11-15T18-52-26-{thread}.jsonl"
        shutil.copyfile(OVERFLOW, target)
        assert find_rollout(str(tmp_path), thread) == str(target)
        target.unlink()
    assert find_rollout(str(tmp_path), thread) is None
    assert find_rollout(str(tmp_path), "not-an-id") is None


def test_transcripts_lie_in_the_configuration_home(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CODEX_HOME", "/somewhere/codex")
    assert CodexRuntime().transcript_dir("/any") == "/somewhere/codex/sessions"


def test_cached_and_written_tokens_stand_beside_the_input(tmp_path: Path) -> None:
    record = {
        "type": "token_usage_record",
        "payload": {
            "response_id": "r",
            "usage": {
                "input_tokens": 1000,
                "cached_input_tokens": 400,
                "cache_write_input_tokens": 100,
                "output_tokens": 50,
                "reasoning_output_tokens": 10,
            },
        },
    }
    path = tmp_path / "r.jsonl"
    path.write_text(json.dumps(record) + "\n")
    part = read_rollout(str(path))
    assert part is not None
    assert part.usage == Usage(
        input_tokens=500,
        cache_read_tokens=400,
        cache_write_tokens=100,
        output_tokens=50,
        reasoning_tokens=10,
    )
