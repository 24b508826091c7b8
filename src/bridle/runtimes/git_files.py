"""What git says about files of a worktree."""

import os


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
