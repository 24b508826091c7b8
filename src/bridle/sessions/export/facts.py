"""The title and the facts at the head of an exported session."""

from bridle.sessions.store import SessionRecord


def title(record: SessionRecord) -> str:
    """The title of the session."""
    return record.name or f"Session {record.session_id[:8]}"


def facts(record: SessionRecord) -> list[tuple[str, str]]:
    """Name and value of each known fact, the important ones first."""
    runtime = " ".join(filter(None, [record.runtime, record.runtime_version]))
    error = record.error or {}
    pairs = [
        ("Session", record.session_id),
        ("Runtime", runtime),
        ("Model", record.model),
        ("Working directory", record.workdir),
        ("State", f"{record.state} ({record.evidence})" if record.evidence else record.state),
        ("Error", ": ".join(str(error[key]) for key in ("kind", "message") if key in error)),
        ("Started", record.started_at),
        ("Ended", record.ended_at),
        ("Turns", str(record.turn)),
        ("Project", record.project),
        ("Agent", record.agent),
        ("Capability", record.capability),
        ("Task", record.task),
        ("Taken over from", record.parent),
    ]
    return [(name, value) for name, value in pairs if value]


FATES = {
    "sent": "sent, but nothing shows that the agent took it",
    "queued": "not sent yet",
    "dropped": "dropped before it was sent",
}
"""The note on a message that reached no turn."""
