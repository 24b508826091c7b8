"""Makes Copilot ask before each tool call, by the hooks of a plugin that it gets by flag.

Such a plugin needs no trust in the folder and changes nothing of the user's. The question uses the
event's own name, which keeps the tools' own names but does not say which event it is; the events
that prove life use their other names, which do.

In the terminal interface the first hook runs with the first prompt, and a folder that is trusted
there may bring settings that switch hooks off. So `prove` starts Copilot once for a prompt that
reaches no model: in the same folder, trusted, with the user's settings in a home of its own, until
its first hook has asked.
"""

import os
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING

import msgspec

from bridle.core.errors import GuardRefused
from bridle.core.files import new_private_dir, write_private
from bridle.core.git import find_git
from bridle.process.spec import SESSION_MARK
from bridle.runtimes.acp.plan import AcpPlan
from bridle.runtimes.copilot.command import unreachable_model
from bridle.runtimes.copilot.product import PRODUCT
from bridle.runtimes.plan import RunPlan
from bridle.turns.guard_contract import NOTES, REASON, GuardHook, GuardMechanism, HookShape

if TYPE_CHECKING:
    import subprocess

_ASKS = "preToolUse"
_SECONDS = 600
"""More than the hook takes for a refusal: Copilot runs a call whose hook is late."""

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
    # The hooks get no id of the call.
    matching="count",
)


def guard_plan(plan: RunPlan, hook: GuardHook) -> RunPlan:
    """The plan of an agent that asks; see `Guarded.guard_plan`."""
    _refuse_switched_off(plan)
    commands = dict.fromkeys((_ASKS, *SHAPE.live), hook.command(SHAPE))
    plugin = write_plugin(hook.folder, "plugin", "bridle-guard", commands, _SECONDS)
    asking = plan.with_arguments("--plugin-dir", plugin)
    if asking is None:
        raise GuardRefused("copilot: its command was not found in the plan", runtime="copilot")
    # The protocol does not name tools as the hooks do.
    over_acp = isinstance(plan, AcpPlan)
    return msgspec.structs.replace(
        asking, guard=msgspec.structs.replace(PLUGIN, names_differ=over_acp)
    )


def write_plugin(
    folder: str, place: str, name: str, commands: Mapping[str, str], seconds: int
) -> str:
    """Write the plugin `name` into `folder`/`place`, whose hooks run `commands`, by event; returns
    its folder."""
    hooks = {
        event: [{"type": "command", "bash": command, "timeoutSec": seconds}]
        for event, command in commands.items()
    }
    listed = msgspec.json.encode({"version": 1, "hooks": hooks})
    about = msgspec.json.encode({"name": name, "version": "1.0.0"})
    write_private(folder, f"{place}/hooks/hooks.json", listed)
    return os.path.dirname(write_private(folder, f"{place}/plugin.json", about))


# -- settings that switch hooks off ---------------------------------------------------------------

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
    may have run before that shows."""
    place = find_git(plan.spec.cwd)
    folders = {plan.spec.cwd, place.root if place is not None else plan.spec.cwd}
    home = PRODUCT.home_in(plan.spec.env)
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
                hint="remove `disableAllHooks` there, or run with --unguarded",
                runtime="copilot",
            )


# -- the proof before a session -------------------------------------------------------------------

_TRIAL_SECONDS = 30.0
PROOF = "its SessionStart hook, run on trial"


def prove(plan: RunPlan) -> str:
    """The proof that the hooks of `plan` will run; raises `GuardRefused` when they did not."""
    # A run never needs these.
    import shutil
    import subprocess

    from bridle.process.process_tree import kill_marked

    argv = plan.spec.argv
    plugin = argv[argv.index("--plugin-dir") + 1]
    notes = os.path.join(os.path.dirname(plugin), NOTES)
    home = new_private_dir(plan.spec.env, "canary")
    mark = os.path.basename(home)
    try:
        theirs = PRODUCT.home_in(plan.spec.env)
        for name in _OF_HOME:
            if os.path.isfile(os.path.join(theirs, name)):
                shutil.copyfile(os.path.join(theirs, name), os.path.join(home, name))
        words = [*plan.installation.command, "--plugin-dir", plugin, "--trust-folder"]
        process = subprocess.Popen(
            [*words, "--no-auto-update", "-p", "canary"],
            cwd=plan.spec.cwd,
            env={**unreachable_model(plan.spec.env, home), SESSION_MARK: mark},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        try:
            _wait(process, notes)
        finally:
            kill_marked(mark)
            process.kill()
            process.wait()
    finally:
        shutil.rmtree(home, ignore_errors=True)
    # What the trial reported does not belong to the session.
    os.truncate(notes, 0)
    return PROOF


def _wait(process: "subprocess.Popen[bytes]", notes: str) -> None:
    import time

    until = time.monotonic() + _TRIAL_SECONDS
    while os.path.getsize(notes) == 0:
        if process.poll() is not None or time.monotonic() > until:
            raise GuardRefused(
                "copilot does not run the guard's hooks here",
                hint="look for a setting that switches hooks off, or run with --unguarded",
                runtime="copilot",
            )
        time.sleep(0.02)
