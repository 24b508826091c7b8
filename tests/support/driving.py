"""What the tests of every runtime share: a place of their own, a real run, the order of events."""

import os
import shutil
import subprocess
import threading
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec

from bridle.core import events as ev
from bridle.core.options import ModelServer, RunOptions
from bridle.core.results import RunResult
from bridle.core.usage import Usage
from bridle.drives.print_run import PrintRun
from bridle.process.process_tree import marked_processes
from bridle.runs import Prepared, prepare
from bridle.runtimes.contract import Adapter
from bridle.testing import ScriptedModel
from bridle.testing.contract import check_event_order

SCRATCH = Path(__file__).parents[2] / ".tmp"


def kind(event: ev.Event) -> str:
    """An event's type, with the update's kind where it has one."""
    return event.kind if isinstance(event, ev.MessageUpdate) else str(event.__struct_config__.tag)


def kinds(events: list[ev.Event]) -> list[str]:
    """The types of events, an update's kind in place of its type."""
    return [kind(event) for event in events]


def check_order(events: list[ev.Event]) -> None:
    """Fail unless the events keep the order that the contract promises."""
    assert check_event_order(events) == []


class Place(msgspec.Struct, frozen=True, kw_only=True):
    """A home and a repository of a test's own."""

    home: Path
    repo: Path

    def env(self, **more: str) -> dict[str, str]:
        base = {"PATH": os.environ["PATH"], "HOME": str(self.home)}
        return base | {"TERM": "xterm-256color", "LANG": "C.UTF-8"} | more

    def files(self, *folders: str) -> dict[str, bytes]:
        """Every file below the named folders of the home, with its content."""
        found = {}
        for folder in folders:
            for path in sorted((self.home / folder).rglob("*")):
                if path.is_file():
                    found[str(path.relative_to(self.home))] = path.read_bytes()
        return found


@contextmanager
def own_place(name: str) -> Iterator[Place]:
    """A fresh place below the project's scratch folder, removed at the end."""
    root = SCRATCH / name / uuid.uuid4().hex[:12]
    home, repo = root / "home", root / "repo"
    home.mkdir(parents=True)
    repo.mkdir()
    subprocess.run(["git", "init", "-q", "."], cwd=repo, check=True)
    try:
        yield Place(home=home, repo=repo)
    finally:
        shutil.rmtree(root, ignore_errors=True)


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """A finished run of a real CLI."""

    events: list[ev.Event]
    result: RunResult
    prepared: Prepared

    @property
    def kind(self) -> str | None:
        return self.result.error.kind if self.result.error else None


COMMON_SCRIPT: list[dict[str, Any]] = [
    {
        "text": "I will write.",
        "shell": "echo hello > hello.txt",
        "usage": {
            "input_tokens": 100,
            "output_tokens": 30,
            "cache_read_tokens": 40,
            "reasoning_tokens": 5,
        },
    },
    {"text": "Done.\n\nORCHESTRA_COMPLETE", "chunks": 3},
]
_STEP = ("message_start", "text_start", "text_end", "message_end")
_TOOL = ("tool_execution_start", "tool_execution_end")


def check_common(outcome: "Outcome", place: "Place", prompt: str, model: ScriptedModel) -> None:
    """Fail unless a run of `COMMON_SCRIPT` went as it must for every runtime."""
    result = outcome.result
    assert result.status == "completed", result.error
    assert result.marker_detected
    assert result.usage == Usage(
        input_tokens=200, output_tokens=50, cache_read_tokens=40, reasoning_tokens=5
    )
    assert (place.repo / "hello.txt").read_text() == "hello\n"
    assert [each for each in kinds(outcome.events) if each != "text_delta"] == [
        *("session_start", "state", "agent_start"),
        *(*_STEP, *_TOOL, *_STEP),
        *("usage", "agent_end", "state", "session_end"),
    ]
    model.assert_finished()
    assert model.prompts() == [prompt]
    assert [request.outcome for request in model.requests] == ["turn", "turn"]


def prepare_run(
    runtime: Adapter,
    place: Place,
    scripted: ScriptedModel | None = None,
    /,
    *,
    env: dict[str, str] | None = None,
    **options: Any,
) -> Prepared:
    """A run that is ready to start; with `scripted`, the agent is pointed at it, else at what the
    place's own files say."""
    if scripted is not None:
        options["model_server"] = ModelServer(url=scripted.url, api_key="a-scripted-key")
    wanted = RunOptions(**{"prompt": "Do it.", "cwd": str(place.repo), "timeout": 200.0, **options})
    return prepare(runtime, wanted, env=place.env(**(env or {})))


def finish_run(prepared: Prepared) -> Outcome:
    """Play a run to its end and check what must hold after every run."""
    events = list(prepared.run.events())
    assert marked_processes(prepared.plan.session_id) == [], "a process was left"
    assert not any(os.path.exists(folder) for folder in prepared.plan.private_dirs)
    check_order(events)
    return Outcome(events=events, result=prepared.run.result, prepared=prepared)


def drive(
    runtime: Adapter,
    place: Place,
    scripted: ScriptedModel | None = None,
    /,
    *,
    stop_at: Path | None = None,
    **options: Any,
) -> Outcome:
    """Run a prompt through a real CLI, to its end or, with `stop_at`, until that file appears."""
    prepared = prepare_run(runtime, place, scripted, **options)
    watch = threading.Thread(target=_abort_at, args=(prepared.run, stop_at), daemon=True)
    watch.start()
    return finish_run(prepared)


def _abort_at(run: PrintRun, path: Path | None) -> None:
    """Abort the run when the file is there; whoever waits in vain is ended by the timeout."""
    until = time.monotonic() + 200.0
    while path is not None and time.monotonic() < until:
        if path.exists():
            run.abort("the test has seen enough")
            return
        time.sleep(0.05)
