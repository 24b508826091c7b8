"""Panes, transcripts, errors, instructions: the small parts of the runtime gemini."""

import json
from pathlib import Path

import pytest

from bridle.core.results import Loading
from bridle.runtimes.gemini import GeminiRuntime
from bridle.runtimes.gemini.dialects import DIALECTS
from bridle.runtimes.gemini.errors import error_from_exit, error_from_text
from bridle.runtimes.gemini.transcript import chats_dir, summarize
from tests.runtimes.gemini.support import TESTDATA


def test_a_blank_screen_is_loading() -> None:
    assert GeminiRuntime().detect_ready("\n\n") == Loading()


def test_a_transcript_is_summed_up_once() -> None:
    summary = summarize(str(TESTDATA / "transcript.jsonl"))
    assert summary is not None
    # Two answers of 100 in (30 cached), 20 out and 3 of thoughts; one is written twice.
    assert (summary.input_tokens, summary.cache_read_tokens) == (140, 60)
    assert (summary.output_tokens, summary.reasoning_tokens) == (46, 6)
    assert summary.model == "gemini-2.5-flash"


def test_half_a_line_is_passed_over_and_patches_count(tmp_path: Path) -> None:
    path = tmp_path / "s.jsonl"
    told = {"id": "x", "type": "gemini", "model": "m", "tokens": {"input": 7, "output": 2}}
    text = (TESTDATA / "transcript.jsonl").read_text()
    again = {"id": "39dfa1c9-25a0-4620-81f7-d764d832f84b", "type": "gemini", "content": "…"}
    patch = json.dumps({"$set": {"messages": [told, again]}})
    path.write_text(f'{text}{patch}\n{{"id":"y","type":"gem')
    summary = summarize(str(path))
    assert summary is not None
    assert summary.input_tokens == 147
    path.write_text('{"something": "else"}\n')
    assert summarize(str(path)) is None
    assert summarize(str(tmp_path / "missing")) is None


def test_the_folder_of_a_projects_sessions(tmp_path: Path) -> None:
    project = tmp_path / "p"
    project.mkdir()
    assert chats_dir(str(tmp_path), str(project)) is None
    (tmp_path / "projects.json").write_text(json.dumps({"projects": {str(project): "p-1"}}))
    assert chats_dir(str(tmp_path), str(project)) == str(tmp_path / "tmp" / "p-1" / "chats")


@pytest.mark.parametrize(
    ("code", "message", "kind"),
    [
        (401, "no", "not_authenticated"),
        (403, "no", "not_authenticated"),
        (400, "API key not valid. Please pass a valid API key.", "not_authenticated"),
        (
            400,
            "The input token count (1250000) exceeds the maximum number of tokens allowed (1).",
            "context_overflow",
        ),
        (400, "Request contains an invalid argument.", "unavailable"),
        (404, "models/x is not found", "unavailable"),
        (429, "Resource has been exhausted", "rate_limited"),
        (500, "An internal error has occurred.", "unavailable"),
        (503, "The model is overloaded.", "overloaded"),
    ],
)
def test_errors_are_typed(code: int, message: str, kind: str) -> None:
    body = json.dumps({"error": {"code": code, "message": message, "status": "X"}})
    assert error_from_text(f"[API Error: {body}]", "m").kind == kind


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("[API Error: exception TypeError: fetch failed sending request]", "unavailable"),
        ("[API Error: terminated]", "unavailable"),
        ("[API Error: Resource has been exhausted]", "rate_limited"),
        ("", "unavailable"),
    ],
)
def test_errors_without_a_status_are_typed_by_their_words(text: str, kind: str) -> None:
    assert error_from_text(text).kind == kind


def test_a_reset_time_is_told() -> None:
    details = [{"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "30s"}]
    body = {"error": {"code": 429, "message": "slow", "details": details}}
    assert error_from_text(f"[API Error: {json.dumps(body)}]").until is not None


@pytest.mark.parametrize(
    ("code", "stderr", "kind"),
    [
        (41, "Warning: x\nInvalid auth method selected.", "not_authenticated"),
        (42, 'Error resuming session: Invalid session identifier "x".', "resume_refused"),
        (53, "Reached max session turns", "budget_exceeded"),
        (55, "Gemini CLI is not running in a trusted directory.", "crashed"),
        (52, "Invalid settings", "crashed"),
        (1, "Unknown argument: nonsense\nUsage: gemini [options]", "protocol_drift"),
        (1, "SyntaxError: something", "crashed"),
    ],
)
def test_a_run_that_never_began_is_explained(code: int, stderr: str, kind: str) -> None:
    error = error_from_exit(stderr, code, DIALECTS[-1])
    assert error is not None
    assert error.kind == kind
    assert not error.message.startswith("Warning")


def test_settings_that_gemini_skipped_are_the_reason_for_a_missing_login() -> None:
    said = (TESTDATA / "headless-skipped-settings.stderr").read_text()
    error = error_from_exit(said, 41, DIALECTS[-1])
    assert error is not None
    assert error.kind == "crashed"
    assert "Skipping system settings file '/home/user/settings/settings.json'" in error.message
    assert "--settings" in error.hint
    # With a login it may fail for something else.
    other = error_from_exit(said.replace("Invalid auth", "Unknown argument"), 1, DIALECTS[-1])
    assert other is not None
    assert (other.kind, "Skipping" in other.message) == ("protocol_drift", False)


def test_a_project_that_is_not_in_the_list_is_found_by_its_mark(tmp_path: Path) -> None:
    project = tmp_path / "work"
    project.mkdir()
    for name, owner in (("other", "/elsewhere"), ("work-1", str(project))):
        (tmp_path / "tmp" / name).mkdir(parents=True)
        (tmp_path / "tmp" / name / ".project_root").write_text(owner)
    assert chats_dir(str(tmp_path), str(project)) == str(tmp_path / "tmp" / "work-1" / "chats")
    assert chats_dir(str(tmp_path), str(tmp_path)) is None


def test_silence_is_left_to_the_exit() -> None:
    assert error_from_exit("", 0, DIALECTS[-1]) is None
    assert error_from_exit("text", -9, DIALECTS[-1]) is None


def test_the_dialect_names_its_proof() -> None:
    dialect, seen, warning = GeminiRuntime().dialect("0.61.0")
    assert seen
    assert not warning
    assert (TESTDATA / dialect.capture).exists()
    assert "never tested" in GeminiRuntime().dialect("0.62.0")[2]
