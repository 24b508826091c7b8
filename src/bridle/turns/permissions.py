"""Permission events: requests and decisions, and the guard's verdicts on tool calls."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol

import msgspec

from bridle.core import events as ev
from bridle.core.errors import AgentError, GuardRefused
from bridle.core.options import RunOptions
from bridle.core.redaction import Redactor
from bridle.core.results import GuardReport
from bridle.turns.event_writer import EventWriter
from bridle.turns.guard_contract import Guard, HookNote, Verdict, WireCall
from bridle.turns.wire import Question

if TYPE_CHECKING:
    from bridle.turns.tools import ToolCalls

PROOF_SECONDS = 20.0
"""How long a guard has to show that it fires, once its agent is ready."""


class Permissions:
    """Writes permission requests and decisions; the session waits between the two.

    Contract: each decision is written once; the caller checks `is_decided` first.
    """

    def __init__(self, writer: EventWriter, redactor: Redactor) -> None:
        self._writer = writer
        self._redactor = redactor
        self._decided: set[str] = set()
        self._asked: set[str] = set()
        self._refused: set[str] = set()
        """Tool calls that were refused."""
        self.refusals = 0
        """How many calls were refused."""

    def request(self, question: Question) -> None:
        """The agent asks for permission and waits for the answer."""
        self._asked.add(question.request_id)
        self._writer.change_state("waiting_permission", f"permission request {question.request_id}")
        self._writer.emit(
            ev.PermissionRequest,
            request_id=question.request_id,
            tool_call_id=question.tool_call_id,
            tool_name=question.tool_name,
            args=self._redactor.value(question.args),
        )

    @property
    def decided(self) -> int:
        """How many requests need no further decision."""
        return len(self._decided)

    def is_decided(self, request_id: str) -> bool:
        """Whether this request needs no further decision."""
        return request_id in self._decided

    def count_as_decided(self, request_id: str) -> None:
        """Ignore any later decision on this request."""
        self._decided.add(request_id)

    def is_refused(self, tool_call_id: str | None, request_id: str) -> bool:
        """Whether this call was refused before. A request that has an event still gets its
        decision."""
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
        """Write the decision; the agent continues."""
        if decision == "deny" and not (tool_call_id and tool_call_id in self._refused):
            self.refusals += 1
            self._refused.add(tool_call_id or request_id)
        self._writer.emit(
            ev.PermissionDecision,
            request_id=request_id,
            tool_call_id=tool_call_id,
            tool_name=tool_name,
            decision=decision,
            by=by,
            reason=self._redactor.text(reason),
        )
        if self._writer.state == "waiting_permission":
            self._writer.change_state("working", f"permission decision {request_id}")


class CallRecorder(Protocol):
    """What the guard's verdicts need of the recorder."""

    options: RunOptions
    guard: Guard | None
    unguarded: str
    turn_open: bool

    def ready(self, evidence: str) -> None:
        """The agent can take a prompt."""

    def expect(self, seconds: float | None, error: AgentError | None = None) -> None:
        """Have the agent stopped after `seconds`; None cancels it."""

    def request_stop(self, error: AgentError) -> None:
        """Have the agent stopped because of `error`."""

    def tool_started(
        self, tool_call_id: str, tool_name: str, args: Any, *, synthetic: bool = False
    ) -> None:
        """The agent calls a tool."""

    def tool_ended(
        self, tool_call_id: str, *, is_error: bool, result: Any, synthetic: bool = False
    ) -> None:
        """A tool ended."""

    def permission_decided(
        self,
        request_id: str,
        *,
        tool_name: str,
        decision: str,
        by: str,
        reason: str = "",
        tool_call_id: str | None = None,
    ) -> None:
        """A tool call was allowed or refused."""


