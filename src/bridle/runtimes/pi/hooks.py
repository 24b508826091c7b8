"""How Pi is made to ask before a tool call: extensions of Bridle's, outside of the worktree.

Pi asks for nothing by itself. Permission mode `ask` loads a small extension beside the user's own.
In Pi's terminal interface it asks the person there. In a live conversation it asks Bridle, by a
dialog that carries the whole call and brings back the reason too. In the JSON mode nobody can be
asked, since Pi reads its stdin to the end before it starts; there it refuses, with a reason that
the model reads.

The guard's extension is loaded by flag, and only it: what a repository brings is left out, since an
extension that runs later could change a call that was already judged. `guard_plugin` says how it
asks.
"""

import json
import os
from collections.abc import Mapping
from typing import Any

import msgspec

from bridle.core import structs
from bridle.core.errors import GuardRefused
from bridle.core.files import make_private_dir, state_dir, write_atomic, write_private
from bridle.runtimes.guard_plugin import asking_code, mechanism_of, where_to_ask
from bridle.runtimes.pi.product import agent_dir
from bridle.runtimes.pi.wire import ASK_TITLE, REFUSAL
from bridle.runtimes.plan import RunPlan
from bridle.turns.guard_contract import GuardAddress, GuardHook, GuardMechanism

ASK_FILE = "bridle-ask.ts"
_FREE_TOOLS = ("read", "grep", "find", "ls")
"""Tools that only read."""

_ASK_PERSON = """\
const free = new Set(%(free)s);
const refusal = %(refusal)s;
export default function (pi) {
  pi.on("tool_call", async (event, ctx) => {
    if (free.has(event.toolName)) return undefined;
    if (!ctx.hasUI) return { block: true, reason: refusal };
    const what = JSON.stringify(event.input).slice(0, 2000);
    const allowed = await ctx.ui.confirm(`Allow ${event.toolName}?`, what);
    return allowed ? undefined : { block: true, reason: "The person at the terminal refused." };
  });
}
"""

_ASK_BRIDLE = """\
const free = new Set(%(free)s);
export default function (pi) {
  pi.on("tool_call", async (event, ctx) => {
    if (free.has(event.toolName)) return undefined;
    if (!ctx.hasUI) return { block: true, reason: %(refusal)s };
    const call = { id: event.toolCallId, tool: event.toolName, args: event.input };
    const said = await ctx.ui.input(%(title)s, JSON.stringify(call), { signal: ctx.signal });
    let answer = {};
    try { answer = JSON.parse(said) || {}; } catch {}
    if (answer.allow === true) return undefined;
    return { block: true, reason: String(answer.reason || "Permission was refused.") };
  });
}
"""


def ask_extension(*, live: bool = False) -> str:
    """The source of the extension for permission mode `ask`."""
    words = {"free": _FREE_TOOLS, "refusal": REFUSAL, "title": ASK_TITLE}
    code = _ASK_BRIDLE if live else _ASK_PERSON
    return code % {name: json.dumps(text) for name, text in words.items()}


def lasting_ask_extension(env: Mapping[str, str]) -> str:
    """The same as a file that stays, for a session that outlives this call; its path."""
    from hashlib import sha256

    code = ask_extension()
    folder = os.path.join(state_dir(env), "pi", f"ask-{sha256(code.encode()).hexdigest()[:16]}")
    path = os.path.join(make_private_dir(folder), ASK_FILE)
    if not os.path.exists(path):
        # Whole at once: another session may be about to load it.
        write_atomic(path, code)
    return path


GUARD_FILE = "bridle-guard.ts"

EXTENSION = GuardMechanism(
    name="extension by -ne -e",
    fails="closed",
    proof="the extension announces itself when the session starts",
    proves_at_start=True,
)

_GUARD = """\
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


def guard_extension(where: GuardAddress | str, *, deployed: bool = False) -> str:
    """The source of the guard's extension; it asks at an address, or by a command. One that is
    `deployed` into a worktree leaves a person's own sessions alone."""
    return _GUARD % {"ask": asking_code(where, deployed=deployed)}


def deploy_extension(
    worktree: str, command: str | None, mark: str, env: Mapping[str, str], *, trusts: bool
) -> str:
    """See `Guarded.deploy_guard`. A version that knows of trust (`trusts`) silently ignores the
    extensions of folders that the user has not trusted, so such a folder is refused."""
    from bridle.runtimes.worktree_hooks import put_plugin

    if command is not None and trusts and not _is_trusted(os.path.realpath(worktree), env):
        raise GuardRefused(
            "pi takes no guard from a worktree that you have not trusted",
            hint="start pi there once and trust the folder, or start it with Bridle",
            runtime="pi",
        )
    code = None if command is None else guard_extension(command, deployed=True)
    return put_plugin(worktree, os.path.join(".pi", "extensions", GUARD_FILE), code, mark)


def _is_trusted(root: str, env: Mapping[str, str]) -> bool:
    folder = agent_dir(env)
    return (
        _object(os.path.join(folder, "trust.json")).get(root) is True
        or _object(os.path.join(folder, "settings.json")).get("defaultProjectTrust") == "always"
    )


def _object(path: str) -> dict[str, Any]:
    try:
        with open(path, "rb") as file:
            return structs.decode(file.read(), dict[str, Any])
    except (OSError, msgspec.MsgspecError, UnicodeDecodeError):
        return {}


def guard_plan(plan: RunPlan, hook: GuardHook) -> RunPlan:
    """The plan of an agent that asks; see `Guarded.guard_plan`."""
    if "--approve" in plan.spec.argv:
        raise GuardRefused(
            "pi cannot be guarded in a project whose extensions are trusted",
            hint="run without trust_project",
            runtime="pi",
        )
    path = write_private(hook.folder, GUARD_FILE, guard_extension(where_to_ask(hook)))
    alone = [] if {"-ne", "--no-extensions"} & set(plan.spec.argv) else ["-ne"]
    asking = plan.with_arguments(*alone, "-e", path)
    if asking is None:
        raise GuardRefused("pi: its command was not found in the plan", runtime="pi")
    warnings = (*plan.warnings, "pi: only the guard's extension is loaded while it is guarded")
    return msgspec.structs.replace(asking, guard=mechanism_of(EXTENSION, hook), warnings=warnings)
