"""The database of records: its version, its migrations, and the ways in which it cannot be used."""

import errno
import os
import resource
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import msgspec
import pytest

from bridle.core.errors import Unavailable
from bridle.sessions import store as stores
from bridle.sessions.home import NoRoom, StateHome, StateUnusable, state_error, user_home
from bridle.sessions.store import SCHEMA_VERSION, SessionRecord, SessionStore

RECORD = SessionRecord(session_id="s-1", name="one", runtime="scripted", started_at="2026-01-01")

BEFORE_VERSIONS = """
CREATE TABLE sessions (
    session_id TEXT PRIMARY KEY,
    name TEXT,
    state TEXT NOT NULL,
    workdir TEXT NOT NULL,
    started_at TEXT NOT NULL,
    record TEXT NOT NULL
);
CREATE INDEX sessions_by_name ON sessions (name);
CREATE INDEX sessions_by_state ON sessions (state);
"""
"""The database as it was made before it had a version."""


@pytest.fixture
def home(tmp_path: Path) -> StateHome:
    return StateHome(str(tmp_path / "state"))


def version_in(home: StateHome) -> int:
    database = sqlite3.connect(home.database)
    try:
        return int(database.execute("PRAGMA user_version").fetchone()[0])
    finally:
        database.close()


def make_first_version(home: StateHome) -> None:
    home.make()
    database = sqlite3.connect(home.database)
    database.executescript(BEFORE_VERSIONS)
    # A field that no version knows any more, and many that were not known then.
    document = {"session_id": "s-1", "name": "one", "runtime": "scripted", "gone": 1}
    database.execute(
        "INSERT INTO sessions VALUES ('s-1', 'one', 'stopped', '/', '2026-01-01', ?)",
        (msgspec.json.encode(document).decode(),),
    )
    database.commit()
    database.close()


# -- versions -------------------------------------------------------------------------------------


def test_a_new_database_has_the_version(home: StateHome) -> None:
    SessionStore(home).close()
    assert version_in(home) == SCHEMA_VERSION
    assert os.stat(home.database).st_mode & 0o777 == 0o600


def test_a_database_from_before_versions_is_taken_over(home: StateHome) -> None:
    make_first_version(home)
    store = SessionStore(home)
    assert store.get("one").session_id == "s-1"
    store.close()
    assert version_in(home) == SCHEMA_VERSION


def test_a_newer_database_is_refused_and_left_as_it_is(home: StateHome) -> None:
    make_first_version(home)
    database = sqlite3.connect(home.database)
    database.execute("PRAGMA user_version = 99")
    database.close()
    before = Path(home.database).read_bytes()
    with pytest.raises(StateUnusable) as refused:
        SessionStore(home)
    assert "newer" in refused.value.message
    assert home.database in refused.value.message
    assert refused.value.exit_code == 2
    assert Path(home.database).read_bytes() == before


def _add_column(database: sqlite3.Connection) -> None:
    # Taken twice it fails.
    database.execute("ALTER TABLE sessions ADD COLUMN kept TEXT")
    database.execute("UPDATE sessions SET kept = session_id")


def test_many_processes_migrate_at_once(home: StateHome, monkeypatch: pytest.MonkeyPatch) -> None:
    make_first_version(home)
    monkeypatch.setattr(stores, "_STEPS", (*stores._STEPS, _add_column))
    monkeypatch.setattr(stores, "SCHEMA_VERSION", SCHEMA_VERSION + 1)

    def use(number: int) -> str:
        store = SessionStore(home)
        try:
            store.put(msgspec.structs.replace(RECORD, session_id=f"t-{number}", name=None))
            return store.get("one").session_id
        finally:
            store.close()

    with ThreadPoolExecutor(8) as pool:
        assert set(pool.map(use, range(16))) == {"s-1"}
    assert version_in(home) == SCHEMA_VERSION + 1
    store = SessionStore(home)
    assert len(store.all()) == 17
    store.close()


def test_a_step_that_fails_changes_nothing(
    home: StateHome, monkeypatch: pytest.MonkeyPatch
) -> None:
    SessionStore(home).close()

    def fails(database: sqlite3.Connection) -> None:
        _add_column(database)
        database.execute("SELECT * FROM no_such_table")

    with monkeypatch.context() as patched:
        patched.setattr(stores, "_STEPS", (*stores._STEPS, fails))
        patched.setattr(stores, "SCHEMA_VERSION", SCHEMA_VERSION + 1)
        with pytest.raises(Unavailable):
            SessionStore(home)
    assert version_in(home) == SCHEMA_VERSION
    store = SessionStore(home)
    store.put(RECORD)
    assert store.get("one") == RECORD
    store.close()


# -- trouble --------------------------------------------------------------------------------------


