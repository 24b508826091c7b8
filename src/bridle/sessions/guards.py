"""Answers the hooks of guarded sessions in the process that drives them; tells what guards each."""

import os
from typing import TYPE_CHECKING, Literal

import msgspec

from bridle.core.errors import GuardRefused
from bridle.sessions.home import StateHome
from bridle.sessions.ledger import Begin, Ledger, Told
from bridle.sessions.store import SessionRecord
from bridle.turns.guard_contract import WireCall

if TYPE_CHECKING:
    from bridle.guard.hooks.lasting import HostedSession
    from bridle.guard.hooks.service import JudgeService


class SessionGuard(msgspec.Struct, frozen=True, kw_only=True):
    """What holds the agent of one session."""

    session_id: str
    name: str | None
    runtime: str
    drive: str
    capability: str | None
    guard: str | None
    """The mechanism, `unguarded` when the user chose that; None for a session of the user's own."""
    state: Literal["live", "unproved", "broken", "unguarded", "none"]
    """`live`: it was shown that it fires (`proof`). `unproved`: nothing happened that could have
    shown it. `broken`: its files are gone, so that it refuses everything or is not asked."""
    proof: str = ""


def session_guard(home: StateHome, record: SessionRecord) -> SessionGuard:
    """What guards a session that lives."""
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
    begin, told = None, ""
    for entry in Ledger(os.path.join(home.folder(record.session_id), "ledger.jsonl")).read():
        if isinstance(entry, Begin):
            begin, told = entry, ""
        elif isinstance(entry, Told):
            told = told or entry.note.event or entry.note.kind
    facts = None if begin is None else begin.guard
    if facts is None:
        return ("unguarded" if record.guard == "unguarded" else "none"), ""
    if not os.path.exists(os.path.join(facts.folder, "hook.sh")):
        return "broken", ""
    proof = told or facts.proof
    return ("live" if proof else "unproved"), proof


class GuardHost:
    """The judge of an engine's sessions; costs nothing until one is guarded.

    Contract: one thread uses it. A session that it does not host is held all the same: its hooks
    judge alone.
    """

    def __init__(self) -> None:
        self.sessions: dict[str, HostedSession] = {}
        self._service: JudgeService | None = None

    def host(self, session_id: str, folder: str) -> None:
        """Answer the hooks of a session whose guard's files are in `folder`, from now on."""
        from bridle.guard.hooks.lasting import HostedSession
        from bridle.guard.hooks.service import JudgeService

        if session_id in self.sessions:
            return
        self._service = self._service or JudgeService()
        try:
            session = HostedSession(self._service, folder)
            session.open()
        except (GuardRefused, OSError):
            # Its hooks cannot be answered better than they answer themselves: they refuse.
            return
        self.sessions[session_id] = session

    def settle(self, session_id: str, call: WireCall) -> None:
        """Have a call judged that waits on the wire of a session; one that is not hosted goes on
        waiting."""
        session = self.sessions.get(session_id)
        if session is not None:
            session.settle(call)

    def leave(self, session_id: str) -> None:
        """Answer a session's hooks no more; they judge alone."""
        session = self.sessions.pop(session_id, None)
        if session is not None:
            session.close()

    def close(self) -> None:
        """Leave all of them."""
        for session_id in list(self.sessions):
            self.leave(session_id)
        if self._service is not None:
            self._service.close()
            self._service = None
