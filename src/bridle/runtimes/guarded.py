"""Puts the guard around an agent that is about to start, whatever drives it.

guarding = Guarding(runtime, "builder", env, stdio=True)
plan = guarding.adapt(plan)                     # before a sandbox is put around it
recorder.guard = guarding.begin(plan, config)   # before the agent is started
…
guarding.close()                                # when the agent is gone
"""

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING

import msgspec

from bridle.core.errors import ConfigError, GuardRefused, WrongUse
from bridle.core.files import new_private_dir
from bridle.core.git import find_git
from bridle.core.options import CAPABILITY
from bridle.guard.policy import CAPABILITIES
from bridle.process.private_folders import claim_folders, remove_folders
from bridle.process.spec import ProcessSpec
from bridle.runtimes.contract import Adapter, as_guarded
from bridle.turns.guard_contract import Guard

if TYPE_CHECKING:
    from bridle.config import Config
    from bridle.guard.hooks.lasting import LastingHook
    from bridle.guard.hooks.service import GuardSession, JudgeService
    from bridle.guard.policy import Policy
    from bridle.runtimes.plan import RunPlan

AGENT_NAME = "BRIDLE_AGENT_NAME"


class Guarding:
    """The guard of one agent, from its plan to its end.

    `service` is the host's own when it has one for many agents; else one is made and ended here.
    `stdio` says that the driver holds the agent's stdin and answers what comes on its stdout.

    Contract: raises `WrongUse` for a capability that is none. `adapt` and `begin` raise
    `GuardRefused` when the agent cannot be guarded, `ConfigError` for a wrong policy; then, and at
    the end in any case, `close` is called, which may be called twice.
    """

    def __init__(
        self,
        runtime: Adapter,
        capability: str,
        env: Mapping[str, str],
        *,
        stdio: bool,
        service: "JudgeService | None" = None,
    ) -> None:
        from bridle.guard.hooks.service import JudgeService

        check_capability(capability)
        self.capability = capability
        self._runtime = runtime
        self._own_service = JudgeService() if service is None else None
        using = service or self._own_service
        assert using is not None
        folder = new_private_dir(env, "guard")
        claim_folders((folder,))
        self.session = using.open(folder, stdio=stdio)

    def adapt(self, plan: "RunPlan") -> "RunPlan":
        """The plan of an agent that asks before each tool call."""
        return adapted(self._runtime, self.capability, plan, self.session)

    def begin(self, plan: "RunPlan", config: "Config | None" = None) -> Guard:
        """Answer the agent that `plan` starts, by the rules of `config` (that of its folder)."""
        if config is None:
            from bridle.config import load_config

            config = load_config(plan.spec.cwd)
        assert plan.guard is not None
        return self.session.begin(plan.guard, policy_of(config, self.capability, plan.spec))

    def close(self) -> None:
        """Answer no more, and remove the guard's files."""
        self.session.close()
        remove_folders((self.session.folder,))
        if self._own_service is not None:
            self._own_service.close()


def check_capability(capability: str) -> None:
    """Raise `WrongUse` for a capability that is none."""
    if capability not in CAPABILITIES:
        known = ", ".join(sorted(CAPABILITIES))
        raise WrongUse(f"unknown capability {capability!r}", hint=f"there are {known}")


def adapted(
    runtime: Adapter, capability: str, plan: "RunPlan", hook: "GuardSession | LastingHook"
) -> "RunPlan":
    """`plan`, of an agent of `capability` that asks `hook` before each tool call."""
    env = {**plan.spec.env, CAPABILITY: capability}
    plan = msgspec.structs.replace(plan, spec=msgspec.structs.replace(plan.spec, env=env))
    plan = as_guarded(runtime).guard_plan(plan, hook)
    if plan.guard is None:
        raise GuardRefused(f"{runtime.id} did not say how it asks before a tool call")
    files = (*plan.writable_files, *hook.writable)
    return msgspec.structs.replace(plan, writable_files=files)


def policy_of(
    config: "Config", capability: str, spec: ProcessSpec, gates: tuple[str, ...] = ()
) -> "Policy":
    """The policy of an agent that is started as `spec`; `gates` are its own quality gates, beside
    those of the configuration.

    Its worktree is the git work tree around its folder, or that folder itself; what the worktree's
    `.git` file says is taken down now, while it can still be trusted.
    """
    from bridle.guard.configured import configured_policy

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
