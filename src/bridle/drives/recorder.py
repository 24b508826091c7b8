"""Turns what a wire says into normalized events, in the order the contract promises.

Adapters translate wire messages into calls on a `Recorder`. It owns the ordering (a message is
closed before its tools start, each tool start gets one end, a turn always ends), the sums of usage
and cost, the completion marker and the redaction of streamed text, so that these are the same for
every runtime and an adapter is only a translation.
"""

import time
from collections.abc import Callable
from typing import Any

import msgspec

from bridle.core import events as ev
from bridle.core.errors import (
    Aborted,
    AgentError,
    BudgetExceeded,
    Crashed,
    ErrorInfo,
    GuardRefused,
)
from bridle.core.marker import find_marker
from bridle.core.options import RunOptions
from bridle.core.redact import Redactor
from bridle.core.results import STATUS_OF_KIND, CostSource, GuardReport, RunResult
from bridle.core.usage import NO_USAGE, Usage
from bridle.drives.guarding import Guard, GuardVerdict, HookNote
from bridle.drives.live import Delivery
from bridle.drives.spec import Patience, ProcessExit, Question

_START: dict[str, ev.UpdateKind] = {"text": "text_start", "thinking": "thinking_start"}
_DELTA: dict[str, ev.UpdateKind] = {"text": "text_delta", "thinking": "thinking_delta"}
_END: dict[str, ev.UpdateKind] = {"text": "text_end", "thinking": "thinking_end"}

_INSTRUCTIONS = 1 << 16
"""Characters of a conversation's prompts that are kept, to know its own words in the answers."""

_PROOF = 20.0
"""Seconds for a guard to be seen to fire, once its agent is ready."""

_shown_ms = -1
_shown_second = -1
_second_text = ""
_ms_text = ""


def utc_now() -> str:
    """The present moment as RFC 3339 in UTC, to the millisecond."""
    # Written once a millisecond: a stream of events asks far more often than that.
    global _shown_ms, _shown_second, _second_text, _ms_text
    now = time.time_ns() // 1_000_000
    if now != _shown_ms:
        second, rest = divmod(now, 1000)
        if second != _shown_second:
            _second_text = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(second))
            _shown_second = second
        text = f"{_second_text}.{rest:03d}Z"
        _ms_text, _shown_ms = text, now
        return text
    return _ms_text


class Before(msgspec.Struct, frozen=True, kw_only=True):
    """What a session had come to when its last process ended; the next goes on from there."""

    seq: int = 0
    turn: int = 0
    usage: Usage = NO_USAGE
    cost_usd: float | None = None


