"""Writes an agent's instructions into a worktree without losing what is already there."""

import os

from bridle.core.errors import WrongUse
from bridle.runtimes.git_files import is_tracked

BEGIN = "<!-- bridle:begin (written by Bridle; replaced on each start) -->"
END = "<!-- bridle:end -->"


def write_block(worktree: str, name: str, content: str) -> str:
    """Put `content` into the file `name` of a worktree, between Bridle's own marks.

    Text of others in the file is kept. A symbolic link is refused: it may lead out of the
    worktree. The file is replaced in one step. Returns its path.
    """
    path = os.path.join(worktree, name)
    if os.path.islink(path):
        raise WrongUse(
            f"{path} is a symbolic link; Bridle does not write through it",
            hint="replace the link by a file",
        )
    try:
        with open(path, encoding="utf-8", newline="") as file:
            old = file.read()
    except FileNotFoundError:
        old = ""
    except (OSError, UnicodeDecodeError) as problem:
        raise WrongUse(f"cannot read {path}: {problem}") from None
    block = f"{BEGIN}\n{content.rstrip()}\n{END}\n"
    before, found, rest = old.partition(BEGIN)
    if found:
        _, closed, after = rest.partition(END)
        if not closed:
            raise WrongUse(
                f"{path} holds Bridle's first mark but not its last",
                hint=f"remove the line {BEGIN!r}",
            )
        new = before + block + after.removeprefix("\n")
    else:
        new = f"{old.rstrip()}\n\n{block}" if old.strip() else block
    _replace(path, new)
    return path


def remove_block(worktree: str, name: str) -> bool:
    """Take Bridle's block out of the file `name` again; whether there was one.

    A file that held nothing else is removed, so that the worktree is as it was.
    """
    path = os.path.join(worktree, name)
    try:
        with open(path, encoding="utf-8", newline="") as file:
            old = file.read()
    except (OSError, UnicodeDecodeError):
        return False
    before, found, rest = old.partition(BEGIN)
    _, closed, after = rest.partition(END)
    if not found or not closed:
        return False
    kept = before.rstrip("\n") + "\n" if before.strip() else ""
    new = kept + after.removeprefix("\n")
    if not new.strip():
        os.remove(path)
        return True
    _replace(path, new)
    return True


def refuse_projects_own(worktree: str, name: str) -> None:
    """Refuse to write into the project's own instruction file in its own root.

    Agents work in worktrees of the project; what is written there does not touch it.
    """
    if not os.path.isdir(worktree):
        raise WrongUse(f"no such worktree: {worktree}")
    if os.path.isdir(os.path.join(worktree, ".git")) and is_tracked(worktree, name):
        raise WrongUse(
            f"{os.path.join(worktree, name)} is the project's own instruction file",
            hint="deploy into a worktree of the project (git worktree add)",
        )


def _replace(path: str, text: str) -> None:
    os.makedirs(os.path.dirname(path), exist_ok=True)
    partial = f"{path}.bridle-{os.getpid()}"
    with open(partial, "x", encoding="utf-8", newline="") as file:
        file.write(text)
    os.replace(partial, path)
