"""How Codex is made to ask before each tool call: hooks given by `-c`, with the trust they need.

An untrusted hook is silently skipped, so the hash by which Codex knows a trusted one is computed
here and given with it. Nothing of the user's is changed, and no hook of the repository becomes
trusted.

Its SessionStart hook comes only with the first prompt, so the hooks themselves cannot show earlier
that they fire. The app-server says of each hook whether it is switched on and trusted; it is asked
with the session's own settings, in the session's own environment (`prove`).
"""

import hashlib
import json
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

import msgspec

from bridle.core import structs
from bridle.core.errors import GuardRefused
from bridle.runtimes.codex.command import config
from bridle.runtimes.codex.product import CodexDialect
from bridle.runtimes.codex.wire import snake_case
from bridle.runtimes.plan import RunPlan
from bridle.runtimes.toml import toml_value
from bridle.turns.guard_contract import GuardHook, GuardMechanism, GuardPieces, HookShape

_SOURCE = "/<session-flags>/config.toml"
_SECONDS = 600
_SHORTER = {"SessionEnd": 3}
"""Events whose hooks get less time from Codex than is asked for; the hash covers that time."""
_COMMANDS = ("exec", "e", "app-server", "resume", "fork")
"""Our flags come after these, as all others: older versions forget those before."""

SHAPE = HookShape(watched=True)

_ASKED = (*SHAPE.asks, *SHAPE.live)

HOOKS = GuardMechanism(
    name="hooks by -c with computed trust",
    fails="open",
    proof="its SessionStart and UserPromptSubmit hooks run before the first model call",
    shape=SHAPE,
    # The wire numbers its items, the hooks have the model's own ids.
    matching="count",
    tells_refused=False,
    unasked=frozenset({"web_search", "todo_list"}),
)


def guard_plan(plan: RunPlan, hook: GuardHook) -> RunPlan:
    """The plan of an agent that asks; see `Guarded.guard_plan`."""
    dialect = plan.dialect
    if not isinstance(dialect, CodexDialect) or not dialect.hooks:
        raise GuardRefused(
            f"codex {plan.installation.version or ''} has no hooks that hold a tool call back",
            hint="install a newer codex, or confine it with --sandbox and pass --unguarded",
            runtime="codex",
        )
    _refuse_other_hooks(plan.spec.argv)
    off = [word for name in dialect.unjudged_features for word in ("--disable", name)]
    commands = {event: [hook.command(SHAPE)] for event in _ASKED}
    # Whatever the settings say of hooks.
    on = ["-c", "features.hooks=true"]
    flags = [*on, *off, *hook_flags(with_reports(commands, plan.reports))]
    asking = plan.with_arguments(*flags, past=_COMMANDS)
    if asking is None:
        raise GuardRefused("codex: its command was not found in the plan", runtime="codex")
    return msgspec.structs.replace(asking, guard=HOOKS)


def guard_pieces(argv: Sequence[str], hook: GuardHook) -> GuardPieces:
    """What makes Codex ask when another program starts it; see `Guarded.guard_pieces`."""
    _refuse_other_hooks(argv)
    # Whatever its settings say; and no text typed into a running terminal, which no hook sees.
    flags = ["-c", "features.hooks=true", "-c", "features.unified_exec=false"]
    flags += hook_flags({event: [hook.command(SHAPE)] for event in _ASKED})
    return GuardPieces(mechanism=HOOKS, flags=tuple(flags))


def with_reports(commands: dict[str, list[str]], folder: str) -> dict[str, list[str]]:
    """`commands` with those that report into `folder`, when there is one."""
    if not folder:
        return commands
    from bridle.drives.tmux.hook_reports import report_command
    from bridle.runtimes.codex.tui import REPORTS

    reports = {event: report_command(folder, event) for event in REPORTS.events}
    events = dict.fromkeys((*commands, *reports))
    return {
        event: [*commands.get(event, []), *([reports[event]] if event in reports else [])]
        for event in events
    }


def hook_flags(commands: dict[str, list[str]]) -> list[str]:
    """The flags that make Codex run these commands at these events, and trust them."""
    hooks, trust = {}, {}
    for event, run in commands.items():
        seconds = _SHORTER.get(event, _SECONDS)
        entries = [{"type": "command", "command": each, "timeout": seconds} for each in run]
        hooks[event] = [{"hooks": [entry]} for entry in entries]
        for number, each in enumerate(run):
            known = trusted_hash(event, each, timeout=seconds)
            trust[f"{_SOURCE}:{snake_case(event)}:{number}:0"] = {"trusted_hash": known}
    return [*config("hooks", hooks), "-c", f"hooks.state={toml_value(trust, 'hooks.state')}"]


