"""Sums over transcripts count each model call once."""

import shutil
from pathlib import Path

import pytest

from bridle.runtimes.claude import ClaudeRuntime
from bridle.runtimes.claude.transcript import project_key, sum_transcripts, transcript_dir
from tests.runtimes.claude.captures import TESTDATA

TRANSCRIPTS = TESTDATA / "transcripts"


@pytest.mark.parametrize(
    ("name", "tokens"),
    [
        ("one_tool_run", (200, 40)),
        ("with_subagent", (200, 40)),
        # The call that compacted the session (5000/300) stands in no transcript.
        ("compact_reactive", (453000, 2520)),
        ("api_error_403", (0, 0)),
    ],
)
def test_a_transcript_sums_up(name: str, tokens: tuple[int, int]) -> None:
    summary = ClaudeRuntime().parse_transcript(str(TRANSCRIPTS / f"{name}.jsonl"))
    assert summary is not None
    assert (summary.input_tokens, summary.output_tokens) == tokens


def test_sub_agents_are_in_the_sum(tmp_path: Path) -> None:
    main = tmp_path / "abc.jsonl"
    shutil.copy(TRANSCRIPTS / "with_subagent.jsonl", main)
    folder = tmp_path / "abc" / "subagents"
    folder.mkdir(parents=True)
    shutil.copy(TRANSCRIPTS / "with_subagent.subagents.jsonl", folder / "agent-1.jsonl")
    shutil.copy(TRANSCRIPTS / "with_subagent.subagents.meta.json", folder / "agent-1.meta.json")
    summary = ClaudeRuntime().parse_transcript(str(main))
    assert summary is not None
    assert (summary.input_tokens, summary.output_tokens) == (224, 50)
    assert summary.model == "claude-opus-4-8"


def test_a_fork_adds_only_its_own_calls() -> None:
    source, fork = TRANSCRIPTS / "fork_source.jsonl", TRANSCRIPTS / "fork_copy.jsonl"
    alone = sum_transcripts([str(source)])
    both = sum_transcripts([str(source), str(fork)])
    copy = sum_transcripts([str(fork)])
    assert alone is not None
    assert both is not None
    assert copy is not None
    assert (alone.input_tokens, alone.output_tokens) == (300, 60)
    assert (copy.input_tokens, copy.output_tokens) == (100, 20)
    assert (both.input_tokens, both.output_tokens) == (400, 80)


def test_a_half_last_line_is_left_out(tmp_path: Path) -> None:
    whole = (TRANSCRIPTS / "one_tool_run.jsonl").read_bytes()
    cut = tmp_path / "x.jsonl"
    cut.write_bytes(whole + whole.splitlines()[4][:50])
    summary = ClaudeRuntime().parse_transcript(str(cut))
    assert summary is not None
    assert summary.input_tokens == 200


def test_a_projects_key(tmp_path: Path) -> None:
    folder = tmp_path / "a.b_c dé"
    folder.mkdir()
    link = tmp_path / "link"
    link.symlink_to(folder)
    assert project_key(str(folder)).endswith("-a-b-c-d-")
    assert project_key(str(link)) == project_key(str(folder))


def test_the_transcript_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(tmp_path / "home"))
    folder = ClaudeRuntime().transcript_dir("/srv/x.y")
    assert folder == str(tmp_path / "home" / "projects" / "-srv-x-y")


def test_a_long_key_is_looked_for(tmp_path: Path) -> None:
    project = "/srv/" + "x" * 250
    assert transcript_dir(project, str(tmp_path)) is None
    found = tmp_path / "projects" / (project_key(project)[:200] + "-abc123")
    found.mkdir(parents=True)
    assert transcript_dir(project, str(tmp_path)) == str(found)
    (tmp_path / "projects" / (project_key(project)[:200] + "-def456")).mkdir()
    assert transcript_dir(project, str(tmp_path)) is None
