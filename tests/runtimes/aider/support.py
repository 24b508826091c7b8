"""What the tests of the runtime aider share: feeding captures, and running the real CLI."""

import subprocess
from collections.abc import Iterator
from typing import Any

import pytest

from bridle.core.events import Event
from bridle.core.results import RunResult
from bridle.runs import Prepared
from bridle.runtimes.aider import AiderRuntime
from bridle.runtimes.aider.stream import AiderNormalizer
from bridle.runtimes.contract import AdapterSettings
from bridle.testing import ScriptedModel
from bridle.turns.recorder import Recorder
from tests.runtimes import agents
from tests.runtimes.agents import Outcome, Place
from tests.support.real_cli import real_cli, versions

TESTDATA = agents.testdata("aider")
VERSION = versions("aider")[-1]

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
    """The lines of a capture; the empty ones mean something here."""
    return (TESTDATA / name).read_bytes().removesuffix(b"\n").split(b"\n")


def play(
    lines: list[bytes],
    *,
    native: str | None = None,
    resumed: bool = False,
    max_retries: int = 3,
    **options: Any,
) -> tuple[list[Event], RunResult]:
    """The events and the result of a process that printed `lines` and ended."""

    def make(recorder: Recorder) -> AiderNormalizer:
        return AiderNormalizer(
            recorder, native_session_id=native, resumed=resumed, max_retries=max_retries
        )

    return agents.play(make, lines, **options)


def kinds(events: list[Event]) -> list[str]:
    """The kinds of events, what was not understood aside."""
    return [kind for kind in agents.joined_kinds(events) if kind != "unknown"]


@pytest.fixture
def place() -> Iterator[Place]:
    """A repository with one file under version control."""
    who = ("-c", "user.name=T", "-c", "user.email=t@localhost")
    for made in agents.new_place("aider"):
        (made.repo / "calc.py").write_text("def add(a, b):\n    return a - b\n")
        for words in (("add", "."), ("commit", "-qm", "begin")):
            subprocess.run(["git", *who, *words], cwd=made.repo, check=True)
        yield made


def prepare_real(place: Place, server: ScriptedModel | None = None, **options: Any) -> Prepared:
    """A run of the real CLI that is ready to start; with a `server`, pointed at it."""
    runtime = AiderRuntime(AdapterSettings(binary=str(real_cli("aider", VERSION))))
    given = {"prompt": "Mend the sum in calc.py.", **options}
    return agents.prepare_run(runtime, place, server, **given)


def run_real(place: Place, server: ScriptedModel | None = None, **options: Any) -> Outcome:
    """Run a prompt through the real CLI and check what must hold after every run."""
    return agents.finish_run(prepare_real(place, server, **options))
