"""Git places, the trust in them, and instructions deployed in a worktree."""

import subprocess
from pathlib import Path

import pytest

from bridle.core.errors import WrongUse
from bridle.core.git import commit_dirs, find_git
from bridle.core.options import HooksDef, OverlayContent
from bridle.runtimes import deployment
from bridle.runtimes.codex import CodexRuntime
from bridle.runtimes.codex.command import trust_roots


def git(*words: str, cwd: Path) -> None:
    subprocess.run(
        ["git", "-c", "user.name=a", "-c", "user.email=a@b", *words],
        cwd=cwd,
        check=True,
        capture_output=True,
    )


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    folder = tmp_path / "repo"
    folder.mkdir()
    git("init", "-q", ".", cwd=folder)
    git("commit", "-q", "--allow-empty", "-m", "one", cwd=folder)
    return folder


def test_a_plain_repository(repo: Path) -> None:
    inner = repo / "a/b"
    inner.mkdir(parents=True)
    place = find_git(str(inner))
    assert place is not None
    assert (place.root, place.git_dir, place.linked) == (str(repo), str(repo / ".git"), False)
    assert commit_dirs(place) == [str(repo / ".git")]
    assert trust_roots(str(inner), place) == [str(inner), str(repo)]


def test_a_linked_worktree_leaves_hooks_and_config_protected(repo: Path, tmp_path: Path) -> None:
    tree = tmp_path / "tree"
    git("worktree", "add", "-q", str(tree), "-b", "side", cwd=repo)
    place = find_git(str(tree))
    assert place is not None
    assert place.linked
    common = repo / ".git"
    assert commit_dirs(place) == [
        str(common / "worktrees/tree"),
        str(common / "objects"),
        str(common / "refs/heads"),
        str(common / "logs/refs/heads"),
    ]
    assert trust_roots(str(tree), place) == [str(tree), str(repo)]


def test_no_repository(tmp_path: Path) -> None:
    assert find_git(str(tmp_path)) is None
    inner = tmp_path / "inner"
    (inner / ".git").mkdir(parents=True)
    assert find_git(str(inner)) is None
    (tmp_path / ".git").write_text("nonsense")
    assert find_git(str(tmp_path)) is None


def deploy(worktree: Path, text: str) -> list[str]:
    hooks = HooksDef(agent_name="bob", capability="builder", worktree_path=str(worktree))
    return deployment.deploy(CodexRuntime(), str(worktree), OverlayContent(content=text), hooks)


def status(folder: Path) -> str:
    done = subprocess.run(
        ["git", "status", "--porcelain"], cwd=folder, check=True, capture_output=True, text=True
    )
    return done.stdout


def test_instructions_go_to_agents_md(tmp_path: Path) -> None:
    assert deploy(tmp_path, "first") == [str(tmp_path / "AGENTS.md")]
    assert deploy(tmp_path, "second") == [str(tmp_path / "AGENTS.md")]
    text = (tmp_path / "AGENTS.md").read_text()
    assert "second" in text
    assert "first" not in text
    assert sorted(each.name for each in tmp_path.iterdir()) == ["AGENTS.md"]


def test_a_tracked_file_stays_as_it_is_and_status_clean(repo: Path, tmp_path: Path) -> None:
    (repo / "AGENTS.md").write_text("The project's own rules.\n")
    git("add", ".", cwd=repo)
    git("commit", "-q", "-m", "two", cwd=repo)
    tree = tmp_path / "tree"
    git("worktree", "add", "-q", str(tree), "-b", "side", cwd=repo)
    for text in ("first task", "second task"):
        assert deploy(tree, text) == [str(tree / "AGENTS.override.md")]
    override = (tree / "AGENTS.override.md").read_text()
    assert override.count("The project's own rules.") == 1
    assert "second task" in override
    assert "first task" not in override
    assert (tree / "AGENTS.md").read_text() == "The project's own rules.\n"
    assert status(tree) == status(repo) == ""
    assert not (repo / "AGENTS.override.md").exists()


def test_an_override_of_the_user_keeps_its_text(tmp_path: Path) -> None:
    (tmp_path / "AGENTS.md").write_text("general\n")
    (tmp_path / "AGENTS.override.md").write_text("special\n")
    for text in ("first", "second", "third"):
        assert deploy(tmp_path, text) == [str(tmp_path / "AGENTS.override.md")]
    override = (tmp_path / "AGENTS.override.md").read_text()
    assert override.count("special") == override.count("third") == 1
    assert "first" not in override
    assert "general" not in override


def test_without_an_overlay_nothing_is_written(tmp_path: Path) -> None:
    hooks = HooksDef(agent_name="bob", capability="builder", worktree_path=str(tmp_path))
    assert deployment.deploy(CodexRuntime(), str(tmp_path), None, hooks) == []
    assert list(tmp_path.iterdir()) == []


def test_a_missing_worktree(tmp_path: Path) -> None:
    with pytest.raises(WrongUse):
        deploy(tmp_path / "none", "text")
