"""Runs whose answer is a value that fits a JSON Schema.

Bridle uses the agent's own mechanism if there is one (`Features.output_schema`), else the prompt
asks for the value. Either way the answer is checked. If it does not fit and the runtime can resume,
the agent is asked once more in the same conversation.
"""

import time
import weakref
from collections.abc import Callable, Generator
from typing import Any

import msgspec

from bridle.core import events as ev
from bridle.core.errors import AnswerMismatch, BridleError
from bridle.core.options import RunOptions
from bridle.core.results import GuardReport, RunResult
from bridle.core.structured import AnswerCheck, check_schema
from bridle.drives.print_run import PrintRun
from bridle.process.private_folders import remove_folders
from bridle.process.spec import ProcessSpec
from bridle.runtimes.options import json_object
from bridle.turns.recorder import Recorder
from bridle.turns.wire import Normalizer

TYPE_CHECKING = False
if TYPE_CHECKING:
    from bridle.runtimes.contract import Adapter

_ASK = (
    "When you are done, give your final answer as one JSON value that fits this JSON Schema. The "
    "final answer holds nothing else: no other text, no code fence.\n\n"
)
_AGAIN = "Your final answer cannot be used: {problem}.\n\nGive it again, and only it. "


def schema_of(options: RunOptions) -> dict[str, Any]:
    """The schema that `options` ask for, checked; `WrongUse` says what is wrong with it."""
    given = options.output_schema
    assert given is not None
    schema = given if isinstance(given, dict) else json_object(given, "output schema")
    check_schema(schema)
    return schema


class Asking:
    """What a structured run asks its agent for.

    Contract: made before anything is started; raises `WrongUse` for a bad schema. `first` are the
    options of the run, `again(result)` those of the turn that repairs its answer. `folders` serve
    both; the run removes them.
    """

    def __init__(self, runtime: "Adapter", options: RunOptions, env: dict[str, str]) -> None:
        self.schema = schema_of(options)
        features = runtime.features
        self.can_repair = "resume" in features.options
        self.folders: tuple[str, ...] = ()
        self._ends_at = None if options.timeout is None else time.monotonic() + options.timeout
        self._native = features.output_schema
        options = msgspec.structs.replace(options, output_schema=self.schema)
        keeps_home = options.account_dir is not None or options.model_server is None
        if self.can_repair and not keeps_home and "account_dir" in features.options:
            # The conversation would be lost with the throw-away home of a scripted model.
            from bridle.core.files import new_private_dir

            self.folders = (new_private_dir(env, runtime.id),)
            options = msgspec.structs.replace(options, account_dir=self.folders[0])
        self._options = options
        self.first = options
        if not self._native:
            self.first = self._prompted(f"{options.prompt}\n\n{_ASK}{self._text}")

    @property
    def _text(self) -> str:
        return msgspec.json.encode(self.schema).decode()

    def _prompted(self, prompt: str) -> RunOptions:
        return msgspec.structs.replace(self._options, prompt=prompt)

    @property
    def hint(self) -> str:
        """What a user can do about an answer that does not fit."""
        if self.can_repair:
            return "simplify the schema, say in the prompt what each field means, or try again"
        return "this runtime cannot resume a conversation, so it was not asked again; try again"

    def again(self, result: RunResult) -> RunOptions | None:
        """The options of the repairing turn; None if no time or budget is left."""
        assert result.error is not None
        left = None if self._ends_at is None else self._ends_at - time.monotonic()
        budget = self._options.budget_usd
        if budget is not None:
            budget -= result.cost_usd or 0.0
        if result.native_session_id is None or (left is not None and left <= 0):
            return None
        if budget is not None and budget <= 0:
            return None
        words = _AGAIN.format(problem=result.error.message)
        return msgspec.structs.replace(
            self._prompted(f"{words}{_ASK}{self._text}"),
            resume=result.native_session_id,
            images=(),
            timeout=left,
            budget_usd=budget,
        )


