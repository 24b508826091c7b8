"""Permission dialogs in a pane: how Bridle notices one, asks about it, and answers it with a key.

`PermissionWatch` watches the pane for the driver, `PaneQuestions` turns a dialog into the same
permission request that every drive makes, and `row_keys` finds the key. A dialog is identified by
its text, so that an answer is never given to the next dialog. That also holds after a change of
drivers: the journal records an answer before the key is pressed.
"""

import os
import re
from collections.abc import Callable
from typing import Any

from bridle.core.results import Busy, ReadyState
from bridle.drives.tmux.facts import TerminalFacts
from bridle.drives.tmux.hook_reports import HookEvidence
from bridle.drives.tmux.records import Observation, Order, record_line
from bridle.turns.recorder import Recorder
from bridle.turns.wire import Question

_STANDS = 0.4
"""Seconds that a dialog must be visible before Bridle asks, or gone before it counts as closed."""
_NEXT = 2.0
"""Seconds after an answer during which the same text is still the answered dialog."""
_YES = re.compile(r"^[\s│]*[❯›→]?\s*(?:1\.)?\s*Yes\b")
_TOPS = ("─", "╭", "Would you like")
"""Beginnings of the first line of a dialog."""
_ABOVE, _BELOW = 8, 4
"""Lines around the row with "Yes" that count as the dialog if no first line is found."""


def dialog_text(pane: str) -> str:
    """The part of a pane that identifies its dialog; the text above it may change."""
    lines = [line.rstrip() for line in pane.splitlines() if line.strip()]
    rows = [at for at, line in enumerate(lines) if _YES.match(line)]
    row = rows[-1] if rows else len(lines) - 1
    tops = [at for at in range(row) if lines[at].lstrip().startswith(_TOPS)]
    start = tops[-1] if tops else max(0, row - _ABOVE)
    return "\n".join(lines[start : row + _BELOW])


class PermissionWatch:
    """Watches one pane for permission dialogs, one at a time.

    Contract: decides only by the captures and times it is given; `record` writes observations to
    the journal.
    """

    def __init__(
        self,
        facts: TerminalFacts,
        detect: Callable[[str], ReadyState],
        record: Callable[[Observation], None],
    ) -> None:
        self.open = ""
        """The id of the request that waits for an answer."""
        self._facts = facts
        self._detect = detect
        self._record = record
        self._text = ""
        self._shown_since: float | None = None
        self._gone_since: float | None = None
        self._answered = ("", 0.0)

    def take_up(self, seen: Observation) -> None:
        """Restore what an earlier driver observed, from the journal."""
        if seen.kind == "permission":
            self.open, self._text = seen.id, seen.evidence
        elif seen.kind in ("answered", "gone") and seen.id == self.open:
            self.open = ""

    def saw(self, pane: str, now: float) -> bool:
        """Judge one capture of the pane; returns whether it shows a dialog."""
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
            # Another dialog replaced it: a person answered at the terminal.
            self._over()
        if not self.open and not (text == self._answered[0] and now < self._answered[1] + _NEXT):
            self._shown_since = now if self._shown_since is None else self._shown_since
            if now - self._shown_since >= _STANDS:
                self._ask(pane, text)
        return True

    def _ask(self, pane: str, text: str) -> None:
        self.open, self._text, self._shown_since = os.urandom(6).hex(), text, None
        answerable = self._facts.permission_keys(pane, True) is not None
        self._record(
            Observation(kind="permission", id=self.open, evidence=text, answerable=answerable)
        )

    def _over(self) -> None:
        self._record(Observation(kind="gone", id=self.open))
        self.open, self._gone_since = "", None

    def keys(self, order: Order, pane: str, now: float) -> tuple[str, ...]:
        """The keys that give an answer; empty if the dialog is no longer there. The request is
        closed afterwards."""
        text = dialog_text(pane)
        if self._detect(pane) != Busy(what="permission") or text != self._text:
            self._over()
            return ()
        self._record(Observation(kind="answered", id=self.open))
        self.open, self._answered = "", (text, now)
        allowed = order.allow is True
        return self._facts.permission_keys(pane, allowed) or ()


# -- requests -------------------------------------------------------------------------------------

_NO_KEY = "no key is known that answers this dialog; look at it with `bridle session attach`"


