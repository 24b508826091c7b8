"""What the tests of the newer runtimes share: feeding captures, checking order, real runs."""

import os
import shutil
import subprocess
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec

from bridle.core import events as ev
from bridle.core.events import Event
from bridle.core.options import ModelServer, RunOptions
from bridle.core.results import RunResult
from bridle.drives.processes import marked_processes
from bridle.drives.recorder import Recorder
from bridle.drives.spec import Normalizer, ProcessExit
from bridle.running import Prepared, prepare
from bridle.runtimes.base import AgentRuntime
from bridle.testing import ScriptedModel

ROOT = Path(__file__).parents[2]

SCRIPT = """
- text: I will write the file now.
  shell: "printf 'made by shell\\\\n' > shell.txt"
  usage: {input_tokens: 300, output_tokens: 40, cache_read_tokens: 70, cache_write_tokens: 5}
- thinking: Nearly there.
  text: Done. ORCHESTRA_COMPLETE
  chunks: 4
  usage: {input_tokens: 500, output_tokens: 60, cache_read_tokens: 30}
"""

SCRIPT_KINDS = [
    *("session_start", "state", "agent_start"),
    *("message_start", "text_start", "text_delta", "text_end", "message_end"),
    *("tool_execution_start", "tool_execution_end"),
    *("message_start", "thinking_start", "thinking_delta", "thinking_end"),
    *("text_start", "text_delta", "text_end", "message_end"),
    *("usage", "agent_end", "state", "session_end"),
]
"""The events of `SCRIPT`, the same for every runtime, as `joined_kinds` tells them."""

ONE_PNG = bytes.fromhex(
    "89504e470d0a1a0a0000000d4948445200000001000000010802000000907753de0000000c49444154789c63f8cfc0"
    "000003010100c9fe92ef0000000049454e44ae426082"
)


def testdata(runtime: str) -> Path:
    """The folder of a runtime's captures."""
    return ROOT / "src" / "bridle" / "runtimes" / runtime / "testdata"


def capture_lines(runtime: str, name: str) -> list[bytes]:
    """The lines of a capture."""
    return [line for line in (testdata(runtime) / name).read_bytes().split(b"\n") if line]


def play(
    make: Callable[[Recorder], Normalizer],
    lines: list[bytes],
    *,
    code: int | None = 0,
    stderr: str = "",
    **options: Any,
) -> tuple[list[Event], RunResult]:
    """The events and the result of a process that printed `lines` and ended."""
    recorder = Recorder(
        runtime="r", session_id="s", options=RunOptions(prompt="p", **options), clock=lambda: "now"
    )
    normalizer = make(recorder)
    for line in lines:
        normalizer.feed(line)
    normalizer.finish(ProcessExit(code=code, stderr_tail=stderr))
    return recorder.drain(), recorder.result()


def joined_kinds(events: list[Event]) -> list[str]:
    """`kinds` without what tools print meanwhile, and deltas in a row as one: how often a text is
    cut is nobody's promise."""
    joined: list[str] = []
    for kind in kinds(events):
        repeated = kind.endswith("_delta") and joined[-1:] == [kind]
        if kind != "tool_execution_update" and not repeated:
            joined.append(kind)
    return joined


def kinds(events: list[Event]) -> list[str]:
    """The types of events, an update's kind in place of its type."""
    found = []
    for event in events:
        data = msgspec.to_builtins(event)
        is_update = data["type"] == "message_update"
        found.append(str(data["kind"] if is_update else data["type"]))
    return found


def assert_order(events: list[Event]) -> None:
    """The order contract of `docs/events.md`."""
    turn = message = block = False
    tools: set[str] = set()
    assert [event.seq for event in events] == list(range(1, len(events) + 1))
    for event in events:
        match event:
            case ev.AgentStart():
                assert not turn
                turn = True
            case ev.AgentEnd():
                assert turn
                assert not tools
                assert not message
                turn = False
            case ev.MessageStart():
                assert turn
                assert not message
                message = True
            case ev.MessageUpdate():
                assert message
                block = not event.kind.endswith("_end")
            case ev.MessageEnd():
                assert message
                assert not block
                message = False
            case ev.ToolExecutionStart():
                assert not message
                assert event.tool_call_id not in tools
                tools.add(event.tool_call_id)
            case ev.ToolExecutionEnd():
                tools.remove(event.tool_call_id)
    assert not turn
    assert isinstance(events[-1], ev.SessionEnd)


class Place(msgspec.Struct, frozen=True, kw_only=True):
    """A home and a repository of a test's own."""

    home: Path
    repo: Path

    def env(self, **more: str) -> dict[str, str]:
        base = {"PATH": os.environ["PATH"], "HOME": str(self.home)}
        return base | {"TERM": "xterm-256color", "LANG": "C.UTF-8"} | more


def new_place(runtime: str) -> Iterator[Place]:
    """A place below the checkout, removed afterwards."""
    root = ROOT / ".tmp" / runtime / uuid.uuid4().hex[:12]
    home, repo = root / "home", root / "repo"
    home.mkdir(parents=True)
    repo.mkdir()
    subprocess.run(["git", "init", "-q", "."], cwd=repo, check=True)
    yield Place(home=home, repo=repo)
    shutil.rmtree(root, ignore_errors=True)


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """A finished run of a real CLI."""

    events: list[Event]
    result: RunResult
    prepared: Prepared

    @property
    def kind(self) -> str | None:
        return self.result.error.kind if self.result.error else None


def prepare_run(
    runtime: AgentRuntime,
    place: Place,
    server: ScriptedModel | None = None,
    *,
    env: dict[str, str] | None = None,
    **options: Any,
) -> Prepared:
    """A run that is ready to start; with a `server`, the agent is pointed at it."""
    if server is not None:
        options["model_server"] = ModelServer(url=server.url, api_key="a-scripted-key")
    defaults = {
        "prompt": "Do it.",
        "cwd": str(place.repo),
        "timeout": 120.0,
        "permission_mode": "bypass",
    }
    return prepare(runtime, RunOptions(**{**defaults, **options}), env=place.env(**(env or {})))


def finish_run(prepared: Prepared) -> Outcome:
    """Play a run to its end and check what must hold after every run."""
    events = list(prepared.run.events())
    assert marked_processes(prepared.plan.session_id) == [], "a process was left"
    assert not any(os.path.exists(folder) for folder in prepared.plan.private_dirs)
    assert_order(events)
    return Outcome(events=events, result=prepared.run.result, prepared=prepared)


def run_agent(
    runtime: AgentRuntime, place: Place, server: ScriptedModel | None = None, **options: Any
) -> Outcome:
    """Run a prompt through a real CLI."""
    return finish_run(prepare_run(runtime, place, server, **options))


def snapshot(folder: Path) -> dict[str, bytes]:
    """Every file below `folder` with its bytes."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }
