"""The records of sessions: one small SQLite database, shared by every process of the user.

It is an index. The conversation is in the session's folder, and the next driver brings a record
that a crash left behind up to date from there.

The database has a version (`PRAGMA user_version`): the number of migration steps (`_STEPS`) that
were applied. A newer database than this Bridle knows is refused. A record is one JSON document in
the column `record`: a field with a default needs no step, since documents without it still decode.
The files in a session's folder have no version yet, except events, which carry `v`. A version of
the ledger belongs in its `Begin` entries, which start every run; it covers that run's journal.
"""

import os
import sqlite3
from collections.abc import Callable, Iterable
from typing import Any

import msgspec

from bridle.core import structs
from bridle.core.errors import BridleError, ErrorInfo, Unavailable, WrongUse
from bridle.core.events import (
    AgentEnd,
    AgentStart,
    Drive,
    ErrorRaised,
    Event,
    PermissionDecision,
    PermissionRequest,
    SessionEnd,
    SessionStart,
    SessionState,
    StateChange,
    UsageTotals,
)
from bridle.core.options import SandboxMode
from bridle.core.results import CostSource
from bridle.core.spelling import nearest
from bridle.core.usage import NO_USAGE, Usage
from bridle.sessions.home import (
    NoRoom,
    StateHome,
    StateUnusable,
    explained,
    folder_of,
    or_usable,
    other_place,
)

SHORTEST = 4
"""How many characters of a session's id are enough to name it."""

FINAL: frozenset[SessionState] = frozenset({"stopped", "failed", "lost"})
"""States of a session whose process has ended."""


class UnknownSession(WrongUse):
    """No session has that name or id here."""

    def __init__(self, name: str, *, hint: str = "") -> None:
        super().__init__(
            f"no session {name}", hint=hint or "`bridle session list --all` shows all sessions"
        )


class AmbiguousSession(UnknownSession):
    """Several session ids begin that way."""


def check_name(name: str) -> None:
    """Refuse an empty name, which an unset variable would give."""
    if not name.strip():
        raise WrongUse("a session's name must not be empty", hint="leave it out to have none")


class LastTurn(msgspec.Struct, frozen=True, kw_only=True):
    """The last finished turn of a session, as its `agent_end` event reports it."""

    turn: int
    status: str
    text: str = ""
    marker_detected: bool = False
    error: ErrorInfo | None = None
    """Why it failed; kind, message and hint among others."""
    usage: Usage | None = None
    cost_usd: float | None = None
    cost_source: CostSource = "unknown"
    ended_at: str = ""


class TurnRow(msgspec.Struct, frozen=True, kw_only=True):
    """What a finished turn used and cost."""

    turn: int
    status: str
    model: str | None = None
    ended_at: str = ""
    usage: Usage
    cost_usd: float | None = None
    cost_source: CostSource = "unknown"


def turns_in(events: Iterable[Event], model: str | None, cost_source: CostSource) -> list[TurnRow]:
    """The turns that ended in `events`."""
    return [
        TurnRow(
            turn=event.turn,
            status=event.status,
            model=model,
            ended_at=event.ts,
            usage=event.usage or NO_USAGE,
            cost_usd=event.cost_usd,
            cost_source="unknown" if event.cost_usd is None else cost_source,
        )
        for event in events
        if isinstance(event, AgentEnd)
    ]


class OpenQuestion(msgspec.Struct, frozen=True, kw_only=True):
    """An open permission request, secrets removed."""

    request_id: str
    tool_name: str
    args: Any = None
    since: str = ""


