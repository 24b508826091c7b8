"""What Copilot's transcripts and summaries say."""

from pathlib import Path

import pytest

from bridle.core.usage import Usage
from bridle.runtimes.copilot import CopilotRuntime
from bridle.runtimes.copilot.transcript import last_finish_reason, read_summary
from tests.runtimes.copilot.captures import TESTDATA


def test_a_half_written_transcript(tmp_path: Path) -> None:
    text = (TESTDATA / "transcript-events.jsonl").read_bytes()
    (tmp_path / "events.jsonl").write_bytes(text[: text.rindex(b"session.shutdown")])
    found = CopilotRuntime().parse_transcript(str(tmp_path))
    assert found is not None
    assert found.output_tokens == 40


@pytest.mark.parametrize("version", ["1.0.50", "1.0.78"])
def test_versions_that_note_tokens_only_at_their_end(version: str, tmp_path: Path) -> None:
    """Two processes of 100 and 20 tokens each: 1.0.50 notes what the process used, 1.0.78 what the
    conversation did."""
    text = (TESTDATA / f"v{version}" / "transcript-resumed.jsonl").read_bytes()
    (tmp_path / "events.jsonl").write_bytes(text)
    found = CopilotRuntime().parse_transcript(str(tmp_path))
    assert found is not None
    assert (found.input_tokens, found.output_tokens) == (200, 40)
    lines = text.splitlines(keepends=True)
    first = next(at for at, line in enumerate(lines) if b'"session.shutdown"' in line)
    (tmp_path / "events.jsonl").write_bytes(b"".join(lines[: first + 1]))
    once = CopilotRuntime().parse_transcript(str(tmp_path))
    assert once is not None
    assert (once.input_tokens, once.output_tokens) == (100, 20)


def test_a_killed_run_of_such_a_version_has_unknown_tokens(tmp_path: Path) -> None:
    text = (TESTDATA / "v1.0.50" / "transcript-resumed.jsonl").read_bytes()
    (tmp_path / "events.jsonl").write_bytes(text[: text.index(b'{"type":"session.shutdown"')])
    assert CopilotRuntime().parse_transcript(str(tmp_path)) is None


def test_why_the_model_stopped(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    record = (
        '{"type":"session.usage_record",'
        '"data":{"usage":{"finishReason":"%s","interactionType":"%s"}}}\n'
    )
    path.write_text(
        record % ("stop", "conversation-agent")
        + record % ("length", "conversation-agent")
        + record % ("stop", "conversation-subagent")
        + '{"type":"session.usage_record","da'
    )
    assert last_finish_reason(str(path)) == "length"


def test_the_summary_of_a_run() -> None:
    usage, model = read_summary(str(TESTDATA / "usage-output-file.json"))
    assert usage == Usage(input_tokens=70, output_tokens=20, cache_read_tokens=30)
    assert model == "scripted"
    assert read_summary("/nowhere") == (None, None)


def test_transcripts_stand_in_the_home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("COPILOT_HOME", str(tmp_path))
    assert CopilotRuntime().transcript_dir("/any") == str(tmp_path / "session-state")
