"""Captures of Pi's wire, fed to its normalizer."""

import json
from typing import Any

from bridle.runtimes.pi.stream import PiNormalizer
from bridle.turns.recorder import Recorder
from tests.runtimes import captures

TESTDATA = captures.folder_of("pi")


def capture_lines(name: str) -> list[bytes]:
    """The lines that Pi printed in a capture; of a dialogue, its side of it."""
    lines = []
    for line in captures.lines_in(TESTDATA / name):
        data = json.loads(line)
        if "dir" not in data:
            lines.append(line)
        elif data["dir"] == "out" and data["msg"].get("type") != "response":
            lines.append(json.dumps(data["msg"]).encode())
    return lines


def play(
    lines: list[bytes],
    *,
    settles: bool = True,
    resumed: str | None = None,
    fork: bool = False,
    **options: Any,
) -> captures.Played:
    """The events and the result of a process that printed `lines` and ended."""

    def make(recorder: Recorder) -> PiNormalizer:
        return PiNormalizer(
            recorder, settles=settles, resumed=resumed, fork=fork, requested_model="anthropic/m"
        )

    return captures.play("pi", make, lines, **options)