class Recorder:
    """Collects the events of one session in one process.

    Contract: not thread-safe; one owner feeds it and drains it. Every method may be called in any
    order and never raises; `finish` is called when the process is gone, and after it nothing more
    is recorded. A process may play several turns: each has its own error, text and marker, and the
    run is judged by its last turn, which knows how the earlier ones ended. The run's text is the
    last one that is not empty, its marker is detected when any turn's was.
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
        before: "Before | None" = None,
    ) -> None:
        self.runtime = runtime
        self.session_id = session_id
        self.options = options
        self.redactor = redactor or Redactor()
        self.native_session_id: str | None = None
        self.model: str | None = None
        self.runtime_version = runtime_version
        self.cost_usd: float | None = None
        self.cost_source: CostSource = "unknown"
        self.usage = NO_USAGE
        self.turn = before.turn if before else 0
        self.turn_open = False
        self.text = ""
        self.marker_detected = False
        self.error: AgentError | None = None
        self.stop_requested: AgentError | None = None
        """Set when a limit that Bridle itself enforces is reached: the holder must stop the agent
        and then `finish`."""
        self.replies: list[bytes] = []
        """Bytes for the agent's stdin, in order; the driver takes and writes them."""
        self.questions: list[Question] = []
        """Permission requests that wait for an answer; the driver takes them and replies."""
        self.agent_counts_turns = False
        """Set by an adapter whose agent keeps to `max_turns` itself: a call that it tried again is
        one turn to it, and would be two here."""
        self.leaving: str | None = None
        """Why the agent is being ended on purpose, once it is; a live conversation that ends
        without that failed or was lost."""
        self.input_done = False
        """Set by the adapter when the agent needs no more input: the driver closes its stdin."""
        self.patience: Patience | None = None
        """How long the driver may wait now, where the adapter sets a clock (`expect`)."""
        self.deliveries: list[Delivery] = []
        """What became of messages in a live conversation; the driver takes them."""
        self._before = before or Before()
        self._live = drive != "print"
        self.guard: Guard | None = None
        """The session's guard, where it has one; set before the first line is fed."""
        self.unguarded = ""
        """The capability that a caller wanted to go without its guard."""
        self._cwd = cwd
        self._drive = drive
        self._clock = clock
        self._ignored = ignored_options
        self._started_at = time.monotonic()
        self._state: ev.SessionState = "starting"
        self._session_started = False
        self._seq = before.seq if before else 0
        self._out: list[ev.Event] = []
        self._raw: Any = msgspec.UNSET
        self._message_id: str | None = None
        self._message_text: list[str] = []
        self._block: str | None = None
        self._held = ""
        self._tools: dict[str, str] = {}
        self._tool_held: dict[str, str] = {}
        self._tools_done: set[str] = set()
        self._compacting = False
        self._before_compaction: ev.SessionState = "ready"
        self._settled_messages: set[str] = set()
        self._decided_requests: set[str] = set()
        self._early: list[Any] = []
        self._held_ready: str | None = None
        """What showed that the agent is ready, while its guard is not proved yet."""
        self._early_verdicts: dict[str, tuple[str, GuardVerdict]] = {}
        self._waiting_verdicts: list[tuple[HookNote, GuardVerdict]] = []
        self._model_calls = 0
        self._turn_usage_base = NO_USAGE
        self._turn_cost_base = 0.0
        self._turn_text = ""
        self._turn_marker = False
        self._last_status: ev.RunStatus | None = None
        self._last_error: AgentError | None = None
        self._exit: ProcessExit | None = None
        self._finished = False
        self._instructions = "\n".join(
            part
            for part in (options.prompt, options.system_prompt, options.append_system_prompt)
            if part
        )

    # -- what the driver calls ------------------------------------------------------------------

    def drain(self) -> list[ev.Event]:
        """The events since the last call, oldest first."""
        out, self._out = self._out, []
        return out

    def source(self, raw: Any) -> None:
        """Name the wire message that the following events come from; kept only if asked for."""
        if self.options.include_raw:
            self._raw = self.redactor.value(raw)

    def reply(self, data: bytes) -> None:
        """Send bytes to the agent, as they are; for adapters whose wire asks and answers."""
        self.replies.append(data)

    def fail(self, error: AgentError) -> None:
        """Remember why the open turn (or the first, before it opened) fails. The first cause
        stands; later ones are its consequences. A turn that has ended is not judged again."""
        if self.error is None:
            self.error = error

    def request_stop(self, error: AgentError) -> None:
        """Ask the holder to end the agent, because of `error`."""
        if self.stop_requested is None:
            self.stop_requested = error
        self.fail(error)

    def expect(self, seconds: float | None, error: AgentError | None = None) -> None:
        """Let the driver stop the agent, because of `error`, unless this is called again within
        `seconds`. None stops the clock. Without an error the agent is stopped but not blamed."""
        self.patience = None if seconds is None else Patience(seconds, error)

    def finish(self, exit: ProcessExit) -> None:
        """Close everything that is open: the process is gone.

        A turn that the agent did not close itself failed; `error` says why, else the exit does.
        """
        if self._finished:
            return
        self.take_hook_notes()
        self._exit = exit
        between_turns = self._live and not self.turn_open
        if self.turn_open or (self._last_status is None and not self._live):
            if self.error is None:
                self.fail(_death(exit))
            self.turn_ended()
        if not self._session_started:
            self.session_started(self.native_session_id, synthetic=True)
        if self._compacting:
            self.compaction_ended("the agent ended first", synthetic=True)
        if between_turns:
            self._tell_failure(exit)
        how = _exit_words(exit)
        self._change_state(self._final_state(exit), f"process {how}")
        self._emit(
            ev.SessionEnd, exit_code=exit.code, signal=exit.signal_name, reason=f"process {how}"
        )
        self._finished = True

    def _tell_failure(self, exit: ProcessExit) -> None:
        """Say why a conversation ended that was not asked to, when no turn told it."""
        error = self.error or self.stop_requested
        if error is None and self.leaving is None and self._last_error is None:
            error = _death(exit)
        if error is not None and error is not self._last_error:
            self._raise_error(self._error_info(error))

    def _final_state(self, exit: ProcessExit) -> ev.SessionState:
        """What the session is when its process is gone: a run is judged by its last turn, a live
        conversation by whether its end was asked for."""
        if not self._live:
            return "stopped" if self._last_status == "completed" else "failed"
        if self.leaving is not None:
            return "stopped"
        return "lost" if exit.code is None else "failed"

    def result(self) -> RunResult:
        """The run's result; complete once `finish` was called."""
        error = self._last_error if self._last_status is not None else self.error
        return RunResult(
            runtime=self.runtime,
            runtime_version=self.runtime_version,
            session_id=self.session_id,
            native_session_id=self.native_session_id,
            model=self.model,
            status=self._last_status or "failed",
            exit_code=self._exit.code if self._exit else None,
            text=self.text,
            marker_detected=self.marker_detected,
            usage=self.usage,
            cost_usd=self.cost_usd,
            cost_source=self.cost_source if self.cost_usd is not None else "unknown",
            duration_ms=int((time.monotonic() - self._started_at) * 1000),
            ignored_options=self._ignored,
            error=None if error is None else self._error_info(error),
            guard=self._guard_report(),
        )

    # -- a live conversation --------------------------------------------------------------------

    @property
    def state(self) -> ev.SessionState:
        """The session's state now."""
        return self._state

    @property
    def is_ready(self) -> bool:
        """Whether the agent waits for a prompt."""
        return self._state == "ready"

    @property
    def running_tools(self) -> tuple[str, ...]:
        """Names of the tools that run now."""
        return tuple(self._tools.values())

    def ready(self, evidence: str) -> None:
        """The agent can take a prompt. No effect while a turn is open."""
        if self.turn_open or self._finished:
            return
        if not self._session_started:
            self.session_started(None, synthetic=True)
        guard = self.guard
        if guard is not None and guard.mechanism.proves_at_start and not guard.live:
            self._held_ready = evidence
            self.expect(_PROOF, self._guard_is_dead(guard))
            return
        self._change_state("ready", evidence)

    def total(self) -> Before:
        """What the session has come to, with all its earlier processes."""
        costs = [cost for cost in (self._before.cost_usd, self.cost_usd) if cost is not None]
        return Before(
            seq=self._seq,
            turn=self.turn,
            usage=self._before.usage + self.usage,
            cost_usd=sum(costs) if costs else None,
        )

    def message_taken(self, message_id: str) -> None:
        """The agent has the message, in the open turn. A repeat has no effect."""
        if message_id not in self._settled_messages:
            self._settled_messages.add(message_id)
            self.deliveries.append(Delivery(id=message_id, taken=True, turn=self.turn))

    def unsettle(self, message_id: str) -> None:
        """The message will be sent again: what became of it before does not count."""
        self._settled_messages.discard(message_id)

    def instructed(self, text: str) -> None:
        """The agent is told this text: a marker that it merely repeats from it is none."""
        self._instructions = f"{self._instructions}\n{text}"[-_INSTRUCTIONS:]

    def message_refused(self, message_id: str, error: AgentError) -> None:
        """The agent would not take the message. A repeat has no effect."""
        if message_id not in self._settled_messages:
            self._settled_messages.add(message_id)
            self.deliveries.append(Delivery(id=message_id, taken=False, error=error))

    # -- session and turns ----------------------------------------------------------------------

    def session_started(
        self,
        native_session_id: str | None,
        *,
        model: str | None = None,
        runtime_version: str | None = None,
        synthetic: bool = False,
    ) -> None:
        """The agent named its session. A repeat only fills in what was unknown."""
        self.native_session_id = native_session_id or self.native_session_id
        self.model = model or self.model
        self.runtime_version = runtime_version or self.runtime_version
        if self._session_started:
            return
        self._session_started = True
        self._emit(
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

    def turn_started(self, *, evidence: str = "agent_start", synthetic: bool = False) -> None:
        """The agent took a prompt. No effect while a turn is open."""
        if self.turn_open or self._finished:
            return
        if not self._session_started:
            self.session_started(None, synthetic=True)
        if self._last_status is not None:
            # What failed an earlier turn is over; a stop that Bridle asked for is not.
            self.error = self.stop_requested
        self.turn += 1
        self.turn_open = True
        self._turn_text = ""
        self._turn_marker = False
        self._tools_done.clear()
        self._turn_usage_base = self.usage
        self._turn_cost_base = self.cost_usd or 0.0
        self._change_state("working", evidence)
        self._emit(ev.AgentStart, turn=self.turn, synthetic=synthetic)
        waiting, self._waiting_verdicts = self._waiting_verdicts, []
        for note, verdict in waiting:
            if self.guard is not None:
                self._take_verdict(self.guard, note, verdict)

    def turn_ended(self, *, text: str | None = None) -> None:
        """The turn is over: completed unless `fail` was called in it.

        `text` is the runtime's own final text, where it tells one; else the last message's.
        """
        if self._finished:
            return
        if not self.turn_open:
            self.turn_started(synthetic=True)
        self.message_ended(synthetic=True)
        for tool_call_id in list(self._tools):
            self.tool_ended(tool_call_id, is_error=True, result=None, synthetic=True)
        self._tell_early_verdicts()
        if text is not None:
            self._said(self.redactor.text(text))
        info = None if self.error is None else self._error_info(self.error)
        if info is not None:
            self._raise_error(info)
        total = self.total()
        self._emit(ev.UsageTotals, usage=total.usage, cost_usd=total.cost_usd)
        self._last_status = "completed" if info is None else STATUS_OF_KIND.get(info.kind, "failed")
        self._last_error = self.error
        cost = None if self.cost_usd is None else self.cost_usd - self._turn_cost_base
        self._emit(
            ev.AgentEnd,
            turn=self.turn,
            status=self._last_status,
            text=self._turn_text,
            usage=self.usage - self._turn_usage_base,
            cost_usd=cost,
            marker_detected=self._turn_marker,
            error=info,
        )
        self.turn_open = False
        if self._live and self._exit is None:
            # In a run, which has one turn, the end of the process follows at once.
            self.error = None
            self._change_state("ready", "agent_end")

    # -- messages -------------------------------------------------------------------------------

    @property
    def message_open(self) -> bool:
        """Whether an assistant message is being written."""
        return self._message_id is not None

    def message_started(self, message_id: str | None = None, *, synthetic: bool = False) -> None:
        """An assistant message begins; an open one is closed first."""
        if self._finished:
            return
        if not self.turn_open:
            self.turn_started(synthetic=True)
        self.message_ended(synthetic=True)
        self.take_hook_notes()
        self._check_guard_is_live()
        self._check_turns()
        self._check_budget()
        self._model_calls += 1
        self._message_id = message_id or f"msg_{self._model_calls}"
        self._message_text = []
        self._emit(
            ev.MessageStart, message_id=self._message_id, role="assistant", synthetic=synthetic
        )

    def next_call(self) -> None:
        """The agent is about to call the model again: limits are looked at before it does.

        For a wire that announces a call; the others are looked at when the answer begins.
        """
        self._check_turns()
        self._check_budget()

    def text_delta(self, text: str, *, synthetic: bool = False) -> None:
        """A piece of the message's text; opens message and block where needed."""
        if text and not self._finished:
            if self._block != "text":
                self.block_started("text", synthetic=synthetic)
            text, self._held = self.redactor.split(self._held + text)
            if text:
                self._message_text.append(text)
                self._update("text_delta", text, synthetic)

    def thinking_delta(self, text: str, *, synthetic: bool = False) -> None:
        """A piece of the model's reasoning; opens message and block where needed."""
        if text and not self._finished:
            if self._block != "thinking":
                self.block_started("thinking", synthetic=synthetic)
            text, self._held = self.redactor.split(self._held + text)
            if text:
                self._update("thinking_delta", text, synthetic)

    def block_started(self, kind: str, *, synthetic: bool = False) -> None:
        """A block of `kind` (`text` or `thinking`) begins."""
        if self._block == kind or self._finished:
            return
        self.block_ended(synthetic=synthetic)
        if self._message_id is None:
            self.message_started(synthetic=True)
        self._block = kind
        self._update(_START[kind], "", synthetic)

    def block_ended(self, *, synthetic: bool = False) -> None:
        """The open block, if any, is complete."""
        if self._block is None:
            return
        kind, self._block = self._block, None
        held, self._held = self.redactor.text(self._held), ""
        if held:
            if kind == "text":
                self._message_text.append(held)
            self._update(_DELTA[kind], held, synthetic)
        self._update(_END[kind], "", synthetic)

    def message_ended(
        self,
        *,
        usage: Usage | None = None,
        model: str | None = None,
        stop_reason: str | None = None,
        cost_usd: float | None = None,
        synthetic: bool = False,
    ) -> None:
        """The open message is complete. `usage` and `cost_usd`, where known, are added up."""
        if self._message_id is None:
            return
        self.block_ended(synthetic=synthetic)
        message_id, self._message_id = self._message_id, None
        text = self.redactor.text("".join(self._message_text))
        self._said(text)
        self.model = model or self.model
        if usage is not None:
            self.usage += usage
        if cost_usd is not None:
            self.set_cost((self.cost_usd or 0.0) + cost_usd, "provider")
        self._emit(
            ev.MessageEnd,
            message_id=message_id,
            text=text,
            usage=usage,
            model=model or self.model,
            stop_reason=stop_reason,
            synthetic=synthetic,
        )

    # -- tools ----------------------------------------------------------------------------------

    def tool_started(
        self, tool_call_id: str, tool_name: str, args: Any, *, synthetic: bool = False
    ) -> None:
        """The agent calls a tool; an open message is closed first. A repeat has no effect."""
        if tool_call_id in self._tools or self._finished:
            return
        self.take_hook_notes()
        if not self.turn_open:
            self.turn_started(synthetic=True)
        self.message_ended(synthetic=True)
        self._check_budget()
        self._tools[tool_call_id] = tool_name
        self._tools_done.discard(tool_call_id)
        self._emit(
            ev.ToolExecutionStart,
            tool_call_id=tool_call_id,
            tool_name=tool_name,
            args=self.redactor.value(args),
            synthetic=synthetic,
        )
        self._check_guard_is_live()
        early = self._early_verdicts.pop(tool_call_id, None)
        if early is not None:
            self._tell_verdict(tool_call_id, *early)

    def tool_updated(self, tool_call_id: str, text: str) -> None:
        """The next piece of a running tool's output (not all of it so far); ignored when no such
        tool runs."""
        if tool_call_id not in self._tools:
            return
        text, held = self.redactor.split(self._tool_held.pop(tool_call_id, "") + text)
        if held:
            self._tool_held[tool_call_id] = held
        if text:
            self._emit(ev.ToolExecutionUpdate, tool_call_id=tool_call_id, text=text)

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
        """The tool ended. One that was never announced gets its start now; a repeat has no
        effect."""
        if self._finished or (tool_call_id in self._tools_done and tool_call_id not in self._tools):
            return
        if tool_call_id not in self._tools:
            self.tool_started(tool_call_id, tool_name or "unknown", args, synthetic=True)
        self.take_hook_notes()
        if self.guard is not None and not is_error:
            self._check_was_asked(self.guard, tool_call_id)
        if tool_call_id not in self._tools:
            return
        held = self.redactor.text(self._tool_held.pop(tool_call_id, ""))
        if held:
            self._emit(ev.ToolExecutionUpdate, tool_call_id=tool_call_id, text=held)
        self._tools_done.add(tool_call_id)
        self._emit(
            ev.ToolExecutionEnd,
            tool_call_id=tool_call_id,
            tool_name=self._tools.pop(tool_call_id),
            is_error=is_error,
            result=self.redactor.value(result),
            synthetic=synthetic,
        )

    # -- the guard ------------------------------------------------------------------------------

    def judged(
        self, tool_call_id: str, tool_name: str, args: Any, cwd: str | None = None
    ) -> GuardVerdict:
        """The guard's verdict on a call that the agent asks about on its wire; the adapter answers
        with it. Without a guard the call is refused: whoever asks expects one."""
        if self.guard is None:
            return GuardVerdict(allowed=False, rule="no-guard", reason="no guard is there to ask")
        verdict = self.guard.ask(tool_call_id, tool_name, args, cwd)
        self._tell_verdict(tool_call_id, tool_name, verdict)
        return verdict

    def take_hook_notes(self) -> None:
        """Record what hooks told the guard since the last call. The recorder does so itself
        whenever the wire speaks of tools; a driver whose wire is silent calls it when woken."""
        guard = self.guard
        if guard is None:
            return
        for note in guard.take():
            if guard.feeds_events:
                self._hook_event(note)
            if note.verdict is None:
                continue
            if self._live and not self.turn_open:
                # The wire has not told of the turn yet, which the call belongs to.
                self._waiting_verdicts.append((note, note.verdict))
            else:
                self._take_verdict(guard, note, note.verdict)
        if guard.live and self._held_ready is not None:
            held, self._held_ready = self._held_ready, None
            self.expect(None)
            self.ready(held)

    def _take_verdict(self, guard: Guard, note: HookNote, verdict: GuardVerdict) -> None:
        call_id = note.tool_call_id or self._open_call(note.tool_name)
        silent = not guard.mechanism.tells_refused and not verdict.allowed
        if silent:
            self.tool_started(call_id, note.tool_name, note.args, synthetic=True)
        self._tell_verdict(call_id, note.tool_name, verdict)
        if silent:
            self.tool_ended(call_id, is_error=True, result=verdict.reason, synthetic=True)

    def _open_call(self, tool_name: str) -> str:
        """The oldest call of that tool which has not ended, for hooks that tell no id; empty when
        none is known."""
        return next((call for call, name in self._tools.items() if name == tool_name), "")

    def _hook_event(self, note: HookNote) -> None:
        if note.kind == "verdict":
            self.tool_started(note.tool_call_id, note.tool_name, note.args)
        elif note.kind == "tool_end":
            self.tool_ended(
                note.tool_call_id,
                tool_name=note.tool_name,
                args=note.args,
                is_error=note.is_error,
                result=note.result,
            )

    def _tell_verdict(self, tool_call_id: str, tool_name: str, verdict: GuardVerdict) -> None:
        """Tell it after the start of its tool: an agent may ask while it still writes the call."""
        known = tool_call_id in self._tools or tool_call_id in self._tools_done
        if not known and self.guard is not None and self.guard.mechanism.matching == "id":
            self._early_verdicts[tool_call_id] = (tool_name, verdict)
            return
        if not verdict.allowed:
            # Some runtimes tell of a refusal by a hook as one of their own.
            self._decided_requests.add(tool_call_id)
        self.permission_decided(
            f"guard_{tool_call_id}",
            tool_call_id=tool_call_id,
            tool_name=tool_name,
            decision="allow" if verdict.allowed else "deny",
            by="guard",
            reason=f"{verdict.rule}: {verdict.reason}" if verdict.reason else verdict.rule,
        )

    def _tell_early_verdicts(self) -> None:
        """Tell the verdicts on calls whose start the wire never told."""
        early, self._early_verdicts = self._early_verdicts, {}
        for tool_call_id, (tool_name, verdict) in early.items():
            self._tools_done.add(tool_call_id)
            self._tell_verdict(tool_call_id, tool_name, verdict)

    def _check_guard_is_live(self) -> None:
        """Stop an agent that has begun to work without the guard having been seen to fire."""
        guard = self.guard
        if guard is None or guard.live:
            return
        self.take_hook_notes()
        if not guard.live:
            self.request_stop(self._guard_is_dead(guard))

    def _guard_is_dead(self, guard: Guard) -> GuardRefused:
        return GuardRefused(
            f"the guard does not fire on this version ({guard.mechanism.name})",
            hint="look for a setting that switches hooks off, or run with --unguarded",
        )

    def _check_was_asked(self, guard: Guard, tool_call_id: str) -> None:
        """Stop an agent that ran a tool which the guard had not allowed."""
        name = self._tools.get(tool_call_id, "")
        if not guard.was_asked(tool_call_id, name):
            self.request_stop(
                GuardRefused(
                    f"the agent ran {name} without the guard's leave ({guard.mechanism.name})",
                    hint="this version does not keep to its hooks; use --sandbox, and report it",
                )
            )

    def _guard_report(self) -> GuardReport | msgspec.UnsetType:
        if self.guard is not None:
            return self.guard.report()
        if self.unguarded:
            return GuardReport(capability=self.unguarded, state="unguarded")
        return msgspec.UNSET

    # -- what else can happen -------------------------------------------------------------------

    def permission_requested(self, question: Question) -> None:
        """The agent asks whether it may act; the driver will answer."""
        if self._finished:
            return
        if not self.turn_open:
            self.turn_started(synthetic=True)
        self.questions.append(question)
        self._change_state("waiting_permission", f"permission request {question.request_id}")
        self._emit(
            ev.PermissionRequest,
            request_id=question.request_id,
            tool_call_id=question.tool_call_id,
            tool_name=question.tool_name,
            args=self.redactor.value(question.args),
        )

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
        """A tool call was allowed or refused. A repeat has no effect: the agent may have taken its
        question back before somebody answered it. Nor has it one in a conversation without an
        open turn: the question went with the turn that asked it."""
        if request_id in self._decided_requests:
            return
        self._decided_requests.add(request_id)
        if not self.turn_open:
            if self._live:
                return
            self.turn_started(synthetic=True)
        self._emit(
            ev.PermissionDecision,
            request_id=request_id,
            tool_call_id=tool_call_id,
            tool_name=tool_name,
            decision=decision,
            by=by,
            reason=self.redactor.text(reason),
        )
        if self._state == "waiting_permission":
            self._change_state("working", f"permission decision {request_id}")

    def compaction_started(self, reason: str, *, synthetic: bool = False) -> None:
        """The agent begins to shorten its context. No effect while it does so."""
        if self._compacting or self._finished:
            return
        if not self._session_started:
            self.session_started(None, synthetic=True)
        self._compacting = True
        if self._live:
            self._before_compaction = self._state
            self._change_state("compacting", "auto_compaction_start")
        self._emit(ev.AutoCompactionStart, reason=reason, synthetic=synthetic)

    def compaction_ended(self, reason: str, *, synthetic: bool = False) -> None:
        """The context is shortened, or that failed. One never announced gets its start now."""
        self.compaction_started(reason, synthetic=True)
        self._compacting = False
        self._emit(ev.AutoCompactionEnd, reason=reason, synthetic=synthetic)
        if self._live and self._state == "compacting":
            self._change_state(
                "working" if self.turn_open else self._before_compaction, "auto_compaction_end"
            )

    def retrying(self, attempt: int, delay_ms: int | None, error: AgentError) -> None:
        """A model call failed; the runtime will try again."""
        if not self.turn_open:
            self.turn_started(synthetic=True)
        self._emit(ev.Retry, attempt=attempt, delay_ms=delay_ms, error=self._error_info(error))

    def set_usage(self, usage: Usage) -> None:
        """Replace the session's totals by what the runtime itself sums up."""
        self.usage = usage

    def set_cost(self, cost_usd: float, source: CostSource) -> None:
        """Replace the session's cost so far."""
        self.cost_usd = cost_usd
        self.cost_source = source

    def unknown(self, raw: Any) -> None:
        """A wire message that no dialect knows; kept, never fatal. One that comes before the
        session is named is handed over right after `session_start`."""
        if not self._session_started:
            self._early.append(raw)
            return
        kept, self._raw = self._raw, self.redactor.value(raw)
        self._emit(ev.Unknown)
        self._raw = kept

    # -- inside ---------------------------------------------------------------------------------

    def _emit(self, cls: type[ev.Event], **fields: Any) -> None:
        if self._finished:
            return
        self._seq += 1
        self._out.append(
            cls(
                seq=self._seq,
                ts=self._clock(),
                session_id=self.session_id,
                runtime=self.runtime,
                raw=self._raw,
                **fields,
            )
        )

    def _raise_error(self, info: ErrorInfo) -> None:
        self._emit(
            ev.ErrorRaised,
            kind=info.kind,
            message=info.message,
            retryable=info.retryable,
            hint=info.hint,
        )

    def _change_state(self, new: ev.SessionState, evidence: str) -> None:
        if new != self._state:
            old, self._state = self._state, new
            self._emit(ev.StateChange, old=old, new=new, evidence=evidence)

    def _update(self, kind: ev.UpdateKind, text: str, synthetic: bool) -> None:
        # Nine events of ten are made here, so it does without `_emit`'s detour.
        self._seq += 1
        self._out.append(
            ev.MessageUpdate(
                seq=self._seq,
                ts=self._clock(),
                session_id=self.session_id,
                runtime=self.runtime,
                raw=self._raw,
                synthetic=synthetic,
                message_id=self._message_id or "",
                kind=kind,
                text=text,
            )
        )

    def _said(self, text: str) -> None:
        """The agent's latest text: the turn's, and the run's unless a later one replaces it."""
        if not text:
            return
        self.text = self._turn_text = text
        if not self._turn_marker and find_marker(text, self.options.marker, self._instructions):
            self._turn_marker = self.marker_detected = True

    # Limits are looked at when the agent goes on, so that work which ended at its limit counts.

    def _check_turns(self) -> None:
        limit = self.options.max_turns
        if limit is not None and self._model_calls >= limit and not self.agent_counts_turns:
            self.request_stop(BudgetExceeded(f"reached the limit of {limit} turns"))

    def _check_budget(self) -> None:
        limit, cost = self.options.budget_usd, self.cost_usd
        if limit is not None and cost is not None and cost > limit:
            self.request_stop(
                BudgetExceeded(f"cost {cost:.4f} USD is over the budget of {limit:.4f} USD")
            )

    def _error_info(self, error: AgentError) -> ErrorInfo:
        """The error as events and results show it; how the process ended only once that is known
        and only for the turn it ended."""
        info = error.info()
        exit = self._exit
        return msgspec.structs.replace(
            info,
            message=self.redactor.text(info.message),
            hint=self.redactor.text(info.hint),
            runtime=self.runtime,
            runtime_version=self.runtime_version,
            exit_status=exit.code if exit and exit.code is not None else info.exit_status,
            stderr_tail=(exit.stderr_tail if exit else "") or self.redactor.text(info.stderr_tail),
        )


def _death(exit: ProcessExit) -> AgentError:
    if exit.signal_name == "SIGINT":
        return Aborted("the agent was interrupted")
    return Crashed(f"the agent's process {_exit_words(exit)} without finishing its turn")


def _exit_words(exit: ProcessExit) -> str:
    return exit.words
