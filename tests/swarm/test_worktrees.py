from pathlib import Path

import pytest

from bridle.core.errors import NotInstalled, WrongUse
from bridle.swarm.worktrees import add_worktree, git, remove_worktree

ENV = {
    "PATH": "/usr/bin:/bin",
    "HOME": "/nonexistent",
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_AUTHOR_NAME": "t",
    "GIT_AUTHOR_EMAIL": "t@t.invalid",
    "GIT_COMMITTER_NAME": "t",
    "GIT_COMMITTER_EMAIL": "t@t.invalid",
}


@pytest.fixture
def repo(tmp_path: Path) -> str:
    folder = tmp_path / "repo"
    folder.mkdir()
    git(str(folder), "init", "-q", env=ENV)
    git(str(folder), "commit", "-q", "--allow-empty", "-m", "Start", env=ENV)
    return str(folder)


def test_add_and_remove(repo: str, tmp_path: Path) -> None:
    tree = tmp_path / "tree"
    add_worktree(repo, "work/a", str(tree), env=ENV)
    assert git(str(tree), "branch", "--show-current", env=ENV) == "work/a\n"
    (tree / "new").write_text("x")
    with pytest.raises(WrongUse, match=r"git worktree failed: .*modified or untracked"):
        remove_worktree(repo, str(tree), env=ENV)
    (tree / "new").unlink()
    remove_worktree(repo, str(tree), env=ENV)
    assert not tree.exists()
    assert "work/a" in git(repo, "branch", env=ENV)


def test_a_branch_that_is_there_is_refused(repo: str, tmp_path: Path) -> None:
    add_worktree(repo, "a", str(tmp_path / "one"), env=ENV)
    with pytest.raises(WrongUse, match="already exists"):
        add_worktree(repo, "a", str(tmp_path / "two"), env=ENV)


def test_without_git(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(NotInstalled):
        git(str(tmp_path), "status", env={"PATH": str(tmp_path)})
