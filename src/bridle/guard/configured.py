"""A policy from what the user configured and where the agent works."""

import os

import msgspec

from bridle.config import Config
from bridle.core.errors import ConfigError
from bridle.guard.policy import TRACKERS, Override, Policy, PolicyError, check


def configured_policy(
    config: Config,
    *,
    capability: str | None,
    worktree: str,
    agent: str | None = None,
    cwd: str | None = None,
    gates: tuple[str, ...] = (),
) -> Policy:
    """The policy of an agent: `guards` of the configuration over the defaults, and `gates`, the
    agent's own quality gates.

    Raises `ConfigError` when it cannot be meant as written: a wrong policy is an error, never an
    open door. The scratch folder is the one the environment names (`TMPDIR`), if it does.
    """
    section = config.guards
    overrides = {
        name: msgspec.convert(msgspec.structs.asdict(each), Override)
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
    except PolicyError as problem:
        raise ConfigError(f"guards: {problem}") from None
    return policy
