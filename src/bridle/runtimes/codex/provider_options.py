"""The options that only Codex knows: a closed set, each checked before anything starts."""

from typing import Any

import msgspec

from bridle.core.errors import UnsupportedOption
from bridle.core.options import RunOptions
from bridle.runtimes.provider_options import check_range, read_provider_options
from bridle.runtimes.retries import LONGEST_PAUSE

DEFAULT_MAX_RETRIES = 3
SHARED_SOCKET = "shared_socket"


class CodexOptions(msgspec.Struct, frozen=True, kw_only=True):
    """`RunOptions.provider_options` for Codex, after the checks."""

    max_retries: int = DEFAULT_MAX_RETRIES
    """How often a failing model call is tried again, where Bridle names the provider."""
    retry_seconds: float = LONGEST_PAUSE
    """Longest pause before a failing model call is tried again; a service may ask for hours."""
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
    shared_socket: bool = False
    """In a live session: serve it on a socket, so that a person can join by Codex's own terminal
    interface."""
    fork: bool = False
    """With `resume`: go on in a copy of the thread, under a new id."""


def read_options(given: dict[str, Any]) -> CodexOptions:
    """The checked options; `WrongUse` names the one that is wrong, and the nearest right name.

    Values may be texts, as the command line gives them: `true`, `3`, `dir1:dir2`.
    """
    own = read_provider_options("codex", given, CodexOptions, lists=("add_dirs",))
    check_range("retry_seconds", own.retry_seconds, 1, 86400)
    return own


def refuse_shared(options: RunOptions, own: CodexOptions, where: str) -> tuple[str, ...]:
    """Outside of live sessions there is no app-server to share: refuse the option, or name it as
    one that is ignored."""
    if not own.shared_socket:
        return ()
    if not options.ignore_unsupported:
        raise UnsupportedOption(
            "codex", f"provider option {SHARED_SOCKET}", [], reason=where, ignorable=True
        )
    return (SHARED_SOCKET,)
