"""The scripted agent at a terminal: what a captured pane shows."""

from bridle.core.results import Busy, Loading, Ready, ReadyState

_PROMPT = "scripted>"


def detect_ready(pane: str) -> ReadyState:
    """Ready when its prompt is the last thing on the pane; pure."""
    lines = [line.rstrip() for line in pane.splitlines() if line.strip()]
    if not lines:
        return Loading()
    last = lines[-1]
    if last.startswith(_PROMPT):
        return Ready() if last == _PROMPT else Busy()
    if last.strip().endswith("? [y/N]"):
        return Busy(what="permission")
    return Busy() if any("scripted agent" in line for line in lines) else Loading()
