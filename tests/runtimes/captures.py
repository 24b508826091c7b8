"""Captures of what real CLIs printed, and how they are fed to an adapter without a process."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from bridle.core.events import Event
from bridle.core.options import RunOptions
from bridle.core.results import RunResult
from bridle.process.spec import ProcessExit
from bridle.turns.recorder import Recorder
from bridle.turns.wire import Normalizer, StderrReader

ROOT = Path(__file__).parents[2]

Played = tuple[list[Event], RunResult]


def folder_of(product: str) -> Path:
    """The folder of a product's captures."""
    return ROOT / "src" / "bridle" / "runtimes" / product / "testdata"


def lines_in(path: Path) -> list[bytes]:
    """The lines of a capture, empty ones left out."""
    return [line for line in path.read_bytes().split(b"\n") if line]


def recorder_of(product: str, **options: Any) -> Recorder:
    """A recorder whose clock stands still."""
    return Recorder(
        runtime=product,
        session_id="s",
        options=RunOptions(prompt="p", **options),
        clock=lambda: "2026-01-01T00:00:00.000Z",
    )


def play(
    product: str,
    make: Callable[[Recorder], Normalizer],
    lines: list[bytes],
    *,
    code: int | None = 0,
    stderr: str = "",
    stderr_first: Sequence[bytes] = (),
    **options: Any,
) -> Played:
    """The events and the result of a process that printed `lines` and ended with `code`.

    `stderr` is the end of its standard error; an adapter that reads that as it comes gets the lines
    of `stderr_first` before all others.
    """
    recorder = recorder_of(product, **options)
    normalizer = make(recorder)
    if isinstance(normalizer, StderrReader):
        for line in stderr_first:
            normalizer.feed_stderr(line)
    for line in lines:
        normalizer.feed(line)
    normalizer.finish(ProcessExit(code=code, stderr_tail=stderr))
    return recorder.drain(), recorder.result()
