"""The policy of one agent: `guards` of the configuration over the defaults, and where it works."""

import os
from typing import TYPE_CHECKING

import msgspec

from bridle.core import structs
from bridle.core.errors import ConfigError, WrongUse
from bridle.core.git import find_git
from bridle.guard.policy import CAPABILITIES, TRACKERS, Override, Policy, PolicyError, check
from bridle.process.spec import ProcessSpec

if TYPE_CHECKING:
    from bridle.config import Config

AGENT_NAME = "BRIDLE_AGENT_NAME"


def check_capability(capability: str) -> None:
    """Raise `WrongUse` for an unknown capability."""
    if capability not in CAPABILITIES:
        known = ", ".join(sorted(CAPABILITIES))
        raise WrongUse(f"unknown capability {capability!r}", hint=f"there are {known}")


def configured_policy(
    config: "Config",
    *,
    capability: str | None,
    worktree: str,
    agent: str | None = None,
    cwd: str | None = None,
    gates: tuple[str, ...] = (),
) -> Policy:
    """The policy of an agent: `guards` of the configuration over the defaults, and `gates`, the
    agent's own quality gates. The scratch folder is the environment's `TMPDIR`, if it is set.

    Raises `ConfigError` for an invalid policy.
    """
    section = config.guards
    overrides = {
        name: structs.convert(msgspec.structs.asdict(each), Override)
        for name, each in section.overrides.items()
    }
    policy = Policy(
        capability=capability,
        worktree=os.path.abspath(worktree),
        cwd=os.path.abspath(cwd) if cwd else None,
        agent=agent,
        branch_prefix=section.branch_prefix,
        scratch=os.environ.get("TMPDIR"),
        quality_gates=(*section.quality_gates, *gates),
        allow_commands=section.allow_commands,
        allow_paths=section.allow_paths,
        safe_commands=(*TRACKERS, *section.safe_commands),
        overrides=overrides,
    )
    try:
        check(policy)
        if section.safe_commands:
            from bridle.guard.commands.registry import check_safe

            check_safe(policy)
    except PolicyError as problem:
        raise ConfigError(f"guards: {problem}") from None
    return policy


def policy_of(
    config: "Config", capability: str, spec: ProcessSpec, gates: tuple[str, ...] = ()
) -> Policy:
    """The policy of an agent that is started as `spec`; `gates` are its own quality gates, added to
    those of the configuration.

    The agent's worktree is the git work tree around its folder, or that folder itself. The content
    of the worktree's `.git` file is recorded now, before the agent can change it. Raises
    `ConfigError`.
    """
    place = find_git(spec.cwd)
    worktree = place.root if place is not None else os.path.realpath(spec.cwd)
    if worktree.strip("/") == "":
        raise ConfigError("guards: an agent cannot be guarded in the root directory")
    policy = configured_policy(
        config,
        capability=capability,
        worktree=worktree,
        agent=spec.env.get(AGENT_NAME) or None,
        cwd=spec.cwd,
        gates=gates,
    )
    link = None
    if place is not None and not place.inside:
        with open(os.path.join(place.root, ".git"), encoding="utf-8", errors="replace") as file:
            link = file.read()
    temporary = spec.env.get("TMPDIR")
    return msgspec.structs.replace(
        policy,
        scratch=temporary if temporary and os.path.isabs(temporary) else None,
        home=spec.env.get("HOME") or None,
        main_repo=place.main_root if place is not None else None,
        git_link=link,
    )
