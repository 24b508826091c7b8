"""Copilot's panes, transcripts, errors, and what is deployed into a worktree."""

import subprocess
from pathlib import Path

import pytest

from bridle.core.errors import WrongUse
from bridle.core.options import HooksDef, OverlayContent
from bridle.core.results import Dialog, Loading
from bridle.core.usage import Usage
from bridle.process.spec import ProcessExit
from bridle.runtimes import deployment
from bridle.runtimes.copilot import CopilotRuntime
from bridle.runtimes.copilot.dialects import DIALECTS
from bridle.runtimes.copilot.errors import error_of_call, error_of_exit, error_of_session
from bridle.runtimes.copilot.transcript import last_finish_reason, read_summary
from bridle.runtimes.copilot.wire import CallFailure, Failure
from tests.runtimes.copilot.support import TESTDATA


def test_a_pane_without_a_prompt_is_loading() -> None:
    for pane in ("", "\n\n", "$ copilot", "❯ half a screen"):
        assert CopilotRuntime().detect_ready(pane) == Loading()


def test_no_key_is_sent_when_the_choice_has_moved() -> None:
    pane = (TESTDATA / "tui-trust.txt").read_text()
    moved = pane.replace("❯ 1. Yes", "  1. Yes").replace("  3. No", "❯ 3. No")
    assert CopilotRuntime().detect_ready(moved) == Dialog(name="trust", action=None)


def test_the_rows_of_the_table_have_their_proof() -> None:
    for row in DIALECTS:
        assert (TESTDATA / row.capture).exists()
        assert row.seen


def test_the_transcript_is_summed() -> None:
    found = CopilotRuntime().parse_transcript(str(TESTDATA / "transcript-events.jsonl"))
    assert found is not None
    assert (found.input_tokens, found.output_tokens, found.cache_read_tokens) == (140, 40, 60)
    assert found.model == "scripted"


def test_what_is_no_transcript(tmp_path: Path) -> None:
    runtime = CopilotRuntime()
    assert runtime.parse_transcript(str(tmp_path / "none")) is None
    (tmp_path / "events.jsonl").write_text('{"type":"other"}\nnot json\n')
    assert runtime.parse_transcript(str(tmp_path)) is None
    assert last_finish_reason(str(tmp_path / "none")) == ""


def test_a_half_written_transcript(tmp_path: Path) -> None:
    text = (TESTDATA / "transcript-events.jsonl").read_bytes()
    (tmp_path / "events.jsonl").write_bytes(text[: text.rindex(b"session.shutdown")])
    found = CopilotRuntime().parse_transcript(str(tmp_path))
    assert found is not None
    assert found.output_tokens == 40


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


@pytest.mark.parametrize(
    ("status", "message", "kind"),
    [
        (401, "no", "not_authenticated"),
        (403, "no", "not_authenticated"),
        (429, '{"message":"slow down","code":"rate_limit_exceeded"}', "rate_limited"),
        (429, '{"message":"no","code":"insufficient_quota"}', "billing"),
        (402, "pay", "billing"),
        (500, "oops", "unavailable"),
        (503, "busy", "overloaded"),
        (529, "busy", "overloaded"),
        (400, '{"message":"too long","code":"context_length_exceeded"}', "context_overflow"),
        (413, "too big", "context_overflow"),
        (404, "no such model", "unavailable"),
        (None, "Failed native model HTTP request: connection refused", "unavailable"),
        (None, "Check your COPILOT_PROVIDER_API_KEY and api key", "unavailable"),
    ],
)
def test_failed_calls(status: int | None, message: str, kind: str) -> None:
    call = CallFailure(status_code=status, error_message=message, model="m-1")
    error = error_of_call(call)
    assert error.kind == kind
    whole = error_of_session(Failure(error_type="query", message="It failed."), call)
    assert (whole.kind, whole.message) == (kind, "It failed.")
    if status == 404:
        assert "m-1" in error.hint


def test_when_to_try_again() -> None:
    error = error_of_call(CallFailure(status_code=429, error_message="Please try again in 3s."))
    assert error.until is not None
    assert error.until.endswith("Z")


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("quota", "billing"),
        ("rate_limit", "rate_limited"),
        ("authentication", "not_authenticated"),
        ("authorization", "not_authenticated"),
        ("context_limit", "context_overflow"),
        ("query", "unavailable"),
    ],
)
def test_errors_without_a_status(kind: str, expected: str) -> None:
    error = error_of_session(Failure(error_type=kind, message="It failed."), None)
    assert error.kind == expected


@pytest.mark.parametrize(
    ("stderr", "kind"),
    [
        ((TESTDATA / "no-auth.stderr").read_text(), "not_authenticated"),
        ((TESTDATA / "bad-resume.stderr").read_text(), "resume_refused"),
        ("error: unexpected argument '--zz' found\n\nUsage: copilot", "protocol_drift"),
        ("GitHub Copilot CLI: no platform package found. Reinstall", "not_installed"),
        ("BYOK providers require an explicit model.", "unavailable"),
        ("Something else", "crashed"),
    ],
)
def test_a_process_that_said_nothing(stderr: str, kind: str) -> None:
    error = error_of_exit(ProcessExit(code=1, stderr_tail=stderr))
    assert error is not None
    assert error.kind == kind


def test_only_the_exit_tells() -> None:
    assert error_of_exit(ProcessExit(code=-9, stderr_tail="words")) is None
    assert error_of_exit(ProcessExit(code=1, stderr_tail="")) is None


HOOKS = HooksDef(agent_name="a", capability="builder", worktree_path=".")


def deploy(root: Path, text: str) -> Path:
    (path,) = deployment.deploy(CopilotRuntime(), str(root), OverlayContent(content=text), HOOKS)
    return Path(path)


def test_a_file_under_version_control_is_left_alone(tmp_path: Path) -> None:
    own = tmp_path / ".github" / "copilot-instructions.md"
    own.parent.mkdir()
    own.write_text("The project's own.\n")
    for words in (["init", "-q"], ["add", "."]):
        subprocess.run(["git", *words], cwd=tmp_path, check=True)
    path = deploy(tmp_path, "Ours.")
    assert path.name == "bridle.instructions.md"
    assert own.read_text() == "The project's own.\n"


def test_no_link_leads_out(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    tree = tmp_path / "tree"
    tree.mkdir()
    (tree / ".github").symlink_to(outside)
    with pytest.raises(WrongUse, match="leads out"):
        deploy(tree, "Ours.")
    with pytest.raises(WrongUse, match="no such worktree"):
        deploy(tmp_path / "none", "Ours.")


def test_a_beacon_is_verified() -> None:
    assert CopilotRuntime().requires_beacon_verification()
