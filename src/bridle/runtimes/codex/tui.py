"""What a captured pane of Codex's terminal interface shows.

One trap: while an answer streams, the line that says so is gone and the input line stands there as
when idle. Newer versions end every turn with a line of its own, so a turn without one still goes
on; in older ones only the pane's title (a spinner in front of the folder's name) tells.
"""

from bridle.core.results import Busy, Dialog, Loading, Ready, ReadyState
from bridle.drives.tmux.facts import TerminalFacts
from bridle.drives.tmux.hook_reports import ReportShape
from bridle.drives.tmux.permission_dialogs import row_keys

_LOGIN = ("Sign in with ChatGPT", "Choose how you want to use Codex")
_TRUST = ("Trust this folder?", "Do you trust the contents of this directory?")
_MIGRATION = ("1. Try new model", "2. Use existing model")
_APPROVAL = ("Would you like to run the following", "Would you like to make the following edits")
_UPDATE = ("Update available!", "Skip until next version")
_HOOKS = ("Hooks need review", "Continue without trusting")
_YES = ("› 1. Trust", "› 1. Yes")
_PROMPT = "›"
_ENDS_TURNS = ("Ask Codex to do anything", "for shortcuts")
"""What only versions show that end each turn with one of the next."""
_TURN_ENDS = ("  Worked for ", "■ ")


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
        # Only while that row is chosen; the other one ends Codex.
        yes = any(line.startswith(_YES) for line in lines)
        return Dialog(name="trust", action="Enter" if yes else None)
    if all(mark in bottom for mark in _MIGRATION):
        # Enter would change the model, and note that in the user's configuration.
        return Dialog(name="model_migration", action=None)
    if all(mark in bottom for mark in _UPDATE):
        return Dialog(name="update", action=None)
    if all(mark in bottom for mark in _HOOKS):
        # Escape trusts none of them, and changes nothing.
        return Dialog(name="hooks", action="Escape")
    if any(mark in bottom for mark in _APPROVAL):
        return Busy(what="permission")
    if any("Working (" in line and "esc to interrupt" in line for line in lines[-8:]):
        return Busy(what="working")
    composer = _composer(lines)
    if composer is None:
        return Loading()
    return Busy(what="working") if _is_answering(lines, composer) else Ready()


def _composer(lines: list[str]) -> int | None:
    """Where the input line stands: near the bottom, over the status line with the folder."""
    footer = next((i for i in range(len(lines) - 1, -1, -1) if _is_footer(lines[i])), None)
    if footer is None or footer < len(lines) - 3:
        return None
    return next((i for i in range(footer - 1, -1, -1) if lines[i].startswith(_PROMPT)), None)


def _is_answering(lines: list[str], composer: int) -> bool:
    """Whether the last prompt has an answer that was not ended."""
    if not any(mark in line for line in lines[composer:] for mark in _ENDS_TURNS):
        return False
    asked = next((i for i in range(composer - 1, -1, -1) if lines[i].startswith(_PROMPT)), None)
    if asked is None:
        return False
    since = lines[asked + 1 : composer]
    return any(line.startswith("• ") for line in since) and not any(
        line.startswith(_TURN_ENDS) for line in since
    )


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


_OLDER_HINTS = (
    "Explain this codebase",
    "Summarize recent commits",
    "Implement {feature}",
    "Find and fix a bug in @filename",
    "Write tests for @filename",
    "Improve documentation in @filename",
    "Run /review on my current changes",
    "Use /skills to list available skills",
)
"""What the older line shows in an empty input line, one of them at a time."""

REPORTS = ReportShape(
    events={
        "UserPromptSubmit": "prompt",
        "PreToolUse": "tool_start",
        "PostToolUse": "tool_end",
        "PermissionRequest": "permission",
        "Stop": "turn_end",
        "SessionEnd": "session_end",
    },
    tool_names={"Bash": "command_execution", "apply_patch": "file_change"},
    tool_prefixes={"mcp__": "mcp_tool_call"},
)
"""What its hooks tell of a terminal session."""


def permission_keys(pane: str, allowed: bool) -> tuple[str, ...] | None:
    """The letter behind the row; Escape refuses, and ends the turn."""
    if allowed and "Yes, proceed (y)" in pane:
        return ("y",)
    return row_keys(pane, allowed, consent=())


TERMINAL = TerminalFacts(
    input_line=input_line,
    hints=("Ask Codex to do anything", *_OLDER_HINTS),
    placeholder=r"\[Pasted Content \d+ chars\]",
    interrupt=("Escape",),
    leave=("C-c", "C-c"),
    queues=True,
    busy_title=r"^[⠀-⣿] ",
    permission_keys=permission_keys,
    reports=REPORTS,
)
