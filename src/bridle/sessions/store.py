"""The records of sessions: one small SQLite database, shared by every process of the user.

It is an index. What a session said and was told is in its folder, and a record that a crash left
behind is brought up to date from there by the next driver.

The database has a version (`PRAGMA user_version`), the number of the migration steps that it has
had (`_STEPS`). A newer one than this Bridle knows is refused. A record is a document of its own in
the column `record`: a field with a default needs no step, since documents without it still decode.
The files in a session's folder have no version yet, except events, which carry `v`. A version of
the ledger belongs into its `Begin` entries, which start every run; it covers that run's journal.
"""

import os
import sqlite3
from collections.abc import Callable, Iterable
from typing import Any

import msgspec

from bridle.core.errors import ErrorInfo, WrongUse
from bridle.core.events import Drive, SessionState
from bridle.core.options import SandboxMode
from bridle.core.results import CostSource
from bridle.core.spelling import nearest
from bridle.core.usage import Usage
from bridle.sessions.home import StateHome
from bridle.sessions.trouble import StateUnusable, database_error, explained, other_place

SHORTEST = 4
"""Characters that the beginning of a session's id must have to stand for it."""

FINAL: frozenset[SessionState] = frozenset({"stopped", "failed", "lost"})
"""States of a session whose process is gone."""


class UnknownSession(WrongUse):
    """There is no session of that name or id here."""

    def __init__(self, name: str, *, hint: str = "") -> None:
        super().__init__(
            f"no session {name}", hint=hint or "`bridle session list --all` shows those there are"
        )


class AmbiguousSession(UnknownSession):
    """The ids of several sessions begin so."""


def check_name(name: str) -> None:
    """Refuse a name that cannot be one: an empty one would be what an unset variable means."""
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


class OpenQuestion(msgspec.Struct, frozen=True, kw_only=True):
    """A permission request that waits for an answer, secrets removed."""

    request_id: str
    tool_name: str
    args: Any = None
    since: str = ""


class SessionRecord(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of a session without looking into its folder.

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
    """The reason that was given for stopping it; None when nobody stopped it."""
    last_turn: LastTurn | None = None
    """The last finished turn."""
    usage: Usage | None = None
    """Tokens of all its turns; None before the first turn ended."""
    cost_usd: float | None = None
    """Cost of all its turns; None when that is not known."""
    questions: tuple[OpenQuestion, ...] = ()
    """The permission requests that wait, the oldest first."""
    last_activity: str | None = None
    """When it last reported an event, to the second."""
    seq: int = 0
    """The number of the last event that this record takes into account; 0 in a record that an
    older Bridle wrote."""
    parent: str | None = None
    """The session it was forked from or took over."""
    handover: str | None = None
    """How the conversation of `parent` was carried over: `native` or `brief`."""
    sandbox: SandboxMode | None = None
    guard: str | None = None
    """What guards it, `unguarded` when the user chose that; None before it is known."""
    warnings: tuple[str, ...] = ()
    """What its user should know of its last start: above all what the sandbox leaves open."""
    project: str | None = None
    agent: str | None = None
    capability: str | None = None
    task: str | None = None
    actor: str | None = None

    @property
    def is_over(self) -> bool:
        """Whether its process is gone."""
        return self.state in FINAL


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
    """From nothing, or from a database that was made before versions were counted."""
    for statement in _FIRST.split(";"):
        database.execute(statement)


_STEPS: tuple[Callable[[sqlite3.Connection], None], ...] = (_first_tables,)
"""What brings a database from version N to N + 1, at position N. Each is one transaction; steps are
only ever appended."""
SCHEMA_VERSION = len(_STEPS)
_WAIT = 30.0
"""Seconds to wait for another process's write."""


class SessionStore:
    """The records of one state home.

    Contract: every method is one transaction; safe to use from several processes at once, and from
    one thread at a time. A database that cannot be used raises what `trouble` tells: `NoRoom`,
    `StateUnusable` (read-only, broken, of a newer Bridle), `Unavailable` for passing trouble.
    """

    def __init__(self, home: StateHome) -> None:
        self._path = home.database
        with explained(home.root):
            home.make()
            # The file must never be readable by others, not even for a moment.
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
                f"{self._path} is of a newer Bridle (its schema is {found}, this Bridle knows"
                f" {SCHEMA_VERSION})",
                hint="use that newer version of Bridle" + other_place(self._path, "another folder"),
            )

    def _migrate(self) -> None:
        """Take the next step, unless another process does so right now."""
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
        # SQLite has done so itself after some failures, a full disk above all.
        if self._database.in_transaction:
            self._database.execute("ROLLBACK")

    def _execute(self, statement: str, values: tuple[Any, ...] = ()) -> sqlite3.Cursor:
        try:
            return self._database.execute(statement, values)
        except sqlite3.Error as problem:
            raise database_error(problem, self._path) from problem

    def put(self, record: SessionRecord) -> None:
        """Keep a record, in place of the one with its id."""
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
        """Keep a new record; `WrongUse` when a session that lives has its name."""
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
        """The session of that id, or the newest of that name, or the newest whose agent calls its
        conversation so, or the only one whose id begins so (at least `SHORTEST` characters); raises
        `UnknownSession`, and `WrongUse` for no name."""
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
                raise AmbiguousSession(name, hint=f"{len(rows)} ids begin so: {ids}")
            row = rows[0] if rows else None
        if row is None:
            raise UnknownSession(name)
        return _record(row[0])

    def all(self, *, living: bool = False) -> list[SessionRecord]:
        """Every record, the oldest first; with `living` only those whose process should run."""
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

    def remove(self, session_id: str) -> None:
        """Forget a session; its folder is the caller's."""
        self._execute("DELETE FROM sessions WHERE session_id = ?", (session_id,))

    def close(self) -> None:
        """Let the database go."""
        self._database.close()


def find_record(homes: Iterable[StateHome], name: str) -> tuple[StateHome, SessionRecord]:
    """A session's home and its record as it was last written, by id, name, or the beginning of an
    id; looked for in `homes`, in their order. Raises `UnknownSession`."""
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
    return msgspec.json.decode(text, type=SessionRecord)
