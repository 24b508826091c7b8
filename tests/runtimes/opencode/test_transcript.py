"""OpenCode's database of sessions: the usage that it records."""

import json
import sqlite3
from pathlib import Path

import pytest

from bridle.runtimes.opencode.transcript import model_of, parse_transcript
from tests.runtimes.opencode.captures import TESTDATA


def _database(path: Path) -> None:
    """A database with what the export of a real session says, in the real tables."""
    export = json.loads((TESTDATA / "export.json").read_text())
    with sqlite3.connect(path) as connection:
        connection.execute(
            "create table message (id text primary key, session_id text not null,"
            " time_created integer not null, time_updated integer not null, data text not null)"
        )
        connection.execute("create table session (id text primary key, time_created integer)")
        own = export["info"]
        sessions = ((own["id"], own["time"]["created"]), ("ses_other", 9), ("ses_copy", 8))
        connection.executemany("insert into session values (?, ?)", sessions)
        for message in export["messages"]:
            info = dict(message["info"])
            made = info["time"]["created"]
            row = (info.pop("id"), info.pop("sessionID"), made, made, json.dumps(info))
            connection.execute("insert into message values (?, ?, ?, ?, ?)", row)
        other = {"role": "assistant", "modelID": "m", "providerID": "p", "tokens": {"input": 5}}
        connection.execute(
            "insert into message values ('x', 'ses_other', 9, 9, ?)", (json.dumps(other),)
        )
        connection.execute("insert into message values ('y', 'ses_other', 9, 9, 'no json')")
        # A copy, which holds what was said before it, and what was said in it.
        for name, made in (("before", 7), ("after", 8)):
            row = (name, "ses_copy", made, made, json.dumps({**other, "time": {"created": made}}))
            connection.execute("insert into message values (?, ?, ?, ?, ?)", row)


def test_an_export_and_the_database_say_the_same(tmp_path: Path) -> None:
    database = tmp_path / "a b" / "opencode.db"
    database.parent.mkdir()
    _database(database)
    session = "ses_e1f7b6a05ffeU7HN7M9DVTaHcE"
    exported = parse_transcript(str(TESTDATA / "export.json"))
    stored = parse_transcript(f"{database}#{session}")
    assert exported == stored
    assert stored is not None
    assert (stored.input_tokens, stored.output_tokens, stored.cache_read_tokens) == (210, 60, 90)
    assert stored.model == "lab/scripted"
    assert stored.cost_usd == pytest.approx(0.000339)
    whole = parse_transcript(str(database))
    assert whole is not None
    assert whole.input_tokens == 220
    copy = parse_transcript(f"{database}#ses_copy")
    assert copy is not None
    assert copy.input_tokens == 5
    written = tmp_path / "copy.json"
    export = json.loads((TESTDATA / "export.json").read_text())
    export["info"]["time"]["created"] = export["messages"][-1]["info"]["time"]["created"]
    written.write_text(json.dumps(export))
    part = parse_transcript(str(written))
    assert part is not None
    assert part.input_tokens == export["messages"][-1]["info"]["tokens"]["input"]
    assert model_of(str(database), session) == "lab/scripted"
    assert model_of(str(database), "ses_unknown") is None