class GuardVerdicts:
    """Keeps the guard's verdicts in step with the tool calls that the wire reports.

    A hook answers in its own time: before the wire names the call, before the wire reports the
    turn, or about a call that the wire never reports. An agent whose hooks do not fire, or that
    ignores them, must be stopped.

    Contract: belongs to one recorder, and reads the recorder's `guard` on each call. Without a
    guard every call that is asked about is refused, and the other methods have no effect. A verdict
    is written once, after the start of its tool and inside its turn.
    """

    def __init__(
        self,
        recorder: CallRecorder,
        tools: "ToolCalls",
        permissions: Permissions,
        *,
        live: bool,
    ) -> None:
        self._recorder = recorder
        self._tools = tools
        self._permissions = permissions
        self._live = live
        self._early: dict[str, tuple[str, Verdict]] = {}
        """Verdicts on calls whose start the wire has not reported."""
        self._unnamed: list[tuple[str, Verdict]] = []
        """Such verdicts of hooks that give no call id."""
        self._waiting: list[tuple[HookNote, Verdict]] = []
        """Verdicts that came before the wire reported their turn."""
        self._held_ready: str | None = None
        """The evidence that the agent is ready, while its guard is not proved yet."""

    def hold_ready(self, evidence: str) -> bool:
        """Whether the session must not become ready yet because its guard is not proved.

        The session becomes ready as soon as the guard fires.
        """
        guard = self._recorder.guard
        if guard is None or not guard.mechanism.proves_at_start or guard.live:
            return False
        self._held_ready = evidence
        self._recorder.expect(PROOF_SECONDS, _does_not_fire(guard))
        return True

    def take_notes(self) -> None:
        """Process what hooks reported since the last call."""
        guard = self._recorder.guard
        if guard is None:
            return
        for note in guard.take():
            if note.verdict is None:
                continue
            if self._live and not self._recorder.turn_open:
                self._waiting.append((note, note.verdict))
            else:
                self._take(guard, note, note.verdict)
        if guard.live and self._held_ready is not None:
            held, self._held_ready = self._held_ready, None
            self._recorder.expect(None)
            self._recorder.ready(held)

    def turn_started(self) -> None:
        """Write the verdicts that waited for their turn."""
        waiting, self._waiting = self._waiting, []
        for note, verdict in waiting:
            if self._recorder.guard is not None:
                self._take(self._recorder.guard, note, verdict)

    def turn_ends(self) -> None:
        """Write the verdicts on calls whose start the wire never reported."""
        early, self._early = self._early, {}
        for tool_call_id, (tool_name, verdict) in early.items():
            self._tools.count_as_ended(tool_call_id)
            self.write(tool_call_id, tool_name, verdict)
        unnamed, self._unnamed = self._unnamed, []
        for tool_name, verdict in unnamed:
            self.write("", tool_name, verdict)

    def tool_started(self, tool_call_id: str) -> None:
        """Write the verdict that waited for the start of this call."""
        early = self._early.pop(tool_call_id, None) or self._take_unnamed(tool_call_id)
        if early is not None:
            self.write(tool_call_id, *early)

    def ask(self, tool_call_id: str, tool_name: str, args: Any, cwd: str | None = None) -> Verdict:
        """Get the guard's verdict on a call and write it; the adapter answers the agent with it.

        Without a guard the call is refused: an agent that asks expects one.
        """
        guard = self._recorder.guard
        if guard is None:
            return Verdict(decision="block", rule="no-guard", reason="there is no guard to ask")
        verdict = guard.ask(tool_call_id, tool_name, args, cwd)
        self.write(tool_call_id, tool_name, verdict)
        return verdict

    def ask_later(self, call: WireCall, answer: Callable[[Verdict], None]) -> None:
        """Like `ask`, for an agent that waits on its wire: `answer` gets the verdict now, or when
        the driver has the call judged."""
        guard = self._recorder.guard
        if guard is not None and not guard.judges:
            guard.await_verdict(call, answer)
        else:
            answer(self.ask(call.tool_call_id, call.tool_name, call.args, call.cwd))

    def write(self, tool_call_id: str, tool_name: str, verdict: Verdict) -> None:
        """Write a verdict after the start of its tool: an agent may ask while it still writes the
        call."""
        tools, guard = self._tools, self._recorder.guard
        if not tools.knows(tool_call_id) and guard is not None and guard.mechanism.matching == "id":
            self._early[tool_call_id] = (tool_name, verdict)
            return
        if not verdict.allowed:
            # Some runtimes report a refusal by a hook as their own.
            self._permissions.count_as_decided(tool_call_id)
        self._recorder.permission_decided(
            # A call without an id must not be confused with the previous one.
            _request(tool_call_id) if tool_call_id else _request(str(self._permissions.decided)),
            tool_call_id=tool_call_id,
            tool_name=tool_name,
            decision="allow" if verdict.allowed else "deny",
            by="guard",
            reason=f"{verdict.rule}: {verdict.reason}" if verdict.reason else verdict.rule,
        )

    def check_live(self) -> None:
        """Stop an agent that began to work before the guard was seen to fire."""
        guard = self._recorder.guard
        if guard is None or guard.live or guard.mechanism.on_wire:
            return
        self.take_notes()
        if not guard.live:
            self._recorder.request_stop(_does_not_fire(guard))

    def check_asked(self, tool_call_id: str) -> None:
        """Stop an agent that ran a tool which the guard had not allowed."""
        guard = self._recorder.guard
        if guard is None:
            return
        name = self._tools.name_of(tool_call_id)
        if not guard.was_asked(tool_call_id, name):
            self.ran_without_permission(name)

    def ran_without_permission(self, tool_name: str) -> None:
        """Stop an agent that bypassed its guard."""
        guard = self._recorder.guard
        how = guard.mechanism.name if guard is not None else ""
        self._recorder.request_stop(
            GuardRefused(
                f"the agent ran {tool_name} without the guard's permission ({how})",
                hint="this version ignores its hooks; use --sandbox, and report it",
            )
        )

    def report(self) -> GuardReport | msgspec.UnsetType:
        """The guard's part of the result; unset if the caller asked for no guard."""
        recorder = self._recorder
        if recorder.guard is not None:
            report = recorder.guard.report()
            return msgspec.structs.replace(report, sandbox=recorder.options.sandbox)
        if recorder.unguarded:
            return GuardReport(capability=recorder.unguarded, state="unguarded")
        return msgspec.UNSET

    def _take(self, guard: Guard, note: HookNote, verdict: Verdict) -> None:
        recorder = self._recorder
        # Some hooks give no call id.
        call_id = note.tool_call_id or self._open_call(guard, note.tool_name)
        unreported = not guard.mechanism.tells_refused and not verdict.allowed
        if not call_id and not unreported:
            self._unnamed.append((note.tool_name, verdict))
            return
        if unreported:
            recorder.tool_started(call_id, note.tool_name, note.args, synthetic=True)
        self.write(call_id, note.tool_name, verdict)
        if unreported:
            recorder.tool_ended(call_id, is_error=True, result=verdict.reason, synthetic=True)
        answer = guard.waiting.pop(call_id, None)
        if answer is not None:
            answer(verdict)

    def _take_unnamed(self, tool_call_id: str) -> tuple[str, Verdict] | None:
        """The oldest verdict without a call id that is about this tool."""
        guard, name = self._recorder.guard, self._tools.name_of(tool_call_id)
        any_name = guard is not None and guard.mechanism.names_differ
        for number, (tool_name, _) in enumerate(self._unnamed):
            if any_name or tool_name == name:
                return self._unnamed.pop(number)
        return None

    def _open_call(self, guard: Guard, tool_name: str) -> str:
        """The oldest running call of this tool that has no verdict; empty if there is none."""
        any_name = guard.mechanism.names_differ
        for call, name in self._tools.open.items():
            matches = any_name or name == tool_name
            if matches and not self._permissions.is_decided(_request(call)):
                return call
        return ""


def _request(tool_call_id: str) -> str:
    return f"guard_{tool_call_id}"


def _does_not_fire(guard: Guard) -> GuardRefused:
    return GuardRefused(
        f"the guard does not fire on this version ({guard.mechanism.name})",
        hint="look for a setting that switches hooks off, or run with --unguarded",
    )
