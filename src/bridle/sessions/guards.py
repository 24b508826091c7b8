"""What guards each session, for `bridle guard status`."""

import os
from typing import Literal

import msgspec

from bridle.sessions.home import StateHome
from bridle.sessions.ledger import Begin, Ledger, Told
from bridle.sessions.store import SessionRecord


class SessionGuard(msgspec.Struct, frozen=True, kw_only=True):
    """What guards the agent of one session."""

    session_id: str
    name: str | None
    runtime: str
    drive: str
    capability: str | None
    guard: str | None
    """The mechanism, `unguarded` when the user chose that; None for the user's own session."""
    state: Literal["live", "unproved", "broken", "unguarded", "none"]
    """`live`: it was proved to fire (`proof`). `unproved`: nothing happened that could have shown
    it. `broken`: its files are gone, so that it refuses everything or is not asked."""
    proof: str = ""


def session_guard(home: StateHome, record: SessionRecord) -> SessionGuard:
    """What guards a living session."""
    state, proof = _state(home, record)
    return SessionGuard(
        session_id=record.session_id,
        name=record.name,
        runtime=record.runtime,
        drive=record.drive,
        capability=record.capability,
        guard=record.guard,
        state=state,
        proof=proof,
    )


def _state(
    home: StateHome, record: SessionRecord
) -> tuple[Literal["live", "unproved", "broken", "unguarded", "none"], str]:
    begin, seen = None, ""
    for entry in Ledger(os.path.join(home.folder(record.session_id), "ledger.jsonl")).read():
        if isinstance(entry, Begin):
            begin, seen = entry, ""
        elif isinstance(entry, Told):
            seen = seen or entry.note.event or entry.note.kind
    facts = None if begin is None else begin.guard
    if facts is None:
        return ("unguarded" if record.guard == "unguarded" else "none"), ""
    if not os.path.exists(os.path.join(facts.folder, "hook.sh")):
        return "broken", ""
    proof = seen or facts.proof
    return ("live" if proof else "unproved"), proof
