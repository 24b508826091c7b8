"""What an agent may do: the policy a call is judged by, and the roles it knows.

A policy is plain data. `check` refuses an invalid one (an unknown capability, a relative worktree,
a branch prefix with a wildcard): an invalid policy is an error and allows nothing.
"""

import msgspec

from bridle.core.capabilities import (
    CAPABILITIES,
    COORDINATORS,
    IMPLEMENTERS,
    branch_problem,
    command_problem,
    path_problem,
)

__all__ = ["CAPABILITIES", "Override", "Policy", "PolicyError", "check"]


class PolicyError(ValueError):
    """The policy itself is wrong; nothing may be judged by it."""


class Override(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What one capability may do in addition to its role, or may not do."""

    allow_commands: tuple[str, ...] = ()
    allow_paths: tuple[str, ...] = ()
    allow_tools: tuple[str, ...] = ()
    deny_commands: tuple[str, ...] = ()
    deny_tools: tuple[str, ...] = ()


TRACKERS = ("ov", "overstory", "bd", "sd", "mulch", "ml")
"""Trackers that are known to change only their own data."""


class Policy(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Everything a verdict depends on, apart from the call and the disk."""

    capability: str | None
    """The agent's role; None is the user's own session, which is not guarded."""
    worktree: str
    """Absolute path of the agent's worktree."""
    cwd: str | None = None
    """Directory the agent's relative paths start from; by default the worktree."""
    agent: str | None = None
    """The agent's name; its branches live below `branch_prefix/agent/`."""
    branch_prefix: str = "bridle"
    scratch: str | None = None
    """The agent's own temporary directory, writable for implementers."""
    main_repo: str | None = None
    """The main checkout; reasons name it, and the worktree's git link must lead below it."""
    home: str | None = None
    """The agent's home directory; by default that of the environment."""
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
        """The override of this policy's capability; empty when none is set."""
        return self.overrides.get(self.capability or "", _NO_OVERRIDE)


_NO_OVERRIDE = Override()


def check(policy: Policy) -> None:
    """Raise `PolicyError` for an invalid policy; `registry.check_safe` checks the safe commands,
    which requires knowledge about programs."""
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
    problems = [path_problem(path) for path in (*policy.allow_paths, *own.allow_paths)]
    problems += [branch_problem(name) for name in (policy.branch_prefix, policy.agent or "agent")]
    opened = (*policy.allow_commands, *policy.quality_gates, *own.allow_commands)
    problems += [command_problem(command, allows=True) for command in opened]
    problems += [command_problem(command, allows=False) for command in own.deny_commands]
    for problem in filter(None, problems):
        raise PolicyError(problem)
