"""What git says about files of a worktree, and which it does not see."""

import os

from bridle.repository import find_git


def is_tracked(root: str, name: str) -> bool:
    """Whether the file `name` of the worktree `root` is there and under version control.

    Not knowing counts as yes: then it is somebody's.
    """
    if not os.path.exists(os.path.join(root, name)):
        return False
    return _git(root, "ls-files", "--error-unmatch", "--", name) in (0, None)


def overlook(root: str, name: str, yes: bool) -> None:
    """Let git pass over changes of a tracked file in this worktree, or look at them again. The
    worktree alone knows of it; other worktrees and the project do not."""
    _git(root, "update-index", "--skip-worktree" if yes else "--no-skip-worktree", "--", name)


def hide_from_status(worktree: str, name: str) -> None:
    """Keep a file of Bridle's out of `git status`, and so out of the agent's commits."""
    path, lines = _excluded(worktree)
    if path and f"/{name}" not in lines:
        _write_lines(path, [*lines, f"/{name}"])


def show_in_status(worktree: str, name: str) -> None:
    """Undo `hide_from_status`, unless another worktree of the project still has such a file."""
    path, lines = _excluded(worktree)
    if not path or f"/{name}" not in lines:
        return
    if not any(os.path.lexists(os.path.join(root, name)) for root in _worktrees(worktree)):
        _write_lines(path, [line for line in lines if line != f"/{name}"])


def _git(root: str, *words: str) -> int | None:
    """The exit status of a git command; None when git did not answer."""
    import subprocess

    try:
        return subprocess.run(
            ("git", *words),
            cwd=root,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            timeout=30,
            check=False,
        ).returncode
    except (OSError, subprocess.TimeoutExpired):
        return None


def _excluded(worktree: str) -> tuple[str, list[str]]:
    """The repository's own list of ignored files, and its lines; no path outside of git."""
    place = find_git(worktree)
    if place is None:
        return "", []
    path = os.path.join(place.common_dir, "info", "exclude")
    try:
        with open(path, encoding="utf-8", errors="surrogateescape") as file:
            return path, file.read().splitlines()
    except FileNotFoundError:
        return path, []


def _write_lines(path: str, lines: list[str]) -> None:
    os.makedirs(os.path.dirname(path), exist_ok=True)
    partial = f"{path}.bridle-{os.getpid()}"
    with open(partial, "w", encoding="utf-8", errors="surrogateescape") as file:
        file.writelines(f"{line}\n" for line in lines)
    os.replace(partial, path)


def _worktrees(worktree: str) -> list[str]:
    """The project's own folder and all its worktrees."""
    place = find_git(worktree)
    if place is None:
        return []
    roots = [place.root, *([place.main_root] if place.main_root else [])]
    linked = os.path.join(place.common_dir, "worktrees")
    for name in os.listdir(linked) if os.path.isdir(linked) else ():
        try:
            with open(os.path.join(linked, name, "gitdir"), encoding="utf-8") as file:
                roots.append(os.path.dirname(file.read().strip()))
        except OSError:
            continue
    return roots
