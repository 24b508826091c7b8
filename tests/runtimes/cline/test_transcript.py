"""What Cline's transcripts and its log of a run say."""

import json
from pathlib import Path

import pytest

from bridle.runtimes.cline import ClineRuntime
from bridle.runtimes.cline.transcript import find_session, read_log
from tests.runtimes.cline.captures import TESTDATA


def test_the_transcript_is_summed(tmp_path: Path) -> None:
    runtime = ClineRuntime()
    folder = tmp_path / "17_abc"
    folder.mkdir()
    messages = folder / "17_abc.messages.json"
    messages.write_bytes((TESTDATA / "session.messages.json").read_bytes())
    for path in (folder, messages, folder / "17_abc.json"):
        found = runtime.parse_transcript(str(path))
        assert found is not None
        assert (found.input_tokens, found.output_tokens, found.cache_read_tokens) == (140, 40, 60)
        assert (found.model, found.cost_usd) == ("scripted", None)


def test_where_conversations_are(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    runtime = ClineRuntime()
    assert str(runtime.transcript_dir("/any")).endswith("/.cline/data/sessions")
    monkeypatch.setenv("CLINE_DIR", str(tmp_path))
    assert runtime.transcript_dir("/any") == str(tmp_path / "data" / "sessions")
    monkeypatch.setenv("CLINE_DATA_DIR", str(tmp_path / "d"))
    assert runtime.transcript_dir("/any") == str(tmp_path / "d" / "sessions")


def test_the_log_tells_the_failed_call() -> None:
    log = read_log(str(TESTDATA / "run-log-e429.jsonl"))
    assert log.pid is not None
    assert log.failed_call is not None
    assert log.failed_call.status_code == 429
    assert log.failed_call.until is not None


def test_a_log_that_cannot_be_read(tmp_path: Path) -> None:
    path = tmp_path / "log"
    assert read_log(str(path)).pid is None
    path.write_bytes(b"\xff\xfe\n[ai-sdk] stream error {\n")
    log = read_log(str(path))
    assert (log.pid, log.failed_call) == (None, None)


def test_the_conversation_of_a_process(tmp_path: Path) -> None:
    for name, pid in (("1_a", 11), ("2_b", 12), ("3_c", 13)):
        (tmp_path / name).mkdir()
        record = {"session_id": name, "pid": pid}
        (tmp_path / name / f"{name}.json").write_text(json.dumps(record))
    (tmp_path / "4_d").mkdir()
    found = find_session(str(tmp_path), 12)
    assert found is not None
    assert found.session_id == "2_b"
    assert find_session(str(tmp_path), 99) is None
    assert find_session(str(tmp_path / "none"), 12) is None
