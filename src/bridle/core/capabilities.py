"""The roles an agent can have, and what their policies may name.

The configuration checks files by these rules and the guard checks policies by them, so that both
refuse the same things.
"""

from bridle.core.options import SandboxMode

IMPLEMENTERS = frozenset({"builder", "merger"})
"""Capabilities that write files inside their worktree."""

READERS = frozenset({"scout", "reviewer", "lead"})
"""Capabilities that only read, and may not commit."""

COORDINATORS = frozenset({"coordinator", "orchestrator", "supervisor", "monitor"})
"""Capabilities that read, and may stage and commit metadata."""

CAPABILITIES = IMPLEMENTERS | READERS | COORDINATORS

CAPABILITY_NAMES = (
    *("builder", "merger", "scout", "reviewer", "lead"),
    *("coordinator", "supervisor", "monitor", "orchestrator"),
)
"""The same, in the order in which they are shown."""

SANDBOXES: dict[str, SandboxMode] = {
    **dict.fromkeys(IMPLEMENTERS, "worktree"),
    **dict.fromkeys(READERS, "read-only"),
    **dict.fromkeys(COORDINATORS, "commit"),
}
"""The default sandbox of an agent guarded by each capability: the kernel enforces what the
capability may write."""

_BROAD = (
    "git sh bash dash zsh ksh fish env command exec eval xargs find sudo su doas ssh nohup nice"
    " timeout time setsid stdbuf python python3 node perl ruby php"
)
TOO_BROAD = frozenset(_BROAD.split())
"""Names that may not be allowed alone: they would let every command through."""


def path_problem(path: str) -> str:
    """Why `path` cannot be a folder that an agent may write; empty when it can."""
    if not path.startswith("/") or path.strip("/") == "":
        return f"an allowed path must be absolute and not the root: {path!r}"
    return ""


def branch_problem(name: str) -> str:
    """Why `name` cannot be a part of a branch's name; empty when it can."""
    if not name or any(c in name for c in " *?[\\^~:\0") or ".." in name:
        return f"not usable in a branch name: {name!r}"
    return ""


def command_problem(command: str, *, allows: bool) -> str:
    """Why `command` cannot be allowed, denied or a quality gate; empty when it can. With `allows`,
    the bare name of a shell is refused too: it would allow every command."""
    words = command.split()
    if not words:
        return "an empty command cannot be allowed, denied or a quality gate"
    if allows and len(words) == 1 and words[0].rsplit("/", 1)[-1] in TOO_BROAD:
        return f"{command!r} alone would allow every command; name what it runs"
    return ""
