"""What a session's fresh events change in its record."""

from typing import Any, Protocol

import msgspec

from bridle.core.events import (
    AgentEnd,
    ErrorRaised,
    Event,
    MessageUpdate,
    SessionStart,
    StateChange,
)
from bridle.drives.recorder import Recorder
from bridle.sessions.store import FINAL, SessionRecord


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
    """`record` after `events`; the same object when they change nothing in it."""
    if record.pid is not None and all(type(event) is MessageUpdate for event in events):
        # Most events, and nothing in them belongs into the record.
        return record
    changes: dict[str, Any] = {}
    for event in events:
        changes |= _changes_by(event, record)
    changes["native_session_id"] = recorder.native_session_id or record.native_session_id
    changes["model"] = recorder.model or record.model
    changes["pid"] = process.pid if process.comes_and_goes else record.pid or process.pid
    if all(getattr(record, name) == value for name, value in changes.items()):
        return record
    return msgspec.structs.replace(record, **changes)


def _changes_by(event: Event, record: SessionRecord) -> dict[str, Any]:
    if isinstance(event, StateChange):
        changes: dict[str, Any] = {"state": event.new, "evidence": event.evidence}
        if event.new == "ready" and record.ready_at is None:
            changes["ready_at"] = event.ts
        if event.new in FINAL:
            changes["ended_at"] = event.ts
        return changes
    if isinstance(event, AgentEnd):
        return {"turn": event.turn, "status": event.status, "error": None}
    if isinstance(event, ErrorRaised):
        return {"error": {"kind": event.kind, "message": event.message}}
    if isinstance(event, SessionStart):
        return {"runtime_version": event.runtime_version}
    return {}
