"""Captures of Copilot's wire, fed to its normalizer."""

from typing import Any

from bridle.runtimes.copilot.stream import CopilotNormalizer
from bridle.runtimes.copilot.transcript import Afterwards
from bridle.turns.recorder import Recorder
from tests.runtimes import captures

TESTDATA = captures.folder_of("copilot")
NOTHING = Afterwards()


def capture_lines(name: str) -> list[bytes]:
    """The lines of a capture."""
    return captures.lines_in(TESTDATA / name)


def play(
    lines: list[bytes],
    *,
    resumed: str | None = None,
    max_retries: int | None = None,
    after: Afterwards = NOTHING,
    idles: bool = True,
    **options: Any,
) -> captures.Played:
    """The events and the result of a process that printed `lines` and ended."""

    def make(recorder: Recorder) -> CopilotNormalizer:
        return CopilotNormalizer(
            recorder,
            session_id="chosen",
            resumed=resumed,
            max_retries=max_retries,
            idles=idles,
            after_run=lambda session: after,
        )

    return captures.play("copilot", make, lines, **options)