class SessionRecord(msgspec.Struct, frozen=True, kw_only=True):
    """What is known about a session without reading its folder.

    Contract: it is stored whole, as one JSON document. Fields are only added, each with a default,
    so a record that an older Bridle wrote still loads.
    """

    session_id: str
    name: str | None = None
    runtime: str
    runtime_version: str = ""
    drive: Drive = "rpc"
    state: SessionState = "starting"
    evidence: str = ""
    """What showed that state."""
    native_session_id: str | None = None
    model: str | None = None
    workdir: str = ""
    pid: int | None = None
    started_at: str = ""
    ready_at: str | None = None
    ended_at: str | None = None
    run: int = 0
    """How many processes it has had."""
    turn: int = 0
    """The number of the open turn, or of the last one; 0 before the first."""
    status: str | None = None
    """How the last finished turn ended."""
    error: dict[str, Any] | None = None
    """Why the last turn or the session failed: `kind`, `message`, `hint`."""
    stop_reason: str | None = None
    """The reason given for stopping it; None when nobody stopped it."""
    last_turn: LastTurn | None = None
    """The last finished turn."""
    usage: Usage | None = None
    """Tokens of all its turns; None before the first turn ended."""
    cost_usd: float | None = None
    """Cost of all its turns; None when unknown."""
    questions: tuple[OpenQuestion, ...] = ()
    """The open permission requests, oldest first."""
    last_activity: str | None = None
    """When it last reported an event, to the second."""
    seq: int = 0
    """The number of the last event that this record includes; 0 in a record that an older Bridle
    wrote."""
    parent: str | None = None
    """The session it was forked from or took over."""
    handover: str | None = None
    """How the conversation of `parent` was carried over: `native` or `brief`."""
    sandbox: SandboxMode | None = None
    guard: str | None = None
    """Its guard, `unguarded` when the user chose that; None before it is known."""
    warnings: tuple[str, ...] = ()
    """What the user should know about its last start, above all what the sandbox leaves open."""
    project: str | None = None
    agent: str | None = None
    capability: str | None = None
    task: str | None = None
    actor: str | None = None

    @property
    def is_over(self) -> bool:
        """Whether its process has ended."""
        return self.state in FINAL


def after_events(
    record: SessionRecord, events: Iterable[Event], cost_source: CostSource = "unknown"
) -> SessionRecord:
    """`record` brought up to date with `events`; `cost_source` says where their costs come from."""
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


_FIRST = """
CREATE TABLE IF NOT EXISTS sessions (
    session_id TEXT PRIMARY KEY,
    name TEXT,
    state TEXT NOT NULL,
    workdir TEXT NOT NULL,
    started_at TEXT NOT NULL,
    record TEXT NOT NULL
);
CREATE INDEX IF NOT EXISTS sessions_by_name ON sessions (name);
CREATE INDEX IF NOT EXISTS sessions_by_state ON sessions (state);
"""


def _first_tables(database: sqlite3.Connection) -> None:
    """From nothing, or from a database without a version."""
    for statement in _FIRST.split(";"):
        database.execute(statement)


_TURNS = """
CREATE TABLE turns (
    session_id TEXT NOT NULL,
    turn INTEGER NOT NULL,
    status TEXT NOT NULL,
    model TEXT,
    ended_at TEXT NOT NULL,
    input_tokens INTEGER NOT NULL,
    output_tokens INTEGER NOT NULL,
    cache_read_tokens INTEGER NOT NULL,
    cache_write_tokens INTEGER NOT NULL,
    reasoning_tokens INTEGER NOT NULL,
    cost_usd REAL,
    cost_source TEXT NOT NULL,
    PRIMARY KEY (session_id, turn)
) WITHOUT ROWID
"""


def _turn_table(database: sqlite3.Connection) -> None:
    """What each turn used and cost."""
    database.execute(_TURNS)


_STEPS: tuple[Callable[[sqlite3.Connection], None], ...] = (_first_tables, _turn_table)
"""Step N migrates a database from version N to N + 1. Each is one transaction; steps are only ever
appended."""
SCHEMA_VERSION = len(_STEPS)
_WAIT = 30.0
"""Seconds to wait for another process's write."""


