"""What the tests of the runtime copilot share."""

from collections.abc import Iterator
from typing import Any

import msgspec
import pytest

from bridle.core.events import Event
from bridle.core.results import RunResult
from bridle.runtimes.contract import AdapterSettings
from bridle.runtimes.copilot import CopilotRuntime
from bridle.runtimes.copilot.stream import CopilotNormalizer
from bridle.runtimes.copilot.transcript import Afterwards
from bridle.turns.recorder import Recorder
from tests.runtimes import agents
from tests.support.real_cli import real_cli, versions

VERSION = versions("copilot")[-1]
TESTDATA = agents.testdata("copilot")
NOTHING = Afterwards()


class Place(agents.Place, frozen=True, kw_only=True):
    """A place whose Copilot is unpacked once for all tests: 235 MB and seconds each time."""

    def env(self, **more: str) -> dict[str, str]:
        cache = agents.ROOT / ".tmp" / "copilot-cache"
        return super().env(COPILOT_CACHE_HOME=str(cache), **more)


def lines_of(name: str) -> list[bytes]:
    return agents.capture_lines("copilot", name)


def play(
    lines: list[bytes],
    *,
    resumed: str | None = None,
    max_retries: int | None = None,
    after: Afterwards = NOTHING,
    idles: bool = True,
    **options: Any,
) -> tuple[list[Event], RunResult]:
    def make(recorder: Recorder) -> CopilotNormalizer:
        return CopilotNormalizer(
            recorder,
            session_id="chosen",
            resumed=resumed,
            max_retries=max_retries,
            idles=idles,
            after_run=lambda session: after,
        )

    return agents.play(make, lines, **options)


def real_copilot() -> CopilotRuntime:
    return CopilotRuntime(AdapterSettings(binary=str(real_cli("copilot", VERSION))))


@pytest.fixture
def place() -> Iterator[Place]:
    for place in agents.new_place("copilot"):
        yield Place(**msgspec.structs.asdict(place))