class StructuredRun(PrintRun):
    """A run whose answer is checked, with a second process if the agent must answer again.

    Contract: as `PrintRun`. Both processes are one stream of events: the repairing turn is the
    run's last turn, and the one before it failed with `schema_mismatch`. `again` makes the run of
    that turn; if it raises a `BridleError`, the first answer stays.
    """

    def __init__(
        self,
        spec: ProcessSpec,
        normalizer: Callable[[], Normalizer],
        recorder: Recorder,
        *,
        asking: Asking,
        again: Callable[[RunResult], PrintRun | None] | None,
        **rest: Any,
    ) -> None:
        recorder.answer = AnswerCheck(asking.schema, hint=asking.hint)
        super().__init__(spec, normalizer, recorder, **rest)
        self._again = again if asking.can_repair else None
        self._second: PrintRun | None = None
        self._before: RunResult | None = None
        self._why_not = ""
        self._stop_now: tuple[str, bool] | None = None
        folders = asking.folders if again is not None else ()
        self._drop = weakref.finalize(self, remove_folders, folders)

    def abort(self, reason: str = "interrupted", *, now: bool = False) -> None:
        """Stop the agent, in either process."""
        super().abort(reason, now=now)
        self._stop_now = (reason, now)
        if self._second is not None:
            self._second.abort(reason, now=now)

    @property
    def is_over(self) -> bool:
        """Whether both processes have ended, or the run was closed."""
        return not self._drop.alive

    def close(self) -> None:
        """End the agent and remove what was made for the run."""
        super().close()
        if self._second is not None:
            self._second.close()
        self._drop()

    def batches(self) -> Generator[list[ev.Event], None, None]:
        """The events of both processes in one stream."""
        first = super().batches()
        try:
            tail: list[ev.Event] = []
            seq = 0
            for batch in first:
                shown = [event for event in batch if not _is_end(event)]
                tail += (event for event in batch if _is_end(event))
                if shown:
                    seq = shown[-1].seq
                    yield shown
            self._second = self._repairing()
            if self._second is None:
                yield tail
                return
            yield from self._joined(self._second, seq)
        finally:
            first.close()
            self.close()

    def _repairing(self) -> PrintRun | None:
        """The run that repairs the answer, if that is needed and possible."""
        result = self._before = super().result
        error = result.error
        if self._again is None or error is None or error.kind != AnswerMismatch.kind:
            return None
        try:
            second = self._again(result)
        except BridleError as problem:
            self._why_not = f"it could not be asked again: {problem.message}"
            return None
        if second is not None and self._stop_now is not None:
            second.abort(self._stop_now[0], now=self._stop_now[1])
        return second

    def _joined(self, second: PrintRun, seq: int) -> Generator[list[ev.Event], None, None]:
        """The events of the second process as those that follow the first's."""
        before, recorder = self._before or super().result, self._recorder
        batches = second.batches()
        try:
            for batch in batches:
                shown: list[ev.Event] = []
                for event in batch:
                    if isinstance(event, ev.SessionStart) or (
                        isinstance(event, ev.StateChange) and event.old == "starting"
                    ):
                        continue
                    seq += 1
                    changes: dict[str, Any] = {"seq": seq, "session_id": recorder.session_id}
                    if isinstance(event, ev.AgentStart | ev.AgentEnd):
                        changes["turn"] = event.turn + recorder.turn
                    elif isinstance(event, ev.UsageTotals):
                        changes["usage"] = before.usage + event.usage
                        changes["cost_usd"] = _sum(before.cost_usd, event.cost_usd)
                    shown.append(msgspec.structs.replace(event, **changes))
                if shown:
                    yield shown
        finally:
            batches.close()

    @property
    def result(self) -> RunResult:
        """The result of both processes together."""
        first = self._before or super().result
        if self._second is None:
            if self._why_not and first.error is not None:
                error = msgspec.structs.replace(first.error, hint=self._why_not)
                return msgspec.structs.replace(first, error=error)
            return first
        second = self._second.result
        known = second if second.cost_usd is not None else first
        return msgspec.structs.replace(
            second,
            session_id=first.session_id,
            native_session_id=second.native_session_id or first.native_session_id,
            usage=first.usage + second.usage,
            cost_usd=_sum(first.cost_usd, second.cost_usd),
            cost_source=known.cost_source,
            duration_ms=first.duration_ms + second.duration_ms,
            marker_detected=first.marker_detected or second.marker_detected,
            refusals=first.refusals + second.refusals,
            ignored_options=first.ignored_options,
            guard=_both(first.guard, second.guard),
        )


def _is_end(event: ev.Event) -> bool:
    """Whether an event reports the end of a run's process."""
    if isinstance(event, ev.StateChange):
        return event.new in ("stopped", "failed")
    return isinstance(event, ev.SessionEnd)


def _sum(one: float | None, other: float | None) -> float | None:
    return other if one is None else one + (other or 0.0)


def _both(
    first: GuardReport | msgspec.UnsetType, second: GuardReport | msgspec.UnsetType
) -> GuardReport | msgspec.UnsetType:
    if not isinstance(first, GuardReport) or not isinstance(second, GuardReport):
        return second
    return msgspec.structs.replace(
        second,
        state=first.state if second.state == "unproved" else second.state,
        allowed=first.allowed + second.allowed,
        blocked=first.blocked + second.blocked,
    )
