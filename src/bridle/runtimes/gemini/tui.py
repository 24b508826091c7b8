"""What a captured pane of Gemini's terminal interface shows. Captures: `testdata/tui-*.txt`."""

from bridle.core.results import Busy, Dialog, Loading, Ready, ReadyState

_TRUST = "Do you trust the files in this folder?"
_DONT_TRUST = "Don't trust"
_ASK = "Apply this change?"
_ALLOW = "1. Allow once"
_WORKING = "esc to cancel"
_INPUT = "Type your message"
_LOWER_LINES = 18
_NOTICES = ("⚠", "ℹ", "? for shortcuts", "Shift+Tab", "─")


def detect_ready(pane: str) -> ReadyState:
    """What the pane shows; pure. Only its lower part counts: an answered dialog stays above.

    The input box alone proves nothing: it flashes up before the question about trust, with only
    notices above it.
    """
    lines = [line.strip() for line in pane.splitlines() if line.strip()]
    lower = lines[-_LOWER_LINES:]
    box = next((at for at in range(len(lower) - 1, -1, -1) if _INPUT in lower[at]), None)
    if box is None:
        if any(_TRUST in line for line in lower) and any(_DONT_TRUST in line for line in lower):
            # Enter would trust the folder permanently, and Gemini would run what it contains.
            return Dialog(name="trust", action=None)
        if any(_ASK in line or _ALLOW in line for line in lower):
            return Busy(what="permission")
        return Loading()
    if any(_WORKING in line for line in lower[:box]):
        return Busy(what="working")
    above = lines[: len(lines) - len(lower) + box]
    if all(line.startswith(_NOTICES) for line in above):
        return Loading()
    return Ready()
