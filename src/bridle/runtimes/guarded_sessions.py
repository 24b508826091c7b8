"""Puts the guard around the agent of a session that is about to be started.

guarding = SessionGuarding(runtime, "builder", env)
plan = guarding.adapt(plan)              # before a sandbox is put around it
facts = guarding.begin(plan, config)     # before the agent is started
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from bridle.core.files import new_private_dir
from bridle.guard.hooks.lasting import LastingHook
from bridle.runtimes.guarded import adapted, check_capability, policy_of
from bridle.turns.guard_contract import GuardFacts

if TYPE_CHECKING:
    from bridle.config import Config
    from bridle.runtimes.contract import Adapter
    from bridle.runtimes.plan import RunPlan


class SessionGuarding:
    """The guard of one process of a session, until that is started.

    Contract: raises as `Guarding` does. Once the process is started the guard's folder belongs to
    whoever drives the session; if it is not, `close` removes it.
    """

    def __init__(self, runtime: "Adapter", capability: str, env: Mapping[str, str]) -> None:
        check_capability(capability)
        self.capability = capability
        self._runtime = runtime
        self.hook = LastingHook(new_private_dir(env, "guard"))

    def adapt(self, plan: "RunPlan") -> "RunPlan":
        """The plan of an agent that asks before each tool call."""
        return adapted(self._runtime, self.capability, plan, self.hook)

    def begin(self, plan: "RunPlan", config: "Config") -> GuardFacts:
        """Put the rules of `config` in force; returns what the session's driver must know."""
        assert plan.guard is not None
        self.hook.begin(plan.guard, policy_of(config, self.capability, plan.spec))
        return GuardFacts(capability=self.capability, mechanism=plan.guard, folder=self.hook.folder)

    def close(self) -> None:
        """Remove the guard's files."""
        self.hook.close()