def test_a_full_database_is_no_room_and_works_again(home: StateHome) -> None:
    store = SessionStore(home)
    pages = store._database.execute("PRAGMA page_count").fetchone()[0]
    store._database.execute(f"PRAGMA max_page_count = {pages}")
    large = msgspec.structs.replace(RECORD, evidence="x" * 100_000)
    with pytest.raises(NoRoom) as full:
        store.add(large)
    assert home.database in full.value.message
    assert "free some disk space" in full.value.hint
    assert full.value.info().kind == "unavailable"
    store._database.execute("PRAGMA max_page_count = 100000")
    store.add(large)
    assert store.get("one") == large
    store.close()


@pytest.mark.parametrize("number", ["ENOSPC", "EDQUOT", "EROFS", "EACCES", "ENOTDIR"])
def test_what_the_system_refuses_has_a_path_and_a_hint(number: str) -> None:
    import errno

    problem = OSError(getattr(errno, number), "refused", "/some/state/file")
    error = state_error(problem, "/some/state")
    assert "/some/state/file" in error.message
    assert "/some/state" in error.hint
    assert error.exit_code == (1 if isinstance(error, NoRoom) else 2)


COMMANDS = (["session", "list"], ["session", "start", "--runtime", "scripted"], ["daemon", "start"])


def bridle(words: list[str], prepare: Callable[[], None] | None = None) -> tuple[int, str]:
    """The exit status of a command that must fail, and what it wrote to stderr."""
    done = subprocess.run(
        [sys.executable, "-m", "bridle", *words],
        capture_output=True,
        text=True,
        timeout=120,
        preexec_fn=prepare,
        check=False,
    )
    error, hint = done.stderr.splitlines()
    assert error.startswith("bridle: error: ")
    assert hint.startswith("hint: ")
    assert "bug in bridle" not in error
    assert "Traceback" not in done.stderr
    assert "daemon.log" not in hint
    return done.returncode, done.stderr


@pytest.mark.parametrize("words", COMMANDS)
def test_a_broken_database_is_named(words: list[str]) -> None:
    home = user_home(os.environ)
    home.make()
    Path(home.database).write_bytes(b"no database, " * 1000)
    status, said = bridle(words)
    assert status == 2
    assert f"{home.database} is broken" in said
    assert f"move {home.database} away" in said


@pytest.mark.parametrize("words", COMMANDS)
def test_a_newer_database_is_named(words: list[str]) -> None:
    home = user_home(os.environ)
    SessionStore(home).close()
    database = sqlite3.connect(home.database)
    database.execute("PRAGMA user_version = 99")
    database.close()
    status, said = bridle(words)
    assert status == 2
    assert "newer Bridle" in said


@pytest.mark.parametrize("words", COMMANDS)
def test_no_room_for_a_single_byte(words: list[str]) -> None:
    SessionStore(user_home(os.environ)).close()

    def no_files() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))

    status, said = bridle(words, no_files)
    assert status == 1
    assert user_home(os.environ).root in said


@pytest.mark.parametrize("words", COMMANDS[1:])
def test_a_state_folder_that_cannot_be_made(
    words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "file"))
    status, said = bridle(words)
    assert status == 2
    assert str(tmp_path / "file") in said


def test_another_folder_is_offered_only_where_it_would_be_used() -> None:
    """The state of a project stays in the project, whatever the environment says."""
    refused = OSError(errno.EROFS, "Read-only file system")
    assert "XDG_STATE_HOME" in state_error(refused, "/home/me/.local/state/bridle").hint
    assert state_error(refused, "/repo/.bridle/state").hint == "make /repo/.bridle/state writable"


READ_ONLY = """
import hashlib, os, sys
import bridle.cli, bridle.cli.daemon, bridle.cli.session, bridle.cli.output
import bridle.sessions.client, bridle.sessions.manager, bridle.sessions.home, bridle.config
import bridle.runtimes.registry
bridle.runtimes.registry.get_adapter("scripted")
if os.geteuid() == 0:
    os.setgroups([]); os.setgid(65534); os.setuid(65534)
sys.exit(bridle.cli.run(sys.argv[1:]))
"""
"""The command line as somebody who is not root: to root nothing is read-only."""


@pytest.mark.parametrize("words", COMMANDS)
def test_a_read_only_state_folder(words: list[str], tmp_path: Path) -> None:
    for folder in (tmp_path, *tmp_path.parents):
        if os.stat(folder).st_uid == os.geteuid() and "pytest" in str(folder):
            folder.chmod(0o755)
    SessionStore(StateHome(str(tmp_path / "home" / "bridle"))).close()
    (tmp_path / "home" / "bridle").chmod(0o555)
    env = {**os.environ, "XDG_STATE_HOME": str(tmp_path / "home"), "HOME": str(tmp_path)}
    env |= {"XDG_CONFIG_HOME": str(tmp_path), "XDG_CACHE_HOME": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-c", READ_ONLY, *words],
        env=env,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 2, done.stderr
    error, hint = done.stderr.splitlines()
    assert "cannot be written" in error
    assert str(tmp_path / "home" / "bridle") in error
    assert "make " in hint
