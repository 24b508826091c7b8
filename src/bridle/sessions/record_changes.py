"""What a session's fresh events change in its record."""

from collections.abc import Iterable
from typing import Any, Protocol

import msgspec

from bridle.core.events import (
    AgentEnd,
    AgentStart,
    ErrorRaised,
    Event,
    MessageUpdate,
    PermissionDecision,
    PermissionRequest,
    SessionEnd,
    SessionStart,
    StateChange,
    UsageTotals,
)
from bridle.core.results import CostSource
from bridle.sessions.store import FINAL, LastTurn, OpenQuestion, SessionRecord
from bridle.turns.recorder import Recorder


class HasPid(Protocol):
    """A process whose number can be asked for."""

    comes_and_goes: bool
    """Whether there may be none while the session lives."""

    @property
    def pid(self) -> int | None:
        """Its number, None before it is known."""


def brought_up_to_date(
    record: SessionRecord, events: list[Event], recorder: Recorder, process: HasPid
) -> SessionRecord:
    """`record` after `events`; the same object when they change nothing that is worth writing."""
    if record.pid is not None and events and all(type(each) is MessageUpdate for each in events):
        # Most events; only the time of the last one belongs into the record.
        return record if _same_second(record, events[-1]) else after_events(record, events)
    changed = after_events(record, events, recorder.cost_source)
    leaving = recorder.leaving
    changed = msgspec.structs.replace(
        changed,
        native_session_id=recorder.native_session_id or record.native_session_id,
        model=recorder.model or record.model,
        pid=process.pid if process.comes_and_goes else record.pid or process.pid,
        stop_reason=None if leaving is None else recorder.redactor.text(leaving),
    )
    if not events or _same_second(record, events[-1]):
        same = msgspec.structs.replace(changed, last_activity=record.last_activity, seq=record.seq)
        if same == record:
            return record
    return changed


def after_events(
    record: SessionRecord, events: Iterable[Event], cost_source: CostSource = "unknown"
) -> SessionRecord:
    """`record` with what `events` say; `cost_source` is where the costs in them come from."""
    changes: dict[str, Any] = {}
    questions = {each.request_id: each for each in record.questions}
    for event in events:
        changes["seq"], changes["last_activity"] = event.seq, event.ts
        if isinstance(event, StateChange):
            changes |= {"state": event.new, "evidence": event.evidence}
            if event.new == "ready" and record.ready_at is None:
                changes.setdefault("ready_at", event.ts)
            changes["ended_at"] = event.ts if event.new in FINAL else None
        elif isinstance(event, AgentStart):
            changes["turn"] = event.turn
        elif isinstance(event, AgentEnd):
            changes |= _by_turn_end(event, cost_source)
            questions.clear()
        elif isinstance(event, UsageTotals):
            changes |= {"usage": event.usage, "cost_usd": event.cost_usd}
        elif isinstance(event, ErrorRaised):
            changes["error"] = _error(event.kind, event.message, event.hint)
        elif isinstance(event, SessionStart):
            changes["runtime_version"] = event.runtime_version
        elif isinstance(event, PermissionRequest):
            questions[event.request_id] = OpenQuestion(
                request_id=event.request_id,
                tool_name=event.tool_name,
                args=event.args,
                since=event.ts,
            )
        elif isinstance(event, PermissionDecision):
            questions.pop(event.request_id, None)
        elif isinstance(event, SessionEnd):
            questions.clear()
    return msgspec.structs.replace(record, questions=tuple(questions.values()), **changes)


def _by_turn_end(event: AgentEnd, cost_source: CostSource) -> dict[str, Any]:
    error = event.error
    last = LastTurn(
        turn=event.turn,
        status=event.status,
        text=event.text,
        marker_detected=event.marker_detected,
        error=error,
        usage=event.usage,
        cost_usd=event.cost_usd,
        cost_source="unknown" if event.cost_usd is None else cost_source,
        ended_at=event.ts,
    )
    return {
        "turn": event.turn,
        "status": event.status,
        "error": None if error is None else _error(error.kind, error.message, error.hint),
        "last_turn": last,
    }


def _error(kind: str, message: str, hint: str) -> dict[str, Any]:
    return {"kind": kind, "message": message, "hint": hint}


def _same_second(record: SessionRecord, event: Event) -> bool:
    return record.last_activity is not None and record.last_activity[:19] == event.ts[:19]
