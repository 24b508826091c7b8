"""What Pi's session files say was used."""

import json
from pathlib import Path

import pytest

from bridle.runtimes.pi import PiRuntime
from bridle.runtimes.pi.transcript import find_session, session_dir
from tests.runtimes.pi.captures import TESTDATA

NEW = TESTDATA / "session-compaction-1.5.0.jsonl"
OLD = TESTDATA / "session-compaction-0.74.2.jsonl"


def test_the_sum_of_the_newer_version_is_what_it_says_itself() -> None:
    summary = PiRuntime().parse_transcript(str(NEW))
    assert summary is not None
    assert summary.input_tokens == 219211
    assert summary.cost_usd == pytest.approx(0.7985379)
    assert summary.model == "lab-anth/scripted"


def test_the_sum_of_the_older_version() -> None:
    summary = PiRuntime().parse_transcript(str(OLD))
    assert summary is not None
    messages = [
        entry["message"]["usage"]
        for entry in map(json.loads, OLD.read_text().splitlines())
        if entry.get("message", {}).get("role") == "assistant"
    ]
    assert summary.input_tokens == sum(usage["input"] for usage in messages) == 217211
    assert summary.output_tokens == sum(usage["output"] for usage in messages)
    assert summary.cache_read_tokens == 33
    assert summary.cache_write_tokens == 44
    assert summary.cost_usd == pytest.approx(sum(usage["cost"]["total"] for usage in messages))


def test_a_fork_counts_only_what_is_its_own(tmp_path: Path) -> None:
    parent = tmp_path / "parent.jsonl"
    parent.write_text(NEW.read_text())
    lines = NEW.read_text().splitlines()
    header = json.loads(lines[0]) | {"id": "fork", "parentSession": str(parent)}
    usage = {"input": 7, "output": 3, "cacheRead": 2, "cacheWrite": 1, "cost": {"total": 0.5}}
    own = {
        "type": "message",
        "id": "ffffffff",
        "message": {"role": "assistant", "provider": "p", "model": "m", "usage": usage},
    }
    fork = tmp_path / "fork.jsonl"
    fork.write_text("\n".join([json.dumps(header), *lines[1:], json.dumps(own)]) + "\n")
    summary = PiRuntime().parse_transcript(str(fork))
    assert summary is not None
    assert (summary.input_tokens, summary.output_tokens) == (7, 3)
    assert summary.cost_usd == pytest.approx(0.5)
    parent.unlink()
    alone = PiRuntime().parse_transcript(str(fork))
    assert alone is not None
    assert alone.input_tokens == 219211 + 7, "with no parent left the copies are all there is"


def test_a_fork_of_itself_ends(tmp_path: Path) -> None:
    path = tmp_path / "loop.jsonl"
    path.write_text(json.dumps({"type": "session", "id": "x", "parentSession": str(path)}) + "\n")
    summary = PiRuntime().parse_transcript(str(path))
    assert summary is not None
    assert (summary.input_tokens, summary.cost_usd, summary.model) == (0, None, "")


def test_a_half_written_line_is_passed_over(tmp_path: Path) -> None:
    path = tmp_path / "half.jsonl"
    path.write_bytes(NEW.read_bytes() + b'{"type":"message","id":"1","mess\xff')
    summary = PiRuntime().parse_transcript(str(path))
    assert summary is not None
    assert summary.input_tokens == 219211


@pytest.mark.parametrize("content", [None, b"", b"{}\n", b"\xff\xfe", b'{"type":"other"}\n'])
def test_what_is_no_session_file_is_none(tmp_path: Path, content: bytes | None) -> None:
    path = tmp_path / "x.jsonl"
    if content is not None:
        path.write_bytes(content)
    assert PiRuntime().parse_transcript(str(path)) is None


def test_where_sessions_are(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    project = tmp_path / "a:b" / "c"
    project.mkdir(parents=True)
    encoded = str(project.resolve())[1:].replace("/", "-").replace(":", "-")
    monkeypatch.delenv("PI_CODING_AGENT_SESSION_DIR", raising=False)
    monkeypatch.setenv("PI_CODING_AGENT_DIR", str(tmp_path / "agent"))
    default = str(tmp_path / "agent" / "sessions" / f"--{encoded}--")
    assert PiRuntime().transcript_dir(str(project)) == default
    (tmp_path / "agent").mkdir()
    (tmp_path / "agent" / "settings.json").write_text('{"sessionDir": "mine"}')
    assert PiRuntime().transcript_dir(str(project)) == str(project.resolve() / "mine")
    monkeypatch.setenv("PI_CODING_AGENT_SESSION_DIR", "/elsewhere")
    assert PiRuntime().transcript_dir(str(project)) == "/elsewhere"


def test_only_the_whole_id_finds_a_session(tmp_path: Path) -> None:
    folder = Path(session_dir(str(tmp_path), "/some/project", {}))
    folder.mkdir(parents=True)
    path = folder / "2026-01-01T00-00-00-000Z_abc-def.jsonl"
    path.write_text('{"type":"session","id":"abc-def","cwd":"/some/project"}\n')
    found = find_session(str(folder), "abc-def")
    assert found is not None
    assert found[0] == str(path)
    assert find_session(str(folder), "def") is None
    assert find_session(str(folder), "abc") is None
    assert find_session(str(tmp_path / "none"), "abc-def") is None


@pytest.mark.parametrize("version", ["0.74.2", "1.5.0"])
def test_a_capture_of_json_mode_counts_each_message_once(version: str) -> None:
    summary = PiRuntime().parse_transcript(str(TESTDATA / f"json-guard-{version}.jsonl"))
    assert summary is not None
    assert (summary.input_tokens, summary.output_tokens) == (400, 80)
