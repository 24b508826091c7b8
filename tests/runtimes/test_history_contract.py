"""What every adapter promises of the files that its product keeps: exact sums."""

from pathlib import Path
from typing import Any

import pytest

from bridle.runtimes.contract import History
from bridle.runtimes.registry import available_runtimes, get_adapter
from tests.runtimes.captures import folder_of

HISTORIES = [
    name for name in sorted(available_runtimes()) if isinstance(get_adapter(name), History)
]

FILES = ("x.jsonl", "x.md", "x.messages.json", "opencode.db", "events.jsonl")
"""A name as each product gives it to its files."""

FOREIGN = (b'{"type":"other"}\nnot json\n', b"{}")
"""Files of lines that mean nothing. For Claude that is a transcript of a session without a call."""

SUMS: dict[tuple[str, str], dict[str, Any]] = {
    ("aider", "analytics-no-stream.jsonl"): {
        "input_tokens": 1234,
        "output_tokens": 56,
        "model": "openai/scripted",
    },
    ("aider", "chat-history.md"): {"input_tokens": 1200, "output_tokens": 56, "cost_usd": 0.0013},
    ("claude", "transcripts/one_tool_run.jsonl"): {"input_tokens": 200, "output_tokens": 40},
    # The call that compacted the session (5000/300) stands in no transcript.
    ("claude", "transcripts/compact_reactive.jsonl"): {
        "input_tokens": 453000,
        "output_tokens": 2520,
    },
    ("claude", "transcripts/api_error_403.jsonl"): {"input_tokens": 0, "output_tokens": 0},
    ("claude", "transcripts/fork_copy.jsonl"): {"input_tokens": 100, "output_tokens": 20},
    ("cline", "session.messages.json"): {
        "input_tokens": 140,
        "output_tokens": 40,
        "cache_read_tokens": 60,
        "model": "scripted",
        "cost_usd": None,
    },
    ("codex", "0.166.0/rollout/usage_overflow_compaction_resume.jsonl"): {
        "input_tokens": 4200,
        "cache_read_tokens": 2800,
        "output_tokens": 350,
        "reasoning_tokens": 70,
        "model": "gpt-5.5",
    },
    ("codex", "0.120.0/rollout/usage_overflow_resume.jsonl"): {
        "input_tokens": 3000,
        "cache_read_tokens": 2000,
        "output_tokens": 250,
        "reasoning_tokens": 50,
        "model": "gpt-5.5",
    },
    ("copilot", "transcript-events.jsonl"): {
        "input_tokens": 140,
        "output_tokens": 40,
        "cache_read_tokens": 60,
        "model": "scripted",
    },
    # Two answers of 100 in (30 cached), 20 out and 3 of thoughts; one is written twice.
    ("gemini", "transcript.jsonl"): {
        "input_tokens": 140,
        "cache_read_tokens": 60,
        "output_tokens": 46,
        "reasoning_tokens": 6,
        "model": "gemini-2.5-flash",
    },
}


@pytest.mark.parametrize(("product", "name"), SUMS, ids="/".join)
def test_a_transcript_is_summed_exactly(product: str, name: str) -> None:
    runtime = get_adapter(product)
    assert isinstance(runtime, History)
    summary = runtime.parse_transcript(str(folder_of(product) / name))
    assert summary is not None
    expected = SUMS[product, name]
    assert {field: getattr(summary, field) for field in expected} == expected


@pytest.mark.parametrize("name", HISTORIES)
@pytest.mark.parametrize("file", FILES)
def test_what_is_no_transcript_gives_none(name: str, file: str, tmp_path: Path) -> None:
    runtime = get_adapter(name)
    assert isinstance(runtime, History)
    path = tmp_path / "kept" / file
    assert runtime.parse_transcript(str(path)) is None
    assert not path.parent.exists(), "looking made something"
    path.parent.mkdir()
    assert runtime.parse_transcript(str(path.parent)) is None, "an empty folder"
    foreign = () if name in ("claude", "claude-acp") else FOREIGN
    garbage = (b"\xff\x00 not text\n{half", b'{"messages": [', b"this is no database at all")
    for content in (*garbage, *foreign):
        path.write_bytes(content)
        assert runtime.parse_transcript(str(path)) is None, content
