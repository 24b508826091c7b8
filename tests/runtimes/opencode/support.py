"""What the tests of the runtime opencode share: feeding captures, and running the real CLI."""

from pathlib import Path
from typing import Any

from bridle.core.events import Event
from bridle.core.options import RunOptions
from bridle.core.results import RunResult
from bridle.process.spec import ProcessExit
from bridle.runtimes.contract import AdapterSettings
from bridle.runtimes.opencode import OpenCodeRuntime
from bridle.runtimes.opencode.product import DIALECTS
from bridle.runtimes.opencode.stream import OpenCodeNormalizer
from bridle.turns.recorder import Recorder
from tests.support.real_cli import real_cli

TESTDATA = Path(__file__).parents[3] / "src" / "bridle" / "runtimes" / "opencode" / "testdata"
VERSION = "1.18.33"


def capture_lines(name: str) -> list[bytes]:
    """The lines of a capture."""
    return [line for line in (TESTDATA / name).read_bytes().split(b"\n") if line]


def make(recorder: Recorder, **more: Any) -> OpenCodeNormalizer:
    wanted: dict[str, Any] = {"max_retries": 2, "retry_seconds": 60.0, **more}
    return OpenCodeNormalizer(recorder, DIALECTS[-1], requested_model="lab/scripted", **wanted)


def play(
    lines: list[bytes],
    *,
    code: int | None = 0,
    stderr: list[bytes] | None = None,
    resumed: str | None = None,
    **options: Any,
) -> tuple[list[Event], RunResult]:
    """The events and the result of a process that printed `lines`, `stderr` first, and ended."""
    recorder = Recorder(
        runtime="opencode",
        session_id="s",
        options=RunOptions(prompt="p", **options),
        clock=lambda: "2026-01-01T00:00:00.000Z",
    )
    normalizer = make(recorder, resumed=resumed, find_model=lambda session_id: "lab/scripted")
    for line in stderr or ():
        normalizer.feed_stderr(line)
    for line in lines:
        normalizer.feed(line)
    tail = b"\n".join(stderr or ()).decode()
    normalizer.finish(ProcessExit(code=code, stderr_tail=tail))
    return recorder.drain(), recorder.result()


def real_runtime() -> OpenCodeRuntime:
    """The runtime on the pinned CLI."""
    return OpenCodeRuntime(AdapterSettings(binary=str(real_cli("opencode", VERSION))))
