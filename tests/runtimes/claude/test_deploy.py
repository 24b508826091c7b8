"""Instructions go into a worktree beside everybody else's, never over them."""

import subprocess
from pathlib import Path

import pytest

from bridle.core.errors import WrongUse
from bridle.core.options import HooksDef, OverlayContent
from bridle.runtimes.claude import ClaudeRuntime


@pytest.fixture
def worktree(tmp_path: Path) -> Path:
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    (tmp_path / "CLAUDE.md").write_text("the project's own\n")
    return tmp_path


def deploy(worktree: Path, text: str | None) -> list[str]:
    hooks = HooksDef(agent_name="a", capability="builder", worktree_path=str(worktree))
    overlay = None if text is None else OverlayContent(content=text)
    return ClaudeRuntime().deploy_config(str(worktree), overlay, hooks)


def test_instructions_are_written_where_claude_reads_them(worktree: Path) -> None:
    (path,) = deploy(worktree, "Build it.")
    assert Path(path) == worktree / ClaudeRuntime.instruction_path
    assert "Build it." in Path(path).read_text()
    assert (worktree / "CLAUDE.md").read_text() == "the project's own\n"


def test_a_second_deployment_replaces_the_first(worktree: Path) -> None:
    deploy(worktree, "First.")
    (path,) = deploy(worktree, "Second.")
    text = Path(path).read_text()
    assert "First." not in text
    assert text.count("Second.") == 1


def test_what_the_user_wrote_there_is_kept(worktree: Path) -> None:
    mine = worktree / ".claude" / "CLAUDE.md"
    mine.parent.mkdir()
    mine.write_text("mine\n")
    deploy(worktree, "First.")
    deploy(worktree, "Second.")
    assert mine.read_text().startswith("mine\n")
    assert "Second." in mine.read_text()


def test_a_tracked_file_is_not_touched(worktree: Path) -> None:
    tracked = worktree / ".claude" / "CLAUDE.md"
    tracked.parent.mkdir()
    tracked.write_text("tracked\n")
    subprocess.run(["git", "add", "-A"], cwd=worktree, check=True)
    (path,) = deploy(worktree, "Build it.")
    assert Path(path) == worktree / "CLAUDE.local.md"
    assert tracked.read_text() == "tracked\n"
    (worktree / "CLAUDE.local.md").unlink()
    (worktree / "CLAUDE.local.md").write_text("also tracked\n")
    subprocess.run(["git", "add", "-A"], cwd=worktree, check=True)
    with pytest.raises(WrongUse, match="version control"):
        deploy(worktree, "Build it.")
    assert (worktree / "CLAUDE.local.md").read_text() == "also tracked\n"


def test_a_link_out_of_the_worktree_is_refused(
    worktree: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    outside = tmp_path_factory.mktemp("outside")
    (worktree / ".claude").symlink_to(outside)
    with pytest.raises(WrongUse, match="leads out"):
        deploy(worktree, "Build it.")
    assert not list(outside.iterdir())


def test_without_an_overlay_nothing_is_written(worktree: Path) -> None:
    assert deploy(worktree, None) == []
    assert not (worktree / ".claude").exists()
