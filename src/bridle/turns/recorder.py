"""Turns wire messages into normalized events, in the order that the event contract promises.

Adapters translate wire messages into calls on a `Recorder`. The recorder owns the order: a message
is closed before its tools start, each tool start gets one end, a turn always ends. Its parts own
the rest, so that it is the same for every runtime: sequence numbers (`event_writer`), the open
message, the last text and the completion marker (`messages`), usage and cost (`usage_totals`), tool
calls (`tools`), permissions and the guard's verdicts (`permissions`), `compaction`, and the end of
turns and processes (`outcome`). An adapter only translates.
"""

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import msgspec

from bridle.core import events as ev
from bridle.core.errors import STDOUT_TAIL, AgentError
from bridle.core.options import RunOptions
from bridle.core.redaction import Redactor
from bridle.core.results import CostSource, RunResult
from bridle.core.usage import Usage
from bridle.process.spec import ProcessExit
from bridle.turns.compaction import Compaction
from bridle.turns.event_writer import EventWriter, utc_now
from bridle.turns.guard_contract import Guard
from bridle.turns.messages import LastWords, MessageWriter
from bridle.turns.outcome import Outcome, StrayOutput, crash_error
from bridle.turns.permissions import GuardVerdicts, Permissions
from bridle.turns.tools import ToolCalls
from bridle.turns.usage_totals import Before, UsageTotals
from bridle.turns.wire import Outbox, Question

if TYPE_CHECKING:
    from bridle.core.structured import AnswerCheck


