"""Captures of Cline's wire, fed to its normalizer."""

from typing import Any

from bridle.runtimes.cline.stream import ClineNormalizer
from bridle.runtimes.cline.transcript import Afterwards, FailedCall
from bridle.turns.recorder import Recorder
from tests.runtimes import captures

TESTDATA = captures.folder_of("cline")


def capture_lines(name: str) -> list[bytes]:
    """The lines of a capture."""
    return captures.lines_in(TESTDATA / name)


def play(
    lines: list[bytes],
    *,
    call: FailedCall | None = None,
    session_id: str | None = None,
    after: Afterwards | None = None,
    **options: Any,
) -> captures.Played:
    """The events and the result of a process that printed `lines` and ended."""
    told = after or Afterwards(session_id=session_id, failed_call=call)

    def make(recorder: Recorder) -> ClineNormalizer:
        return ClineNormalizer(recorder, after_run=lambda: told)

    return captures.play("cline", make, lines, **options)
