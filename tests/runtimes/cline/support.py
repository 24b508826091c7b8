"""What the tests of the runtime cline share."""

from collections.abc import Iterator
from typing import Any

import pytest

from bridle.core.events import Event
from bridle.core.results import RunResult
from bridle.runtimes.cline import ClineRuntime
from bridle.runtimes.cline.stream import ClineNormalizer
from bridle.runtimes.cline.transcript import Afterwards, FailedCall
from bridle.runtimes.contract import AdapterSettings
from bridle.turns.recorder import Recorder
from tests.runtimes import agents
from tests.runtimes.agents import Place
from tests.support.real_cli import real_cli, versions

VERSION = versions("cline")[-1]
TESTDATA = agents.testdata("cline")


def lines_of(name: str) -> list[bytes]:
    return agents.capture_lines("cline", name)


def play(
    lines: list[bytes],
    *,
    call: FailedCall | None = None,
    session_id: str | None = None,
    after: Afterwards | None = None,
    **options: Any,
) -> tuple[list[Event], RunResult]:
    told = after or Afterwards(session_id=session_id, failed_call=call)

    def make(recorder: Recorder) -> ClineNormalizer:
        return ClineNormalizer(recorder, after_run=lambda: told)

    return agents.play(make, lines, **options)


def real_cline() -> ClineRuntime:
    return ClineRuntime(AdapterSettings(binary=str(real_cli("cline", VERSION))))


@pytest.fixture
def place() -> Iterator[Place]:
    yield from agents.new_place("cline")
