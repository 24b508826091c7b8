"""What the tests of the runtime gemini share: feeding captures, and running the real CLI."""

from pathlib import Path
from typing import Any

from bridle.core.events import Event
from bridle.core.options import RunOptions
from bridle.core.results import RunResult
from bridle.process.spec import ProcessExit
from bridle.runtimes.contract import AdapterSettings
from bridle.runtimes.gemini import GeminiRuntime
from bridle.runtimes.gemini.stream import GeminiNormalizer
from bridle.turns.recorder import Recorder
from tests.support.real_cli import real_cli

TESTDATA = Path(__file__).parents[3] / "src" / "bridle" / "runtimes" / "gemini" / "testdata"
VERSION = "0.61.0"


def capture_lines(name: str) -> list[bytes]:
    """The lines of a capture."""
    return [line for line in (TESTDATA / name).read_bytes().split(b"\n") if line]


def make_recorder(**options: Any) -> Recorder:
    wanted = RunOptions(prompt="p", **options)
    return Recorder(
        runtime="gemini", session_id="s", options=wanted, clock=lambda: "2026-01-01T00:00:00.000Z"
    )


def play(
    lines: list[bytes],
    *,
    code: int | None = 0,
    stderr: str = "",
    resumed: str | None = None,
    **options: Any,
) -> tuple[list[Event], RunResult]:
    """The events and the result of a process that printed `lines` and ended."""
    recorder = make_recorder(**options)
    normalizer = GeminiNormalizer(
        recorder, retry_seconds=60.0, resumed=resumed, requested_model="gemini-2.5-pro"
    )
    for line in lines:
        normalizer.feed(line)
    for line in stderr.encode().splitlines():
        normalizer.feed_stderr(line)
    normalizer.finish(ProcessExit(code=code, stderr_tail=stderr))
    return recorder.drain(), recorder.result()


def real_runtime() -> GeminiRuntime:
    """The runtime on the pinned CLI."""
    return GeminiRuntime(AdapterSettings(binary=str(real_cli("gemini", VERSION))))
