"""How Pi is made to ask before each tool call: an extension of ours, outside of the worktree.

It is loaded by flag, and only it: what a repository brings is left out, since an extension that
runs later could change a call that was already judged. How it asks: see `asking_js`.
"""

import os
from collections.abc import Mapping
from typing import Any

import msgspec

from bridle.core.errors import GuardRefused
from bridle.core.files import write_private
from bridle.runtimes.asking_js import asking_code, mechanism_of, where_to_ask
from bridle.runtimes.pi.home import agent_dir
from bridle.runtimes.plan import RunPlan
from bridle.turns.guard_contract import GuardAddress, GuardHook, GuardMechanism

FILE_NAME = "bridle-guard.ts"

EXTENSION = GuardMechanism(
    name="extension by -ne -e",
    fails="closed",
    proof="the extension announces itself when the session starts",
    proves_at_start=True,
)

_CODE = """\
%(ask)s
export default function (pi) {
  if (nobody) return;
  pi.on("session_start", () => tell("SessionStart", {}));
  pi.on("tool_call", async (event, ctx) => {
    const cwd = ctx?.cwd ?? process.cwd();
    const reason = await refusal(event.toolCallId, event.toolName, event.input, cwd);
    return reason === undefined ? undefined : { block: true, reason };
  });
}
"""


def extension_code(where: GuardAddress | str, *, deployed: bool = False) -> str:
    """The extension's source; it asks at an address, or by a command. One that is `deployed` into a
    worktree leaves a person's own sessions alone."""
    ask = asking_code(where, deployed=deployed)
    return _CODE % {"ask": ask}


def deploy_extension(
    worktree: str, command: str | None, mark: str, env: Mapping[str, str], *, trusts: bool
) -> str:
    """See `Guarded.deploy_guard`. Where Pi knows of trust (`trusts`), it passes over the
    extensions of other folders without a word; so those are refused."""
    from bridle.runtimes.worktree_hooks import put_plugin

    if command is not None and trusts and not _is_trusted(os.path.realpath(worktree), env):
        raise GuardRefused(
            "pi takes no guard from a worktree that you have not trusted",
            hint="start pi there once and trust the folder, or start it with Bridle",
            runtime="pi",
        )
    code = None if command is None else extension_code(command, deployed=True)
    return put_plugin(worktree, os.path.join(".pi", "extensions", FILE_NAME), code, mark)


def _is_trusted(root: str, env: Mapping[str, str]) -> bool:
    folder = agent_dir(env)
    return (
        _object(os.path.join(folder, "trust.json")).get(root) is True
        or _object(os.path.join(folder, "settings.json")).get("defaultProjectTrust") == "always"
    )


def _object(path: str) -> dict[str, Any]:
    try:
        with open(path, "rb") as file:
            return msgspec.json.decode(file.read(), type=dict[str, Any])
    except (OSError, msgspec.MsgspecError, UnicodeDecodeError):
        return {}


def guard_plan(plan: RunPlan, hook: GuardHook) -> RunPlan:
    """The plan of an agent that asks; see `Guarded.guard_plan`."""
    mechanism = mechanism_of(EXTENSION, hook)
    code = extension_code(where_to_ask(hook))
    path = write_private(hook.folder, FILE_NAME, code)
    if "--approve" in plan.spec.argv:
        raise GuardRefused(
            "pi cannot be guarded in a project whose extensions are trusted",
            hint="run without trust_project",
            runtime="pi",
        )
    # Pi reads a repeated flag twice without harm, but once is what is meant.
    alone = [] if {"-ne", "--no-extensions"} & set(plan.spec.argv) else ["-ne"]
    asking = plan.with_arguments(*alone, "-e", path)
    if asking is None:
        raise GuardRefused("pi: its command was not found in the plan", runtime="pi")
    warnings = (*plan.warnings, "pi: only the guard's extension is loaded while it is guarded")
    return msgspec.structs.replace(asking, guard=mechanism, warnings=warnings)
