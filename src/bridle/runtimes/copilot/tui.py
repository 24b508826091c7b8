"""What a captured pane of Copilot's terminal interface shows. Captures: `testdata/tui-*.txt`.

The prompt sign stands in every menu too, so it proves readiness only together with the status line
of an idle session.
"""

from bridle.core.results import Busy, Dialog, Loading, Ready, ReadyState
from bridle.drives.tmux.facts import TerminalFacts
from bridle.drives.tmux.hook_reports import ReportShape
from bridle.drives.tmux.permission_dialogs import row_keys
from bridle.runtimes.copilot.dialects import DIALECTS

_LOOKED_AT = 16
"""Lines from the end, empty ones not counted: the tallest menu with its frame."""
_MENU = "enter to select"
_TRUST = "Do you trust the files in this folder?"
_BUSY = "esc interrupt"
_YES = "❯ 1. Yes"
_LEAVING = "ctrl+c again to exit"


def detect_ready(pane: str) -> ReadyState:
    """Classify a capture; pure."""
    lines = [line.rstrip() for line in pane.splitlines() if line.strip()]
    shown = "\n".join(lines[-_LOOKED_AT:])
    if _MENU in shown:
        if _TRUST not in shown:
            # It asks whether a tool may act: the answer is a person's or a guard's.
            return Busy(what="permission")
        # Enter trusts the folder for this session alone, but only while that row is chosen. "1"
        # was never tried, so nothing is sent when the choice has moved.
        return Dialog(name="trust", action="Enter" if _YES in shown else None)
    if _BUSY in shown:
        return Busy(what="working")
    if _LEAVING in shown:
        # A key other than Ctrl-C would do, and none is known to be harmless: the hint goes away.
        return Busy(what="working")
    if all(mark in shown for mark in DIALECTS[-1].ready_marks):
        return Ready()
    return Loading()


def input_line(pane: str) -> str | None:
    """What stands between the two last rules, after the prompt sign."""
    lines = [line.rstrip() for line in pane.splitlines()]
    rules = [at for at, line in enumerate(lines) if line.startswith("────")]
    if len(rules) < 2 or not lines[rules[-2] + 1].startswith("❯"):
        return None
    return "\n".join(lines[rules[-2] + 1 : rules[-1]])[1:].strip()


REPORTS = ReportShape(
    events={
        "userPromptSubmitted": "prompt",
        "permissionRequest": "permission",
        "agentStop": "turn_end",
        "sessionEnd": "session_end",
    },
    tool="toolName",
    input="toolInput",
    transcript="",
)
"""What its hooks tell of a terminal session. Those of tools name no call, so they could not be
matched with what the transcript tells of them."""


def permission_keys(pane: str, allowed: bool) -> tuple[str, ...] | None:
    """The row "Yes" has a number; another one may be marked. Escape refuses, and ends the turn."""
    return row_keys(pane, allowed, consent=("Yes",))


TERMINAL = TerminalFacts(
    input_line=input_line,
    placeholder=r"\[Paste #\d+|\[Saved pasted content to workspace",
    interrupt=("C-c",),
    leave=("C-c", "C-c"),
    queues=True,
    permission_keys=permission_keys,
    reports=REPORTS,
)
"""The first Ctrl-C ends the turn; Escape must come twice and then opens other things too."""
