"""Panes, transcripts, errors, instructions: the small parts of the runtime opencode."""

import json
import sqlite3
from pathlib import Path

import msgspec
import pytest

from bridle.core.options import HooksDef, OverlayContent
from bridle.core.results import Loading, Ready
from bridle.runtimes import deployment
from bridle.runtimes.install import npm_platform
from bridle.runtimes.opencode import OpenCodeRuntime
from bridle.runtimes.opencode.errors import error_from_event, error_from_stderr
from bridle.runtimes.opencode.product import native_binary
from bridle.runtimes.opencode.transcript import model_of, summarize
from bridle.runtimes.opencode.wire import ErrorData, Problem
from tests.runtimes.opencode.support import TESTDATA


def test_a_blank_screen_is_loading_and_a_talk_is_ready() -> None:
    assert OpenCodeRuntime().detect_ready("\n\n\n") == Loading()
    talk = (TESTDATA / "tui-busy.txt").read_text()
    idle = talk.replace("⬝■■■■■■⬝  esc interrupt", "")
    assert OpenCodeRuntime().detect_ready(idle) == Ready()


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
    exported = summarize(str(TESTDATA / "export.json"))
    stored = summarize(f"{database}#{session}")
    assert exported == stored
    assert stored is not None
    assert (stored.input_tokens, stored.output_tokens, stored.cache_read_tokens) == (210, 60, 90)
    assert stored.model == "lab/scripted"
    assert stored.cost_usd == pytest.approx(0.000339)
    whole = summarize(str(database))
    assert whole is not None
    assert whole.input_tokens == 220
    copy = summarize(f"{database}#ses_copy")
    assert copy is not None
    assert copy.input_tokens == 5
    written = tmp_path / "copy.json"
    export = json.loads((TESTDATA / "export.json").read_text())
    export["info"]["time"]["created"] = export["messages"][-1]["info"]["time"]["created"]
    written.write_text(json.dumps(export))
    part = summarize(str(written))
    assert part is not None
    assert part.input_tokens == export["messages"][-1]["info"]["tokens"]["input"]
    assert model_of(str(database), session) == "lab/scripted"
    assert model_of(str(database), "ses_unknown") is None


def test_what_is_no_transcript_gives_none(tmp_path: Path) -> None:
    broken = tmp_path / "opencode.db"
    broken.write_bytes(b"this is no database at all")
    assert summarize(str(broken)) is None
    assert summarize(str(tmp_path / "missing.db#ses_1")) is None
    assert summarize(str(tmp_path / "missing.json")) is None
    assert not (tmp_path / "missing.db").exists()


@pytest.mark.parametrize(
    ("name", "status", "body", "kind"),
    [
        ("APIError", 401, "", "not_authenticated"),
        ("APIError", 403, "", "not_authenticated"),
        ("APIError", 404, "", "unavailable"),
        ("APIError", 429, "", "rate_limited"),
        ("APIError", 429, '{"error":{"code":"insufficient_quota"}}', "billing"),
        ("APIError", 413, "", "context_overflow"),
        ("APIError", 500, "", "unavailable"),
        ("APIError", 503, "", "overloaded"),
        ("APIError", 529, "", "overloaded"),
        ("ContextOverflowError", None, "", "context_overflow"),
        ("MessageOutputLengthError", None, "", "context_overflow"),
        ("ProviderAuthError", None, "", "not_authenticated"),
        ("MessageAbortedError", None, "", "aborted"),
        ("UnknownError", None, "", "unavailable"),
    ],
)
def test_errors_are_typed(name: str, status: int | None, body: str, kind: str) -> None:
    data = ErrorData(message="it failed", status_code=status, response_body=body)
    assert error_from_event(Problem(name=name, data=data), "p/m").kind == kind


def test_a_reset_time_is_told() -> None:
    data = ErrorData(message="slow", status_code=429, response_headers={"retry-after": "30"})
    assert error_from_event(Problem(name="APIError", data=data)).until is not None


@pytest.mark.parametrize(
    ("stderr", "kind"),
    [
        ("\x1b[91m\x1b[1mError: \x1b[0mSession not found", "resume_refused"),
        ("opencode run [message..]\n\nrun opencode with a message\n", "protocol_drift"),
        ("Error: Model not found: foo/bar", "unavailable"),
        ("Error: Configuration is invalid at x", "crashed"),
        ("segmentation fault", "crashed"),
    ],
)
def test_a_run_that_never_began_is_explained(stderr: str, kind: str) -> None:
    error = error_from_stderr(stderr, 1, "foo/bar")
    assert error is not None
    assert error.kind == kind
    assert "\x1b" not in error.message


def test_silence_is_left_to_the_exit() -> None:
    assert error_from_stderr("", 1) is None
    assert error_from_stderr("text", -9) is None


HOOKS = HooksDef(agent_name="a", capability="builder", worktree_path=".")


def test_the_projects_own_text_stays_in_force(tmp_path: Path) -> None:
    (tmp_path / "AGENTS.md").write_text("# Ours\n")
    (tmp_path / "CLAUDE.md").write_text("not read beside the other\n")
    path, _guard = deployment.deploy(
        OpenCodeRuntime(), str(tmp_path), OverlayContent(content="be brief"), HOOKS
    )
    assert Path(path).read_text().startswith("# Ours\n")
    assert "not read" not in Path(path).read_text()
    assert deployment.withdraw(OpenCodeRuntime(), str(tmp_path))
    assert Path(path).read_text() == "# Ours\n"
    assert not deployment.withdraw(OpenCodeRuntime(), str(tmp_path))


def test_the_program_behind_an_npm_script_is_started(tmp_path: Path) -> None:
    modules = tmp_path / "node_modules"
    script = modules / "opencode-ai" / "bin" / "opencode"
    script.parent.mkdir(parents=True)
    script.write_text("#!/usr/bin/env node\n")
    assert native_binary(str(script)) == str(script)
    program = modules / f"opencode-{npm_platform()}" / "bin" / "opencode"
    program.parent.mkdir(parents=True)
    program.write_bytes(b"\x7fELF")
    program.chmod(0o755)
    assert native_binary(str(script)) == str(program)
    assert native_binary(str(program)) == str(program)


def test_the_dialect_names_its_proof() -> None:
    dialect, seen, warning = OpenCodeRuntime().dialect("1.18.33")
    assert seen
    assert not warning
    assert (TESTDATA / dialect.capture).exists()
    assert "never tested" in OpenCodeRuntime().dialect("1.19.0")[2]
    assert msgspec.json.encode(dialect)
