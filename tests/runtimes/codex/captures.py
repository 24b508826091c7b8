"""Feeds captured lines through the normalizer, and checks the promised order of events."""

import shutil
from pathlib import Path

from bridle.core import events as ev
from bridle.core.options import RunOptions
from bridle.core.results import RunResult
from bridle.process.spec import ProcessExit
from bridle.runtimes.codex.stream import CodexNormalizer
from bridle.turns.recorder import Recorder
from tests.support.driving import check_order as check_order

TESTDATA = Path(__file__).parents[3] / "src/bridle/runtimes/codex/testdata"


def play(
    lines: list[bytes],
    *,
    home: Path,
    exit: ProcessExit | None = None,
    options: RunOptions | None = None,
) -> tuple[list[ev.Event], RunResult]:
    """All events of `lines`, and the run's result."""
    options = options or RunOptions(prompt="go")
    recorder = Recorder(runtime="codex", session_id="s", options=options)
    normalizer = CodexNormalizer(recorder, str(home))
    out: list[ev.Event] = []
    for line in lines:
        normalizer.feed(line)
        out += recorder.drain()
    normalizer.finish(exit or ProcessExit(code=0))
    out += recorder.drain()
    return out, recorder.result()


def play_file(path: Path, home: Path) -> tuple[list[ev.Event], RunResult]:
    """The events of a capture, with the exit status that was seen with it."""
    lines = path.read_bytes().splitlines()
    failed = any(b'"turn.failed"' in line for line in lines)
    return play(lines, home=home, exit=ProcessExit(code=1 if failed else 0))


def put_rollout(home: Path, thread_id: str, source: Path, upto: int | None = None) -> Path:
    """Lay a captured transcript where Codex keeps that of `thread_id`."""
    folder = home / "sessions/2026/11/15"
    folder.mkdir(parents=True, exist_ok=True)
    target = folder / f"rollout-2026-11-15T19-07-07-{thread_id}.jsonl"
    if upto is None:
        shutil.copyfile(source, target)
    else:
        target.write_bytes(b"\n".join(source.read_bytes().splitlines()[:upto]) + b"\n")
    return target


def types(events: list[ev.Event]) -> list[str]:
    """The event types, updates with their kind."""
    return [
        event.kind
        if isinstance(event, ev.MessageUpdate)
        else str(type(event).__struct_config__.tag)
        for event in events
    ]
