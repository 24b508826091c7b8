"""Makes Gemini ask before each tool call: by hooks in settings of the run, over ACP by a policy.

The hooks are added to the user's and the project's. A file with precedence over them can switch all
hooks off: one that does is refused, and hooks that do not run for another reason end the run as
unproved. Over ACP Gemini runs no hooks, but it asks on the wire where a policy says so.
"""

import os
from collections.abc import Mapping
from typing import Any

import msgspec

from bridle.core.errors import GuardRefused, WrongUse
from bridle.core.files import write_private
from bridle.runtimes.acp.hooks import guard_by_asking
from bridle.runtimes.acp.plan import AcpPlan, with_session
from bridle.runtimes.gemini.command import (
    config_dir,
    is_trusted,
    make_home,
    settings_above,
    user_config_dir,
    user_settings,
    write_settings,
)
from bridle.runtimes.options import with_hooks
from bridle.runtimes.plan import RunPlan
from bridle.turns.guard_contract import REASON, GuardHook, GuardMechanism, HookShape

_MILLISECONDS = 600_000

SHAPE = HookShape(
    asks=("BeforeTool",),
    live=("SessionStart", "BeforeAgent"),
    refusal={"decision": "deny", "reason": REASON},
    # What a hook wrote counts whatever its exit status; stderr counts if stdout is empty.
    consent={},
    foretold=True,
)

HOOKS = GuardMechanism(
    name="BeforeTool in settings of the run's own",
    fails="open",
    proof="its SessionStart and BeforeAgent hooks run before the first model call",
    shape=SHAPE,
    # The hooks do not name the call's id.
    matching="count",
)


def guard_plan(plan: RunPlan, hook: GuardHook) -> RunPlan:
    """The plan of an agent that asks; see `Guarded.guard_plan`."""
    if isinstance(plan, AcpPlan):
        return _guard_over_acp(plan, hook)
    env = plan.spec.env
    try:
        settings = user_settings(env)
        above = [each for _, each in settings_above(plan.spec.cwd, env)]
    except WrongUse as problem:
        raise GuardRefused(f"gemini: {problem.message}", runtime="gemini") from None
    if any(map(_switched_off, (settings, *above))):
        raise GuardRefused("gemini: its settings switch hooks off", runtime="gemini")
    events = [*SHAPE.asks, *SHAPE.live]
    entry = {"type": "command", "command": hook.command(SHAPE), "timeout": _MILLISECONDS}
    whole = with_hooks(settings, {event: [{"hooks": [entry]}] for event in events})
    if user_config_dir(env) != config_dir(env):
        write_settings(env, whole)
        return msgspec.structs.replace(plan, guard=HOOKS)
    # A session of a person works in the user's home.
    spec = msgspec.structs.replace(plan.spec, env={**env, **make_home(hook.folder, whole, env)})
    return msgspec.structs.replace(plan, spec=spec, guard=HOOKS)


def _guard_over_acp(plan: AcpPlan, hook: GuardHook) -> AcpPlan:
    """A policy above all others that makes Gemini ask about every tool."""
    path = write_private(hook.folder, "policy/ask.toml", _ASK_ALWAYS)
    spec = msgspec.structs.replace(plan.spec, argv=(*plan.spec.argv, "--admin-policy", path))
    session = msgspec.structs.replace(plan.session, mode=plan.session.mode or "default")
    return guard_by_asking(with_session(msgspec.structs.replace(plan, spec=spec), session), hook)


_ASK_ALWAYS = """\
[[rule]]
toolName = "run_shell_command"
argsPattern = "."
decision = "ask_user"
priority = 999

[[rule]]
toolName = "*"
decision = "ask_user"
priority = 998
"""
"""Gemini runs commands that it considers safe without asking, unless a rule matches the arguments.
"""


def deploy_hooks(worktree: str, command: str | None, mark: str, env: Mapping[str, str]) -> str:
    """See `Guarded.deploy_guard`. Gemini runs hooks only of a folder that its user has trusted,
    and silently skips others; so an untrusted folder is refused."""
    from bridle.runtimes.worktree_hooks import put_hooks

    root = os.path.realpath(worktree)
    settings = user_settings(env)
    if command is not None and not is_trusted(root, env, settings):
        raise GuardRefused(
            "gemini takes no guard from a worktree that you have not trusted",
            hint="start gemini there once and trust the folder, or start it with Bridle",
            runtime="gemini",
        )
    entry = {"type": "command", "command": command, "timeout": _MILLISECONDS}
    entries: dict[str, list[Any]] = {event: [{"hooks": [entry]}] for event in SHAPE.asks}
    given = entries if command is not None else None
    return put_hooks(
        worktree, ".gemini/settings.json", given, mark, runtime="gemini", switched_off=_switched_off
    )


def _switched_off(settings: dict[str, Any]) -> bool:
    config = settings.get("hooksConfig")
    return isinstance(config, dict) and config.get("enabled") is False
