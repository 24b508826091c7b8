"""One script file, every runtime, through the real command: the same events, usage and file."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from bridle.drives.processes import marked_processes
from bridle.testing import ScriptedModel
from tests.support.clis import PINS
from tests.support.real_cli import real_cli

SCRIPT = """
- text: I will write the file.
  shell: "echo hi > hello.txt"
  usage: {input_tokens: 100, output_tokens: 20, cache_read_tokens: 30}
- text: Done. ORCHESTRA_COMPLETE
  usage: {input_tokens: 200, output_tokens: 10}
"""
TRACE = [
    "session_start",
    "state",
    "agent_start",
    "message_start",
    "message_update",
    "message_update",
    "message_update",
    "message_end",
    "tool_execution_start",
    "tool_execution_end",
    "message_start",
    "message_update",
    "message_update",
    "message_update",
    "message_end",
    "usage",
    "agent_end",
    "state",
    "session_end",
    "run_end",
]
RUNTIMES = [("scripted", "")] + [
    (pin.name, pin.version) for pin in PINS if pin.name in ("claude", "codex", "pi")
]


class Ran(NamedTuple):
    """What one `bridle run` printed and how it ended."""

    status: int
    lines: list[dict[str, Any]]


@pytest.fixture
def worktree(tmp_path: Path) -> Path:
    folder = tmp_path / "work"
    subprocess.run(["git", "init", "-q", str(folder)], check=True)
    return folder


def bridle_run(
    name: str, version: str, url: str, key: str, home: Path, worktree: Path, *words: str
) -> Ran:
    """`bridle run` with nothing but a home, a PATH and the scripted model's address."""
    env = {
        "PATH": os.environ["PATH"],
        "HOME": str(home),
        "TERM": "dumb",
        "LANG": "C.UTF-8",
        "BRIDLE_MODEL_SERVER": url,
        "BRIDLE_MODEL_SERVER_KEY": key,
    }
    if version:
        config = home / ".config/bridle/config.yaml"
        config.parent.mkdir(parents=True, exist_ok=True)
        binary = real_cli(name, version)
        config.write_text(f"runtime:\n  adapters:\n    {name}:\n      binary: {binary}\n")
    command = [str(Path(sys.executable).parent / "bridle"), "run", "write the file"]
    command += ["--runtime", name, "--permission", "bypass", "--cwd", str(worktree), *words]
    done = subprocess.run(
        command, env=env, stdin=subprocess.DEVNULL, capture_output=True, timeout=110, check=False
    )
    return Ran(done.returncode, [json.loads(line) for line in done.stdout.splitlines()])


@pytest.mark.real_cli
@pytest.mark.parametrize(("name", "version"), RUNTIMES)
def test_the_same_script_gives_the_same_events(
    name: str, version: str, private_home: Path, worktree: Path
) -> None:
    with ScriptedModel(SCRIPT) as model:
        ran = bridle_run(
            name, version, model.url, model.api_key, private_home, worktree, "--stream-json"
        )
        model.assert_finished()
    assert [line["type"] for line in ran.lines] == TRACE
    end = ran.lines[-1]
    assert (ran.status, end["status"], end["error"]) == (0, "completed", None)
    assert end["text"] == "Done. ORCHESTRA_COMPLETE"
    assert end["marker_detected"] is True
    assert end["usage"] == {
        "input_tokens": 300,
        "output_tokens": 30,
        "cache_read_tokens": 30,
        "cache_write_tokens": 0,
        "reasoning_tokens": 0,
    }
    assert (worktree / "hello.txt").read_text() == "hi\n"
    assert marked_processes(end["session_id"]) == []


@pytest.mark.real_cli
@pytest.mark.parametrize(("name", "version"), RUNTIMES)
def test_a_refused_key_is_the_same_failure_everywhere(
    name: str, version: str, private_home: Path, worktree: Path
) -> None:
    with ScriptedModel("- fault: {kind: authentication}") as model:
        ran = bridle_run(name, version, model.url, model.api_key, private_home, worktree, "--json")
    (end,) = ran.lines
    assert (ran.status, end["status"], end["error"]["kind"]) == (5, "failed", "not_authenticated")
    assert end["error"]["hint"]
    assert marked_processes(end["session_id"]) == []
