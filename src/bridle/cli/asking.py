"""Asks the person at the terminal what an agent may do."""

import select
import sys
import time

import msgspec

from bridle.cli.output import safe
from bridle.drives.spec import Question

_LONGEST = 4000


class Interrupted(Exception):
    """Ctrl-C came while a question stood open."""


class TerminalPermission:
    """Answers permission requests by asking the person at the terminal.

    Contract: called from the thread that reads the run's events; waits for the person no longer
    than the run may last. Whatever is not a clear yes is a no.
    """

    def __init__(self, timeout: float | None = None) -> None:
        self.asking = False
        """Whether a question stands open, so that Ctrl-C must end the waiting."""
        self._always: set[str] = set()
        self._deadline = None if timeout is None else time.monotonic() + timeout

    def __call__(self, question: Question) -> tuple[bool, str, str]:
        """(allowed, who decided, reason) for one request."""
        if question.tool_name in self._always:
            return True, "person", "all calls of this tool were allowed"
        sys.stdout.flush()
        sys.stderr.write(_text(question))
        sys.stderr.flush()
        try:
            self.asking = True
            answer = self._answer()
        except Interrupted:
            return False, "person", "interrupted"
        finally:
            self.asking = False
        if answer is None:
            return False, "bridle", "nobody answered in time"
        if answer in ("a", "always"):
            self._always.add(question.tool_name)
        if answer in ("a", "always", "y", "yes"):
            return True, "person", "allowed at the terminal"
        return False, "person", "refused at the terminal"

    def _answer(self) -> str | None:
        left = None if self._deadline is None else max(0.0, self._deadline - time.monotonic())
        ready, _, _ = select.select([sys.stdin], [], [], left)
        return sys.stdin.readline().strip().lower() if ready else None


def can_ask() -> bool:
    """Whether a person is there: the terminal can be read and written."""
    return sys.stdin is not None and sys.stdin.isatty() and sys.stderr.isatty()


def _text(question: Question) -> str:
    args = msgspec.json.format(msgspec.json.encode(question.args, enc_hook=str), indent=2).decode()
    shown = safe(args if len(args) <= _LONGEST else args[:_LONGEST] + "\n…")
    return (
        f"\nThe agent asks to use {safe(question.tool_name)}:\n{shown}\n"
        "Allow it? [y]es, [N]o, [a]lways this tool: "
    )
