"""The permission prompt: asks the user at the terminal what an agent may do."""

import os
import select
import sys
import time

import msgspec

from bridle.cli.output import safe
from bridle.turns.wire import Question

_LONGEST = 4000
_GRACE = 1.0
_YES = ("y", "yes")
_NO = ("", "n", "no")
_ALWAYS = ("a", "always")
_ANSWERS = (*_YES, *_NO, *_ALWAYS)
_CHOICE = "[y]es, [N]o, [a]lways this tool"


class TerminalPermission:
    """Answers permission requests by asking the person at the terminal.

    Contract: called from the thread that reads the run's events; waits for the person no longer
    than the run may last. An empty line means no; anything that is not an answer is asked again.
    """

    def __init__(self, timeout: float | None = None) -> None:
        self._over = False
        self._always: set[str] = set()
        # A little past the run's own limit, so that the run times out and not the question, after
        # which the agent would continue.
        self._deadline = None if timeout is None else time.monotonic() + timeout + _GRACE
        self._wake_read, self._wake_write = os.pipe()

    def interrupt(self) -> None:
        """Ask nothing more, and stop waiting for an answer; for a signal handler."""
        self._over = True
        os.write(self._wake_write, b"x")

    def __call__(self, question: Question) -> tuple[bool, str, str]:
        """(allowed, who decided, reason) for one request."""
        if self._over:
            return False, "person", "interrupted"
        if question.tool_name in self._always:
            return True, "person", "all calls of this tool were allowed"
        sys.stdout.flush()
        _write(_text(question))
        answer = self._answer()
        while answer is not None and answer not in _ANSWERS:
            _write(f"{_CHOICE}: ")
            answer = self._answer()
        if answer is None:
            reason = "interrupted" if self._over else "nobody answered in time"
            return False, "person" if self._over else "bridle", reason
        if answer in _ALWAYS:
            self._always.add(question.tool_name)
        if answer in _YES or answer in _ALWAYS:
            return True, "person", "allowed at the terminal"
        return False, "person", "refused at the terminal"

    def _answer(self) -> str | None:
        """What the person typed; None after a timeout or an interruption.

        The signal handler wakes the wait through a pipe, so that an interruption is never missed.
        """
        left = None if self._deadline is None else max(0.0, self._deadline - time.monotonic())
        ready, _, _ = select.select([sys.stdin, self._wake_read], [], [], left)
        if self._over or sys.stdin not in ready:
            return None
        # The end of input has no newline; it means no, like an empty line.
        return sys.stdin.readline().strip().lower()


def can_ask() -> bool:
    """Whether a person is present: the terminal can be read and written."""
    return sys.stdin is not None and sys.stdin.isatty() and sys.stderr.isatty()


def _text(question: Question) -> str:
    args = msgspec.json.format(msgspec.json.encode(question.args, enc_hook=str), indent=2).decode()
    shown = safe(args if len(args) <= _LONGEST else args[:_LONGEST] + "\n…")
    return f"\nThe agent asks to use {safe(question.tool_name)}:\n{shown}\nAllow it? {_CHOICE}: "


def _write(text: str) -> None:
    sys.stderr.write(text)
    sys.stderr.flush()
