"""Git worktrees: one folder and one branch for each agent that works on a repository."""

import subprocess
from collections.abc import Mapping

from bridle.core.errors import NotInstalled, WrongUse
from bridle.core.git import SECONDS, run_git


def git(repo: str, *words: str, env: Mapping[str, str] | None = None) -> str:
    """The output of `git` with `words` in `repo`; `WrongUse` with git's own reason when it fails.

    Raises `NotInstalled` without git. Git obeys nothing that an agent can write (`run_git`).
    """
    try:
        done = run_git(repo, *words, env=env)
    except FileNotFoundError:
        raise NotInstalled("git was not found", hint="install git and try again") from None
    except subprocess.TimeoutExpired:
        raise WrongUse(f"git {words[0]} did not end within {SECONDS:g} s") from None
    if done.returncode != 0:
        reason = done.stderr.decode(errors="replace").strip().splitlines()
        raise WrongUse(f"git {words[0]} failed: {reason[-1] if reason else 'no reason given'}")
    return done.stdout.decode(errors="replace")


def add_worktree(
    repo: str, branch: str, path: str, *, env: Mapping[str, str] | None = None
) -> None:
    """Make a worktree of `repo` at `path`, on a new branch that starts at the current commit.

    Refuses, with git's reason, if the branch or the folder already exists.
    """
    git(repo, "worktree", "add", "--quiet", "-b", branch, path, env=env)


def remove_worktree(repo: str, path: str, *, env: Mapping[str, str] | None = None) -> None:
    """Remove the worktree at `path`; its branch and commits stay.

    Refuses, with git's reason, if it has uncommitted work.
    """
    git(repo, "worktree", "remove", path, env=env)
