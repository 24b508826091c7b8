"""What the tests of the newer runtimes share: feeding captures, checking order, real runs."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from bridle.core.events import Event
from bridle.core.options import RunOptions
from bridle.core.results import RunResult
from bridle.process.spec import ProcessExit
from bridle.runs import Prepared
from bridle.runtimes.contract import Adapter
from bridle.testing import ScriptedModel
from bridle.turns.recorder import Recorder
from bridle.turns.wire import Normalizer
from tests.support import driving
from tests.support.driving import Outcome, Place, finish_run, kinds, own_place
from tests.support.driving import check_order as assert_order

__all__ = [
    "ONE_PNG",
    "SCRIPT",
    "SCRIPT_KINDS",
    "Outcome",
    "Place",
    "assert_order",
    "capture_lines",
    "finish_run",
    "joined_kinds",
    "kinds",
    "new_place",
    "play",
    "prepare_run",
    "run_agent",
    "snapshot",
    "testdata",
]

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
        runtime="r",
        session_id="s",
        options=RunOptions(prompt="p", **options),
        clock=lambda: "2026-01-01T00:00:00.000Z",
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


def new_place(runtime: str) -> Iterator[Place]:
    """A place for a fixture."""
    with own_place(runtime) as place:
        yield place


def prepare_run(
    runtime: Adapter, place: Place, server: ScriptedModel | None = None, **options: Any
) -> Prepared:
    """A run of an agent that may act, ready to start."""
    return driving.prepare_run(
        runtime, place, server, **{"permission_mode": "bypass", "timeout": 120.0, **options}
    )


def run_agent(
    runtime: Adapter, place: Place, server: ScriptedModel | None = None, **options: Any
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
