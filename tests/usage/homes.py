"""Home folders with session files, made from the captures of every product."""

import json
import shutil
import sqlite3
from pathlib import Path
from typing import Any

from bridle.usage.prices import Prices
from bridle.usage.scans import Found, scan

RUNTIMES = Path(__file__).parents[2] / "src" / "bridle" / "runtimes"


def captured(product: str) -> Path:
    """The captures of a product."""
    return RUNTIMES / product / "testdata"


def place(source: Path, target: Path) -> Path:
    """Copy a capture to where the product would have written it."""
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(source, target)
    return target


def look(home: Path, own: dict[str, Prices] | None = None) -> Found:
    """A scan of `home`, with its index in the same folder."""
    return scan({"HOME": str(home)}, {"HOME": str(home)}, own)


def totals(found: Found) -> tuple[int, int]:
    """Input and output tokens of everything, cached input included."""
    return (
        sum(
            row.input_tokens + row.cache_read_tokens + row.cache_write_tokens for row in found.rows
        ),
        sum(row.output_tokens for row in found.rows),
    )


def claude_line(number: int, *, tokens: int = 100, **changes: Any) -> str:
    """A line of Claude's, of the message `number`."""
    usage = {
        "input_tokens": tokens,
        "output_tokens": 20,
        "cache_read_input_tokens": 0,
        "cache_creation_input_tokens": 0,
    }
    message = {
        "model": "claude-opus-4-8",
        "id": f"msg_{number}",
        "role": "assistant",
        "content": [{"type": "text", "text": "done"}],
        "usage": usage | changes.pop("usage", {}),
    } | changes.pop("message", {})
    line = {
        "parentUuid": None,
        "message": message,
        "requestId": f"req_{number}",
        "type": "assistant",
        "uuid": f"u{number}",
        "timestamp": f"2026-11-15T18:{number // 60:02d}:{number % 60:02d}.000Z",
        "cwd": "/home/dev/app",
    }
    return json.dumps(line | changes, separators=(",", ":"))


def claude_file(home: Path, session: str, *lines: str) -> Path:
    """A session file of Claude's."""
    path = home / ".claude" / "projects" / "-home-dev-app" / f"{session}.jsonl"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{line}\n" for line in lines))
    return path


def opencode_database(home: Path) -> Path:
    """OpenCode's database: a session, its fork with copies of its messages, and a sub-agent's."""
    path = home / ".local" / "share" / "opencode" / "opencode.db"
    path.parent.mkdir(parents=True)
    database = sqlite3.connect(path)
    database.execute("PRAGMA journal_mode = WAL")
    database.execute("CREATE TABLE session (id, directory, parent_id, time_created)")
    database.execute("CREATE TABLE message (id, session_id, time_created, data)")
    database.executemany(
        "INSERT INTO session VALUES (?, ?, ?, ?)",
        [
            ("ses_a", "/home/dev/app", None, 1000),
            ("ses_fork", "/home/dev/app", None, 5000),
            ("ses_sub", "/home/dev/app", "ses_a", 2000),
        ],
    )
    rows = [("m1", "ses_a", 1100), ("m2", "ses_a", 1200)]
    rows += [("c1", "ses_fork", 1100), ("c2", "ses_fork", 1200), ("m3", "ses_fork", 5100)]
    rows += [("m4", "ses_sub", 2100)]
    for key, session, created in rows:
        message = {
            "role": "assistant",
            "providerID": "lab",
            "modelID": "scripted",
            "agent": "explore" if session == "ses_sub" else "build",
            "tokens": {"input": 70, "output": 15, "reasoning": 5, "cache": {"read": 30}},
            "cost": 0.001,
            "time": {"created": created},
        }
        database.execute(
            "INSERT INTO message VALUES (?, ?, ?, ?)", (key, session, created, json.dumps(message))
        )
    database.commit()
    database.close()
    return path
