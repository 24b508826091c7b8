"""The options that only Codex knows: a closed set, each checked before anything starts."""

import os
from typing import Any

import msgspec

from bridle.core.errors import WrongUse

DEFAULT_MAX_RETRIES = 3


class CodexOptions(msgspec.Struct, frozen=True, kw_only=True):
    """`RunOptions.provider_options` for Codex, after the checks."""

    max_retries: int = DEFAULT_MAX_RETRIES
    """How often a failing model call is tried again, where Bridle names the provider."""
    effort: str | None = None
    """Reasoning effort, by Codex's own words (`low`, `medium`, `high`, ...)."""
    network_access: bool = False
    """Open the network to commands inside the workspace-write sandbox."""
    git_write: bool = True
    """Let the agent commit: its git folders become writable in workspace-write."""
    add_dirs: tuple[str, ...] = ()
    """More folders that may be written in workspace-write."""
    output_schema: str | None = None
    """A JSON Schema file that the final answer must fit."""
    profile: str | None = None
    """A profile of the user's Codex configuration."""


def read_options(given: dict[str, Any]) -> CodexOptions:
    """The checked options; `WrongUse` names the one that is wrong, and the nearest right name.

    Values may be texts, as the command line gives them: `true`, `3`, `dir1:dir2`.
    """
    known = CodexOptions.__struct_fields__
    values: dict[str, Any] = {}
    for name, value in given.items():
        if name not in known:
            raise WrongUse(
                f"codex has no provider option {name!r}; it has: {', '.join(known)}",
                hint=_nearest(name, known),
            )
        values[name] = value.split(os.pathsep) if _is_list_text(name, value) else value
    try:
        return msgspec.convert(values, CodexOptions, strict=False)
    except msgspec.ValidationError as problem:
        raise WrongUse(f"codex provider option: {problem}") from None


def _is_list_text(name: str, value: Any) -> bool:
    return name == "add_dirs" and isinstance(value, str)


def _nearest(name: str, known: tuple[str, ...]) -> str:
    from difflib import get_close_matches

    close = get_close_matches(name, known, n=1)
    return f"did you mean {close[0]}?" if close else ""
