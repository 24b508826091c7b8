"""What a confined agent may write."""

import os
import subprocess
from typing import Literal

import msgspec

from bridle.core.errors import GuardRefused

Mode = Literal["read-only", "worktree"]

DEVICES = ("/dev/null", "/dev/tty", "/dev/ptmx", "/dev/pts", "/dev/zero", "/dev/full")
"""What programs write to without changing anything."""


class SandboxPolicy(msgspec.Struct, frozen=True, kw_only=True):
    """Where writing is allowed; reading is, everywhere."""

    mode: Mode
    writable: tuple[str, ...]
    """Folders, with all below them."""
    files: tuple[str, ...] = ()
    hide: tuple[str, ...] = ()
    """Folders shown empty where namespaces are in force: sockets that lead out live there."""


class GitFolders(msgspec.Struct, frozen=True, kw_only=True):
    """The parts of a repository that committing on one branch needs."""

    git_dir: str
    common_dir: str


def policy_for(
    mode: Mode,
    worktree: str,
    *,
    scratch: str,
    state: tuple[str, ...] = (),
    branch_prefix: str | None = None,
    hide: tuple[str, ...] = (),
) -> SandboxPolicy:
    """The writable set of an agent.

    `read-only`: its scratch folder and its CLI's own state. `worktree`: also the worktree and what
    `git add` and `git commit` need of the repository; with `branch_prefix` only branches below it,
    else all of the repository's branches. Never the repository's configuration or hooks.

    Raises `GuardRefused` when a path of the set is a symbolic link: the worktree's `.git` file is
    in the agent's reach, so what it points to must be what it seems.
    """
    writable = [scratch, *state]
    if mode == "worktree":
        writable.append(os.path.realpath(worktree))
        git = git_folders(worktree)
        if git is not None:
            writable += _git_writable(git, branch_prefix)
    for path in writable:
        if os.path.islink(path):
            raise GuardRefused(f"sandbox: {path} is a symbolic link")
    kept = [os.path.realpath(path) for path in writable if os.path.isdir(path)]
    return SandboxPolicy(
        mode=mode,
        writable=tuple(dict.fromkeys(kept)),
        files=tuple(device for device in DEVICES if os.path.exists(device)),
        hide=hide,
    )


def git_folders(worktree: str) -> GitFolders | None:
    """Where git keeps the worktree's state, None outside a repository."""
    try:
        done = subprocess.run(
            ["git", "rev-parse", "--path-format=absolute", "--git-dir", "--git-common-dir"],
            cwd=worktree,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=20,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    lines = done.stdout.splitlines()
    if done.returncode != 0 or len(lines) != 2:
        return None
    return GitFolders(git_dir=lines[0], common_dir=lines[1])


def _git_writable(git: GitFolders, branch_prefix: str | None) -> list[str]:
    common = git.common_dir
    if git.git_dir == common:
        # The main checkout keeps its index and HEAD in the common folder itself. All of it must
        # be open, hooks and configuration too; a linked worktree is the safer place for an agent.
        return [common]
    below = f"/{branch_prefix}" if branch_prefix else ""
    folders = [
        git.git_dir,
        os.path.join(common, "objects"),
        os.path.join(common, f"refs/heads{below}"),
        os.path.join(common, f"logs/refs/heads{below}"),
    ]
    for folder in folders[2:]:
        _keep(folder)
    return folders


def _keep(folder: str) -> None:
    """Make a folder that git will not remove: rules hang on the folder itself, and packing refs
    deletes an empty one."""
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, ".keep"), "ab"):
        pass