class SessionStore:
    """The records of one state home.

    Contract: every method is one transaction; safe to use from several processes at once, and from
    one thread at a time. A database that cannot be used raises `NoRoom`, `StateUnusable`
    (read-only, broken, made by a newer Bridle), or `Unavailable` for a temporary problem.
    """

    def __init__(self, home: StateHome) -> None:
        self._path = home.database
        with explained(home.root):
            home.make()
            # The file is private from the start.
            os.close(os.open(home.database, os.O_RDWR | os.O_CREAT, 0o600))
        try:
            self._database = sqlite3.connect(
                home.database, timeout=_WAIT, isolation_level=None, check_same_thread=False
            )
        except sqlite3.Error as problem:
            raise database_error(problem, self._path) from problem
        try:
            self._check_version(self._version())
            self._execute("PRAGMA journal_mode=WAL")
            self._execute("PRAGMA synchronous=NORMAL")
            while self._version() < SCHEMA_VERSION:
                self._migrate()
        except BaseException:
            self._database.close()
            raise

    def _version(self) -> int:
        return int(self._execute("PRAGMA user_version").fetchone()[0])

    def _check_version(self, found: int) -> None:
        if found > SCHEMA_VERSION:
            raise StateUnusable(
                f"{self._path} was made by a newer Bridle (its schema is {found}, this Bridle knows"
                f" {SCHEMA_VERSION})",
                hint="use that newer version of Bridle" + other_place(self._path, "another folder"),
            )

    def _migrate(self) -> None:
        """Apply the next step, unless another process does so right now."""
        self._execute("BEGIN IMMEDIATE")
        try:
            found = self._version()
            self._check_version(found)
            if found < SCHEMA_VERSION:
                _STEPS[found](self._database)
                self._execute(f"PRAGMA user_version = {found + 1}")
            self._execute("COMMIT")
        except sqlite3.Error as problem:
            self._roll_back()
            raise database_error(problem, self._path) from problem
        except BaseException:
            self._roll_back()
            raise

    def _roll_back(self) -> None:
        # SQLite has done so itself after some failures, such as a full disk.
        if self._database.in_transaction:
            self._database.execute("ROLLBACK")

    def _execute(self, statement: str, values: tuple[Any, ...] = ()) -> sqlite3.Cursor:
        try:
            return self._database.execute(statement, values)
        except sqlite3.Error as problem:
            raise database_error(problem, self._path) from problem

    def put(self, record: SessionRecord) -> None:
        """Store a record, replacing the one with the same id."""
        self._execute(
            "INSERT INTO sessions (session_id, name, state, workdir, started_at, record)"
            " VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT (session_id) DO UPDATE SET"
            " name = excluded.name, state = excluded.state, workdir = excluded.workdir,"
            " started_at = excluded.started_at, record = excluded.record",
            (
                record.session_id,
                record.name,
                record.state,
                record.workdir,
                record.started_at,
                msgspec.json.encode(record).decode(),
            ),
        )

    def add(self, record: SessionRecord) -> None:
        """Store a new record; `WrongUse` when a living session has its name."""
        self._execute("BEGIN IMMEDIATE")
        try:
            if record.name is not None:
                taken = self._execute(
                    "SELECT session_id FROM sessions WHERE name = ? AND session_id != ?"
                    " AND state NOT IN ('stopped', 'failed', 'lost')",
                    (record.name, record.session_id),
                ).fetchone()
                if taken is not None:
                    raise WrongUse(
                        f"a session named {record.name} is alive ({taken[0]})",
                        hint="choose another name, or stop that one first",
                    )
            self.put(record)
            self._execute("COMMIT")
        except BaseException:
            self._roll_back()
            raise

    def get(self, name: str) -> SessionRecord:
        """The session with that id, or the newest with that name, or the newest with that native
        id, or the only one whose id begins like that (at least `SHORTEST` characters). Raises
        `UnknownSession`, and `WrongUse` for an empty name."""
        if not name.strip():
            raise WrongUse(
                "the session's id is empty",
                hint="is a variable unset? `bridle session list` shows ids",
            )
        row = self._execute(
            "SELECT record FROM sessions WHERE session_id = ?1 OR name = ?1"
            " ORDER BY session_id = ?1 DESC, started_at DESC LIMIT 1",
            (name,),
        ).fetchone()
        if row is None:
            row = self._execute(
                "SELECT record FROM sessions WHERE instr(record, ?) > 0"
                " ORDER BY started_at DESC LIMIT 1",
                (f'"native_session_id":{msgspec.json.encode(name).decode()}',),
            ).fetchone()
        if row is None and len(name) >= SHORTEST:
            rows = self._execute(
                "SELECT record FROM sessions WHERE substr(session_id, 1, ?2) = ?1",
                (name, len(name)),
            ).fetchall()
            if len(rows) > 1:
                ids = ", ".join(_record(each[0]).session_id for each in rows[:5])
                raise AmbiguousSession(name, hint=f"{len(rows)} ids begin that way: {ids}")
            row = rows[0] if rows else None
        if row is None:
            raise UnknownSession(name)
        return _record(row[0])

    def all(self, *, living: bool = False) -> list[SessionRecord]:
        """Every record, oldest first; with `living` only those of living sessions."""
        where = " WHERE state NOT IN ('stopped', 'failed', 'lost')" if living else ""
        rows = self._execute(f"SELECT record FROM sessions{where} ORDER BY started_at, session_id")
        try:
            return [_record(row[0]) for row in rows]
        except sqlite3.Error as problem:
            raise database_error(problem, self._path) from problem

    def names(self) -> list[str]:
        """The names that sessions have."""
        rows = self._execute("SELECT DISTINCT name FROM sessions WHERE name IS NOT NULL")
        return [row[0] for row in rows]

    def put_turns(self, session_id: str, turns: Iterable[TurnRow]) -> None:
        """Store what turns of a session used, replacing those with the same number."""
        for turn in turns:
            used = turn.usage
            self._execute(
                "REPLACE INTO turns VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                (
                    session_id,
                    turn.turn,
                    turn.status,
                    turn.model,
                    turn.ended_at,
                    used.input_tokens,
                    used.output_tokens,
                    used.cache_read_tokens,
                    used.cache_write_tokens,
                    used.reasoning_tokens,
                    turn.cost_usd,
                    turn.cost_source,
                ),
            )

    def turns(self, session_id: str) -> list[TurnRow]:
        """What each finished turn of a session used, oldest first; none for turns that an older
        Bridle drove."""
        rows = self._execute(
            "SELECT * FROM turns WHERE session_id = ? ORDER BY turn", (session_id,)
        )
        return [
            TurnRow(
                turn=row[1],
                status=row[2],
                model=row[3],
                ended_at=row[4],
                usage=Usage(
                    input_tokens=row[5],
                    output_tokens=row[6],
                    cache_read_tokens=row[7],
                    cache_write_tokens=row[8],
                    reasoning_tokens=row[9],
                ),
                cost_usd=row[10],
                cost_source=row[11],
            )
            for row in rows.fetchall()
        ]

    def remove(self, session_id: str) -> None:
        """Delete a record; the caller deletes its folder."""
        self._execute("DELETE FROM sessions WHERE session_id = ?", (session_id,))
        self._execute("DELETE FROM turns WHERE session_id = ?", (session_id,))

    def close(self) -> None:
        """Close the database."""
        self._database.close()

    def __enter__(self) -> "SessionStore":
        return self

    def __exit__(self, *problem: object) -> None:
        self.close()


