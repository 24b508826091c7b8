"""`bridle usage`: the documented JSON, the table, the filters, and what it refuses."""

import csv
import io
import json
import os
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from tests.cli.session_shell import BRIDLE
from tests.usage.homes import claude_file, claude_line, opencode_database


@pytest.fixture
def home(tmp_path: Path) -> Path:
    claude_file(tmp_path, "s1", claude_line(1), claude_line(2))
    opencode_database(tmp_path)
    return tmp_path


def bridle(home: Path, *words: str, status: int = 0) -> str:
    done = subprocess.run(
        [BRIDLE, "usage", *words],
        capture_output=True,
        text=True,
        cwd=home,
        env={"HOME": str(home), "PATH": os.environ["PATH"], "TZ": "UTC"},
        check=False,
    )
    assert done.returncode == status, done.stderr
    return done.stdout if status == 0 else done.stderr


def report(home: Path, *words: str) -> Any:
    return json.loads(bridle(home, "--json", *words))


def test_the_documented_shape(home: Path) -> None:
    found = report(home, "--by", "runtime")
    assert list(found) == ["by", "rows", "total", "skipped"]
    claude, opencode = found["rows"]
    assert claude == {
        "key": "claude",
        "usage": {
            "input_tokens": 200,
            "output_tokens": 40,
            "cache_read_tokens": 0,
            "cache_write_tokens": 0,
            "reasoning_tokens": 0,
        },
        "requests": 2,
        "cost_usd": 0.002,
        "cost_source": "priced",
        "unpriced_models": [],
    }
    assert (opencode["cost_usd"], opencode["cost_source"]) == (0.004, "provider")
    assert list(found["total"]) == list(claude)[1:]
    assert (found["total"]["cost_usd"], found["total"]["cost_source"]) == (0.006, "mixed")
    assert found["skipped"] == []


@pytest.mark.parametrize(
    ("by", "keys"),
    [
        ("day", ["1970-01-01", "2026-11-15"]),
        ("week", ["1970-W01", "2026-W46"]),
        ("month", ["1970-01", "2026-11"]),
        ("model", ["claude-opus-4-8", "lab/scripted"]),
        ("project", ["/home/dev/app"]),
        ("session", ["s1", "ses_a", "ses_fork"]),
        ("agent", ["explore", "main"]),
    ],
)
def test_rows_are_sorted_by_their_key(home: Path, by: str, keys: list[str]) -> None:
    # The database's messages are of the first seconds of 1970, which are no time at all.
    keys = ["2026" + key[4:] if key.startswith("2026") else key for key in keys]
    found = [row["key"] for row in report(home, "--by", by)["rows"]]
    assert found == sorted("unknown" if key.startswith("1970") else key for key in keys)


def test_filters(home: Path) -> None:
    assert report(home, "--runtime", "claude")["total"]["requests"] == 2
    assert report(home, "--since", "2026-11-15", "--until", "20261115")["total"]["requests"] == 2
    assert report(home, "--since", "2026-11-16")["rows"] == []
    assert report(home, "--until", "2026-11-14", "--runtime", "claude")["rows"] == []
    assert report(home, "--project", "/home/dev")["total"]["requests"] == 6
    assert report(home, "--project", "/home/dev/ap")["total"]["requests"] == 0


def test_an_unknown_price_is_not_zero(home: Path) -> None:
    claude_file(home, "s2", claude_line(7, message={"model": "mystery-1"}))
    rows = {row["key"]: row for row in report(home, "--by", "model")["rows"]}
    mystery = rows["mystery-1"]
    assert (mystery["cost_usd"], mystery["cost_source"]) == (None, "unknown")
    assert mystery["unpriced_models"] == ["mystery-1"]
    total = report(home)["total"]
    assert (total["cost_usd"], total["unpriced_models"]) == (0.006, ["mystery-1"])
    table = bridle(home, "--by", "model")
    assert "without a known price: mystery-1" in table
    assert next(line for line in table.splitlines() if line.startswith("mystery")).endswith("?")


def test_your_own_price_from_the_configuration(home: Path) -> None:
    claude_file(home, "s2", claude_line(7, message={"model": "mystery-1"}))
    (home / ".bridle").mkdir()
    (home / ".bridle/config.yaml").write_text(
        "prices:\n  mystery-1:\n    input: {base: 1, tiers: [[50, 2]]}\n    output: 0\n"
    )
    rows = {row["key"]: row for row in report(home, "--by", "model")["rows"]}
    assert rows["mystery-1"]["cost_usd"] == 0.0002


def test_csv_has_a_row_for_each_key_and_the_total(home: Path) -> None:
    rows = list(csv.DictReader(io.StringIO(bridle(home, "--by", "runtime", "--csv"))))
    assert [row["runtime"] for row in rows] == ["claude", "opencode", "total"]
    assert rows[-1]["cost_usd"] == "0.006"


def test_the_table_has_all_rows_and_the_total(home: Path) -> None:
    lines = bridle(home, "--by", "model").splitlines()
    assert lines[0].split() == [
        "model",
        "input",
        "output",
        "cache",
        "read",
        "cache",
        "write",
        "requests",
        "cost",
    ]
    assert lines[1].split()[0] == "claude-opus-4-8"
    assert lines[-1].split()[0] == "total"
    assert lines[-1].split()[-1] == "$0.0060"


def test_nothing_used_says_so(tmp_path: Path) -> None:
    assert bridle(tmp_path) == "nothing was used\n"


def test_another_home(home: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    claude_file(other, "x", claude_line(9))
    assert report(home, "--home", str(other))["total"]["requests"] == 1


@pytest.mark.parametrize(
    ("words", "what"),
    [
        (("--by", "hour"), "hour"),
        (("--since", "tomorrowish"), "not a day or time"),
        (("--runtime", "cluade"), "claude"),
        (("--home", "/no/such/folder"), "no such folder"),
        (("--json", "--csv"), "exclude each other"),
    ],
)
def test_wrong_use_is_refused(home: Path, words: tuple[str, ...], what: str) -> None:
    assert what in bridle(home, *words, status=2)


def test_follow_prints_again_when_something_changes(home: Path) -> None:
    path = home / ".claude/projects/-home-dev-app/s1.jsonl"
    running = subprocess.Popen(
        [BRIDLE, "usage", "--by", "runtime", "--follow", "--json"],
        stdout=subprocess.PIPE,
        text=True,
        cwd=home,
        env={"HOME": str(home), "PATH": os.environ["PATH"]},
    )
    assert running.stdout is not None
    try:
        assert json.loads(running.stdout.readline())["total"]["requests"] == 6
        with path.open("a") as file:
            file.write(claude_line(3) + "\n")
        began = time.monotonic()
        assert json.loads(running.stdout.readline())["total"]["requests"] == 7
        assert time.monotonic() - began < 60
    finally:
        running.terminate()
        running.wait(30)
        running.stdout.close()
