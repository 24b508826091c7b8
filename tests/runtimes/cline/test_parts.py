"""Cline's panes, transcripts, log, errors, and what is deployed into a worktree."""

import json
import subprocess
from pathlib import Path

import pytest

from bridle.core.errors import WrongUse
from bridle.core.options import HooksDef, OverlayContent
from bridle.core.results import Loading
from bridle.process.spec import ProcessExit
from bridle.runtimes import deployment
from bridle.runtimes.cline import ClineRuntime
from bridle.runtimes.cline.dialects import DIALECTS
from bridle.runtimes.cline.errors import error_of_exit
from bridle.runtimes.cline.run_log import find_session, read_log
from tests.runtimes.cline.support import TESTDATA


def test_a_pane_without_a_prompt_is_loading() -> None:
    for pane in ("", "\n\n", "$ cline", "❯"):
        assert ClineRuntime().detect_ready(pane) == Loading()


def test_the_rows_of_the_table_have_their_proof() -> None:
    for row in DIALECTS:
        assert (TESTDATA / row.capture).exists()
        assert row.seen


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


def test_what_is_no_transcript(tmp_path: Path) -> None:
    runtime = ClineRuntime()
    assert runtime.parse_transcript(str(tmp_path / "none")) is None
    (tmp_path / "x.messages.json").write_text('{"messages": [')
    assert runtime.parse_transcript(str(tmp_path / "x.messages.json")) is None
    (tmp_path / "x.messages.json").write_text("{}")
    assert runtime.parse_transcript(str(tmp_path / "x.messages.json")) is None


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


@pytest.mark.parametrize(
    ("stderr", "kind"),
    [
        ('{"type":"error","message":"unknown option \'--zz\'"}', "protocol_drift"),
        ("Warning: x\n at y\nCould not find the Cline CLI binary for", "not_installed"),
        ('{"type":"error","message":"Run cline auth first"}', "not_authenticated"),
        ((TESTDATA / "single-word-prompt.txt").read_text(), "crashed"),
    ],
)
def test_a_process_that_began_nothing(stderr: str, kind: str) -> None:
    error = error_of_exit(ProcessExit(code=1, stderr_tail=stderr))
    assert error is not None
    assert error.kind == kind


def test_only_the_exit_tells() -> None:
    assert error_of_exit(ProcessExit(code=-9, stderr_tail="words")) is None
    assert error_of_exit(ProcessExit(code=1, stderr_tail="Warning: only this")) is None


HOOKS = HooksDef(agent_name="a", capability="builder", worktree_path=".")


def deploy(root: Path, text: str) -> Path:
    path, _guard = deployment.deploy(ClineRuntime(), str(root), OverlayContent(content=text), HOOKS)
    return Path(path)


def _track_all(root: Path) -> None:
    for words in (["init", "-q"], ["add", "."]):
        subprocess.run(["git", *words], cwd=root, check=True)


def test_a_file_under_version_control_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "AGENTS.md").write_text("The project's own.\n")
    _track_all(tmp_path)
    path = deploy(tmp_path, "Ours.")
    assert path == tmp_path.resolve() / ".clinerules" / "bridle.md"
    assert (tmp_path / "AGENTS.md").read_text() == "The project's own.\n"
    assert deployment.withdraw(ClineRuntime(), str(tmp_path))[0] == str(path)


def test_rules_that_are_a_file(tmp_path: Path) -> None:
    (tmp_path / "AGENTS.md").write_text("The project's own.\n")
    (tmp_path / ".clinerules").write_text("A rule.\n")
    _track_all(tmp_path)
    with pytest.raises(WrongUse, match="is a file"):
        deploy(tmp_path, "Ours.")
    with pytest.raises(WrongUse, match="no such worktree"):
        deploy(tmp_path / "none", "Ours.")


def test_a_beacon_is_verified() -> None:
    assert ClineRuntime().requires_beacon_verification()
