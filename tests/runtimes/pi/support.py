"""What the tests of the runtime pi share: feeding captures, and running the real CLI."""

import json
import os
import shutil
import subprocess
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from bridle.core.events import Event
from bridle.core.options import ModelServer, RunOptions
from bridle.core.results import RunResult
from bridle.process.process_tree import marked_processes
from bridle.process.spec import ProcessExit
from bridle.runs import Prepared, prepare
from bridle.runtimes.contract import AdapterSettings
from bridle.runtimes.pi import PiRuntime
from bridle.runtimes.pi.stream import PiNormalizer
from bridle.testing import ScriptedModel
from bridle.turns.recorder import Recorder
from tests.support.real_cli import real_cli

TESTDATA = Path(__file__).parents[3] / "src" / "bridle" / "runtimes" / "pi" / "testdata"
SCRATCH = Path(__file__).parents[3] / ".tmp" / "pi"


def capture_lines(name: str) -> list[bytes]:
    """The lines that Pi printed in a capture; of a dialogue, its side of it."""
    lines = []
    for line in (TESTDATA / name).read_bytes().split(b"\n"):
        if not line:
            continue
        data = json.loads(line)
        if "dir" not in data:
            lines.append(line)
        elif data["dir"] == "out" and data["msg"].get("type") != "response":
            lines.append(json.dumps(data["msg"]).encode())
    return lines


def play(
    lines: list[bytes],
    *,
    settles: bool = True,
    code: int | None = 0,
    stderr: str = "",
    resumed: str | None = None,
    fork: bool = False,
    **options: Any,
) -> tuple[list[Event], RunResult]:
    """The events and the result of a process that printed `lines` and ended."""
    recorder = Recorder(
        runtime="pi",
        session_id="s",
        options=RunOptions(prompt="p", **options),
        clock=lambda: "2026-01-01T00:00:00.000Z",
    )
    normalizer = PiNormalizer(
        recorder, settles=settles, resumed=resumed, fork=fork, requested_model="anthropic/m"
    )
    for line in lines:
        normalizer.feed(line)
    normalizer.finish(ProcessExit(code=code, stderr_tail=stderr))
    return recorder.drain(), recorder.result()


def kind(event: Event) -> str:
    """An event's type, with the update's kind where it has one."""
    data = msgspec.to_builtins(event)
    return str(data.get("kind") or data["type"]) if data["type"] != "error" else "error"


def kinds(events: list[Event]) -> list[str]:
    return [kind(event) for event in events]


def steps(events: list[Event]) -> list[str]:
    """The kinds of events, pieces of one text taken as one and output of tools left out."""
    found: list[str] = []
    for one in kinds(events):
        if one != "tool_execution_update" and not (one.endswith("_delta") and found[-1:] == [one]):
            found.append(one)
    return found


class Place(msgspec.Struct, frozen=True, kw_only=True):
    """A home and a repository of a test's own."""

    home: Path
    repo: Path

    @property
    def agent_dir(self) -> Path:
        return self.home / ".pi" / "agent"

    def env(self, **more: str) -> dict[str, str]:
        base = {"PATH": os.environ["PATH"], "HOME": str(self.home)}
        base |= {"TERM": "xterm-256color", "LANG": "C.UTF-8"}
        # The tests' own rule, not the adapter's: nothing but loopback is spoken to.
        return base | {"PI_OFFLINE": "1"} | more

    def login(self, model: ScriptedModel, **files: Any) -> None:
        """Give the user a provider `lab` that the scripted model serves, and other files."""
        self.agent_dir.mkdir(parents=True, exist_ok=True)
        entry = {
            "baseUrl": model.url,
            "api": "anthropic-messages",
            "apiKey": "lab-key-of-the-user",
            "models": [
                {
                    "id": "scripted",
                    "input": ["text", "image"],
                    "contextWindow": 200000,
                    "maxTokens": 8000,
                    "cost": {"input": 3, "output": 15, "cacheRead": 0.3, "cacheWrite": 3.75},
                }
            ],
        }
        written = {"models": {"providers": {"lab": entry}}, **files}
        for name, content in written.items():
            (self.agent_dir / f"{name}.json").write_text(json.dumps(content))


@pytest.fixture
def place() -> Iterator[Place]:
    root = SCRATCH / uuid.uuid4().hex[:12]
    home, repo = root / "home", root / "repo"
    home.mkdir(parents=True)
    repo.mkdir()
    subprocess.run(["git", "init", "-q", "."], cwd=repo, check=True)
    yield Place(home=home, repo=repo)
    shutil.rmtree(root, ignore_errors=True)


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """A finished run of the real CLI."""

    events: list[Event]
    result: RunResult
    prepared: Prepared

    @property
    def kind(self) -> str | None:
        return self.result.error.kind if self.result.error else None


def prepare_real(
    version: str,
    place: Place,
    model: ScriptedModel | None = None,
    *,
    env: dict[str, str] | None = None,
    options_model: str | None = None,
    **options: Any,
) -> Prepared:
    """A run of the real CLI that is ready to start.

    With a `model`, Pi is pointed at it; else at what the place's own files say.
    """
    runtime = PiRuntime(AdapterSettings(binary=str(real_cli("pi", version))))
    if model is not None:
        options["model_server"] = ModelServer(url=model.url, api_key="a-scripted-key")
    defaults = {
        "prompt": "Do it.",
        "cwd": str(place.repo),
        "timeout": 240.0,
        "permission_mode": "bypass",
        "model": options_model,
    }
    wanted = RunOptions(**{**defaults, **options})
    return prepare(runtime, wanted, env=place.env(**(env or {})))


def run_real(
    version: str, place: Place, model: ScriptedModel | None = None, **options: Any
) -> Outcome:
    """Run a prompt through the real CLI and check what must hold after every run."""
    prepared = prepare_real(version, place, model, **options)
    events = list(prepared.run.events())
    assert marked_processes(prepared.plan.session_id) == [], "a process was left"
    assert not any(os.path.exists(folder) for folder in prepared.plan.private_dirs)
    return Outcome(events=events, result=prepared.run.result, prepared=prepared)
