"""What a captured terminal pane of Claude Code shows.

The order of the rules matters: the prompt sign stands in every menu and beside every past message,
so it proves readiness only under a rule, with nothing above it that says otherwise. Two dialogs
have "no" as their default; Enter on them rejects the key or ends the session, so no blind Enter.
"""

import itertools
import re

from bridle.core.results import Busy, Dialog, Loading, Ready, ReadyState

_LOOKED_AT = 15
"""Lines from the end, empty ones not counted, that are looked at."""
_SPINNER = re.compile(r"^\S \S+… \(\d+", re.MULTILINE)
_IDLE_MARKS = ("? for shortcuts", "(shift+tab to cycle)", "paste again to expand")

DIALOGS = (
    # name, text that shows it, row that must be chosen for the action to be safe, action
    ("trust", "I trust this folder", "❯ 1. Yes, I trust", "Enter"),
    ("api_key", "Detected a custom API key", "❯ 2. No", "Up Enter"),
    ("api_key", "Detected a custom API key", "❯ 1. Yes", "Enter"),
    ("bypass_warning", "running in Bypass Permissions mode", "❯ 1. No, exit", "Down Enter"),
    ("bypass_warning", "running in Bypass Permissions mode", "❯ 2. Yes, I accept", "Enter"),
    ("fullscreen_offer", "Try the new fullscreen renderer?", "❯ 1. Yes, try it", "Down Enter"),
    ("fullscreen_offer", "Try the new fullscreen renderer?", "❯ 2. Not now", "Enter"),
)
"""Dialogs that may stand in the way, with the keys that say yes to what the session was started
for (and no to an offer nobody asked for), given the row that is highlighted now."""


def detect_ready(pane: str) -> ReadyState:
    """Classify a capture. Pure; fooled by an agent that prints such screens, so prefer hooks."""
    lines = [line.rstrip() for line in pane.splitlines() if line.strip()]
    shown = "\n".join(lines[-_LOOKED_AT:])
    if "Enter to confirm" in shown:
        return _dialog("\n".join(lines))
    if "Do you want to" in shown and "Esc to cancel" in shown:
        return Busy(what="permission")
    if "Retrying in" in shown:
        return Busy(what="retrying")
    if "esc to interrupt" in shown or _SPINNER.search(shown):
        return Busy(what="working")
    if _has_prompt(lines[-_LOOKED_AT:]) and any(mark in shown for mark in _IDLE_MARKS):
        return Ready()
    if "Unable to connect to Anthropic services" in shown:
        # The first start asks the service who the user is; with no network the CLI now exits.
        return Dialog(name="offline", action=None)
    return Loading()


def _dialog(text: str) -> Dialog:
    name = "unknown"
    for dialog, mark, chosen, action in DIALOGS:
        if mark in text:
            name = dialog
            if chosen in text:
                return Dialog(name=dialog, action=action)
    return Dialog(name=name, action=None)


def _has_prompt(lines: list[str]) -> bool:
    """Whether a line with the prompt sign stands right under a rule."""
    return any(
        line.startswith("❯") and above.startswith("───")
        for above, line in itertools.pairwise(lines)
    )
