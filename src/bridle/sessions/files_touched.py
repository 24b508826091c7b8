"""Which files a tool call names, by the guard's table of what each runtime's tools do."""

import os
from collections.abc import Iterator
from typing import Any, Literal

from bridle.guard.patches import patch_paths
from bridle.guard.tools import PATH_FIELDS, lookup, only_reads
from bridle.sessions.history import ToolUse

Touch = Literal["changed", "read"]

_VIEWS = ("view", "read", "undo_view")
_LONGEST = 500
"""Characters; a longer value is no path."""


def files_of(tool: ToolUse, workdir: str) -> dict[str, Touch]:
    """The files that a call names, relative to `workdir` where they are below it.

    A call that failed changed nothing as far as is known, so its files were only looked at. What a
    shell command does to files is not told here: its text is for people to read.
    """
    args: Any = tool.args
    if not isinstance(args, dict):
        return {}
    known = lookup(tool.name)
    if known is not None and known.action not in ("read", "write", "patch", "editor"):
        return {}
    changes = known is None and not only_reads(tool.name)
    if known is not None:
        changes = known.action in ("write", "patch")
        if known.action == "editor":
            changes = args.get("command") not in _VIEWS
    touch: Touch = "changed" if changes and not tool.is_error else "read"
    fields = PATH_FIELDS | {"filePath", *(known.paths if known else ())}
    named = list(_named(args, fields))
    if known is not None and known.action == "patch":
        for field in known.text:
            if isinstance(text := args.get(field), str):
                named += [path for path, _ in patch_paths(text)]
    return {_shown(path, workdir): touch for path in named if _is_path(path)}


def commands_of(tool: ToolUse) -> list[str]:
    """The commands that a call runs in a shell."""
    known = lookup(tool.name)
    args: Any = tool.args
    if not isinstance(args, dict) or (known is not None and known.action != "shell"):
        return []
    fields = known.text if known is not None else ("command",)
    found = [args[field] for field in fields if field in args]
    return [each if isinstance(each, str) else " ".join(map(str, each)) for each in found if each]


def _named(args: dict[str, Any], fields: frozenset[str] | set[str]) -> Iterator[str]:
    for key, value in args.items():
        if key in ("changes", "edits") and isinstance(value, list):
            for each in value:
                if isinstance(each, dict):
                    yield from _named(each, fields)
        elif key == "changes" and isinstance(value, dict):
            yield from value
        elif key in fields:
            yield from (each for each in _texts(value))


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, list):
        yield from (each for each in value if isinstance(each, str))


def _is_path(text: str) -> bool:
    return bool(text.strip()) and len(text) <= _LONGEST and "\n" not in text and "://" not in text


def _shown(path: str, workdir: str) -> str:
    if workdir and os.path.isabs(path):
        below = os.path.relpath(path, workdir)
        return path if below.startswith("..") else below
    return os.path.normpath(path)