class Recorder(Outbox):
    """Collects the events of one session in one process.

    Contract: not thread-safe; one owner feeds it and drains it. Every method may be called in any
    order and never raises. `finish` is called when the process has ended; after it no event is
    recorded. A process may run several turns: each has its own error, text and marker, and the run
    is judged by its last turn. The run's text is the last one that is not empty; its marker is
    detected if any turn's was.
    """

    def __init__(
        self,
        *,
        runtime: str,
        session_id: str,
        options: RunOptions,
        cwd: str = "",
        runtime_version: str = "",
        redactor: Redactor | None = None,
        ignored_options: tuple[str, ...] = (),
        drive: ev.Drive = "print",
        clock: Callable[[], str] = utc_now,
        before: Before | None = None,
        live: bool | None = None,
    ) -> None:
        """`live`: whether more turns may follow; by default true in all drives except print."""
        before = before or Before()
        super().__init__(turn=before.turn)
        self.runtime = runtime
        self.session_id = session_id
        self.options = options
        self.redactor = redactor or Redactor()
        self.native_session_id: str | None = None
        self.model: str | None = None
        self.turn_open = False
        self.agent_counts_turns = False
        """Set by an adapter whose agent enforces `max_turns` itself: the agent counts a
        retried call once, the recorder would count it twice."""
        self.cost_at_end = False
        """Set by an adapter whose agent reports the cost of a turn only at its end, and enforces
        the budget itself until then. Other agents report the cost of each call, or it is
        unknown."""
        self.answer: AnswerCheck | None = None
        """Checks the final text of each turn, if the run asks for a structured answer."""
        self.guard: Guard | None = None
        """The session's guard, if it has one; set before the first line is fed."""
        self.unguarded = ""
        """The capability whose guard the caller switched off."""
        self._live = drive != "print" if live is None else live
        self._cwd = cwd
        self._drive = drive
        self._ignored = ignored_options
        self._started_at = time.monotonic()
        self._writer = EventWriter(
            runtime=runtime, session_id=session_id, seq=before.seq, clock=clock
        )
        self._message = MessageWriter(self._writer, self.redactor)
        self.words = LastWords(options)
        """The last text of the turn and of the run."""
        self.tools = ToolCalls(self._writer, self.redactor)
        """The tool calls; the methods below change them."""
        self._totals = UsageTotals(options, before, ignores_budget="budget_usd" in ignored_options)
        self._compaction = Compaction(self._writer, live=self._live)
        self._permissions = Permissions(self._writer, self.redactor)
        self._outcome = Outcome(
            self._writer, self.redactor, runtime=runtime, version=runtime_version
        )
        self.verdicts = GuardVerdicts(self, self.tools, self._permissions, live=self._live)
        """Answers an adapter about calls that wait on its wire. Notes of hooks are taken whenever
        the wire reports tools; a driver whose wire is silent takes them when it is woken."""
        self._session_started = False
        self._early: list[Any] = []
        self._stray = StrayOutput()

    # -- what the driver calls ------------------------------------------------------------------

    def drain(self) -> list[ev.Event]:
        """The events since the last call, oldest first."""
        return self._writer.take()

    def source(self, raw: Any) -> None:
        """Set the wire message that the following events come from; kept only on request."""
        if self.options.include_raw:
            self._writer.raw = self.redactor.value(raw)

    def source_unknown(self) -> None:
        """The following events come from a decision of the driver, not from a wire message."""
        self._writer.raw = msgspec.UNSET

    def with_last_words(self, exit: ProcessExit) -> ProcessExit:
        """`exit` with the end of what the process printed outside its protocol (`stray`). A driver
        passes this to the adapter's `finish`."""
        text = self._stray.text
        if exit.stdout_tail or not text:
            return exit
        return msgspec.structs.replace(exit, stdout_tail=self.redactor.text(text)[-STDOUT_TAIL:])

    def finish(self, exit: ProcessExit) -> None:
        """Close everything that is open: the process has ended.

        A turn that the agent did not close itself failed; `error` says why, otherwise the exit.
        """
        if self._writer.closed:
            return
        self.verdicts.take_notes()
        outcome, asked_for = self._outcome, self.leaving is not None
        outcome.exit = exit = self.with_last_words(exit)
        between_turns = self._live and not self.turn_open
        if self.turn_open or (outcome.status is None and not self._live):
            if self.error is None:
                self.fail(crash_error(exit))
            self.turn_ended()
        self._need_session(self.native_session_id)
        if self._compaction.runs:
            self.compaction_ended("the agent ended first", synthetic=True)
        if between_turns:
            why = self.error or self.stop_requested
            outcome.conversation_ended(exit, why=why, asked_for=asked_for)
        state = outcome.last_state(exit, live=self._live, asked_for=asked_for)
        how = reason = f"process {exit.words}"
        if self.leaving is not None:
            reason = self.redactor.text(self.leaving)
            how = f"{reason}: {how}"
        self._writer.change_state(state, how)
        self._writer.emit(
            ev.SessionEnd, exit_code=exit.code, signal=exit.signal_name, reason=reason
        )
        self._writer.close()

    def result(self) -> RunResult:
        """The run's result; complete after `finish`."""
        outcome, cost = self._outcome, self._totals.cost_usd
        error = outcome.error if outcome.status is not None else self.error
        return RunResult(
            runtime=self.runtime,
            runtime_version=self.runtime_version,
            session_id=self.session_id,
            native_session_id=self.native_session_id,
            model=self.model,
            status=outcome.status or "failed",
            exit_code=outcome.exit.code if outcome.exit else None,
            text=self.words.run_text,
            structured=self.answer.value if self.answer is not None else msgspec.UNSET,
            marker_detected=self.words.run_marker,
            usage=self._totals.usage,
            cost_usd=cost,
            cost_source=self._totals.cost_source if cost is not None else "unknown",
            duration_ms=int((time.monotonic() - self._started_at) * 1000),
            ignored_options=self._ignored,
            refusals=self._permissions.refusals,
            error=None if error is None else outcome.shown(error),
            guard=self.verdicts.report(),
        )

    # -- state ----------------------------------------------------------------------------------

    @property
    def runtime_version(self) -> str:
        """The version of the runtime; an adapter may set it when its agent reports it."""
        return self._outcome.version

    @runtime_version.setter
    def runtime_version(self, version: str) -> None:
        self._outcome.version = version

    @property
    def state(self) -> ev.SessionState:
        """The session's state now."""
        return self._writer.state

    @property
    def live(self) -> bool:
        """Whether turns follow one another; False for a run of one prompt."""
        return self._live

    @property
    def is_ready(self) -> bool:
        """Whether the agent waits for a prompt."""
        return self._writer.state == "ready"

    @property
    def message_open(self) -> bool:
        """Whether an assistant message is being written."""
        return self._message.id is not None

    @property
    def usage(self) -> Usage:
        """The usage of this process so far."""
        return self._totals.usage

    @property
    def cost_usd(self) -> float | None:
        """The cost of this process so far; None if unknown."""
        return self._totals.cost_usd

    @property
    def cost_source(self) -> CostSource:
        """Where `cost_usd` comes from; `unknown` while it is None."""
        return self._totals.cost_source

    @property
    def marker_detected(self) -> bool:
        """Whether the agent wrote the completion marker in any turn."""
        return self.words.run_marker

    def total(self) -> Before:
        """The totals of the session, with all its earlier processes."""
        return self._totals.total(self._writer.seq, self.turn)

    # -- session and turns ----------------------------------------------------------------------

    def session_started(
        self,
        native_session_id: str | None,
        *,
        model: str | None = None,
        runtime_version: str | None = None,
        synthetic: bool = False,
    ) -> None:
        """The agent named its session. A repeated call only fills in what was unknown."""
        self.native_session_id = native_session_id or self.native_session_id
        self.model = model or self.model
        self.runtime_version = runtime_version or self.runtime_version
        if self._session_started:
            return
        self._session_started = True
        self._writer.emit(
            ev.SessionStart,
            native_session_id=self.native_session_id,
            model=self.model,
            cwd=self._cwd,
            runtime_version=self.runtime_version,
            drive=self._drive,
            synthetic=synthetic,
        )
        early, self._early = self._early, []
        for raw in early:
            self.unknown(raw)

    def ready(self, evidence: str) -> None:
        """The agent can take a prompt. No effect while a turn is open."""
        if self.turn_open or self._writer.closed:
            return
        self._need_session()
        if not self.verdicts.hold_ready(evidence):
            self._become_ready(evidence)

    def turn_started(self, *, evidence: str = "agent_start", synthetic: bool = False) -> None:
        """The agent took a prompt. No effect while a turn is open."""
        if self.turn_open or self._writer.closed:
            return
        self._need_session()
        if self._outcome.status is not None:
            # The error of an earlier turn no longer counts; a requested stop still does.
            self.error = self.stop_requested
        self.turn += 1
        self.turn_open = True
        self.words.begin_turn()
        self.tools.begin_turn()
        self._totals.begin_turn()
        self._writer.change_state("working", evidence)
        self._writer.emit(ev.AgentStart, turn=self.turn, synthetic=synthetic)
        # Earlier turns may already have spent the budget.
        self.stop_if(self._totals.past_budget())
        self.verdicts.turn_started()

    def turn_ended(self, *, text: str | None = None) -> None:
        """The turn is over: completed unless `fail` was called in it.

        `text` is the runtime's own final text, if it reports one; otherwise the last message's.
        """
        if self._writer.closed:
            return
        self._need_turn()
        # A refusal that the wire does not report belongs to the turn that asked.
        self.verdicts.take_notes()
        self.message_ended(synthetic=True)
        for tool_call_id in self.tools.open:
            self.tool_ended(tool_call_id, is_error=True, result=None, synthetic=True)
        self.verdicts.turn_ends()
        if text is not None:
            self.words.said(self.redactor.text(text))
        if self.cost_at_end and self._totals.turn_usage.total and self._totals.cost_usd is None:
            self.unpriced_call()
        if self.answer is not None and self.error is None:
            self.error = self.answer.take(self.words.turn_text)
        info = self._outcome.turn_ended(self.error)
        total = self.total()
        self._writer.emit(ev.UsageTotals, usage=total.usage, cost_usd=total.cost_usd)
        self._writer.emit(
            ev.AgentEnd,
            turn=self.turn,
            status=self._outcome.status,
            text=self.words.turn_text,
            usage=self._totals.turn_usage,
            cost_usd=self._totals.turn_cost,
            marker_detected=self.words.turn_marker,
            error=info,
        )
        self.turn_open = False
        if self._live and self._outcome.exit is None:
            # A run has one turn: the end of its process follows immediately.
            self.error = None
            self._become_ready("agent_end")

    # -- messages -------------------------------------------------------------------------------

    def message_started(self, message_id: str | None = None, *, synthetic: bool = False) -> None:
        """An assistant message begins; an open message is closed first."""
        if self._writer.closed:
            return
        self._need_turn()
        self.message_ended(synthetic=True)
        if self.guard is not None:
            self.verdicts.take_notes()
            self.verdicts.check_live()
        self.next_call()
        self._totals.model_calls += 1
        self._message.start(message_id or f"msg_{self._totals.model_calls}", synthetic)

    def next_call(self) -> None:
        """The agent is about to call the model again: check the limit on calls first.

        For a wire that announces calls; for other wires the check is made when the answer begins.
        """
        if not self.agent_counts_turns:
            self.stop_if(self._totals.past_turns())

    def unpriced_call(self) -> None:
        """The cost of a model call is unknown: if there is a budget, this call is the last."""
        self.stop_if(self._totals.unpriced(self.model))

    def text_delta(self, text: str, *, synthetic: bool = False) -> None:
        """A piece of the message's text; opens message and block if needed."""
        if text:
            message = self._message
            if message.block != "text":
                self.block_started("text", synthetic=synthetic)
            message.add(text, synthetic)

    def thinking_delta(self, text: str, *, synthetic: bool = False) -> None:
        """A piece of the model's reasoning; opens message and block if needed."""
        if text:
            message = self._message
            if message.block != "thinking":
                self.block_started("thinking", synthetic=synthetic)
            message.add(text, synthetic)

    def block_started(self, kind: str, *, synthetic: bool = False) -> None:
        """A block of `kind` (`text` or `thinking`) begins."""
        if self._message.block == kind or self._writer.closed:
            return
        if not self.message_open:
            self.message_started(synthetic=True)
        self._message.start_block(kind, synthetic)

    def block_ended(self, *, synthetic: bool = False) -> None:
        """The open block, if any, is complete."""
        self._message.end_block(synthetic)

    def message_ended(
        self,
        *,
        usage: Usage | None = None,
        model: str | None = None,
        stop_reason: str | None = None,
        cost_usd: float | None = None,
        synthetic: bool = False,
    ) -> None:
        """The open message is complete. `usage` and `cost_usd`, if known, are added up."""
        if self._message.id is None:
            return
        self.model = model or self.model
        self._totals.add(usage, cost_usd)
        self.stop_if(self._totals.past_budget())
        if usage is not None and usage.total and cost_usd is None and not self.cost_at_end:
            self.unpriced_call()
        text = self._message.end(
            usage=usage, model=self.model, stop_reason=stop_reason, synthetic=synthetic
        )
        self.words.said(text)

    def typed(self, text: str) -> None:
        """A person typed a message at the agent's own terminal, and the agent took it."""
        if self._writer.closed or not text.strip():
            return
        self._need_turn()
        self.message_ended(synthetic=True)
        self.words.instructed(text)
        message = self._message
        # The id is the number of its first event, so that a replay gives the same id.
        message.start(f"user_{self._writer.seq + 1}", False, "user")
        message.start_block("text", True)
        message.add(text, True)
        message.end(usage=None, model=None, stop_reason=None, synthetic=False)

    # -- tools ----------------------------------------------------------------------------------

    def tool_started(
        self, tool_call_id: str, tool_name: str, args: Any, *, synthetic: bool = False
    ) -> None:
        """The agent calls a tool; an open message is closed first. A repeat has no effect."""
        if self.tools.is_running(tool_call_id) or self._writer.closed:
            return
        if self.guard is not None:
            self.verdicts.take_notes()
        self._need_turn()
        self.message_ended(synthetic=True)
        self.tools.start(tool_call_id, tool_name, args, synthetic)
        if self.guard is not None:
            self.verdicts.check_live()
            self.verdicts.tool_started(tool_call_id)

    def tool_updated(self, tool_call_id: str, text: str) -> None:
        """The next piece of a running tool's output (not all of it so far); ignored if no such
        tool runs."""
        self.tools.update(tool_call_id, text)

    def tool_ended(
        self,
        tool_call_id: str,
        *,
        is_error: bool,
        result: Any,
        tool_name: str = "",
        args: Any = None,
        synthetic: bool = False,
    ) -> None:
        """The tool ended. A tool that was never announced gets its start now; a repeated call has
        no effect."""
        running = self.tools.is_running(tool_call_id)
        if self._writer.closed or (self.tools.has_ended(tool_call_id) and not running):
            return
        if not running:
            self.tool_started(tool_call_id, tool_name or "unknown", args, synthetic=True)
        if self.guard is not None:
            self.verdicts.take_notes()
            if not is_error:
                self.verdicts.check_asked(tool_call_id)
        self.tools.end(tool_call_id, is_error=is_error, result=result, synthetic=synthetic)

    # -- permissions and the guard --------------------------------------------------------------

    def permission_requested(self, question: Question) -> None:
        """The agent asks for permission; the driver will answer."""
        if self._writer.closed:
            return
        self._need_turn()
        self.questions.append(question)
        self._permissions.request(question)

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
        """A tool call was allowed or refused.

        A repeated decision has no effect: the agent may have withdrawn its request before the
        answer. In a live conversation a decision between turns has no effect either: the request
        ended with its turn. A refused call is not refused again: an agent may report the guard's
        refusal as its own, and then only the guard's decision counts.
        """
        if self.guard is not None and by != "guard":
            self.verdicts.take_notes()
        if self._permissions.is_decided(request_id):
            return
        if decision == "deny" and self._permissions.is_refused(tool_call_id, request_id):
            self._permissions.count_as_decided(request_id)
            return
        self._permissions.count_as_decided(request_id)
        if not self.turn_open:
            if self._live:
                return
            self.turn_started(synthetic=True)
        self._permissions.decide(
            request_id,
            tool_call_id=tool_call_id,
            tool_name=tool_name,
            decision=decision,
            by=by,
            reason=reason,
        )

    # -- other events ---------------------------------------------------------------------------

    def compaction_started(self, reason: str, *, synthetic: bool = False) -> None:
        """The agent begins to compact its context. No effect while a compaction runs."""
        if not self._compaction.runs and not self._writer.closed:
            self._need_session()
            self._compaction.start(reason, synthetic)

    def compaction_ended(self, reason: str, *, synthetic: bool = False) -> None:
        """The compaction is complete or has failed. If it was never announced, it gets its start
        now."""
        self.compaction_started(reason, synthetic=True)
        self._compaction.end(reason, synthetic, turn_open=self.turn_open)

    def retrying(self, attempt: int, delay_ms: int | None, error: AgentError) -> None:
        """A model call failed; the runtime will retry it."""
        self._need_turn()
        self._writer.emit(
            ev.Retry, attempt=attempt, delay_ms=delay_ms, error=self._outcome.shown(error)
        )

    def set_usage(self, usage: Usage) -> None:
        """Replace the process's usage by the total that the runtime itself reports."""
        self._totals.usage = usage

    def set_cost(self, cost_usd: float, source: CostSource) -> None:
        """Replace the process's cost so far."""
        self._totals.set_cost(cost_usd, source)
        if self.turn_open:
            self.stop_if(self._totals.past_budget())

    def unknown(self, raw: Any) -> None:
        """A wire message that no dialect knows; kept, never fatal.

        If it comes before the session is named, its event follows `session_start`. A string is a
        line outside the protocol: it also counts as `stray`.
        """
        if isinstance(raw, str):
            self.stray(raw)
        if not self._session_started:
            self._early.append(raw)
            return
        kept, self._writer.raw = self._writer.raw, self.redactor.value(raw)
        self._writer.emit(ev.Unknown)
        self._writer.raw = kept

    def stray(self, text: str) -> None:
        """The process printed a line outside its protocol: it may explain a later crash."""
        self._stray.add(text)

    # -- helpers --------------------------------------------------------------------------------

    def _become_ready(self, evidence: str) -> None:
        """The agent waits for a prompt."""
        self._writer.change_state("ready", evidence)

    def _need_session(self, native_session_id: str | None = None) -> None:
        if not self._session_started:
            self.session_started(native_session_id, synthetic=True)

    def _need_turn(self) -> None:
        if not self.turn_open:
            self.turn_started(synthetic=True)
