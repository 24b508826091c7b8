"""How Gemini is made to ask before each tool call: hooks in the system's settings, of which a run
gets a copy of its own. Those take effect whatever the user's and the project's settings say, and
whether or not the folder is trusted.
"""

import os
from collections.abc import Mapping
from typing import Any

import msgspec

from bridle.core.errors import GuardRefused
from bridle.drives.guarding import REASON, GuardHook, GuardMechanism, HookShape
from bridle.runtimes.base import RunPlan
from bridle.runtimes.gemini.home import (
    SYSTEM_SETTINGS,
    config_dir,
    has_home_settings,
    why_skipped,
)
from bridle.runtimes.json_settings import with_hooks
from bridle.runtimes.private import write_private

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
    name="BeforeTool in a system settings file of its own",
    fails="open",
    proof="its SessionStart and BeforeAgent hooks run before the first model call",
    shape=SHAPE,
    # The hooks tell no id of the call.
    matching="count",
)


def guard_plan(plan: RunPlan, hook: GuardHook) -> RunPlan:
    """The plan of an agent that asks; see `AgentRuntime.guard_plan`."""
    env = plan.spec.env
    ours = has_home_settings(env)
    there = os.path.join(config_dir(env), "settings.json") if ours else env.get(SYSTEM_SETTINGS)
    settings = _settings(there)
    if _switched_off(settings):
        raise GuardRefused("gemini: its settings switch hooks off", runtime="gemini")
    events = [*SHAPE.asks, *SHAPE.live]
    entry = {"type": "command", "command": hook.command(SHAPE), "timeout": _MILLISECONDS}
    whole = with_hooks(settings, {event: [{"hooks": [entry]}] for event in events})
    # Not beside the run's other files: those a confined agent can write.
    path = write_private(hook.folder, "settings.json", msgspec.json.encode(whole))
    why = why_skipped(path)
    if not why:
        spec = msgspec.structs.replace(plan.spec, env={**env, SYSTEM_SETTINGS: path})
        return msgspec.structs.replace(plan, spec=spec, guard=HOOKS)
    if not ours or env.get("GEMINI_CLI_TRUST_WORKSPACE") == "true":
        raise GuardRefused(
            f"gemini skips the hooks of a run here: {why}",
            hint="`gemini-acp` is guarded by its own permission requests",
            runtime="gemini",
        )
    # The settings of a home are not written by a confined agent either.
    write_private(config_dir(env), "settings.json", msgspec.json.encode(whole))
    return msgspec.structs.replace(plan, guard=HOOKS)


def deploy_hooks(worktree: str, command: str | None, mark: str, env: Mapping[str, str]) -> str:
    """See `AgentRuntime.deploy_guard`. Gemini takes hooks from a folder only that its user has
    trusted, and says nothing where it does not; so such a folder is refused."""
    from bridle.runtimes.deployed_files import put_hooks

    root = os.path.realpath(worktree)
    if command is not None and not _is_trusted(root, env):
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


def _is_trusted(root: str, env: Mapping[str, str]) -> bool:
    """Whether the user has trusted the folder, by the longest entry that is about it."""
    if env.get("GEMINI_CLI_TRUST_WORKSPACE") == "true":
        return True
    path = os.path.join(config_dir(env), "trustedFolders.json")
    entries = _settings(path) if os.path.exists(path) else {}
    longest, trusted = -1, False
    for place, level in entries.items():
        folder = os.path.dirname(place) if level == "TRUST_PARENT" else place
        inside = root == folder or root.startswith(folder.rstrip("/") + "/")
        if inside and len(folder) > longest:
            longest, trusted = len(folder), str(level).startswith("TRUST")
    return trusted


def _settings(path: str | None) -> dict[str, Any]:
    if path is None:
        return {}
    try:
        with open(path, "rb") as file:
            return msgspec.json.decode(file.read(), type=dict[str, Any])
    except (OSError, msgspec.MsgspecError, UnicodeDecodeError) as problem:
        raise GuardRefused(f"gemini: cannot read {path}: {problem}", runtime="gemini") from None


def _switched_off(settings: dict[str, Any]) -> bool:
    config = settings.get("hooksConfig")
    return isinstance(config, dict) and config.get("enabled") is False