def find_record(homes: Iterable[StateHome], name: str) -> tuple[StateHome, SessionRecord]:
    """A session's home and its record as last stored, by id, name, or the beginning of an id;
    searches `homes` in their order. Raises `UnknownSession`."""
    names: list[str] = []
    for home in homes:
        if os.path.exists(home.database):
            store = SessionStore(home)
            try:
                return home, store.get(name)
            except AmbiguousSession:
                raise
            except UnknownSession:
                names += store.names()
            finally:
                store.close()
    near = nearest(name, names)
    raise UnknownSession(name, hint=f"did you mean `{near}`?" if near else "")


def _record(text: str) -> SessionRecord:
    return structs.decode(text, SessionRecord)


def database_error(problem: sqlite3.Error, path: str) -> BridleError:
    """The error of the database `path` that could not be read or written."""
    code = getattr(problem, "sqlite_errorcode", None)
    primary = code & 0xFF if code is not None else None
    if primary == sqlite3.SQLITE_FULL:
        return NoRoom(path, str(problem))
    if primary in (sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_CORRUPT):
        return StateUnusable(
            f"{path} is broken ({problem})",
            hint=f"move {path} away, or restore a copy of it; running agents are not touched, and"
            f" what each session said stays in {folder_of(path)}/sessions",
        )
    if primary in (sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_PERM):
        return StateUnusable(
            f"{path} cannot be written ({problem})",
            hint=f"make {folder_of(path)} and the files in it writable{or_usable(path)}",
        )
    if primary in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
        return Unavailable(
            f"{path} is locked by another process ({problem})", hint="try again in a moment"
        )
    if primary == sqlite3.SQLITE_IOERR:
        return Unavailable(
            f"{path} cannot be read or written ({problem})",
            hint=f"check that the disk below {folder_of(path)} works and has room, then try again",
        )
    return Unavailable(f"{path} cannot be used ({problem})", hint="try again")
