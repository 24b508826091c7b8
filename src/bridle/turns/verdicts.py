"""Keeps the guard's verdicts in step with the tool calls that the wire tells of.

A hook answers at its own time: before the wire names the call, before it tells of the turn, or
about a call that it never tells of. And an agent whose hooks do not fire, or that does not keep to
them, has to be stopped.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import msgspec

from bridle.core.errors import GuardRefused
from bridle.core.results import GuardReport
from bridle.turns.guard_contract import Guard, HookNote, Verdict, WireCall

if TYPE_CHECKING:
    from bridle.turns.pauses import Permissions
    from bridle.turns.recorder import Recorder
    from bridle.turns.tools import ToolCalls

_PROOF = 20.0
"""Seconds for a guard to be seen to fire, once its agent is ready."""


class VerdictDesk:
    """Takes what hooks and the guard say, and has the recorder tell it in its place.

    Contract: made for one recorder, whose `guard` it reads anew each time: without one, a call that
    is asked about is refused, and nothing else here has an effect. A verdict is told after the
    start of its tool and inside its turn, once.
    """

    def __init__(
        self,
        recorder: "Recorder",
        tools: "ToolCalls",
        permissions: "Permissions",
        *,
        live: bool,
    ) -> None:
        self._recorder = recorder
        self._tools = tools
        self._permissions = permissions
        self._live = live
        self._early: dict[str, tuple[str, Verdict]] = {}
        """Verdicts on calls whose start the wire has not told."""
        self._unnamed: list[tuple[str, Verdict]] = []
        """Such verdicts of hooks that tell no id."""
        self._waiting: list[tuple[HookNote, Verdict]] = []
        """Verdicts that came before the wire told of their turn."""
        self._held_ready: str | None = None
        """What showed that the agent is ready, while its guard is not proved yet."""

    def hold_ready(self, evidence: str) -> bool:
        """Whether the agent must not count as ready yet, because its guard is to be seen first;
        it then becomes ready as soon as the guard is seen to fire."""
        guard = self._recorder.guard
        if guard is None or not guard.mechanism.proves_at_start or guard.live:
            return False
        self._held_ready = evidence
        self._recorder.expect(_PROOF, _does_not_fire(guard))
        return True

    def take_notes(self) -> None:
        """Take what hooks told since the last call."""
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
        """Tell the verdicts that waited for their turn."""
        waiting, self._waiting = self._waiting, []
        for note, verdict in waiting:
            if self._recorder.guard is not None:
                self._take(self._recorder.guard, note, verdict)

    def turn_ends(self) -> None:
        """Tell the verdicts on calls whose start the wire never told."""
        early, self._early = self._early, {}
        for tool_call_id, (tool_name, verdict) in early.items():
            self._tools.count_as_ended(tool_call_id)
            self.tell(tool_call_id, tool_name, verdict)
        unnamed, self._unnamed = self._unnamed, []
        for tool_name, verdict in unnamed:
            self.tell("", tool_name, verdict)

    def tool_started(self, tool_call_id: str) -> None:
        """Tell the verdict that waited for the start of this call."""
        early = self._early.pop(tool_call_id, None) or self._take_unnamed(tool_call_id)
        if early is not None:
            self.tell(tool_call_id, *early)

    def ask(self, tool_call_id: str, tool_name: str, args: Any, cwd: str | None = None) -> Verdict:
        """The guard's verdict on a call, which is told; the adapter answers with it. Without a
        guard it is refused: whoever asks expects one."""
        guard = self._recorder.guard
        if guard is None:
            return Verdict(decision="block", rule="no-guard", reason="no guard is there to ask")
        verdict = guard.ask(tool_call_id, tool_name, args, cwd)
        self.tell(tool_call_id, tool_name, verdict)
        return verdict

    def ask_later(self, call: WireCall, answer: Callable[[Verdict], None]) -> None:
        """The same for an agent that waits on its wire: `answer` hears the verdict, now or when
        whoever drives has the call judged."""
        guard = self._recorder.guard
        if guard is not None and not guard.judges:
            guard.await_verdict(call, answer)
        else:
            answer(self.ask(call.tool_call_id, call.tool_name, call.args, call.cwd))

    def tell(self, tool_call_id: str, tool_name: str, verdict: Verdict) -> None:
        """Tell it after the start of its tool: an agent may ask while it still writes the call."""
        tools, guard = self._tools, self._recorder.guard
        if not tools.knows(tool_call_id) and guard is not None and guard.mechanism.matching == "id":
            self._early[tool_call_id] = (tool_name, verdict)
            return
        if not verdict.allowed:
            # Some runtimes tell of a refusal by a hook as one of their own.
            self._permissions.count_as_decided(tool_call_id)
        self._recorder.permission_decided(
            # A call that nothing named yet must not be taken for the one before it.
            _request(tool_call_id) if tool_call_id else _request(str(self._permissions.decided)),
            tool_call_id=tool_call_id,
            tool_name=tool_name,
            decision="allow" if verdict.allowed else "deny",
            by="guard",
            reason=f"{verdict.rule}: {verdict.reason}" if verdict.reason else verdict.rule,
        )

    def check_live(self) -> None:
        """Stop an agent that has begun to work without the guard having been seen to fire."""
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
            self.ran_without_leave(name)

    def ran_without_leave(self, tool_name: str) -> None:
        """Stop an agent that does not keep to its guard."""
        guard = self._recorder.guard
        how = guard.mechanism.name if guard is not None else ""
        self._recorder.request_stop(
            GuardRefused(
                f"the agent ran {tool_name} without the guard's leave ({how})",
                hint="this version does not keep to its hooks; use --sandbox, and report it",
            )
        )

    def report(self) -> GuardReport | msgspec.UnsetType:
        """What the result says of the guard; unset where nobody wanted one."""
        recorder = self._recorder
        if recorder.guard is not None:
            report = recorder.guard.report()
            return msgspec.structs.replace(report, sandbox=recorder.options.sandbox)
        if recorder.unguarded:
            return GuardReport(capability=recorder.unguarded, state="unguarded")
        return msgspec.UNSET

    def _take(self, guard: Guard, note: HookNote, verdict: Verdict) -> None:
        recorder = self._recorder
        # Some hooks tell no id.
        call_id = note.tool_call_id or self._open_call(guard, note.tool_name)
        silent = not guard.mechanism.tells_refused and not verdict.allowed
        if not call_id and not silent:
            self._unnamed.append((note.tool_name, verdict))
            return
        if silent:
            recorder.tool_started(call_id, note.tool_name, note.args, synthetic=True)
        self.tell(call_id, note.tool_name, verdict)
        if silent:
            recorder.tool_ended(call_id, is_error=True, result=verdict.reason, synthetic=True)
        answer = guard.waiting.pop(call_id, None)
        if answer is not None:
            answer(verdict)

    def _take_unnamed(self, tool_call_id: str) -> tuple[str, Verdict] | None:
        """The oldest verdict without an id that is about this tool."""
        guard, name = self._recorder.guard, self._tools.name_of(tool_call_id)
        any_name = guard is not None and guard.mechanism.names_differ
        for number, (tool_name, _) in enumerate(self._unnamed):
            if any_name or tool_name == name:
                return self._unnamed.pop(number)
        return None

    def _open_call(self, guard: Guard, tool_name: str) -> str:
        """The oldest call of that tool which runs and has no verdict; empty when none is known."""
        any_name = guard.mechanism.names_differ
        for call, name in self._tools.open.items():
            right = any_name or name == tool_name
            if right and not self._permissions.is_decided(_request(call)):
                return call
        return ""


def _request(tool_call_id: str) -> str:
    return f"guard_{tool_call_id}"


def _does_not_fire(guard: Guard) -> GuardRefused:
    return GuardRefused(
        f"the guard does not fire on this version ({guard.mechanism.name})",
        hint="look for a setting that switches hooks off, or run with --unguarded",
    )
