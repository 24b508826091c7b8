"""The brief for another agent: what it needs, within its size, and honest about the rest."""

from pathlib import Path
from typing import Any

import pytest

from bridle.core.errors import Overloaded
from bridle.sessions.handover import SIZE, brief, commands_of, files_of
from bridle.sessions.history import ToolUse
from tests.support.sessions import MadeSession, live_session

PATCH = "*** Begin Patch\n*** Update File: a.py\n@@\n-x\n+y\n*** Add File: b.py\n*** End Patch"


@pytest.mark.parametrize(
    ("name", "args", "files"),
    [
        ("Edit", {"file_path": "/w/src/a.py", "old_string": "x"}, {"src/a.py": "changed"}),
        ("Read", {"file_path": "/elsewhere/a.py"}, {"/elsewhere/a.py": "read"}),
        ("write", {"path": "out.txt", "content": "to.txt"}, {"out.txt": "changed"}),
        ("apply_patch", {"input": PATCH}, {"a.py": "changed", "b.py": "changed"}),
        (
            "file_change",
            {"changes": [{"path": "/w/x.py", "kind": "add"}, {"path": "y.py", "kind": "update"}]},
            {"x.py": "changed", "y.py": "changed"},
        ),
        ("str_replace_editor", {"command": "view", "path": "a"}, {"a": "read"}),
        ("str_replace_editor", {"command": "create", "path": "a"}, {"a": "changed"}),
        ("Bash", {"command": "rm a", "path": "a"}, {}),
        ("WebFetch", {"url": "https://example.com"}, {}),
        ("lookup_thing", {"path": "a"}, {"a": "read"}),
        ("odd", "text", {}),
    ],
)
def test_the_files_that_a_call_names(name: str, args: Any, files: dict[str, str]) -> None:
    assert files_of(ToolUse(id="t", name=name, args=args), "/w") == files


def test_a_call_that_failed_changed_nothing() -> None:
    tool = ToolUse(id="t", name="Write", args={"file_path": "a"}, is_error=True)
    assert files_of(tool, "/w") == {"a": "read"}


def test_the_commands_that_a_call_runs() -> None:
    assert commands_of(ToolUse(id="t", name="Bash", args={"command": "ls"})) == ["ls"]
    listed = ToolUse(id="t", name="shell", args={"command": ["bash", "-lc", "ls"]})
    assert commands_of(listed) == ["bash -lc ls"]
    assert commands_of(ToolUse(id="t", name="command_execution", args={"command": "ls"})) == ["ls"]
    assert commands_of(ToolUse(id="t", name="Read", args={"command": "ls"})) == []


def test_a_brief_tells_all_of_a_short_session(tmp_path: Path) -> None:
    made = MadeSession(tmp_path, state="failed", evidence="process exited 1", task="bd-7")
    made.ask("m1", "Fix the parser. api_key=abcdef123456")
    made.say("I look.", thinking="secret thoughts")
    made.use("t1", "Read", {"file_path": "/w/parser.py"}, "def parse(): ...")
    made.use("t2", "Edit", {"file_path": "/w/parser.py"}, "ok")
    made.use("t3", "Bash", {"command": "pytest -q"}, "1 failed")
    made.say("The parser is fixed.")
    made.end_turn()
    made.ask("m2", "Now the lexer.")
    made.say("On it.")
    made.recorder.fail(Overloaded("no capacity"))
    made.end_turn()
    made.accept("m3", "And hurry.")
    text = brief(made.home, made.record)
    said = [
        "taken over from codex",
        "- Working directory: /w",
        "2 turns, 3 tool calls",
        "- Task: bd-7",
        "## What was asked",
        "1. Fix the parser. api_key=[redacted:value]",
        "2. Now the lexer.",
        "## What was done",
        "- Turn 1 completed: The parser is fixed.",
        "- Turn 2 failed (overloaded: no capacity): On it.",
        "## Files",
        "- parser.py (changed)",
        "- `pytest -q`",
        "## Current state",
        "The session is failed (process exited 1).",
        "The last turn failed: overloaded: no capacity.",
        "Messages of the user that never reached the agent:",
        "And hurry.",
        "## The end of the transcript",
        "USER: Fix the parser.",
        'TOOL Edit { "file_path": "/w/parser.py" }',
        "gave: 1 failed",
        "## What is not in this brief",
        "- The agent's reasoning.",
        "## Now",
    ]
    at = 0
    for words in said:
        found = text.find(words, at)
        assert found >= 0, f"{words!r} does not follow in\n{text[at:]}"
        at = found + len(words)
    assert "secret thoughts" not in text
    assert "entries of the transcript" not in text


def test_an_unfinished_turn_is_told(tmp_path: Path) -> None:
    made = MadeSession(tmp_path, state="lost")
    made.ask("m1", "Do it.")
    made.say("I begin.")
    assert "Turn 1 was not finished" in brief(made.home, made.record)


@pytest.mark.parametrize("size", [100, 6_000, 9_000, SIZE])
def test_a_brief_keeps_its_size_and_says_what_is_left_out(tmp_path: Path, size: int) -> None:
    made = MadeSession(tmp_path)
    for n in range(40):
        made.ask(f"m{n}", f"Request {n}. " + "words " * 500)
        made.use(f"t{n}", "Write", {"file_path": f"/w/file{n}.py"}, "x" * 5_000)
        made.say(f"Answer {n}. " + "more " * 400)
        made.end_turn()
    text = brief(made.home, made.record, size=size)
    assert len(text) <= max(size, 6_000)
    assert "1. Request 0." in text, "what it all began with"
    assert "40. Request 39." in text, "what it came to"
    assert "Turn 40 completed: Answer 39." in text
    assert "messages left out" in text
    assert "of 120 entries of the transcript, the oldest." in text
    assert text.rstrip().endswith("finish it.")


def test_a_session_in_which_nothing_happened(tmp_path: Path) -> None:
    made = MadeSession(tmp_path)
    text = brief(made.home, made.record)
    assert "The session is starting." in text
    assert "## What was asked" not in text


def test_a_brief_of_a_real_session(tmp_path: Path) -> None:
    script = [{"text": "I write.", "shell": "echo hi > made.txt"}, {"text": "It is written."}]
    with live_session(tmp_path, script) as live:
        live.send("Write the file.")
        live.wait_idle()
        live.leave()
        text = brief(live.home, live.record)
    assert "1. Write the file." in text
    assert "- Turn 1 completed: It is written." in text
    assert "echo hi > made.txt" in text
    assert "The session is stopped" in text
