"""Puts the guard around an agent that is about to start, in a run or in a session.

guarding = RunGuarding(runtime, "builder", env, stdio=True)
plan = guarding.adapt(plan)                     # before a sandbox is put around it
recorder.guard = guarding.begin(plan, config)   # before the agent is started
…
guarding.close()                                # when the agent is gone

`SessionGuarding` is used in the same way; its `begin` returns what the session's driver must know.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING

import msgspec

from bridle.core.errors import GuardRefused
from bridle.core.files import new_private_dir
from bridle.core.options import CAPABILITY
from bridle.guard.agent_policy import check_capability, policy_of
from bridle.process.private_folders import claim_folders, remove_folders
from bridle.runtimes.contract import Adapter, Guarded, as_guarded, no_worktree_guard
from bridle.turns.guard_contract import Guard, GuardFacts

if TYPE_CHECKING:
    from bridle.config import Config
    from bridle.guard.hooks.guard_folder import SessionHook
    from bridle.guard.hooks.host import HookHost, RunGuard
    from bridle.runtimes.plan import RunPlan


class RunGuarding:
    """The guard of a run, from its plan to its end.

    `host` answers its hooks; without one a host is made and ended here. `stdio` says that the
    driver holds the agent's stdin and answers what comes on its stdout.

    Contract: raises `WrongUse` for an unknown capability. `adapt` and `begin` raise `GuardRefused`
    when the agent cannot be guarded, `ConfigError` for a wrong policy. Call `close` then, and at
    the end in any case; it may be called twice.
    """

    def __init__(
        self,
        runtime: Adapter,
        capability: str,
        env: Mapping[str, str],
        *,
        stdio: bool,
        host: "HookHost | None" = None,
    ) -> None:
        # Not imported at the start of `bridle run`, which mostly guards nothing.
        from bridle.guard.hooks.host import HookHost

        check_capability(capability)
        self.capability = capability
        self._runtime = runtime
        self._own_host = HookHost() if host is None else None
        using = host or self._own_host
        assert using is not None
        folder = new_private_dir(env, "guard")
        claim_folders((folder,))
        self.hook = using.open_run(folder, stdio=stdio)

    def adapt(self, plan: "RunPlan") -> "RunPlan":
        """The plan of an agent that asks before each tool call."""
        return adapted(self._runtime, self.capability, plan, self.hook)

    def begin(self, plan: "RunPlan", config: "Config | None" = None) -> Guard:
        """Answer the agent that `plan` starts, by the rules of `config` (by default that of its
        folder)."""
        if config is None:
            from bridle.config import load_config

            config = load_config(plan.spec.cwd)
        assert plan.guard is not None
        return self.hook.begin(plan.guard, policy_of(config, self.capability, plan.spec))

    def close(self) -> None:
        """Stop answering, and remove the guard's files."""
        self.hook.close()
        remove_folders((self.hook.folder,))
        if self._own_host is not None:
            self._own_host.close()


class SessionGuarding:
    """The guard of one process of a session, until that process is started.

    Contract: raises as `RunGuarding` does. Once the process is started the guard's folder belongs
    to the session's driver; if it is not started, `close` removes the folder.
    """

    def __init__(self, runtime: Adapter, capability: str, env: Mapping[str, str]) -> None:
        from bridle.guard.hooks.guard_folder import SessionHook

        check_capability(capability)
        self.capability = capability
        self._runtime = runtime
        self.hook = SessionHook(new_private_dir(env, "guard"))

    def adapt(self, plan: "RunPlan") -> "RunPlan":
        """The plan of an agent that asks before each tool call."""
        return adapted(self._runtime, self.capability, plan, self.hook)

    def begin(self, plan: "RunPlan", config: "Config") -> GuardFacts:
        """Put the rules of `config` in force; returns what the session's driver must know."""
        assert plan.guard is not None
        self.hook.begin(plan.guard, policy_of(config, self.capability, plan.spec))
        return GuardFacts(capability=self.capability, mechanism=plan.guard, folder=self.hook.folder)

    def close(self) -> None:
        """Remove the guard's files if the process was not started."""
        self.hook.close()


def adapted(
    runtime: Adapter, capability: str, plan: "RunPlan", hook: "RunGuard | SessionHook"
) -> "RunPlan":
    """`plan`, of an agent of `capability` that asks `hook` before each tool call."""
    if plan.unguarded:
        raise GuardRefused(
            plan.unguarded,
            hint="install a tested version, or confine it with --sandbox and pass --unguarded",
            runtime=runtime.id,
        )
    env = {**plan.spec.env, CAPABILITY: capability}
    plan = msgspec.structs.replace(plan, spec=msgspec.structs.replace(plan.spec, env=env))
    plan = as_guarded(runtime).guard_plan(plan, hook)
    if plan.guard is None:
        raise GuardRefused(f"{runtime.id} does not say how it asks before a tool call")
    files = (*plan.writable_files, *hook.writable)
    return msgspec.structs.replace(plan, writable_files=files)


def as_deployable(adapter: Adapter) -> Guarded:
    """The adapter whose guard can be put into a worktree; raises `GuardRefused` if it has none."""
    if isinstance(adapter, Guarded):
        return adapter
    raise no_worktree_guard(adapter)
