"""Feeds captured lines through the normalizer, and checks the promised order of events."""

import json
import shutil
from pathlib import Path

from bridle.core import events as ev
from bridle.core.options import RunOptions
from bridle.core.results import RunResult
from bridle.drives.recorder import Recorder
from bridle.drives.spec import ProcessExit
from bridle.runtimes.codex.normalizer import CodexNormalizer

TESTDATA = Path(__file__).parents[3] / "src/bridle/runtimes/codex/testdata"
EXEC_CAPTURES = sorted(TESTDATA.glob("*/exec/*.jsonl"))


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


def check_order(events: list[ev.Event], *, gaps: bool = False) -> None:
    """The contract of `bridle.core.events`, for one run; `gaps` when some were left out."""
    numbers = [event.seq for event in events]
    assert numbers == (sorted(set(numbers)) if gaps else list(range(1, len(events) + 1)))
    for event in events:
        json.loads(ev.encode_event(event))
    kinds = types(events)
    assert kinds[0] == "session_start"
    assert kinds.count("session_start") == kinds.count("session_end") == 1
    assert kinds[-1] == "session_end"
    assert kinds.count("agent_start") == kinds.count("agent_end") == 1
    assert kinds.index("usage") == kinds.index("agent_end") - 1
    open_message, open_block, open_tools, done_tools = None, None, set[str](), set[str]()
    for event in events:
        if isinstance(event, ev.MessageStart):
            assert open_message is None
            open_message = event.message_id
        elif isinstance(event, ev.MessageUpdate):
            assert event.message_id == open_message
            name, _, phase = event.kind.partition("_")
            assert open_block == (None if phase == "start" else name)
            open_block = None if phase == "end" else name
        elif isinstance(event, ev.MessageEnd):
            assert event.message_id == open_message
            assert open_block is None
            open_message = None
        elif isinstance(event, ev.ToolExecutionStart):
            assert open_message is None
            assert event.tool_call_id not in open_tools | done_tools
            open_tools.add(event.tool_call_id)
        elif isinstance(event, ev.ToolExecutionEnd):
            open_tools.remove(event.tool_call_id)
            done_tools.add(event.tool_call_id)
        elif isinstance(event, ev.AgentEnd):
            assert open_message is None
            assert not open_tools
