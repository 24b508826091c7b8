"""How Codex is made to ask before each tool call: hooks given by `-c`, with the trust they need.

An untrusted hook is skipped without a word, so the hash by which Codex knows a trusted one is
computed here and given along. Nothing of the user's is changed, and no hook of the repository's is
trusted by it.
"""

import hashlib
import json
from collections.abc import Sequence
from typing import Any

import msgspec

from bridle.core.errors import GuardRefused
from bridle.drives.guarding import GuardHook, GuardMechanism, GuardPieces, HookShape
from bridle.runtimes.base import RunPlan
from bridle.runtimes.codex.arguments import config
from bridle.runtimes.codex.dialects import CodexDialect
from bridle.runtimes.toml import toml_value

_SOURCE = "/<session-flags>/config.toml"
_SECONDS = 600
_COMMANDS = ("exec", "e", "app-server", "resume", "fork")

SHAPE = HookShape()

HOOKS = GuardMechanism(
    name="hooks by -c with computed trust",
    fails="open",
    proof="its SessionStart and UserPromptSubmit hooks run before the first model call",
    shape=SHAPE,
    # The wire numbers its items, the hooks tell the model's own ids.
    matching="count",
    tells_refused=False,
    unasked=frozenset({"web_search", "todo_list"}),
)


def guard_plan(plan: RunPlan, hook: GuardHook) -> RunPlan:
    """The plan of an agent that asks; see `AgentRuntime.guard_plan`."""
    dialect = plan.dialect
    if not isinstance(dialect, CodexDialect) or not dialect.hooks:
        raise GuardRefused(
            f"codex {plan.installation.version or ''} has no hooks that hold a tool call back",
            hint="install a newer codex, or hold it with --sandbox and say --unguarded",
            runtime="codex",
        )
    argv = list(plan.spec.argv)
    _refuse_other_hooks(argv)
    place = _after_command(argv, plan.installation.command)
    # On the same side of the subcommand as the other flags: older lines forget those before it.
    place += 1 if argv[place : place + 1] and argv[place] in _COMMANDS else 0
    off = [word for name in dialect.unjudged_features for word in ("--disable", name)]
    argv[place:place] = [*off, *hook_flags(hook.command(SHAPE), log_events=hook.log_events)]
    spec = msgspec.structs.replace(plan.spec, argv=tuple(argv))
    return msgspec.structs.replace(plan, spec=spec, guard=HOOKS)


def guard_pieces(argv: Sequence[str], hook: GuardHook) -> GuardPieces:
    """What makes Codex ask when another program starts it; see `AgentRuntime.guard_pieces`."""
    _refuse_other_hooks(list(argv))
    # Whatever its settings say; and no text typed into a running terminal, which no hook sees.
    flags = ["-c", "features.hooks=true", "-c", "features.unified_exec=false"]
    flags += hook_flags(hook.command(SHAPE), log_events=hook.log_events)
    return GuardPieces(mechanism=HOOKS, flags=tuple(flags))


def _after_command(argv: list[str], command: tuple[str, ...]) -> int:
    """Where the arguments of `command` begin in `argv`; a relay may stand before it."""
    size = len(command)
    starts = (at for at in range(len(argv)) if tuple(argv[at : at + size]) == tuple(command))
    return next(starts, 0) + size


def hook_flags(command: str, *, log_events: bool) -> list[str]:
    """The flags that make Codex run `command`, and trust it."""
    events = [*SHAPE.asks, *SHAPE.live]
    if log_events:
        events += ["PostToolUse", "Stop", "SessionEnd"]
    entry = {"type": "command", "command": command, "timeout": _SECONDS}
    hooks = {event: [{"hooks": [entry]}] for event in events}
    trust = {
        f"{_SOURCE}:{_snake(event)}:0:0": {"trusted_hash": trusted_hash(event, command)}
        for event in events
    }
    return [*config("hooks", hooks), "-c", f"hooks.state={toml_value(trust, 'hooks.state')}"]


def trusted_hash(event: str, command: str, *, timeout: int = _SECONDS) -> str:
    """The hash by which Codex knows a hook without a matcher that the user has looked at."""
    entry: dict[str, Any] = {
        "type": "command",
        "command": command,
        "timeout": timeout,
        "async": False,
    }
    known = {"event_name": _snake(event), "hooks": [entry]}
    text = json.dumps(known, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return f"sha256:{hashlib.sha256(text.encode()).hexdigest()}"


def _snake(event: str) -> str:
    return "".join(f"_{c.lower()}" if c.isupper() else c for c in event).lstrip("_")


def _refuse_other_hooks(argv: list[str]) -> None:
    """Hooks by flag replace one another, so the caller's would take the guard's place."""
    for number, word in enumerate(argv):
        value = argv[number + 1] if word in ("-c", "--config") and number + 1 < len(argv) else word
        if word in ("-c", "--config") and value.lstrip().startswith("hooks"):
            raise GuardRefused(
                "codex: hooks of the run's own settings would replace the guard's",
                hint="put them into codex's config.toml, where they run beside it",
                runtime="codex",
            )
        if word in ("--disable=hooks",) or (word == "--disable" and argv[number + 1] == "hooks"):
            raise GuardRefused("codex cannot be guarded with its hooks disabled", runtime="codex")
