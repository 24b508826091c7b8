"""Watching a pane for permission dialogs, and answering the one that was asked about.

A dialog is known by its text, so that an answer meant for one is never given to the next, also by
a driver that takes over from one that was killed: that an answer is being given is written down
before the key is pressed.
"""

import os
import re
from collections.abc import Callable

from bridle.core.results import Busy, ReadyState
from bridle.drives.tmux.facts import TerminalFacts
from bridle.drives.tmux.orders import Order, Seen

_STANDS = 0.4
"""Seconds that a dialog must have been there to be asked about, or gone to be over."""
_NEXT = 2.0
"""Seconds after an answer in which the same text is the same dialog, whose key has yet to work."""
_YES = re.compile(r"^[\s│]*[❯›→]?\s*(?:1\.)?\s*Yes\b")
_TOPS = ("─", "╭", "Would you like")
"""How the first line of a dialog begins."""
_ABOVE, _BELOW = 8, 4
"""Lines around the row with "Yes" that are looked at, where no first line is found."""


def dialog_text(pane: str) -> str:
    """The part of a pane by which its dialog is known; what stands above it may change."""
    lines = [line.rstrip() for line in pane.splitlines() if line.strip()]
    rows = [at for at, line in enumerate(lines) if _YES.match(line)]
    row = rows[-1] if rows else len(lines) - 1
    tops = [at for at in range(row) if lines[at].lstrip().startswith(_TOPS)]
    start = tops[-1] if tops else max(0, row - _ABOVE)
    return "\n".join(lines[start : row + _BELOW])


class PermissionWatch:
    """The permission dialogs of one pane, one at a time.

    Contract: decides by what it is shown and by the times it is given; `tell` writes down what
    was seen.
    """

    def __init__(
        self,
        facts: TerminalFacts,
        detect: Callable[[str], ReadyState],
        tell: Callable[[Seen], None],
    ) -> None:
        self.open = ""
        """The id of the question that waits for an answer."""
        self._facts = facts
        self._detect = detect
        self._tell = tell
        self._text = ""
        self._shown_since: float | None = None
        self._gone_since: float | None = None
        self._answered = ("", 0.0)

    def take_up(self, seen: Seen) -> None:
        """Learn from the journal what the one before saw."""
        if seen.kind == "permission":
            self.open, self._text = seen.id, seen.evidence
        elif seen.kind in ("answered", "gone") and seen.id == self.open:
            self.open = ""

    def saw(self, pane: str, now: float) -> bool:
        """Judge one look at the pane; whether it shows a dialog."""
        shows = self._detect(pane) == Busy(what="permission")
        if not shows:
            self._shown_since = None
            if self.open:
                self._gone_since = now if self._gone_since is None else self._gone_since
                if now - self._gone_since >= _STANDS:
                    self._over()
            return False
        text = dialog_text(pane)
        self._gone_since = None
        if self.open and text != self._text:
            # Another one stands in its place: somebody answered at the terminal.
            self._over()
        if not self.open and not (text == self._answered[0] and now < self._answered[1] + _NEXT):
            self._shown_since = now if self._shown_since is None else self._shown_since
            if now - self._shown_since >= _STANDS:
                self._ask(pane, text)
        return True

    def _ask(self, pane: str, text: str) -> None:
        self.open, self._text, self._shown_since = os.urandom(6).hex(), text, None
        answerable = self._facts.permission_keys(pane, True) is not None
        self._tell(Seen(kind="permission", id=self.open, evidence=text, answerable=answerable))

    def _over(self) -> None:
        self._tell(Seen(kind="gone", id=self.open))
        self.open, self._gone_since = "", None

    def keys(self, order: Order, pane: str, now: float) -> tuple[str, ...]:
        """The keys that carry an answer out; none when its dialog is not there any more. After
        this the question is closed."""
        text = dialog_text(pane)
        if self._detect(pane) != Busy(what="permission") or text != self._text:
            self._over()
            return ()
        self._tell(Seen(kind="answered", id=self.open))
        self.open, self._answered = "", (text, now)
        allowed = order.allow is True
        return self._facts.permission_keys(pane, allowed) or ()
