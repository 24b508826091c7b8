"""Putting an agent's instructions into its worktree without taking anyone else's away.

Claude reads `CLAUDE.md`, `.claude/CLAUDE.md` and `CLAUDE.local.md`, all of them. The first is the
project's own and is never touched. Ours stand in a marked block of the second, or of the third
when the second is under version control; a later deployment replaces the block and nothing else.
"""

import os

from bridle.core.errors import WrongUse
from bridle.runtimes.git_files import is_tracked

BEGIN = "<!-- bridle:begin -->"
END = "<!-- bridle:end -->"
INSTRUCTIONS = os.path.join(".claude", "CLAUDE.md")
LOCAL_INSTRUCTIONS = "CLAUDE.local.md"


def deploy_instructions(worktree: str, content: str) -> str:
    """Write `content` where Claude reads it; returns the file. Everything else in it is kept."""
    root = os.path.realpath(worktree)
    if not os.path.isdir(root):
        raise WrongUse(f"no such worktree: {worktree}")
    for name in (INSTRUCTIONS, LOCAL_INSTRUCTIONS):
        path = os.path.join(root, name)
        if not os.path.realpath(path).startswith(root + os.sep):
            raise WrongUse(f"{name} leads out of the worktree", hint="remove the symbolic link")
        if not is_tracked(root, name):
            _put_block(path, content)
            return path
    raise WrongUse(
        f"{INSTRUCTIONS} and {LOCAL_INSTRUCTIONS} are both under version control",
        hint=f"take {LOCAL_INSTRUCTIONS} out of version control; it is meant to be personal",
    )


def _put_block(path: str, content: str) -> None:
    block = f"{BEGIN}\n{content.rstrip()}\n{END}\n"
    try:
        with open(path, encoding="utf-8") as file:
            text = file.read()
    except FileNotFoundError:
        text = ""
    start, end = text.find(BEGIN), text.find(END)
    if 0 <= start < end:
        text = text[:start] + block + text[end + len(END) :].removeprefix("\n")
    else:
        text = f"{text.rstrip()}\n\n{block}" if text.strip() else block
    os.makedirs(os.path.dirname(path), exist_ok=True)
    partial = f"{path}.{os.getpid()}.partial"
    with open(partial, "w", encoding="utf-8") as file:
        file.write(text)
    os.replace(partial, path)
