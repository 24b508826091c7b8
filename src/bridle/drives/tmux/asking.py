"""Permission dialogs of a terminal interface, as the questions that every drive asks.

The pane shows that there is one and takes the answer by a key; what it is about is told by hooks
and by the transcript.
"""

from typing import Any

from bridle.drives.tmux.evidence import HookEvidence
from bridle.drives.tmux.orders import Order, line_of
from bridle.turns.recorder import Recorder
from bridle.turns.wire import Question

_NO_KEY = "no key is known that answers this dialog; look at it with `bridle session attach`"


class PaneQuestions:
    """The permission dialogs of one conversation, one open at a time."""

    def __init__(self, recorder: Recorder, evidence: HookEvidence) -> None:
        self.refusal = ""
        """Why the turn that runs may be interrupted by the agent itself: it was refused
        something."""
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
            return line_of(Order(do="answer", id=request_id, allow=allowed))

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
        told, calls = self._evidence.take_question(), self._recorder.tools.open
        fitting = [
            call
            for call, name in calls.items()
            if told is None or not told.tool_name or told.tool_name == name
        ]
        fresh = [call for call in fitting if call not in self._seen]
        same = [call for call in fresh if told and self._evidence.args_of(call) == told.args]
        # An agent may ask twice about one call; it asks about the newest then.
        call_id = next(iter([*same, *fresh, *reversed(fitting)]), "")
        if told is not None and told.tool_name:
            return call_id, told.tool_name, told.args
        name = calls.get(call_id, "unknown")
        args = self._evidence.args_of(call_id)
        return call_id, name, {"dialog": shown} if args is None else args

    def gone(self, request_id: str) -> None:
        """The dialog went away by itself; what was chosen shows in what follows."""
        if self._open is not None and self._open.request_id == request_id:
            self._gone, self._open = self._open, None

    def settle(self) -> None:
        """Something was told since: it may say what was chosen."""
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
        """Tell what was chosen at the terminal, by what became of the call. One that was answered
        by our keys is decided already, and this has no effect then."""
        self._gone = self._open = None
        failed = self._recorder.tools.failed(asked.tool_call_id or "")
        chosen = "deny" if failed else "allow"
        self._decided(asked, chosen, "terminal", "answered at the terminal")

    def end_turn(self) -> None:
        """The turn ends: a question about a call that never ended went with it."""
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
