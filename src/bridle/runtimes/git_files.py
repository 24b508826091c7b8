"""What git says about files of a worktree, and which it does not see."""

import os
from collections.abc import Iterator
from contextlib import contextmanager

from bridle.core.errors import WrongUse
from bridle.core.files import write_atomic
from bridle.core.git import find_git

_BEGIN = b"# bridle:begin"
_END = b"# bridle:end\n"


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
    """Keep the file `name`, which Bridle made in `worktree`, out of `git status` and so out of what
    `git add -A` takes.

    Git has one list for all worktrees of a repository (`info/exclude`), so while the file is there
    no worktree shows an untracked file of that name. A marked block at the end of the list says
    which worktree each line is for; `show_in_status` takes it out again.
    """
    _change(worktree, name, hidden=True)


def show_in_status(worktree: str, name: str) -> None:
    """Undo `hide_from_status`; with the last line the list is again what it was, to the byte."""
    _change(worktree, name, hidden=False)


def _git(root: str, *words: str) -> int | None:
    """The exit status of a git command; None when git did not answer."""
    import subprocess

    from bridle.core.git import run_git

    try:
        return run_git(root, *words, seconds=30).returncode
    except (OSError, subprocess.TimeoutExpired, WrongUse):
        return None


def _change(worktree: str, name: str, *, hidden: bool) -> None:
    place = find_git(worktree)
    if place is None:
        return
    folder = os.path.join(place.common_dir, "info")
    try:
        os.makedirs(folder, exist_ok=True)
        with _locked(folder):
            _rewrite(os.path.join(folder, "exclude"), place.root, worktree, name, hidden=hidden)
    except OSError:
        # The list is a kindness to those who commit; without it the file only shows.
        return


def _rewrite(path: str, root: str, worktree: str, name: str, *, hidden: bool) -> None:
    try:
        with open(path, "rb") as file:
            text = file.read()
        notes = b"" if not text or text.endswith(b"\n") else b" newline"
    except FileNotFoundError:
        text, notes = b"", b" file"
    before, begun, rest = text.rpartition(_BEGIN)
    block, ended, after = rest.partition(_END)
    if begun and ended:
        notes, _, block = block.partition(b"\n")
    else:
        before, block, after = text, b"", b""
        before += b"\n" if notes == b" newline" else b""
    lines = block.splitlines()
    entries = [(owner, line) for owner, line in zip(lines[::2], lines[1::2], strict=False)]
    inside = os.path.relpath(os.path.join(os.path.realpath(worktree), name), root)
    own = (b"# " + os.fsencode(root), b"/" + _pattern(inside))
    kept = [each for each in entries if each != own and os.path.isdir(each[0][2:])]
    if hidden:
        kept.append(own)
    if kept == entries:
        return
    if kept:
        body = b"".join(owner + b"\n" + line + b"\n" for owner, line in kept)
        _replace(path, before + _BEGIN + notes + b"\n" + body + _END + after)
    elif notes == b" file" and not before + after:
        os.unlink(path)
    else:
        _replace(path, (before.removesuffix(b"\n") if notes == b" newline" else before) + after)


def _pattern(name: str) -> bytes:
    """The line of git's list that means this file and no other."""
    return b"".join(
        b"\\" + bytes((c,)) if c in b"*?[\\ " else bytes((c,)) for c in os.fsencode(name)
    )


def _replace(path: str, text: bytes) -> None:
    write_atomic(path, text, mode=0o666, keep_mode=True)


@contextmanager
def _locked(folder: str) -> Iterator[None]:
    """Nobody else of ours changes the list meanwhile: worktrees are made several at a time."""
    import fcntl

    handle = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)
