"""Captures of Gemini's wire, fed to its normalizer."""

from typing import Any

from bridle.process.spec import ProcessExit
from bridle.runtimes.gemini.stream import GeminiNormalizer
from bridle.turns.recorder import Recorder
from tests.runtimes import captures

TESTDATA = captures.folder_of("gemini")


def capture_lines(name: str) -> list[bytes]:
    """The lines of a capture."""
    return captures.lines_in(TESTDATA / name)


def make_recorder(**options: Any) -> Recorder:
    """A recorder whose clock stands still."""
    return captures.recorder_of("gemini", **options)


def play(
    lines: list[bytes],
    *,
    code: int | None = 0,
    stderr: str = "",
    resumed: str | None = None,
    **options: Any,
) -> captures.Played:
    """The events and the result of a process that printed `lines`, then `stderr`, and ended."""
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
