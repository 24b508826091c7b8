"""What a captured pane of Codex's terminal interface shows.

One trap cannot be seen here: while an answer streams, the screen looks idle; only the pane's title
(a spinner in front of the folder's name) tells.
"""

from bridle.core.results import Busy, Dialog, Loading, Ready, ReadyState
from bridle.drives.tmux.facts import TerminalFacts

_LOGIN = ("Sign in with ChatGPT", "Choose how you want to use Codex")
_TRUST = ("Trust this folder?", "Do you trust the contents of this directory?")
_MIGRATION = ("1. Try new model", "2. Use existing model")
_APPROVAL = ("Would you like to run the following", "Would you like to make the following edits")
_UPDATE = ("Update available!", "Skip until next version")
_PROMPT = "›"


def detect_ready(pane: str) -> ReadyState:
    """Judge a pane; the newest thing on the screen, at its bottom, decides."""
    lines = [line.rstrip() for line in pane.splitlines() if line.strip()]
    if not lines:
        return Loading()
    if any(line.startswith("Pane is dead") for line in lines):
        return Busy(what="error")
    bottom = "\n".join(lines[-20:])
    if any(mark in bottom for mark in _LOGIN):
        return Dialog(name="login", action=None)
    if any(mark in bottom for mark in _TRUST):
        return Dialog(name="trust", action="Enter")
    if all(mark in bottom for mark in _MIGRATION):
        # Enter would change the model, and note that in the user's configuration.
        return Dialog(name="model_migration", action=None)
    if all(mark in bottom for mark in _UPDATE):
        return Dialog(name="update", action=None)
    if any(mark in bottom for mark in _APPROVAL):
        return Busy(what="permission")
    if any("Working (" in line and "esc to interrupt" in line for line in lines[-8:]):
        return Busy(what="working")
    return Ready() if _has_composer(lines) else Loading()


def _has_composer(lines: list[str]) -> bool:
    """Whether the input line stands near the bottom, over the status line with the folder."""
    footer = next((i for i in range(len(lines) - 1, -1, -1) if _is_footer(lines[i])), None)
    if footer is None or footer < len(lines) - 3:
        return False
    return any(line.startswith(_PROMPT) for line in lines[:footer])


def _is_footer(line: str) -> bool:
    return line.startswith("  ") and (" · " in line or "esc again to edit" in line)


def input_line(pane: str) -> str | None:
    """What stands in the input line: from the last prompt sign to the status line."""
    lines = [line.rstrip() for line in pane.splitlines()]
    starts = [at for at, line in enumerate(lines) if line.startswith(_PROMPT)]
    if not starts:
        return None
    shown = [lines[starts[-1]][1:]]
    for line in lines[starts[-1] + 1 :]:
        if _is_footer(line):
            break
        shown.append(line)
    return "\n".join(shown).strip()


TERMINAL = TerminalFacts(
    input_line=input_line,
    hints=("Ask Codex to do anything",),
    placeholder=r"\[Pasted Content \d+ chars\]",
    interrupt=("Escape",),
    leave=("C-c", "C-c"),
    queues=True,
    busy_title=r"^[⠀-⣿] ",
)
