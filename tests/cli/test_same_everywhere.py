"""One script through every runtime, by the command line: the same events, sums, text and file."""

import json
import os
import shutil
import signal
import subprocess
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from bridle.process.process_tree import marked_processes
from tests.support.clis import PINS
from tests.support.real_cli import real_cli

# Codex refuses to keep its files below the system's folder for temporary ones.
SCRATCH = Path(__file__).parents[2] / ".tmp" / "everywhere"
SCRIPT = """\
- text: I will write the file.
  shell: "echo hi > hello.txt"
  usage: {input_tokens: 100, output_tokens: 20}
- text: |-
    All is written.
    ORCHESTRA_COMPLETE
  usage: {input_tokens: 200, output_tokens: 10}
"""
EVENTS = [
    "session_start",
    "state",
    "agent_start",
    "message_start",
    "text_start",
    "text_delta",
    "text_end",
    "message_end",
    "tool_execution_start",
    "tool_execution_end",
    "message_start",
    "text_start",
    "text_delta",
    "text_end",
    "message_end",
    "usage",
    "agent_end",
    "state",
    "session_end",
    "run_end",
]
RUNTIMES = ("claude", "codex", "gemini", "opencode", "pi")
AGENTS = [
    ("scripted", ""),
    *((pin.name, pin.version) for pin in PINS if pin.name in RUNTIMES),
]


class Scene(msgspec.Struct, frozen=True, kw_only=True):
    """A repository, a home, and a scripted model that was started by the command line."""

    repo: Path
    env: dict[str, str]


def bridle(*words: str) -> list[str]:
    return [sys.executable, "-m", "bridle", *words]


@pytest.fixture
def scene() -> Iterator[Scene]:
    root = SCRATCH / uuid.uuid4().hex[:12]
    repo, home = root / "repo", root / "home"
    (repo / ".bridle").mkdir(parents=True)
    home.mkdir()
    env = {"PATH": os.environ["PATH"], "HOME": str(home), "LANG": "C.UTF-8", "TERM": "xterm"}
    subprocess.run(["git", "init", "-q"], cwd=repo, env=env, check=True)
    (root / "script.yaml").write_text(SCRIPT)
    server = subprocess.Popen(
        bridle("model-server", str(root / "script.yaml"), "--json"),
        stdout=subprocess.PIPE,
        env=env,
        text=True,
    )
    try:
        assert server.stdout is not None
        told = json.loads(server.stdout.readline())
        yield Scene(repo=repo, env={**env, **told["env"]})
    finally:
        server.send_signal(signal.SIGTERM)
        server.communicate(timeout=30)
        shutil.rmtree(root, ignore_errors=True)


def run(scene: Scene, *words: str) -> tuple[int, list[dict[str, Any]]]:
    done = subprocess.run(
        bridle("run", "Write the file.", "--permission", "bypass", "--timeout", "90", *words),
        cwd=scene.repo,
        env=scene.env,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=110,
    )
    assert "Traceback" not in done.stderr
    return done.returncode, [json.loads(line) for line in done.stdout.splitlines()]


def names_of(lines: list[dict[str, Any]]) -> list[str]:
    """Types of the events, several deltas of one text counted as one."""
    names = [line.get("kind") or line["type"] for line in lines if line["type"] != "unknown"]
    return [
        name
        for name, before in zip(names, ["", *names], strict=False)
        if not (name == before == "text_delta")
    ]


@pytest.mark.real_cli
@pytest.mark.parametrize(("name", "version"), AGENTS)
def test_one_script_gives_the_same_everywhere(scene: Scene, name: str, version: str) -> None:
    if version:
        section = {"adapters": {name: {"binary": str(real_cli(name, version))}}}
        # JSON is YAML.
        (scene.repo / ".bridle/config.yaml").write_text(json.dumps({"runtime": section}))
    status, lines = run(scene, "--runtime", name, "--stream-json")
    result = lines[-1]
    assert result["error"] is None
    assert status == 0
    assert names_of(lines) == EVENTS
    assert (result["runtime"], result["status"]) == (name, "completed")
    assert result["runtime_version"] == version or not version
    assert result["text"] == "All is written.\nORCHESTRA_COMPLETE"
    assert result["marker_detected"] is True
    assert result["usage"] == {
        "input_tokens": 300,
        "output_tokens": 30,
        "cache_read_tokens": 0,
        "cache_write_tokens": 0,
        "reasoning_tokens": 0,
    }
    assert (scene.repo / "hello.txt").read_text() == "hi\n"
    assert marked_processes(result["session_id"]) == []


def test_plain_json_says_the_same(scene: Scene) -> None:
    status, (result,) = run(scene, "--runtime", "scripted", "--json")
    assert (status, result["status"], result["usage"]["output_tokens"]) == (0, "completed", 30)
