"""Flags of one agent's own CLI that callers already use, translated to Bridle's.

A flag with an equivalent in Bridle is translated. Any other is refused with the reason, so that a
caller learns what to write instead. The help shows none of them.
"""

import argparse
from collections.abc import Sequence
from typing import Any

from bridle.cli.parsing import positive_number
from bridle.core.errors import WrongUse
from bridle.core.options import PermissionMode

_HIDDEN = argparse.SUPPRESS
_PERMISSIONS: dict[str, PermissionMode] = {"bypassPermissions": "bypass", "default": "ask"}
_OTHER_PERMISSIONS = {
    "acceptEdits": "Bridle has no mode that allows edits only",
    "plan": "Bridle has no mode that only plans",
    "dontAsk": "Bridle has no mode that refuses without asking",
    "auto": "Bridle has no mode in which the agent decides",
}
_INSTEAD = {
    "acceptEdits": "--permission ask, and allow edits at the terminal",
    "plan": "--sandbox read-only, or --guard scout",
    "dontAsk": "--permission ask without a terminal refuses what needs permission",
    "auto": "--permission ask or bypass",
}
_REFUSED = {
    "--continue": ("the last conversation of a folder is not looked up", "--resume ID"),
    "--session-id": (
        "Bridle and the agent choose the ids of conversations",
        "the result's native_session_id has it; `bridle session start --name N` names a session",
    ),
    "--input-format": (
        "a run takes one prompt",
        "`bridle session` keeps a conversation over several prompts",
    ),
    "--replay-user-messages": ("a run takes one prompt", "`bridle session logs` has every message"),
    "--ide": ("Bridle connects no editor", "leave it out"),
}


class _Refused(argparse.Action):
    """A flag that has no equivalent here."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: str | Sequence[Any] | None,
        option_string: str | None = None,
    ) -> None:
        reason, instead = _REFUSED[str(option_string)]
        raise WrongUse(f"{option_string} is not supported: {reason}", hint=instead)


def add_old_flags(parser: argparse.ArgumentParser, *, run: bool) -> None:
    """Add the flags; those of a single run's output only for a `run`."""
    add = parser.add_argument
    add("--system-prompt", dest="system", help=_HIDDEN)
    add("--append-system-prompt", dest="append_system", help=_HIDDEN)
    add("--append-system-prompt-file", dest="append_system_file", help=_HIDDEN)
    add("--dangerously-skip-permissions", action="store_true", help=_HIDDEN)
    add("--permission-mode", help=_HIDDEN)
    add("--max-budget-usd", dest="budget", type=positive_number, help=_HIDDEN)
    add("--add-dir", action="append", default=[], help=_HIDDEN)
    add("--fallback-model", help=_HIDDEN)
    add("--effort", help=_HIDDEN)
    add("--setting-sources", help=_HIDDEN)
    # Bridle never adds other MCP servers.
    add("--strict-mcp-config", action="store_true", help=_HIDDEN)
    for flag, other in (("allowed", "allow"), ("disallowed", "deny")):
        add(
            f"--{flag}Tools",
            f"--{flag}-tools",
            dest=f"{other}_tool_list",
            action="append",
            default=[],
            help=_HIDDEN,
        )
    for flag in _REFUSED:
        nargs: Any = 0 if flag in ("--continue", "--ide", "--replay-user-messages") else None
        add(flag, action=_Refused, nargs=nargs, dest=_HIDDEN, help=_HIDDEN)
    if run:
        add("-p", "--print", action="store_true", help=_HIDDEN)
        add("--output-format", choices=("text", "json", "stream-json"), help=_HIDDEN)
        add("--include-partial-messages", action="store_true", help=_HIDDEN)
        add("--fork-session", action="store_true", help=_HIDDEN)
        add("--no-session-persistence", action="store_true", help=_HIDDEN)


def old_permission(args: argparse.Namespace) -> PermissionMode | None:
    """The permission mode that the old flags mean, or None."""
    if args.dangerously_skip_permissions:
        return "bypass"
    mode = args.permission_mode
    if mode is None or mode in _PERMISSIONS:
        return _PERMISSIONS.get(mode or "")
    if mode in _OTHER_PERMISSIONS:
        raise WrongUse(
            f"--permission-mode {mode} is not supported: {_OTHER_PERMISSIONS[mode]}",
            hint=_INSTEAD[mode],
        )
    raise WrongUse(f"--permission-mode cannot be {mode}", hint=f"one of {', '.join(_PERMISSIONS)}")


def old_provider_options(args: argparse.Namespace) -> dict[str, Any]:
    """The runtime's own options that the old flags mean; a runtime without one refuses it."""
    found: dict[str, Any] = {}
    if args.add_dir:
        found["add_dirs"] = list(args.add_dir)
    for name in ("fallback_model", "effort", "setting_sources"):
        if getattr(args, name) is not None:
            found[name] = getattr(args, name)
    if getattr(args, "fork_session", False):
        found["fork"] = True
    if getattr(args, "no_session_persistence", False):
        found["persist_session"] = False
    return found
