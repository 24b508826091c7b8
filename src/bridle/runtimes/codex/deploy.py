"""Writes an agent's instructions where Codex reads them, without touching anybody's file.

Codex reads `AGENTS.md` of the worktree, or `AGENTS.override.md` in its place. A worktree that has
an `AGENTS.md` of its own keeps it: the override then holds that text and ours. One that has an
`AGENTS.override.md` of its own gets ours added at its end, since Codex would read nothing else.
"""

import os

from bridle.core.errors import WrongUse
from bridle.runtimes.git_files import hide_from_status

INSTRUCTIONS = "AGENTS.md"
OVERRIDE = "AGENTS.override.md"
_BEGIN = "<!-- bridle: instructions of this agent -->"
_KEPT = "<!-- bridle: the text above is this file's own -->"


def deploy_instructions(worktree: str, content: str) -> list[str]:
    """Write `content` for the agent in `worktree`; returns the files written.

    May be called again: what Bridle wrote is replaced, what others wrote stays.
    """
    if not os.path.isdir(worktree):
        raise WrongUse(f"no such worktree: {worktree}")
    ours = f"{_BEGIN}\n{content.rstrip()}\n"
    plain, override = (os.path.join(worktree, name) for name in (INSTRUCTIONS, OVERRIDE))
    own_override = _own_text(_read(override), made_by_copy=True)
    if own_override is not None:
        _write(override, f"{own_override.rstrip()}\n{_KEPT}\n\n{ours}")
        return [override]
    theirs = _own_text(_read(plain), made_by_copy=False)
    if theirs is None:
        _write(plain, ours)
        return [plain]
    _write(override, f"{theirs.rstrip()}\n\n{ours}")
    hide_from_status(worktree, OVERRIDE)
    return [override]


def _read(path: str) -> str | None:
    try:
        with open(path, encoding="utf-8", errors="surrogateescape", newline="") as file:
            return file.read()
    except FileNotFoundError:
        return None


def _own_text(text: str | None, *, made_by_copy: bool) -> str | None:
    """What others wrote into a file; None when it is not there or is wholly Bridle's.

    What stands above our mark is the file's own, except in an override that Bridle made: there it
    is a copy of `AGENTS.md`, unless the second mark says otherwise.
    """
    if text is None:
        return None
    head, marked, _ = text.partition(_BEGIN)
    if not marked:
        return text
    own, kept, _ = head.partition(_KEPT)
    if kept:
        return own
    return None if made_by_copy or not head.strip() else head


def _write(path: str, text: str) -> None:
    partial = f"{path}.{os.getpid()}.tmp"
    with open(partial, "w", encoding="utf-8", errors="surrogateescape", newline="") as file:
        file.write(text)
    os.replace(partial, path)
