"""File changes written as patches, as shell commands and as code-mode JavaScript."""

import json
import posixpath
import shlex


def add_file_patch(path: str, content: str) -> str:
    """Return a patch that makes a file; `content` must end with a newline."""
    body = "\n".join(f"+{line}" for line in content[:-1].split("\n"))
    return f"*** Begin Patch\n*** Add File: {path}\n{body}\n*** End Patch\n"


def edit_file_patch(path: str, old: str, new: str) -> str:
    """Return a patch that replaces whole lines of a file."""
    gone = [f"-{line}" for line in _lines(old)]
    come = [f"+{line}" for line in _lines(new)]
    hunk = "\n".join(["@@", *gone, *come])
    return f"*** Begin Patch\n*** Update File: {path}\n{hunk}\n*** End Patch\n"


def can_be_added(content: str) -> bool:
    """Whether a patch can make a file with exactly this content."""
    return content.endswith("\n")


def patch_command(patch: str) -> str:
    """Return a shell command that hands a patch to Codex's `apply_patch`."""
    return f"apply_patch <<'{_mark(patch)}'\n{patch}{_mark(patch)}\n"


def write_command(path: str, content: str) -> str:
    """Return a shell command that writes a file with exactly this content."""
    target = shlex.quote(path)
    folder = posixpath.dirname(path)
    before = f"mkdir -p {shlex.quote(folder)} && " if folder not in ("", "/") else ""
    if content.endswith("\n"):
        mark = _mark(content)
        return f"{before}cat > {target} <<'{mark}'\n{content}{mark}\n"
    return f"{before}printf %s {shlex.quote(content)} > {target}"


def read_command(path: str) -> str:
    """Return a shell command that prints a file."""
    return f"cat {shlex.quote(path)}"


def code_mode_call(tool: str, argument: object) -> str:
    """Return the JavaScript that calls a nested tool and shows what it gave."""
    return f"text(await tools.{tool}({json.dumps(argument, ensure_ascii=False)}));\n"


def _lines(text: str) -> list[str]:
    return text.removesuffix("\n").split("\n")


def _mark(text: str) -> str:
    """Return a here-document mark that no line of the text equals."""
    mark = "EOF"
    lines = set(text.split("\n"))
    while mark in lines:
        mark += "_"
    return mark
