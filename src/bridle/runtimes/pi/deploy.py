"""Writing an agent's instructions into a worktree without losing what the project says there."""

import os

from bridle.runtimes.instructions import file_text, put_block
from bridle.runtimes.pi.dialects import PiDialect


def deploy_instructions(worktree: str, content: str, dialect: PiDialect) -> str:
    """Put `content` into the file that Pi reads in `worktree`; returns the file's path.

    The project's own text stays, before a marked part that the next call replaces. Pi reads one
    file in a folder: where the project has only a CLAUDE.md, its text is carried along, since the
    new file would hide it.
    """
    name = _file_name(worktree, dialect)
    hidden = file_text(os.path.join(worktree, "CLAUDE.md")) if name == "AGENTS.md" else ""
    return put_block(os.path.join(worktree, name), content, hidden=hidden)


def _file_name(worktree: str, dialect: PiDialect) -> str:
    override = "AGENTS.override.md"
    if dialect.override_file and os.path.exists(os.path.join(worktree, override)):
        return override
    return "AGENTS.md"
