"""How Gemini is made to ask before each tool call: hooks in settings of the run's own.

Those add up with the user's and the project's. A file that stands above them can switch all hooks
off: one that does is refused, and hooks that do not run for another reason end the run as unproved.
"""

import os
from collections.abc import Mapping
from typing import Any

import msgspec

from bridle.core.errors import GuardRefused, WrongUse
from bridle.runtimes.gemini import home
from bridle.runtimes.json_settings import with_hooks
from bridle.runtimes.plan import RunPlan
from bridle.turns.guard_contract import REASON, GuardHook, GuardMechanism, HookShape

_MILLISECONDS = 600_000

SHAPE = HookShape(
    asks=("BeforeTool",),
    live=("SessionStart", "BeforeAgent"),
    refusal={"decision": "deny", "reason": REASON},
    # What a hook wrote counts however it ended, stderr when stdout is empty.
    consent={},
    foretold=True,
)

HOOKS = GuardMechanism(
    name="BeforeTool in settings of the run's own",
    fails="open",
    proof="its SessionStart and BeforeAgent hooks run before the first model call",
    shape=SHAPE,
    # The hooks tell no id of the call.
    matching="count",
)


def guard_plan(plan: RunPlan, hook: GuardHook) -> RunPlan:
    """The plan of an agent that asks; see `Guarded.guard_plan`."""
    env = plan.spec.env
    try:
        settings = home.user_settings(env)
        above = [each for _, each in home.settings_above(plan.spec.cwd, env)]
    except WrongUse as problem:
        raise GuardRefused(f"gemini: {problem.message}", runtime="gemini") from None
    if any(map(_switched_off, (settings, *above))):
        raise GuardRefused("gemini: its settings switch hooks off", runtime="gemini")
    events = [*SHAPE.asks, *SHAPE.live]
    entry = {"type": "command", "command": hook.command(SHAPE), "timeout": _MILLISECONDS}
    whole = with_hooks(settings, {event: [{"hooks": [entry]}] for event in events})
    if home.user_config_dir(env) != home.config_dir(env):
        home.write_settings(env, whole)
        return msgspec.structs.replace(plan, guard=HOOKS)
    # A session that a person drives has no home of its own yet.
    spec = msgspec.structs.replace(
        plan.spec, env={**env, **home.make_home(hook.folder, whole, env)}
    )
    return msgspec.structs.replace(plan, spec=spec, guard=HOOKS)


def deploy_hooks(worktree: str, command: str | None, mark: str, env: Mapping[str, str]) -> str:
    """See `Guarded.deploy_guard`. Gemini takes hooks from a folder only that its user has
    trusted, and says nothing where it does not; so such a folder is refused."""
    from bridle.runtimes.worktree_hooks import put_hooks

    root = os.path.realpath(worktree)
    settings = home.user_settings(env)
    if command is not None and not home.is_trusted(root, env, settings):
        raise GuardRefused(
            "gemini takes no guard from a worktree that you have not trusted",
            hint="start gemini there once and trust the folder, or start it with Bridle",
            runtime="gemini",
        )
    entry = {"type": "command", "command": command, "timeout": _MILLISECONDS}
    entries: dict[str, list[Any]] = {event: [{"hooks": [entry]}] for event in SHAPE.asks}
    name = os.path.join(".gemini", "settings.json")
    return put_hooks(
        worktree,
        name,
        entries if command is not None else None,
        mark,
        runtime="gemini",
        switched_off=_switched_off,
    )


def _switched_off(settings: dict[str, Any]) -> bool:
    config = settings.get("hooksConfig")
    return isinstance(config, dict) and config.get("enabled") is False
