"""What the tests of the runtime aider share: feeding captures, and running the real CLI."""

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
from bridle.drives.processes import marked_processes
from bridle.drives.recorder import Recorder
from bridle.drives.spec import ProcessExit
from bridle.running import Prepared, prepare
from bridle.runtimes.aider import AiderRuntime
from bridle.runtimes.aider.normalizer import AiderNormalizer
from bridle.runtimes.base import AdapterSettings
from bridle.testing import ScriptedModel
from tests.support.clis import PINS
from tests.support.real_cli import real_cli

TESTDATA = Path(__file__).parents[3] / "src" / "bridle" / "runtimes" / "aider" / "testdata"
SCRATCH = Path(__file__).parents[3] / ".tmp" / "aider"
VERSION = next(pin.version for pin in PINS if pin.name == "aider")

EDIT = """I fixed the operator.

calc.py
```python
<<<<<<< SEARCH
    return a - b
=======
    return a + b
>>>>>>> REPLACE
```"""
"""A reply that edits, in Aider's own format."""


def capture_lines(name: str) -> list[bytes]:
    """The lines of a capture."""
    return (TESTDATA / name).read_bytes().removesuffix(b"\n").split(b"\n")


def play(
    lines: list[bytes],
    *,
    code: int | None = 0,
    stderr: str = "",
    native: str | None = None,
    resumed: bool = False,
    max_retries: int = 3,
    **options: Any,
) -> tuple[list[Event], RunResult]:
    """The events and the result of a process that printed `lines` and ended."""
    recorder = Recorder(
        runtime="aider",
        session_id="s",
        options=RunOptions(prompt="p", **options),
        clock=lambda: "now",
    )
    normalizer = AiderNormalizer(
        recorder, native_session_id=native, resumed=resumed, max_retries=max_retries
    )
    for line in lines:
        normalizer.feed(line)
    normalizer.finish(ProcessExit(code=code, stderr_tail=stderr))
    return recorder.drain(), recorder.result()


def kinds(events: list[Event]) -> list[str]:
    """Each event's type, or the update's kind where it has one; what was not understood aside.

    Pieces of text that follow one another count as one: the redactor may cut where it likes.
    """
    found: list[str] = []
    for event in events:
        data = msgspec.to_builtins(event)
        kind = data.get("kind") if data["type"] == "message_update" else data["type"]
        again = kind == "text_delta" and found[-1:] == ["text_delta"]
        if kind != "unknown" and not again:
            found.append(str(kind))
    return found


class Place(msgspec.Struct, frozen=True, kw_only=True):
    """A home and a repository of a test's own."""

    home: Path
    repo: Path

    def env(self, **more: str) -> dict[str, str]:
        base = {"PATH": os.environ["PATH"], "HOME": str(self.home)}
        return base | {"TERM": "xterm-256color", "LANG": "C.UTF-8"} | more

    @property
    def code(self) -> str:
        return (self.repo / "calc.py").read_text()


@pytest.fixture
def place() -> Iterator[Place]:
    root = SCRATCH / uuid.uuid4().hex[:12]
    home, repo = root / "home", root / "repo"
    home.mkdir(parents=True)
    repo.mkdir()
    (repo / "calc.py").write_text("def add(a, b):\n    return a - b\n")
    who = ("-c", "user.name=T", "-c", "user.email=t@localhost")
    for words in (("init", "-q", "."), ("add", "."), ("commit", "-qm", "begin")):
        subprocess.run(["git", *who, *words], cwd=repo, check=True, env={**os.environ})
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


def prepare_real(place: Place, model: ScriptedModel | None = None, **options: Any) -> Prepared:
    """A run of the real CLI that is ready to start; with a `model`, pointed at it."""
    runtime = AiderRuntime(AdapterSettings(binary=str(real_cli("aider", VERSION))))
    env = options.pop("environment", {})
    if "model_name" in options:
        options["model"] = options.pop("model_name")
    if model is not None:
        options["model_server"] = ModelServer(url=model.url, api_key="a-scripted-key")
    defaults = {
        "prompt": "Mend the sum in calc.py.",
        "cwd": str(place.repo),
        "timeout": 100.0,
        "permission_mode": "bypass",
    }
    return prepare(runtime, RunOptions(**{**defaults, **options}), env=place.env(**env))


def run_real(place: Place, model: ScriptedModel | None = None, **options: Any) -> Outcome:
    """Run a prompt through the real CLI and check what must hold after every run."""
    prepared = prepare_real(place, model, **options)
    events = list(prepared.run.events())
    assert marked_processes(prepared.plan.session_id) == [], "a process was left"
    assert not any(os.path.exists(folder) for folder in prepared.plan.private_dirs)
    return Outcome(events=events, result=prepared.run.result, prepared=prepared)
