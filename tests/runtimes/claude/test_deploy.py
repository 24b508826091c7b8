"""Instructions go into a worktree beside everybody else's, never over them."""

import subprocess
from pathlib import Path

import pytest

from bridle.core.errors import WrongUse
from bridle.core.options import HooksDef, OverlayContent
from bridle.runtimes import deployment
from bridle.runtimes.claude import ClaudeRuntime


@pytest.fixture
def worktree(tmp_path: Path) -> Path:
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    (tmp_path / "CLAUDE.md").write_text("the project's own\n")
    return tmp_path


def deploy(worktree: Path, text: str | None) -> list[str]:
    hooks = HooksDef(agent_name="a", capability="builder", worktree_path=str(worktree))
    overlay = None if text is None else OverlayContent(content=text)
    return deployment.deploy(ClaudeRuntime(), str(worktree), overlay, hooks)


def test_instructions_are_written_where_claude_reads_them(worktree: Path) -> None:
    path, _guard = deploy(worktree, "Build it.")
    assert Path(path) == worktree / ClaudeRuntime.instruction_path
    assert "Build it." in Path(path).read_text()
    assert (worktree / "CLAUDE.md").read_text() == "the project's own\n"


def test_a_tracked_file_is_not_touched(worktree: Path) -> None:
    tracked = worktree / ".claude" / "CLAUDE.md"
    tracked.parent.mkdir()
    tracked.write_text("tracked\n")
    subprocess.run(["git", "add", "-A"], cwd=worktree, check=True)
    path, _guard = deploy(worktree, "Build it.")
    assert Path(path) == worktree / "CLAUDE.local.md"
    assert tracked.read_text() == "tracked\n"
    (worktree / "CLAUDE.local.md").unlink()
    (worktree / "CLAUDE.local.md").write_text("also tracked\n")
    subprocess.run(["git", "add", "-A"], cwd=worktree, check=True)
    with pytest.raises(WrongUse, match="the project's own"):
        deploy(worktree, "Build it.")
    assert (worktree / "CLAUDE.local.md").read_text() == "also tracked\n"