def trusted_hash(event: str, command: str, *, timeout: int = _SECONDS) -> str:
    """The hash by which Codex knows a hook without a matcher that the user has approved."""
    entry: dict[str, Any] = {
        "type": "command",
        "command": command,
        "timeout": timeout,
        "async": False,
    }
    known = {"event_name": snake_case(event), "hooks": [entry]}
    text = json.dumps(known, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return f"sha256:{hashlib.sha256(text.encode()).hexdigest()}"


def report_plan(plan: RunPlan) -> RunPlan:
    """The plan with hooks that report; see `Terminal.report_plan`. Hooks by flag replace one
    another: a guard has already put these beside its own, and hooks of the run's own settings
    exclude them."""
    dialect = plan.dialect
    if plan.guard is not None or not (isinstance(dialect, CodexDialect) and dialect.hooks):
        return plan
    try:
        _refuse_other_hooks(plan.spec.argv)
    except GuardRefused:
        return plan
    return plan.with_arguments(*hook_flags(with_reports({}, plan.reports)), past=_COMMANDS) or plan


def _refuse_other_hooks(argv: Sequence[str]) -> None:
    """Raise `GuardRefused` for settings that switch hooks off or bring others: hooks by flag
    replace one another, and of two settings by flag the last one holds."""
    for key, value in _settings(argv):
        if key.startswith("hooks"):
            raise GuardRefused(
                "codex: hooks of the run's own settings would replace the guard's",
                hint="put them into codex's config.toml, where they run beside it",
                runtime="codex",
            )
        if key == "features" or (key == "features.hooks" and value != "true"):
            raise GuardRefused("codex cannot be guarded with its hooks disabled", runtime="codex")


def _settings(argv: Sequence[str]) -> Iterator[tuple[str, str]]:
    """The settings in arguments, by key, in every form of the flag."""
    for word, following in zip(argv, [*argv[1:], ""], strict=True):
        flag, equals, rest = word.partition("=") if word.startswith("--") else (word[:2], "", "")
        value = rest if equals else following if word == flag else word[2:]
        if flag in ("-c", "--config"):
            key, _, given = value.partition("=")
            yield key.replace('"', "").replace(" ", ""), given.strip()
        elif flag == "--disable":
            yield f"features.{value}", "false"


# -- Codex's own list of hooks --------------------------------------------------------------------

_PROOF_SECONDS = 30.0
_SETTING_FLAGS = ("-c", "--config", "--enable", "--disable")
_FROM_FLAGS = "sessionFlags"


class _Hook(msgspec.Struct, frozen=True, rename="camel"):
    event_name: str = ""
    source: str = ""
    enabled: bool = False
    trust_status: str = ""


class _Place(msgspec.Struct, frozen=True):
    hooks: list[_Hook] = []


class _Listing(msgspec.Struct, frozen=True):
    data: list[_Place] = []


def prove(plan: RunPlan) -> None:
    """Raise `GuardRefused` unless Codex will run every hook of the guard."""
    runs = {
        hook.event_name.lower()
        for place in _listing(plan).data
        for hook in place.hooks
        if hook.source == _FROM_FLAGS and hook.enabled and hook.trust_status == "trusted"
    }
    missing = [event for event in _ASKED if event.lower() not in runs]
    if missing:
        raise GuardRefused(
            f"codex {plan.installation.version or ''} will not run the guard's hooks "
            f"({', '.join(missing)})",
            hint="look for a setting that switches hooks off, or run with --unguarded",
            runtime="codex",
        )


def _listing(plan: RunPlan) -> _Listing:
    from bridle.runtimes.codex.app_server import AppServer

    spec = plan.spec
    flags = [word for pair in pairwise(spec.argv) if pair[0] in _SETTING_FLAGS for word in pair]
    argv = [*plan.installation.command, "app-server", *flags]
    try:
        with AppServer(argv, cwd=spec.cwd, env=spec.env, seconds=_PROOF_SECONDS) as server:
            found = server.request("hooks/list", {"cwds": [spec.cwd]})
        return structs.decode(found, _Listing)
    except (OSError, msgspec.MsgspecError) as problem:
        raise GuardRefused(f"codex does not list its hooks: {problem}", runtime="codex") from None