class PaneQuestions:
    """The permission dialogs of one conversation as permission requests, one open at a time.

    The pane shows that there is a dialog and takes the answer by a key; hooks and the transcript
    say what it is about.
    """

    def __init__(self, recorder: Recorder, evidence: HookEvidence) -> None:
        self.refusal = ""
        """Why the agent itself may interrupt the running turn: it was refused something."""
        self._recorder = recorder
        self._evidence = evidence
        self._seen: set[str] = set()
        self._open: Question | None = None
        self._gone: Question | None = None

    def ask(self, request_id: str, shown: str, answerable: bool) -> None:
        """The pane shows a dialog."""
        self._settle_gone()
        call_id, name, args = self._about(shown)
        self._seen.add(call_id)

        def answer(allowed: bool, reason: str) -> bytes:
            if not allowed:
                self.refusal = f"the agent stopped because it was refused {name}"
            return record_line(Order(do="answer", id=request_id, allow=allowed))

        question = Question(
            request_id=request_id,
            tool_name=name,
            args=args,
            tool_call_id=call_id or None,
            answer=answer,
        )
        if answerable:
            self._open = question
            self._recorder.permission_requested(question)
        else:
            self._recorder.reply(answer(False, _NO_KEY))
            self._decided(question, "deny", "bridle", _NO_KEY)

    def _about(self, shown: str) -> tuple[str, str, Any]:
        """Which call a dialog is about: its id, its tool's name and its arguments."""
        report, calls = self._evidence.take_question(), self._recorder.tools.open
        fitting = [
            call
            for call, name in calls.items()
            if report is None or not report.tool_name or report.tool_name == name
        ]
        fresh = [call for call in fitting if call not in self._seen]
        same = [call for call in fresh if report and self._evidence.args_of(call) == report.args]
        # An agent may ask twice about one call; then it asks about the newest.
        call_id = next(iter([*same, *fresh, *reversed(fitting)]), "")
        if report is not None and report.tool_name:
            return call_id, report.tool_name, report.args
        name = calls.get(call_id, "unknown")
        args = self._evidence.args_of(call_id)
        return call_id, name, {"dialog": shown} if args is None else args

    def gone(self, request_id: str) -> None:
        """The dialog disappeared by itself; later lines show what was chosen."""
        if self._open is not None and self._open.request_id == request_id:
            self._gone, self._open = self._open, None

    def settle(self) -> None:
        """A line came: it may show what was chosen."""
        asked = self._gone or self._open
        if asked is None:
            return
        call_id = asked.tool_call_id
        ended = call_id is not None and self._recorder.tools.failed(call_id) is not None
        if ended or (self._gone is not None and call_id is None):
            self._judge(asked)

    def _settle_gone(self) -> None:
        if self._gone is not None:
            self._judge(self._gone)

    def _judge(self, asked: Question) -> None:
        """Record what was chosen at the terminal, by the outcome of the call. No effect if Bridle
        answered: then the request is already decided."""
        self._gone = self._open = None
        failed = self._recorder.tools.failed(asked.tool_call_id or "")
        chosen = "deny" if failed else "allow"
        self._decided(asked, chosen, "terminal", "answered at the terminal")

    def end_turn(self) -> None:
        """The turn ends: a request about a call that never ended ends with it."""
        asked = self._gone or self._open
        self._gone = self._open = None
        if asked is not None:
            failed = self._recorder.tools.failed(asked.tool_call_id or "")
            chosen = "allow" if failed is False else "deny"
            self._decided(asked, chosen, "terminal", "it ended with its turn")
        self.refusal = ""
        self._seen.clear()

    def _decided(self, question: Question, decision: str, by: str, reason: str) -> None:
        self._recorder.permission_decided(
            question.request_id,
            tool_name=question.tool_name,
            tool_call_id=question.tool_call_id,
            decision=decision,
            by=by,
            reason=reason,
        )


# -- keys -----------------------------------------------------------------------------------------

_ROW = re.compile(r"^[\s│]*([❯›→]?)\s*(?:(\d)\.)?\s*(\S.*?)[\s│]*$")


def row_keys(
    pane: str, allowed: bool, *, consent: tuple[str, ...], refusal: tuple[str, ...] = ("Escape",)
) -> tuple[str, ...] | None:
    """The keys for a dialog with one answer per row; None if no key is safe.

    `consent` are the exact rows that allow only this call. A number or a letter selects its row
    directly; Enter selects the marked row, so it is used only if that row is the right one. A "Yes"
    with an addition ("and don't ask again") grants more than was asked and is never used. If the
    pane shows several dialogs, the last one counts.
    """
    if not allowed:
        return refusal
    rows = [found for line in pane.splitlines() if (found := _ROW.match(line))]
    meant = [row for row in rows if row[3] in consent]
    if not meant:
        return None
    if meant[-1][2]:
        return (meant[-1][2],)
    return ("Enter",) if meant[-1][1] else None
