"""The index of session files: what each said when it was last read.

One private SQLite file in the user's cache folder. A file that has not changed since is never read
again, and one that has grown only from where it was read to. When no file has changed, the sums of
the last report are used. Several Bridles may use it at once; without it (a full disk, no
permission, another program's file) reports are the same, only slower.
"""

import contextlib
import os
import sqlite3
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import msgspec

from bridle._version import __version__
from bridle.core import files, structs
from bridle.runtimes.usage_reader import CUT, Part, Reading, Tail

_SCHEMA = 1
_BUSY_SECONDS = 5.0
_TABLES = """
CREATE TABLE IF NOT EXISTS file (
    path TEXT PRIMARY KEY, reader TEXT NOT NULL, stamp TEXT NOT NULL, data BLOB NOT NULL
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS report (scope TEXT PRIMARY KEY, data BLOB NOT NULL);
"""


class Known(msgspec.Struct, array_like=True):
    """What is known of a file."""

    parts: list[Part] = []
    tail: Tail | None = None
    notes: tuple[str, ...] = ()
    loose: int = 0
    refused: str = ""
    """Why it says nothing; empty if it does."""

    def extended(self, reading: Reading) -> "Known":
        """With what the file says after the tail."""
        parts = self.parts
        if self.loose and parts:
            del parts[-1].requests[-self.loose :]
        for new in reading.parts:
            same = next(
                (old for old in parts if (old.session, old.agent) == (new.session, new.agent)), None
            )
            if same is None:
                parts.append(new)
                continue
            ids = {each.id for each in new.requests if each.id}
            # The last line of a message counts, and what a file inherits stays so.
            kept = [each for each in same.requests if not each.id or each.id not in ids]
            same.requests = kept + new.requests
        notes = tuple(note for note in self.notes if note != CUT) + reading.notes
        return Known(parts, reading.tail, notes, reading.loose)


class Index:
    """The stored knowledge about files and reports.

    Contract: never raises for a database that cannot be used; then nothing is known and nothing is
    kept.
    """

    def __init__(self, env: Mapping[str, str]) -> None:
        self._path = os.path.join(files.cache_dir(env), "usage.db")
        self._database: sqlite3.Connection | None = None
        with contextlib.suppress(OSError, sqlite3.Error):
            files.make_private_dir(os.path.dirname(self._path))
            try:
                self._open()
            except sqlite3.DatabaseError as problem:
                if isinstance(problem, sqlite3.OperationalError):
                    raise  # locked or unreachable; it may be fine
                self.close()
                os.unlink(self._path)  # not a database: it can be made again
                self._open()

    def _open(self) -> None:
        os.close(os.open(self._path, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, files.PRIVATE_FILE))
        database = sqlite3.connect(self._path, timeout=_BUSY_SECONDS, isolation_level=None)
        self._database = database
        (found,) = database.execute("PRAGMA user_version").fetchone()
        if found != _SCHEMA:
            database.execute("PRAGMA journal_mode = WAL")
            database.executescript(
                "DROP TABLE IF EXISTS file; DROP TABLE IF EXISTS report;"
                f"{_TABLES} PRAGMA user_version = {_SCHEMA};"
            )
        database.execute("PRAGMA synchronous = OFF")  # it can be made again

    def close(self) -> None:
        """Close the database."""
        if self._database is not None:
            self._database.close()
            self._database = None

    def report(self, scope: str) -> bytes | None:
        """What was kept for `scope`."""
        found = self._rows("SELECT data FROM report WHERE scope = ?", (f"{__version__} {scope}",))
        return next((data for (data,) in found), None)

    def keep_report(self, scope: str, data: bytes) -> None:
        """Keep `data` for `scope`."""
        self._write([("REPLACE INTO report VALUES (?, ?)", [(f"{__version__} {scope}", data)])])

    def stamps(self) -> dict[str, tuple[str, str]]:
        """Of each known file: which reader read it, and its stamp then."""
        found = self._rows("SELECT path, reader, stamp FROM file", ())
        return {path: (reader, stamp) for path, reader, stamp in found}

    def known(self, path: str) -> Known | None:
        """What is known of a file."""
        for (data,) in self._rows("SELECT data FROM file WHERE path = ?", (path,)):
            with contextlib.suppress(msgspec.MsgspecError):
                return structs.unpack(data, Known)
        return None

    def keep(self, read: Iterable[tuple[str, str, str, bytes]], gone: Iterable[str]) -> None:
        """Keep what files said: path, reader, stamp, encoded `Known`; forget files."""
        self._write(
            [
                ("REPLACE INTO file VALUES (?, ?, ?, ?)", list(read)),
                ("DELETE FROM file WHERE path = ?", [(path,) for path in gone]),
            ]
        )

    def _rows(self, query: str, values: tuple[str, ...]) -> Iterator[tuple[Any, ...]]:
        if self._database is None:
            return
        try:
            yield from self._database.execute(query, values)
        except sqlite3.Error:
            return

    def _write(self, work: list[tuple[str, list[tuple[Any, ...]]]]) -> None:
        if self._database is None or not any(rows for _, rows in work):
            return
        try:
            self._database.execute("BEGIN IMMEDIATE")
            try:
                for statement, rows in work:
                    self._database.executemany(statement, rows)
            finally:
                self._database.execute("COMMIT")
        except sqlite3.Error:
            return
