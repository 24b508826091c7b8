"""The tests' own rule, not the adapter's: nothing but loopback is spoken to."""

import pytest

from bridle.testing.bench import AgentBench


@pytest.fixture
def bench(bench: AgentBench) -> AgentBench:
    bench.env["PI_OFFLINE"] = "1"
    return bench
