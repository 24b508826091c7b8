"""Copilot is unpacked once for all tests: 235 MB and seconds each time."""

import pytest

from bridle.testing.bench import AgentBench
from tests.runtimes.captures import ROOT


@pytest.fixture
def bench(bench: AgentBench) -> AgentBench:
    bench.env["COPILOT_CACHE_HOME"] = str(ROOT / ".tmp" / "copilot-cache")
    return bench
