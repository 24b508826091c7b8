"""Captures of Aider's wire, fed to its normalizer."""

from typing import Any

from bridle.core.events import Event
from bridle.runtimes.aider.stream import AiderNormalizer
from bridle.testing.contract import steps
from bridle.turns.recorder import Recorder
from tests.runtimes import captures

TESTDATA = captures.folder_of("aider")

EDIT = """I fixed the operator.

calc.py
```python
<<<<<<< SEARCH
    return a - b
=======
    return a + b
>>>>>>> REPLACE
```"""
"""A reply that edits, in Aider's own format."""


def capture_lines(name: str) -> list[bytes]:
    """The lines of a capture; the empty ones mean something here."""
    return (TESTDATA / name).read_bytes().removesuffix(b"\n").split(b"\n")


def play(
    lines: list[bytes],
    *,
    native: str | None = None,
    resumed: bool = False,
    max_retries: int = 3,
    **options: Any,
) -> captures.Played:
    """The events and the result of a process that printed `lines` and ended."""

    def make(recorder: Recorder) -> AiderNormalizer:
        return AiderNormalizer(
            recorder, native_session_id=native, resumed=resumed, max_retries=max_retries
        )

    return captures.play("aider", make, lines, **options)


def known_steps(events: list[Event]) -> list[str]:
    """The steps of a run, what was not understood aside."""
    return [step for step in steps(events) if step != "unknown"]
