"""What git says about files of a worktree, and which it does not see."""

import os

from bridle.repository import find_git


def is_tracked(root: str, name: str) -> bool:
    """Whether the file `name` of the worktree `root` is there and under version control.

    Not knowing counts as yes: then it is somebody's.
    """
    if not os.path.exists(os.path.join(root, name)):
        return False
    import subprocess

    try:
        asked = subprocess.run(
            ("git", "ls-files", "--error-unmatch", "--", name),
            cwd=root,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            timeout=30,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return True
    return asked.returncode == 0


def hide_from_status(worktree: str, name: str) -> None:
    """Keep a file of Bridle's out of `git status`, and so out of the agent's commits."""
    place = find_git(worktree)
    if place is None:
        return
    path = os.path.join(place.common_dir, "info", "exclude")
    line = f"/{name}"
    try:
        with open(path, encoding="utf-8", errors="surrogateescape") as file:
            text = file.read()
    except FileNotFoundError:
        text = ""
    if line in text.splitlines():
        return
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "a", encoding="utf-8") as file:
        file.write(f"{'' if not text or text.endswith(chr(10)) else chr(10)}{line}\n")
