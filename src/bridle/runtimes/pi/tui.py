"""What a captured pane of Pi's terminal interface shows. Captures: `testdata/tui-*.txt`."""

import re

from bridle.core.results import Busy, Dialog, Loading, Ready, ReadyState
from bridle.drives.tmux.facts import TerminalFacts
from bridle.drives.tmux.hook_reports import ReportShape
from bridle.drives.tmux.permission_dialogs import row_keys

_FOOTER = re.compile(r"\b\d+\.\d+%/\d+(?:\.\d+)?[kM]\b")
_NO_MODEL_FOOTER = re.compile(r"\b\d+\.\d+%/0 ")
_WORKING = re.compile(r"[⠀-⣿] Working")
_CHOOSE = "↑↓ navigate  enter select  escape/ctrl+c cancel"
_TRUST = "Trust project folder?"
_FOOTER_LINES = 6
_LOWER_LINES = 30


def classify(pane: str) -> ReadyState:
    """What the pane shows; pure. The footer alone is no proof of idleness, it is always there."""
    lines = [line for line in pane.splitlines() if line.strip()]
    lower = lines[-_LOWER_LINES:]
    choosing = any(line.strip() == _CHOOSE for line in lower)
    if choosing and any(line.strip() == _TRUST for line in lower):
        # The cursor stands on "Trust": Enter would run the project's code from now on. Escape
        # leaves the project untrusted for this session and writes nothing.
        return Dialog(name="trust", action="Escape")
    if choosing:
        return Busy(what="permission")
    if any(_WORKING.search(line) for line in lower):
        return Busy(what="working")
    footer = lines[-_FOOTER_LINES:]
    if any(_FOOTER.search(line) for line in footer):
        return Ready()
    if any(_NO_MODEL_FOOTER.search(line) for line in footer):
        return Dialog(name="no-model", action=None)
    return Loading()


def input_line(pane: str) -> str | None:
    """What stands between the two last rules."""
    lines = [line.rstrip() for line in pane.splitlines()]
    rules = [at for at, line in enumerate(lines) if line.startswith("──")]
    if len(rules) < 2:
        return None
    return "\n".join(lines[rules[-2] + 1 : rules[-1]]).strip()


REPORTS = ReportShape(
    events={
        "input": "prompt",
        "tool_execution_start": "tool_start",
        "tool_execution_end": "tool_end",
        "agent_settled": "turn_end",
        "session_shutdown": "session_end",
    }
)
"""What the extension tells of a terminal session; the older version has no `agent_settled`."""


def permission_keys(pane: str, allowed: bool) -> tuple[str, ...] | None:
    """Enter while "Yes" is marked; Escape refuses."""
    return row_keys(pane, allowed, consent=("Yes",))


TERMINAL = TerminalFacts(
    input_line=input_line,
    placeholder=r"\[paste #\d+",
    interrupt=("Escape",),
    leave=("C-d",),
    queues=True,
    permission_keys=permission_keys,
    reports=REPORTS,
)
