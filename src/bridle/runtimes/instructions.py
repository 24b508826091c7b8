"""An agent's instructions in a file that others write too: a marked block, put in and taken out."""

import os

from bridle.core.errors import WrongUse

BEGIN = "<!-- bridle:begin -->"
END = "<!-- bridle:end -->"


def put_block(path: str, content: str, *, hidden: str = "") -> str:
    """Put `content` into the file at `path`, after what others wrote there; returns the path.

    A block of an earlier call is replaced. `hidden` is the text of a file that the agent stops
    reading when this one exists: it is carried along where the file has no text of its own.
    """
    own = _without_block(_read(path)).rstrip()
    if not own and hidden.strip():
        content = f"{content.strip()}\n\n{hidden.strip()}"
    block = f"{BEGIN}\n{content.strip()}\n{END}\n"
    _write(path, f"{own}\n\n{block}" if own else block)
    return path


def take_block(path: str) -> bool:
    """Undo `put_block`: the block goes, and the file with it when it holds nothing else."""
    text = _read(path)
    own = _without_block(text)
    if own == text:
        return False
    if own.strip():
        _write(path, f"{own.rstrip()}\n")
    else:
        os.remove(path)
    return True


def check_worktree(worktree: str, name: str) -> str:
    """The path of the instruction file `name` in `worktree`; `WrongUse` when it must stay as it is.

    That is the case for the project's own file in its own root: agents work in worktrees, and what
    is written there does not touch it. A link that leads out of the worktree is refused likewise.
    """
    root = os.path.realpath(worktree)
    if not os.path.isdir(root):
        raise WrongUse(f"no such worktree: {worktree}")
    path = os.path.join(root, name)
    if not os.path.realpath(path).startswith(root + os.sep):
        raise WrongUse(f"{name} leads out of the worktree", hint="remove the symbolic link")
    if os.path.isdir(os.path.join(root, ".git")) and is_tracked(root, name):
        raise WrongUse(
            f"{path} is the project's own instruction file",
            hint="deploy into a worktree of the project (git worktree add)",
        )
    return path


def is_tracked(root: str, name: str) -> bool:
    """Whether git keeps the existing file `name`; taken for true where git cannot tell."""
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


def file_text(path: str) -> str:
    """The text of a file, empty when there is none."""
    return _read(path)


def _read(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="surrogateescape", newline="") as file:
            return file.read()
    except OSError:
        return ""


def _write(path: str, text: str) -> None:
    os.makedirs(os.path.dirname(path), exist_ok=True)
    partial = f"{path}.{os.getpid()}.partial"
    with open(partial, "w", encoding="utf-8", errors="surrogateescape", newline="") as file:
        file.write(text)
    os.replace(partial, path)


def _without_block(text: str) -> str:
    start, end = text.find(BEGIN), text.find(END)
    if start < 0 or end < start:
        return text
    return text[:start] + text[end + len(END) :].lstrip("\n")
