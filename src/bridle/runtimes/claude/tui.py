"""What a captured terminal pane of Claude Code shows.

The order of the rules matters: the prompt sign stands in every menu and beside every past message,
so it proves readiness only under a rule, with nothing above it that says otherwise.

Most dialogs have "no" as their default, and which do changes between versions, so Enter is only
ever sent when the wanted row is seen to be chosen. Where rows are numbered, the number is the key;
where they are not, Home and End choose. Keys that come before a menu takes them are lost one by
one, so a sequence of two would end in Enter on the wrong row.
"""

import itertools
import re

from bridle.core.results import Busy, Dialog, Loading, Ready, ReadyState
from bridle.drives.tmux.facts import TerminalFacts
from bridle.drives.tmux.hook_reports import ReportShape
from bridle.drives.tmux.permission_dialogs import row_keys

_LOOKED_AT = 15
"""Lines from the end, empty ones not counted, that are looked at."""
_SPINNER = re.compile(r"^\S \S+… \(\d+", re.MULTILINE)
_IDLE_MARKS = ("? for shortcuts", "(shift+tab to cycle)", "paste again to expand")

SETTLED = 1.0
"""Seconds that a dialog must have looked the same before its key is sent."""
_ROW = re.compile(r"^\s*(❯?)\s*(?:(\d)\.)?\s*(\S.*)$")

DIALOGS = (
    # name, text that shows it, beginning of the row that is meant
    ("trust", "one you trust?", "Yes, I trust"),
    ("api_key", "Detected a custom API key", "Yes"),
    ("bypass_warning", "running in Bypass Permissions mode", "Yes, I accept"),
    ("fullscreen_offer", "Try the new fullscreen renderer?", "Not now"),
)
"""Dialogs that may stand in the way, with the row that says yes to what the session was started
for, and no to an offer nobody asked for."""


def detect_ready(pane: str) -> ReadyState:
    """Classify a capture. Pure; fooled by an agent that prints such screens, so prefer hooks."""
    lines = [line.rstrip() for line in pane.splitlines() if line.strip()]
    shown = "\n".join(lines[-_LOOKED_AT:])
    if "Enter to confirm" in shown:
        return _dialog(lines)
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


def _dialog(lines: list[str]) -> Dialog:
    """The dialog and the one key (by tmux's name for it) that is safe to send now.

    A dialog is drawn before it takes keys, and may be drawn anew with its first choice just after
    it took one. So send a key only when captures showed the same state for `SETTLED` seconds, then
    look again. Home and End may be repeated, since they do the same twice as once (Down wraps
    around); Enter or a number repeated too soon would answer the next dialog.
    """
    text = "\n".join(lines)
    for name, mark, wanted in DIALOGS:
        if mark in text:
            return Dialog(name=name, action=_key(lines, wanted))
    return Dialog(name="unknown", action=None)


def _key(lines: list[str], wanted: str) -> str | None:
    rows = [found for line in lines if (found := _ROW.match(line))]
    meant = [at for at, row in enumerate(rows) if row[3].startswith(wanted)]
    chosen = [at for at, row in enumerate(rows) if row[1]]
    if not meant or not chosen:
        return None
    if meant[-1] == chosen[-1]:
        return "Enter"
    if rows[meant[-1]][2]:
        return rows[meant[-1]][2]
    return "End" if chosen[-1] < meant[-1] else "Home"


def _has_prompt(lines: list[str]) -> bool:
    """Whether a line with the prompt sign stands right under a rule."""
    return any(
        line.startswith("❯") and above.startswith("───")
        for above, line in itertools.pairwise(lines)
    )


def input_line(pane: str) -> str | None:
    """What stands in the input line: from the last prompt sign to the rule below it."""
    lines = [line.rstrip() for line in pane.splitlines()]
    starts = [
        at
        for at in range(1, len(lines))
        if lines[at].startswith("❯") and lines[at - 1].startswith("───")
    ]
    if not starts:
        return None
    shown = [lines[starts[-1]][1:]]
    for line in lines[starts[-1] + 1 :]:
        if line.startswith("───"):
            break
        shown.append(line)
    return "\n".join(shown).strip()


REPORTS = ReportShape(
    events={
        "UserPromptSubmit": "prompt",
        "PreToolUse": "tool_start",
        "PostToolUse": "tool_end",
        "PostToolUseFailure": "tool_end",
        "PermissionRequest": "permission",
        "Stop": "turn_end",
        "SessionEnd": "session_end",
    }
)
"""What its hooks tell of a terminal session."""


def permission_keys(pane: str, allowed: bool) -> tuple[str, ...] | None:
    """The row "Yes" has a number; Escape refuses, and ends the turn as "No" does too."""
    return row_keys(pane, allowed, consent=("Yes",))


TERMINAL = TerminalFacts(
    dialog_settled=SETTLED,
    paste_settled=0.6,
    input_line=input_line,
    hints=("Press up to edit queued messages", 'Try "'),
    placeholder=r"\[Pasted text #\d+",
    interrupt=("Escape",),
    leave=("C-d", "C-d"),
    queues=True,
    permission_keys=permission_keys,
    reports=REPORTS,
)
"""Enter right after a paste is swallowed, hence the long pause."""
