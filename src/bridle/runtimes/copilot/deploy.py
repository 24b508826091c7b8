"""Putting an agent's instructions into its worktree without taking anyone else's away.

Copilot reads `.github/copilot-instructions.md` and every `.github/instructions/*.instructions.md`.
Ours stand in a marked block of the first, or in a file of our own of the second kind when the
first is under version control. `AGENTS.md` and `CLAUDE.md`, the project's own, are never touched.
"""

import os

from bridle.core.errors import WrongUse
from bridle.runtimes.copilot.command import INSTRUCTION_FILE
from bridle.runtimes.git_files import is_tracked
from bridle.runtimes.instructions import remove_block, write_block

INSTRUCTIONS = os.path.join(".github", "copilot-instructions.md")
_PLACES = (INSTRUCTIONS, INSTRUCTION_FILE)


def deploy_instructions(worktree: str, content: str) -> str:
    """Write `content` where Copilot reads it; returns the file. Everything else in it is kept."""
    root = os.path.realpath(worktree)
    if not os.path.isdir(root):
        raise WrongUse(f"no such worktree: {worktree}")
    for name in _PLACES:
        folder = os.path.dirname(os.path.join(root, name))
        if not f"{os.path.realpath(folder)}{os.sep}".startswith(root + os.sep):
            raise WrongUse(f"{name} leads out of the worktree", hint="remove the symbolic link")
        if not is_tracked(root, name):
            return write_block(root, name, content)
    raise WrongUse(
        f"{' and '.join(_PLACES)} are both under version control",
        hint=f"take {INSTRUCTION_FILE} out of version control; it is Bridle's",
    )


def withdraw_instructions(worktree: str) -> list[str]:
    """Take back what `deploy_instructions` wrote; the files it changed or removed."""
    root = os.path.realpath(worktree)
    return [os.path.join(root, name) for name in _PLACES if remove_block(root, name)]
