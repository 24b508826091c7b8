"""Putting an agent's instructions into its worktree without taking anyone else's away.

Cline reads `AGENTS.md` of the folder it works in and every `.md` of `.clinerules`. Ours stand in a
marked block of the first, or in a file of our own among the rules when the first is under version
control: that one is the project's.
"""

import os

from bridle.core.errors import WrongUse
from bridle.runtimes.git_files import is_tracked
from bridle.runtimes.instructions import remove_block, write_block

INSTRUCTIONS = "AGENTS.md"
RULES = ".clinerules"
_PLACES = (INSTRUCTIONS, os.path.join(RULES, "bridle.md"))


def deploy_instructions(worktree: str, content: str) -> str:
    """Write `content` where Cline reads it; returns the file. Everything else in it is kept."""
    root = os.path.realpath(worktree)
    if not os.path.isdir(root):
        raise WrongUse(f"no such worktree: {worktree}")
    rules = os.path.join(root, RULES)
    for name in _PLACES:
        if is_tracked(root, name):
            continue
        if name != INSTRUCTIONS and os.path.lexists(rules) and not _is_own_folder(rules):
            raise WrongUse(
                f"{RULES} is not a folder of the worktree's own",
                hint=f"make it a folder of rules, or take {INSTRUCTIONS} out of version control",
            )
        return write_block(root, name, content)
    raise WrongUse(
        f"{' and '.join(_PLACES)} are both under version control",
        hint=f"take {_PLACES[1]} out of version control; it is Bridle's",
    )


def withdraw_instructions(worktree: str) -> list[str]:
    """Take back what `deploy_instructions` wrote; the files it changed or removed."""
    root = os.path.realpath(worktree)
    return [os.path.join(root, name) for name in _PLACES if remove_block(root, name)]


def _is_own_folder(path: str) -> bool:
    return os.path.isdir(path) and not os.path.islink(path)
