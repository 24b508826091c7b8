"""What a captured pane of Aider's terminal interface shows."""

from bridle.core.results import Busy, Dialog, Loading, Ready, ReadyState
from bridle.runtimes.aider.wire import FAILURE, QUESTION, RETRYING

_RULE = "────"
_WAITING = "Waiting for "


def detect_ready(pane: str) -> ReadyState:
    """Judge by the lines below the last rule, which Aider draws above each prompt; pure.

    A question before the first prompt is a dialog: `n` is always safe, Enter would agree. Later it
    is a permission request.
    """
    lines = [line.rstrip() for line in pane.splitlines() if line.strip()]
    if not lines:
        return Loading()
    below = _below_last_rule(lines)
    is_prompt = bool(below) and _prompt_of(below[0]) is not None
    last = lines[-1]
    if QUESTION in last and last.endswith("]:"):
        if is_prompt:
            return Busy(what="permission")
        return Dialog(name=last.partition("?")[0].strip().lower(), action="n Enter")
    if not is_prompt:
        return Loading()
    if len(below) == 1:
        return Ready() if _prompt_of(last) == "" else Busy(what="working")
    if any(line.startswith(RETRYING) for line in below):
        return Busy(what="retrying")
    if _WAITING not in last and any(FAILURE in line for line in below):
        return Busy(what="error")
    return Busy(what="working")


def _below_last_rule(lines: list[str]) -> list[str]:
    for position in range(len(lines) - 1, -1, -1):
        if lines[position].startswith(_RULE):
            return lines[position + 1 :]
    return []


def _prompt_of(line: str) -> str | None:
    """The text after a prompt such as `>` or `ask>`; None for a line without a prompt."""
    before, mark, after = line.partition(">")
    if not mark or (before and not before.replace("-", "").isalpha()):
        return None
    return after.strip()
