"""What a captured pane of Cline's terminal interface shows. Captures: `testdata/tui-*.txt`.

The status line is the same while Cline works; only the spinner before the answer shows it.
"""

import re

from bridle.core.results import Busy, Dialog, Loading, Ready, ReadyState
from bridle.runtimes.cline.product import DIALECTS

_PROMO = "Press Enter to open, any other key to close"
_SPINNER = re.compile(r"^\s*[⠀-⣿] ", re.MULTILINE)
_APPROVAL = re.compile(r"\[y/N\]|\b(?:Approve|Allow)\b.*\?|Enter to approve", re.IGNORECASE)
_LOOKED_AT = 12
"""Lines from the end, empty ones not counted, in which a question may be."""


def detect_ready(pane: str) -> ReadyState:
    """Classify a capture; pure."""
    lines = [line.rstrip() for line in pane.splitlines() if line.strip()]
    shown = "\n".join(lines)
    if _PROMO in shown:
        # Enter would open a shop in a browser.
        return Dialog(name="promo", action="Escape")
    if _SPINNER.search(shown):
        return Busy(what="working")
    if any(mark in shown for mark in DIALECTS[-1].ready_marks):
        return Ready()
    if _APPROVAL.search("\n".join(lines[-_LOOKED_AT:])):
        return Busy(what="permission")
    return Loading()
