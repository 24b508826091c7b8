"""The options that only Claude Code has: a closed set, checked before anything starts."""

from typing import Any, Literal

import msgspec

from bridle.core.errors import WrongUse

DEFAULT_RETRIES = 3
"""Claude's own default of ten takes three minutes to admit that a key is wrong."""


class ClaudeOptions(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`provider_options` of the `claude` runtime."""

    max_retries: int = DEFAULT_RETRIES
    """How often the CLI tries a failed model call again."""
    fallback_model: str | None = None
    """Model to use while the wanted one is overloaded."""
    effort: Literal["low", "medium", "high", "xhigh", "max"] | None = None
    """How hard the model is to think."""
    add_dirs: tuple[str, ...] = ()
    """Folders beside the working directory that tools may touch."""
    preapproved_tools: tuple[str, ...] = ()
    """Tools or rules (`Bash(git *)`) that need no permission; it takes nothing away."""
    setting_sources: str | None = None
    """Which settings are read: a list of `user`, `project`, `local` with commas, or empty."""
    persist_session: bool = True
    """Keep a transcript, which resuming needs."""
    fork: bool = False
    """With `resume`: go on in a copy of the conversation, under a new id."""


def read_options(given: dict[str, Any]) -> ClaudeOptions:
    """Check what the caller gave; `WrongUse` names an unknown option and the nearest known one.

    Values may be texts, as they come from a command line.
    """
    known = ClaudeOptions.__struct_fields__
    for name in given:
        if name not in known:
            import difflib

            near = difflib.get_close_matches(name, known, n=1)
            raise WrongUse(
                f"claude: unknown provider option {name}",
                hint=f"did you mean {near[0]}?" if near else f"known: {', '.join(known)}",
            )
    listed = {
        name: value.split(",") if isinstance(value, str) and name in _LISTS else value
        for name, value in given.items()
    }
    try:
        options = msgspec.convert(listed, ClaudeOptions, strict=False)
    except msgspec.ValidationError as problem:
        raise WrongUse(f"claude: provider options: {problem}") from None
    if options.max_retries < 0:
        raise WrongUse("claude: provider option max_retries must not be negative")
    return options


_LISTS = ("add_dirs", "preapproved_tools")
