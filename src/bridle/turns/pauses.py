"""What an agent stops for: leave to act, and the shortening of its context.

Both are told by two events, and the session is in a state of its own between them.
"""

from bridle.core import events as ev
from bridle.core.redaction import Redactor
from bridle.process.spec import Question
from bridle.turns.tape import EventTape


class Permissions:
    """Tells requests and decisions, and that the session waits in between.

    Contract: a decision is told once; the caller asks `is_decided` first.
    """

    def __init__(self, tape: EventTape, redactor: Redactor) -> None:
        self._tape = tape
        self._redactor = redactor
        self._decided: set[str] = set()
        self._asked: set[str] = set()
        self._refused: set[str] = set()
        """Tool calls that were refused."""
        self.refusals = 0
        """How many calls were refused."""

    def request(self, question: Question) -> None:
        """The agent asks, and waits for the answer."""
        self._asked.add(question.request_id)
        self._tape.change_state("waiting_permission", f"permission request {question.request_id}")
        self._tape.emit(
            ev.PermissionRequest,
            request_id=question.request_id,
            tool_call_id=question.tool_call_id,
            tool_name=question.tool_name,
            args=self._redactor.value(question.args),
        )

    @property
    def decided(self) -> int:
        """How many requests need no decision any more."""
        return len(self._decided)

    def is_decided(self, request_id: str) -> bool:
        """Whether that request needs no decision any more."""
        return request_id in self._decided

    def count_as_decided(self, request_id: str) -> None:
        """A decision on that request, should one come, is not told."""
        self._decided.add(request_id)

    def is_refused(self, tool_call_id: str | None, request_id: str) -> bool:
        """Whether that call was refused before. A reported request still gets its decision."""
        return (
            bool(tool_call_id) and tool_call_id in self._refused and request_id not in self._asked
        )

    def decide(
        self,
        request_id: str,
        *,
        tool_call_id: str | None,
        tool_name: str,
        decision: str,
        by: str,
        reason: str,
    ) -> None:
        """It was decided, and the agent goes on."""
        if decision == "deny" and not (tool_call_id and tool_call_id in self._refused):
            self.refusals += 1
            self._refused.add(tool_call_id or request_id)
        self._tape.emit(
            ev.PermissionDecision,
            request_id=request_id,
            tool_call_id=tool_call_id,
            tool_name=tool_name,
            decision=decision,
            by=by,
            reason=self._redactor.text(reason),
        )
        if self._tape.state == "waiting_permission":
            self._tape.change_state("working", f"permission decision {request_id}")


class Compaction:
    """Tells when the agent shortens its context.

    Contract: the caller starts it while it does not run and ends it while it does. A live session
    goes back to what it was before, or to its turn.
    """

    def __init__(self, tape: EventTape, *, live: bool) -> None:
        self.runs = False
        self._tape = tape
        self._live = live
        self._state_before: ev.SessionState = "ready"

    def start(self, reason: str, synthetic: bool) -> None:
        """It begins."""
        self.runs = True
        if self._live:
            self._state_before = self._tape.state
            self._tape.change_state("compacting", "auto_compaction_start")
        self._tape.emit(ev.AutoCompactionStart, reason=reason, synthetic=synthetic)

    def end(self, reason: str, synthetic: bool, *, turn_open: bool) -> None:
        """It is over, or has failed."""
        self.runs = False
        self._tape.emit(ev.AutoCompactionEnd, reason=reason, synthetic=synthetic)
        if self._live and self._tape.state == "compacting":
            state = "working" if turn_open else self._state_before
            self._tape.change_state(state, "auto_compaction_end")
