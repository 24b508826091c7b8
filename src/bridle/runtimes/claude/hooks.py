"""How Claude Code is made to ask before each tool call.

Where the driver holds its stdin, hooks are callbacks over the control channel: no process, no file,
and a callback that is not answered leaves the tool unrun. At a terminal they are command hooks in
settings given by flag: settings of the user or the worktree, broken or not, cannot remove them.
"""

import os
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import msgspec

from bridle.core.errors import GuardRefused
from bridle.core.files import write_private
from bridle.runtimes.claude.command import read_settings, without_settings
from bridle.runtimes.claude.product import ClaudeDialect
from bridle.runtimes.options import with_hooks
from bridle.runtimes.plan import RunPlan
from bridle.turns.guard_contract import GuardHook, GuardMechanism, GuardPieces, HookShape
from bridle.turns.recorder import Recorder

CALLBACK = "bridle_guard"
"""The callback that asks about a tool; with anything else a callback only shows that hooks fire."""
_CANARY = "bridle_canary"
HOOK_SECONDS = 600
"""How long the CLI waits for a hook."""
_PATIENCE = 25
"""Seconds after which a version that blocks then stops a tool whose hook has not answered."""
_SWITCHES = ("--bare", "--safe-mode")
"""Flags that switch every hook off."""

SHAPE = HookShape()

STDIO = GuardMechanism(
    name="PreToolUse over the control channel",
    fails="closed",
    proof="its UserPromptSubmit callback comes before the first model call",
    shape=SHAPE,
)
SETTINGS = GuardMechanism(
    name="PreToolUse in settings given by flag",
    fails="open",
    proof="its SessionStart and UserPromptSubmit hooks run before the first model call",
    shape=SHAPE,
    proves_at_start=True,
)


def guard_plan(plan: RunPlan, hook: GuardHook) -> RunPlan:
    """The plan of an agent that asks; see `Guarded.guard_plan`."""
    argv = plan.spec.argv
    for switch in _SWITCHES:
        if switch in argv:
            raise GuardRefused(f"claude cannot be guarded with {switch}", runtime="claude")
    if isinstance(plan.dialect, ClaudeDialect) and not plan.dialect.names_calls:
        raise GuardRefused(
            f"claude {plan.installation.version} cannot be guarded: its hooks do not name the call",
            hint="install 2.0.44 or newer, or confine it with --sandbox and pass --unguarded",
            runtime="claude",
        )
    if hook.stdio and _talks_json(argv):
        spec = msgspec.structs.replace(
            plan.spec, stdin=initialize_line() + (plan.spec.stdin or b""), keep_stdin=True
        )
        return msgspec.structs.replace(plan, spec=spec, guard=STDIO)
    dialect = plan.dialect
    open_ended = not (isinstance(dialect, ClaudeDialect) and dialect.blocks_when_hook_dies)
    shape = msgspec.structs.replace(SHAPE, watched=open_ended, timed=open_ended)
    given, bare = without_settings(plan)
    ours = hook_entries(hook.command(shape), timed=shape.timed)
    # Settings by flag outrank the user's and the project's, which could switch all hooks off.
    settings = {**with_hooks(read_settings(given), ours), "disableAllHooks": False}
    path = write_private(hook.folder, "settings.json", msgspec.json.encode(settings))
    asking = bare.with_arguments("--settings", path)
    if asking is None:
        raise GuardRefused("claude: its command was not found in the plan", runtime="claude")
    mechanism = msgspec.structs.replace(SETTINGS, shape=shape)
    return msgspec.structs.replace(asking, guard=mechanism)


def guard_pieces(hook: GuardHook) -> GuardPieces:
    """What makes Claude ask when another program starts it; see `Guarded.guard_pieces`."""
    # Its version is unknown.
    shape = msgspec.structs.replace(SHAPE, watched=True)
    hooks = hook_entries(hook.command(shape))
    mechanism = msgspec.structs.replace(SETTINGS, shape=shape)
    return GuardPieces(mechanism=mechanism, settings={"disableAllHooks": False, "hooks": hooks})


def _talks_json(argv: Sequence[str]) -> bool:
    return any(
        word == "--input-format" and value == "stream-json" for word, value in pairwise(argv)
    )


def initialize_line() -> bytes:
    """The first line for its stdin: which callbacks it must wait for."""
    hooks = {
        "PreToolUse": [{"hookCallbackIds": [CALLBACK], "timeout": HOOK_SECONDS}],
        "UserPromptSubmit": [{"hookCallbackIds": [_CANARY], "timeout": HOOK_SECONDS}],
    }
    request = {
        "type": "control_request",
        "request_id": "bridle-guard",
        "request": {"subtype": "initialize", "hooks": hooks},
    }
    return msgspec.json.encode(request) + b"\n"


def answer_callback(recorder: Recorder, payload: Any) -> dict[str, Any]:
    """What a hook callback with this payload is answered."""
    fields = payload if isinstance(payload, dict) else {}
    event = fields.get(SHAPE.event)
    if event not in SHAPE.asks:
        if recorder.guard is not None:
            recorder.guard.proved(f"{event} callback")
        return {}
    tool, call_id, cwd = (fields.get(name) for name in (SHAPE.tool, SHAPE.call_id, SHAPE.cwd))
    verdict = recorder.verdicts.ask(str(call_id), str(tool), fields.get(SHAPE.input), cwd)
    if verdict.allowed:
        # No decision here: the permission mode still applies.
        return {}
    answer: dict[str, Any] = msgspec.json.decode(SHAPE.refused(verdict.reason))
    return answer


def hook_entries(command: str, *, timed: bool = True) -> dict[str, list[dict[str, Any]]]:
    """The hooks of settings that run `command`, which enforces the time limit itself when
    `timed`."""
    # Newer versions honour `onFailure`; what older ones let pass, the command itself refuses.
    seconds = HOOK_SECONDS if timed else _PATIENCE
    entry = {"type": "command", "command": command, "timeout": seconds, "onFailure": "block"}
    return {event: [{"hooks": [entry]}] for event in (*SHAPE.asks, *SHAPE.live)}


_LOCAL_SETTINGS = os.path.join(".claude", "settings.local.json")


def deploy_hooks(worktree: str, command: str | None, mark: str) -> str:
    """See `Guarded.deploy_guard`: hooks in the worktree's own settings."""
    from bridle.runtimes.worktree_hooks import put_hooks

    entries = None if command is None else hook_entries(command)
    return put_hooks(
        worktree, _LOCAL_SETTINGS, entries, mark, runtime="claude", switched_off=_switched_off
    )


def _switched_off(settings: dict[str, Any]) -> bool:
    return settings.get("disableAllHooks") is True


_SECONDS = 10
