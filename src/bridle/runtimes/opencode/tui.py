"""What a captured pane of OpenCode's terminal interface shows. Captures: `testdata/tui-*.txt`."""

from bridle.core.results import Busy, Loading, Ready, ReadyState

_FOOTER_LINES = 24
_KEYS = "ctrl+p commands"
_INTERRUPT = ("esc interrupt", "esc again to interrupt")


def detect_ready(pane: str) -> ReadyState:
    """What the pane shows; pure.

    The line with the keys exists from the first picture on, and shows on its left whether the agent
    works. It is near the bottom, or in the middle of an empty start screen. There is no dialog at
    the start, and no capture of a permission question; neither is guessed.
    """
    lines = [line for line in pane.splitlines() if line.strip()][-_FOOTER_LINES:]
    footer = next((line for line in reversed(lines) if _KEYS in line), None)
    if footer is None:
        return Loading()
    if any(words in footer for words in _INTERRUPT):
        return Busy(what="working")
    return Ready()
