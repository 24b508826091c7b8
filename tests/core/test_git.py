"""Bridle's own git commands in folders that an agent could write."""

import os
import subprocess
from pathlib import Path

import pytest

from bridle.core.errors import WrongUse
from bridle.core.git import is_tracked, overlook, run_git
from bridle.swarm.worktrees import add_worktree, git, remove_worktree

WHO = {
    f"GIT_{role}_{part}": "t@t.invalid"
    for role in ("AUTHOR", "COMMITTER")
    for part in ("NAME", "EMAIL")
}


class Ground:
    """A repository with a worktree, and a program that leaves a trace when it is run."""

    def __init__(self, root: Path) -> None:
        self.repo, self.tree, self.trace = root / "repo", root / "tree", root / "trace"
        self.repo.mkdir()
        self.program = root / "program"
        self.program.write_text(f"#!/bin/sh\necho ran >> {self.trace}\ncat\n")
        self.program.chmod(0o755)
        self.env = {"PATH": os.environ["PATH"], "HOME": str(root), **WHO}
        self.plain("init", "-q", "-b", "main")
        (self.repo / "a.txt").write_text("a\n")
        (self.repo / ".gitattributes").write_text("*.txt filter=x diff=x merge=x\n")
        self.plain("add", "-A")
        self.plain("commit", "-qm", "first")

    def plain(self, *words: str, cwd: Path | None = None) -> None:
        """As a person runs it."""
        subprocess.run(
            ["git", *words], cwd=cwd or self.repo, env=self.env, check=True, capture_output=True
        )

    def work(self) -> None:
        """What Bridle does with a repository and a worktree."""
        add_worktree(str(self.repo), "work/one", str(self.tree), env=self.env)
        assert (self.tree / "a.txt").read_text() == "a\n"
        assert git(str(self.tree), "status", "--porcelain", env=self.env) == ""
        (self.tree / "a.txt").write_text("b\n")
        git(str(self.tree), "add", "--all", env=self.env)
        git(str(self.tree), "commit", "-qm", "second", env=self.env)
        assert is_tracked(str(self.tree), "a.txt")
        overlook(str(self.tree), "a.txt", True)
        overlook(str(self.tree), "a.txt", False)
        git(str(self.tree), "log", "-p", "--format=%s", env=self.env)
        remove_worktree(str(self.repo), str(self.tree), env=self.env)
        git(str(self.repo), "merge", "-q", "work/one", env=self.env)


@pytest.fixture
def ground(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Ground:
    made = Ground(tmp_path)
    for name in [name for name in os.environ if name.startswith("GIT_")]:
        monkeypatch.delenv(name)
    for name, value in made.env.items():
        monkeypatch.setenv(name, value)
    return made


SETTINGS = [
    "core.fsmonitor",
    "core.pager",
    "core.editor",
    "core.sshCommand",
    "diff.external",
    "diff.x.command",
    "diff.x.textconv",
    "filter.x.clean",
    "filter.x.smudge",
    "filter.x.process",
    "merge.x.driver",
    "alias.status",
    "credential.helper",
    "gpg.program",
    "pager.log",
]


@pytest.mark.parametrize("setting", SETTINGS)
@pytest.mark.parametrize("how", ["config", "include"])
def test_no_setting_of_a_repository_makes_git_run_a_program(
    ground: Ground, setting: str, how: str
) -> None:
    extra = ["filter.x.required", "commit.gpgSign"]
    file = ground.repo / ".git/config"
    if how == "include":
        ground.plain("config", "include.path", str(ground.repo / "planted"))
        file = ground.repo / "planted"
        (ground.repo / ".git/info/exclude").write_text("planted\n")
    value = f"!{ground.program}" if setting.startswith("alias") else str(ground.program)
    ground.plain("config", "--file", str(file), setting, value)
    for name in extra:
        ground.plain("config", "--file", str(file), name, "true")
    ground.work()
    assert not ground.trace.exists()


@pytest.mark.parametrize(
    "hook",
    ["post-checkout", "pre-commit", "post-commit", "post-index-change", "reference-transaction"],
)
def test_no_hook_of_a_repository_is_run(ground: Ground, hook: str) -> None:
    path = ground.repo / ".git/hooks" / hook
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(ground.program.read_bytes())
    path.chmod(0o755)
    ground.work()
    assert not ground.trace.exists()


def test_the_common_folder_is_pinned(ground: Ground) -> None:
    other = ground.repo / "other"
    other.mkdir()
    ground.plain("init", "-q", ".", cwd=other)
    ground.plain("config", "core.fsmonitor", str(ground.program), cwd=other)
    (ground.repo / ".git/info/exclude").write_text("other\n")
    (ground.repo / ".git/commondir").write_text(str(other / ".git"))
    with pytest.raises(WrongUse, match="does not list"):
        git(str(ground.repo), "status", env=ground.env)
    # The placeholder of a sandbox leads nowhere else.
    (ground.repo / ".git/commondir").write_text(".\n")
    assert "first" in git(str(ground.repo), "log", "--format=%s", env=ground.env)
    assert not ground.trace.exists()


def test_a_worktree_that_was_led_elsewhere_is_refused(ground: Ground) -> None:
    add_worktree(str(ground.repo), "work/one", str(ground.tree), env=ground.env)
    other = ground.tree / "other"
    other.mkdir()
    ground.plain("init", "-q", ".", cwd=other)
    (ground.tree / ".git").write_text(f"gitdir: {other}/.git\n")
    with pytest.raises(WrongUse, match="does not list the worktree"):
        git(str(ground.tree), "status", env=ground.env)
    assert is_tracked(str(ground.tree), "a.txt"), "not knowing counts as yes"


def test_a_repository_inside_the_worktree_is_not_entered(ground: Ground) -> None:
    add_worktree(str(ground.repo), "work/one", str(ground.tree), env=ground.env)
    inner = ground.tree / "inner"
    inner.mkdir()
    ground.plain("init", "-q", ".", cwd=inner)
    ground.plain("commit", "-q", "--allow-empty", "-m", "x", cwd=inner)
    ground.plain("config", "core.fsmonitor", str(ground.program), cwd=inner)
    ground.plain("add", "inner", cwd=ground.tree)
    git(str(ground.tree), "status", "--porcelain", env=ground.env)
    with pytest.raises(WrongUse, match="submodules"):
        remove_worktree(str(ground.repo), str(ground.tree), env=ground.env)
    assert not ground.trace.exists()


def test_variables_of_git_do_not_lead_elsewhere(ground: Ground, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    ground.plain("init", "-q", ".", cwd=other)
    env = {**ground.env, "GIT_DIR": str(other / ".git"), "GIT_EXTERNAL_DIFF": str(ground.program)}
    assert "first" in git(str(ground.repo), "log", "--format=%s", env=env)


def test_the_user_s_own_filter_stays(ground: Ground, tmp_path: Path) -> None:
    """A repository with large files needs it; a repository's word on it does not count."""
    ground.plain("config", "--global", "filter.x.smudge", "sed s/a/user/")
    ground.plain("config", "filter.x.smudge", str(ground.program))
    add_worktree(str(ground.repo), "work/one", str(ground.tree), env=ground.env)
    assert (ground.tree / "a.txt").read_text() == "user\n"
    assert not ground.trace.exists()


def test_a_command_that_fails_tells_it(ground: Ground) -> None:
    done = run_git(str(ground.repo), "rev-parse", "--verify", "nothing", env=ground.env)
    assert done.returncode != 0
    assert b"fatal" in done.stderr
