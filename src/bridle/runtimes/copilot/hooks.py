"""How Copilot is made to ask before each tool call: hooks of a plugin that it is given by flag.

A plugin given so needs no trust in the folder and changes nothing of the user's. The question goes
by the event's own name, which keeps the tools' own names but does not say which event it is; the
events that prove life go by their other names, which do.
"""

import os
import re
from typing import Any

import msgspec

from bridle.core.errors import GuardRefused
from bridle.core.files import write_private
from bridle.core.git import find_git
from bridle.runtimes.acp.plan import AcpPlan
from bridle.runtimes.copilot.transcript import copilot_home
from bridle.runtimes.plan import RunPlan
from bridle.turns.guard_contract import REASON, GuardHook, GuardMechanism, HookShape

_NAME = "bridle-guard"
_ASKS = "preToolUse"
_SECONDS = 600
"""More than the hook takes for a refusal: a call whose hook comes too late would run."""

SHAPE = HookShape(
    tool="toolName",
    input="toolArgs",
    asks=(_ASKS,),
    refusal={"permissionDecision": "deny", "permissionDecisionReason": REASON},
    watched=True,
)

PLUGIN = GuardMechanism(
    name="preToolUse of a plugin given by flag",
    fails="open",
    proof="its SessionStart and UserPromptSubmit hooks run before the first model call",
    shape=SHAPE,
    # The hooks tell no id of the call.
    matching="count",
)


def guard_plan(plan: RunPlan, hook: GuardHook) -> RunPlan:
    """The plan of an agent that asks; see `Guarded.guard_plan`."""
    _refuse_switched_off(plan)
    asking = plan.with_arguments("--plugin-dir", write_plugin(hook))
    if asking is None:
        raise GuardRefused("copilot: its command was not found in the plan", runtime="copilot")
    # The protocol does not name tools as the hooks do.
    over_acp = isinstance(plan, AcpPlan)
    return msgspec.structs.replace(
        asking, guard=msgspec.structs.replace(PLUGIN, names_differ=over_acp)
    )


_SWITCH = re.compile(rb'"disableAllHooks"\s*:\s*true')
_OF_HOME = ("settings.json", "config.json")
_OF_FOLDER = (
    ".github/copilot/settings.json",
    ".github/copilot/settings.local.json",
    ".claude/settings.json",
    ".claude/settings.local.json",
)


def _refuse_switched_off(plan: RunPlan) -> None:
    """Refuse where settings switch all hooks off: the guard's are among them, and the first call
    may have run before it shows that they are."""
    place = find_git(plan.spec.cwd)
    folders = {plan.spec.cwd, place.root if place is not None else plan.spec.cwd}
    home = copilot_home(plan.spec.env)
    paths = [os.path.join(home, name) for name in _OF_HOME]
    paths += [os.path.join(folder, name) for folder in folders for name in _OF_FOLDER]
    for path in paths:
        try:
            with open(path, "rb") as file:
                off = _SWITCH.search(file.read())
        except OSError:
            continue
        if off is not None:
            raise GuardRefused(
                f"copilot cannot be guarded: {path} switches all hooks off",
                hint="take `disableAllHooks` out of it, or run with --unguarded",
                runtime="copilot",
            )


def write_plugin(hook: GuardHook) -> str:
    """Write the plugin whose hooks ask `hook`; returns its folder."""
    events = [_ASKS, *SHAPE.live]
    entry: dict[str, Any] = {
        "type": "command",
        "bash": hook.command(SHAPE),
        "timeoutSec": _SECONDS,
    }
    about = {"name": _NAME, "description": "Asks before each tool call.", "version": "1.0.0"}
    hooks = {"version": 1, "hooks": {event: [entry] for event in events}}
    write_private(hook.folder, "plugin/hooks/hooks.json", msgspec.json.encode(hooks))
    path = write_private(hook.folder, "plugin/plugin.json", msgspec.json.encode(about))
    return path.rpartition("/")[0]
