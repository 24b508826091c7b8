"""Captures of OpenCode's wire, fed to its normalizer."""

from functools import partial
from typing import Any

from bridle.runtimes.opencode.product import DIALECTS
from bridle.runtimes.opencode.stream import OpenCodeNormalizer
from bridle.turns.recorder import Recorder
from tests.runtimes import captures

TESTDATA = captures.folder_of("opencode")


def capture_lines(name: str) -> list[bytes]:
    """The lines of a capture."""
    return captures.lines_in(TESTDATA / name)


def make(recorder: Recorder, **more: Any) -> OpenCodeNormalizer:
    """A normalizer with the usual bounds on retries."""
    wanted: dict[str, Any] = {"max_retries": 2, "retry_seconds": 60.0, **more}
    return OpenCodeNormalizer(recorder, DIALECTS[-1], requested_model="lab/scripted", **wanted)


def play(
    lines: list[bytes],
    *,
    stderr: list[bytes] | None = None,
    resumed: str | None = None,
    **options: Any,
) -> captures.Played:
    """The events and the result of a process that printed `lines`, `stderr` first, and ended."""
    made = partial(make, resumed=resumed, find_model=lambda session_id: "lab/scripted")
    first = stderr or []
    tail = b"\n".join(first).decode()
    return captures.play("opencode", made, lines, stderr=tail, stderr_first=first, **options)
