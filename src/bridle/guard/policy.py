"""What an agent may do: the policy a call is judged by, and the roles it knows.

A policy is plain data. `check` refuses one that cannot be meant (an unknown capability, a relative
worktree, a branch prefix with a wildcard): a wrong policy is an error, never an open door.
"""

import msgspec

from bridle.guard.names import names

IMPLEMENTERS = frozenset({"builder", "merger"})
"""Capabilities that write files inside their worktree."""

READERS = frozenset({"scout", "reviewer", "lead"})
"""Capabilities that only read, and may not commit."""

COORDINATORS = frozenset({"coordinator", "orchestrator", "supervisor", "monitor"})
"""Capabilities that read, and may stage and commit metadata."""

CAPABILITIES = IMPLEMENTERS | READERS | COORDINATORS

TOO_BROAD = names(
    "git sh bash dash zsh ksh fish env command exec eval xargs find sudo su doas ssh nohup nice "
    "timeout time setsid stdbuf python python3 node perl ruby php"
)
"""Names that may not be allowed alone: they would let every command through."""


class PolicyError(ValueError):
    """The policy itself is wrong; nothing may be judged by it."""


class Override(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What one capability gets beyond, or short of, its role."""

    allow_commands: tuple[str, ...] = ()
    allow_paths: tuple[str, ...] = ()
    allow_tools: tuple[str, ...] = ()
    deny_commands: tuple[str, ...] = ()
    deny_tools: tuple[str, ...] = ()


TRACKERS = ("ov", "overstory", "bd", "sd", "mulch", "ml")
"""Trackers that are known to keep to their own data."""


class Policy(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Everything a verdict depends on beside the call and the disk."""

    capability: str | None
    """The agent's role; None is the user's own session, which no guard touches."""
    worktree: str
    """Absolute path of the agent's worktree."""
    cwd: str | None = None
    """Directory the agent's relative paths start from; the worktree unless told."""
    agent: str | None = None
    """The agent's name; its branches live below `branch_prefix/agent/`."""
    branch_prefix: str = "bridle"
    scratch: str | None = None
    """The agent's own temporary directory, writable for implementers."""
    main_repo: str | None = None
    """The main checkout; reasons name it, and the worktree's git link must lead below it."""
    home: str | None = None
    """The agent's home directory; that of the environment unless told."""
    git_link: str | None = None
    """Text of the worktree's `.git` file as the orchestrator made it."""
    command_name: str = "bridle"
    """How agents call the orchestrator."""
    quality_gates: tuple[str, ...] = ()
    allow_commands: tuple[str, ...] = ()
    allow_paths: tuple[str, ...] = ()
    safe_commands: tuple[str, ...] = TRACKERS
    """Trackers and stores that every capability may call; their data is their own."""
    overrides: dict[str, Override] = {}

    @property
    def implements(self) -> bool:
        """Whether this capability writes files."""
        return self.capability in IMPLEMENTERS

    @property
    def commits(self) -> bool:
        """Whether this capability may run git add and git commit."""
        return self.capability in IMPLEMENTERS or self.capability in COORDINATORS

    @property
    def override(self) -> Override:
        """The override of this policy's own capability, an empty one when there is none."""
        return self.overrides.get(self.capability or "", _NO_OVERRIDE)


_NO_OVERRIDE = Override()


def check(policy: Policy) -> None:
    """Raise `PolicyError` when the policy cannot be meant as written."""
    if policy.capability is None:
        return
    for name in (policy.capability, *policy.overrides):
        if name not in CAPABILITIES:
            known = ", ".join(sorted(CAPABILITIES))
            raise PolicyError(f"unknown capability {name!r}; known are {known}")
    for label, path in (
        ("worktree", policy.worktree),
        ("cwd", policy.cwd),
        ("scratch", policy.scratch),
        ("main_repo", policy.main_repo),
        ("home", policy.home),
    ):
        if path is not None and (not path.startswith("/") or "\0" in path):
            raise PolicyError(f"{label} must be an absolute path, not {path!r}")
    if policy.worktree.strip("/") == "":
        raise PolicyError("the worktree may not be the root directory")
    own = policy.override
    for path in (*policy.allow_paths, *own.allow_paths):
        if not path.startswith("/") or path.strip("/") == "":
            raise PolicyError(f"an allowed path must be absolute and not the root: {path!r}")
    for name in (policy.branch_prefix, policy.agent or "agent"):
        if not name or any(c in name for c in " *?[\\^~:\0") or ".." in name:
            raise PolicyError(f"not usable in a branch name: {name!r}")
    _check_commands(policy)


def _check_commands(policy: Policy) -> None:
    own = policy.override
    every = (*policy.allow_commands, *policy.quality_gates, *own.allow_commands)
    for command in (*every, *own.deny_commands):
        if not command.strip():
            raise PolicyError("an empty command cannot be allowed, denied or a quality gate")
    for name in set(policy.safe_commands) - set(TRACKERS):
        if not name.strip() or set(name) & set(" \t/") or _is_known(name):
            raise PolicyError(f"{name!r} cannot be a safe command: name a program without rules")
    for command in every:
        words = command.split()
        if len(words) == 1 and words[0].rsplit("/", 1)[-1] in TOO_BROAD:
            raise PolicyError(f"{command!r} alone would allow every command; name what it runs")


def _is_known(name: str) -> bool:
    """Whether a program has rules of its own, which calling it safe would lift."""
    from bridle.guard.commands.registry import HANDLERS
    from bridle.guard.commands.table import READERS as PROGRAMS
    from bridle.guard.commands.table import SPECS
    from bridle.guard.commands.wrappers import WRAPPERS

    tables = (HANDLERS, SPECS, PROGRAMS, WRAPPERS)
    return name in TOO_BROAD or any(name in table for table in tables)
