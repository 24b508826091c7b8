"""The files that an agent needs in its worktree before it starts there: instructions and guard."""

import os
from typing import TYPE_CHECKING

from bridle.core.errors import ConfigError, GuardRefused, WrongUse
from bridle.core.options import HooksDef, OverlayContent

if TYPE_CHECKING:
    from bridle.runtimes.contract import Adapter


class Deployment(list[str]):
    """The files of a worktree that were written, the instruction file first."""

    def __init__(self) -> None:
        super().__init__()
        self.instructions: str | None = None
        """The file that the agent reads its instructions from; None if none were given."""
        self.guard: str | None = None
        """The file that contains the guard; None if a worktree cannot contain one."""
        self.unguarded: str = ""
        """Why the worktree contains no guard; Bridle guards the agent when it starts it, if the
        agent can ask."""


def deploy(
    runtime: "Adapter", worktree: str, overlay: OverlayContent | None, hooks: HooksDef
) -> Deployment:
    """See `AgentRuntime.deploy_config`."""
    from bridle.config import load_config
    from bridle.guard import deploy as guard_deploy
    from bridle.guard.agent_policy import AGENT_NAME, check_capability, policy_of
    from bridle.process.spec import ProcessSpec
    from bridle.runtimes import instructions
    from bridle.runtimes.guards import as_deployable

    if not os.path.isdir(worktree):
        raise WrongUse(f"no such worktree: {worktree}")
    boundary = os.path.join(worktree, hooks.worktree_path)
    gates = tuple(gate.command for gate in hooks.quality_gates)
    config = load_config(worktree)
    check_capability(hooks.capability)
    # A wrong policy is found before anything is written, whatever the runtime.
    named = ProcessSpec(argv=(), env={AGENT_NAME: hooks.agent_name}, cwd=boundary)
    policy_of(config, hooks.capability, named, gates)
    done = Deployment()
    if overlay is not None:
        places = runtime.instruction_places(worktree)
        done.instructions = instructions.deploy(worktree, places, overlay.content)
        done.append(done.instructions)
    try:
        put = guard_deploy.deploy(
            as_deployable(runtime),
            config,
            worktree,
            capability=hooks.capability,
            agent=hooks.agent_name,
            gates=gates,
            boundary=boundary,
        )
        done.guard = put.files[0]
        done.append(done.guard)
    except ConfigError:
        raise
    except (GuardRefused, WrongUse) as refusal:
        done.unguarded = refusal.message
    return done


def withdraw(runtime: "Adapter", worktree: str) -> list[str]:
    """See `AgentRuntime.withdraw_config`."""
    from bridle.guard import deploy as guard_deploy
    from bridle.runtimes import instructions
    from bridle.runtimes.guards import as_deployable
    from bridle.runtimes.instructions import Place

    # The places depend on the files that exist now; the first choice may no longer be among them.
    places = (*runtime.instruction_places(worktree), Place(runtime.instruction_path))
    changed = instructions.withdraw(worktree, places)
    # The guard is last: it removes a folder that either made and that is empty now.
    if guard_deploy.is_there(runtime.id, worktree):
        changed += guard_deploy.undo(as_deployable(runtime), worktree).files
    return changed
