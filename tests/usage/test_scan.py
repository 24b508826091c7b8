"""Scans: only what changed is read, and one bad file spoils nothing."""

import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from bridle.runtimes import usage_reader
from bridle.usage import index, scans, workers
from bridle.usage.prices import Prices
from tests.usage.homes import claude_file, claude_line, look, opencode_database, totals


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, int]]:
    """Every file that is read, and from which offset."""
    found: list[tuple[str, int]] = []
    usual = usage_reader.Blocks.__init__

    def begin(self: usage_reader.Blocks, path: str, offset: int = 0, check: bytes = b"") -> None:
        found.append((os.path.basename(path), offset))
        usual(self, path, offset, check)

    monkeypatch.setattr(usage_reader.Blocks, "__init__", begin)
    return found


def test_an_unchanged_file_is_not_read_again(
    tmp_path: Path, opened: list[tuple[str, int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    claude_file(tmp_path, "a", claude_line(1))
    first = look(tmp_path)
    assert opened == [("a.jsonl", 0)]
    monkeypatch.setattr(scans, "reader_of", None)  # not even a reader is loaded
    assert look(tmp_path) == first
    assert opened == [("a.jsonl", 0)]


def test_a_grown_file_is_read_from_where_it_ended(
    tmp_path: Path, opened: list[tuple[str, int]]
) -> None:
    path = claude_file(tmp_path, "a", claude_line(1), claude_line(2))
    claude_file(tmp_path, "b", claude_line(9))
    look(tmp_path)
    size = path.stat().st_size
    with path.open("a") as file:
        file.write(claude_line(2, usage={"output_tokens": 30}) + "\n" + claude_line(3) + "\n")
    opened.clear()
    assert totals(look(tmp_path)) == (400, 90)
    assert opened == [("a.jsonl", size)]


def test_a_file_that_was_written_anew_is_read_anew(
    tmp_path: Path, opened: list[tuple[str, int]]
) -> None:
    claude_file(tmp_path, "a", claude_line(1))
    look(tmp_path)
    claude_file(tmp_path, "a", claude_line(4), claude_line(5), claude_line(6))
    opened.clear()
    assert totals(look(tmp_path)) == (300, 60)
    assert opened == [("a.jsonl", 0)]


def test_a_line_that_is_being_written_is_counted_once(tmp_path: Path) -> None:
    path = claude_file(tmp_path, "a", claude_line(1))
    whole = claude_line(2)
    with path.open("a") as file:
        file.write(whole[:200])
    found = look(tmp_path)
    assert totals(found) == (100, 20)
    assert [each.reason for each in found.skipped] == [usage_reader.CUT]
    with path.open("a") as file:
        file.write(whole[200:])
    found = look(tmp_path)  # all there, but for the newline
    assert totals(found) == (200, 40)
    assert found.skipped == []
    with path.open("a") as file:
        file.write("\n" + claude_line(3) + "\n")
    found = look(tmp_path)
    assert totals(found) == (300, 60)
    assert found.skipped == []


def test_a_removed_file_no_longer_counts(tmp_path: Path) -> None:
    claude_file(tmp_path, "a", claude_line(1))
    path = claude_file(tmp_path, "b", claude_line(2))
    look(tmp_path)
    path.unlink()
    assert totals(look(tmp_path)) == (100, 20)


def test_a_change_in_the_log_of_a_database_is_seen(tmp_path: Path) -> None:
    import sqlite3

    path = opencode_database(tmp_path)
    before = look(tmp_path)
    database = sqlite3.connect(path)
    database.execute("PRAGMA wal_autocheckpoint = 0")
    database.execute("DELETE FROM message WHERE id = 'm4'")
    database.commit()
    assert sum(row.requests for row in look(tmp_path).rows) == (
        sum(row.requests for row in before.rows) - 1
    )
    database.close()


def test_new_prices_apply_to_old_files(tmp_path: Path, opened: list[tuple[str, int]]) -> None:
    claude_file(tmp_path, "a", claude_line(1))
    known = sum(row.priced_usd for row in look(tmp_path).rows)
    assert known == pytest.approx((100 * 5 + 20 * 25) / 1e6)
    own = {"claude-opus-4-8": Prices(input=1.0, output=0.0)}
    assert sum(row.priced_usd for row in look(tmp_path, own).rows) == pytest.approx(100 / 1e6)
    assert len(opened) == 1


def test_a_long_line_is_read(tmp_path: Path) -> None:
    big = claude_line(2, message={"content": [{"type": "text", "text": "x" * 20_000_000}]})
    claude_file(tmp_path, "a", claude_line(1), big, claude_line(3))
    found = look(tmp_path)
    assert totals(found) == (300, 60)
    assert found.skipped == []


def test_a_line_beyond_all_bounds_is_left_out_with_a_note(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(usage_reader, "LONGEST_LINE", 1 << 18)
    big = claude_line(2, message={"content": [{"type": "text", "text": "x" * 600_000}]})
    claude_file(tmp_path, "a", claude_line(1), big, claude_line(3))
    found = look(tmp_path)
    assert totals(found) == (200, 40)
    (skipped,) = found.skipped
    assert "over 0 MB" in skipped.reason


def test_garbage_between_lines_is_left_out_with_a_note(tmp_path: Path) -> None:
    path = claude_file(tmp_path, "a", claude_line(1))
    with path.open("ab") as file:
        file.write(b'\x1f\x8b\x08\0\xff"usage":{"output_tokens"\n{"type":"new-kind"}\n')
        file.write(claude_line(2).encode() + b"\n")
    found = look(tmp_path)
    assert totals(found) == (200, 40)
    assert [each.reason for each in found.skipped] == ["1 line could not be read"]


def test_a_file_that_cannot_be_opened_is_named_and_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    claude_file(tmp_path, "a", claude_line(1))
    path = claude_file(tmp_path, "b", claude_line(2))
    usual = os.open

    def refuse(name: str, flags: int, *rest: int) -> int:
        if name == str(path):
            raise PermissionError(13, "Permission denied", name)
        return usual(name, flags, *rest)

    with monkeypatch.context() as patch:
        patch.setattr(os, "open", refuse)
        found = look(tmp_path)
    assert totals(found) == (100, 20)
    assert [(each.path, each.reason) for each in found.skipped] == [
        (str(path), "cannot be read: Permission denied")
    ]
    assert totals(look(tmp_path)) == (200, 40)


def test_a_clock_that_jumps_back_loses_nothing(tmp_path: Path) -> None:
    early = claude_line(2, timestamp="2020-01-01T00:00:00.000Z")
    never = claude_line(3, timestamp="yesterday")
    claude_file(tmp_path, "a", claude_line(1), early, never)
    assert totals(look(tmp_path)) == (300, 60)


def test_an_index_that_is_no_database_is_made_anew(tmp_path: Path) -> None:
    claude_file(tmp_path, "a", claude_line(1))
    database = tmp_path / ".cache/bridle/usage.db"
    database.parent.mkdir(parents=True)
    database.write_bytes(b"not a database at all" * 100)
    assert totals(look(tmp_path)) == (100, 20)
    assert database.read_bytes().startswith(b"SQLite")
    assert database.stat().st_mode & 0o777 == 0o600


def test_without_an_index_the_report_is_the_same(tmp_path: Path) -> None:
    claude_file(tmp_path, "a", claude_line(1))
    (tmp_path / ".cache").write_text("a file where the folder should be")
    assert totals(look(tmp_path)) == (100, 20)
    assert totals(look(tmp_path)) == (100, 20)


def test_several_at_once_give_the_same(tmp_path: Path) -> None:
    for number in range(30):
        claude_file(tmp_path, f"s{number}", *(claude_line(number * 50 + n) for n in range(50)))
    code = (
        "import sys; from tests.usage.homes import look, totals; from pathlib import Path;"
        "print(totals(look(Path(sys.argv[1]))))"
    )
    running = [
        subprocess.Popen(
            [sys.executable, "-c", code, str(tmp_path)], stdout=subprocess.PIPE, text=True
        )
        for _ in range(4)
    ]
    assert {each.communicate()[0] for each in running} == {"(150000, 30000)\n"}


def test_several_processes_give_what_one_gives(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    works = [(f"w{number}", 1000 + number) for number in range(20)]
    monkeypatch.setattr(workers, "_LEAST", 1)
    monkeypatch.setattr(workers, "_cores", lambda: 3)
    monkeypatch.setattr(workers, "_may_fork", lambda: True)
    parent = os.getpid()

    def do(path: str) -> bytes:
        if path == "w7" and os.getpid() != parent:
            os._exit(9)  # killed: the rest of its share is done by the parent
        return path.encode() * 100_000

    found = dict(workers.in_processes(works, do))
    assert found == {path: path.encode() * 100_000 for path, _ in works}


def test_a_program_with_threads_is_not_forked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers, "_LEAST", 1)
    stop = threading.Event()
    thread = threading.Thread(target=stop.wait)
    thread.start()
    monkeypatch.setattr(os, "fork", None)
    try:
        found = dict(workers.in_processes([("a", 9), ("b", 9)], lambda path: path.encode()))
    finally:
        stop.set()
        thread.join()
    assert found == {"a": b"a", "b": b"b"}


def test_the_variables_of_the_user_move_the_files(tmp_path: Path) -> None:
    claude_file(tmp_path, "a", claude_line(1))
    other = tmp_path / "other"
    (tmp_path / ".claude").rename(other)
    env = {"HOME": str(tmp_path)}
    assert totals(scans.scan(env, env)) == (0, 0)
    assert totals(scans.scan({**env, "CLAUDE_CONFIG_DIR": str(other)}, env)) == (100, 20)
    assert totals(scans.scan(env, env)) == (0, 0)


def test_what_is_known_is_private(tmp_path: Path) -> None:
    claude_file(tmp_path, "a", claude_line(1))
    look(tmp_path)
    folder = tmp_path / ".cache/bridle"
    assert folder.stat().st_mode & 0o077 == 0
    assert index.Index({"HOME": str(tmp_path)}).stamps()
