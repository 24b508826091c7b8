"""Writing an agent's instructions into a worktree without losing what the project says there."""

import os

from bridle.runtimes.pi.dialects import PiDialect

BEGIN = "<!-- bridle:begin -->"
END = "<!-- bridle:end -->"


def deploy_instructions(worktree: str, content: str, dialect: PiDialect) -> str:
    """Put `content` into the file that Pi reads in `worktree`; returns the file's path.

    The project's own text stays, before a marked part that the next call replaces. Pi reads one
    file in a folder: where the project has only a CLAUDE.md, its text is carried along, since the
    new file would hide it.
    """
    path = os.path.join(worktree, _file_name(worktree, dialect))
    own = _without_marked(_read(path)).rstrip()
    if not own and os.path.basename(path) == "AGENTS.md":
        hidden = _read(os.path.join(worktree, "CLAUDE.md")).strip()
        content = f"{content.strip()}\n\n{hidden}" if hidden else content
    marked = f"{BEGIN}\n{content.strip()}\n{END}\n"
    partial = f"{path}.{os.getpid()}"
    with open(partial, "w", encoding="utf-8", errors="surrogateescape", newline="") as file:
        file.write(f"{own}\n\n{marked}" if own else marked)
    os.replace(partial, path)
    return path


def _file_name(worktree: str, dialect: PiDialect) -> str:
    override = "AGENTS.override.md"
    if dialect.override_file and os.path.exists(os.path.join(worktree, override)):
        return override
    return "AGENTS.md"


def _read(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="surrogateescape", newline="") as file:
            return file.read()
    except OSError:
        return ""


def _without_marked(text: str) -> str:
    start, end = text.find(BEGIN), text.find(END)
    if start < 0 or end < start:
        return text
    return text[:start] + text[end + len(END) :].lstrip("\n")
