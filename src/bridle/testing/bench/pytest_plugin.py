"""The pytest plugin of Bridle: the fixture `agent_bench`.

A project names it in its `conftest.py`. Bridle does not register it for every project that it is
installed in: pytest would then rewrite the assertions of all of Bridle's modules.

pytest_plugins = ["bridle.testing.bench.pytest_plugin"]
"""

from collections.abc import Iterator
from pathlib import Path

import pytest

from bridle.testing.bench.agent_bench import AgentBench


@pytest.fixture
def agent_bench_folder(tmp_path: Path) -> Path:
    """Where the bench of a test has its folders; override it to have them elsewhere."""
    return tmp_path


@pytest.fixture
def agent_bench(agent_bench_folder: Path) -> Iterator[AgentBench]:
    """A bench of the test's own; the test fails if a process is left at its end."""
    with AgentBench(agent_bench_folder) as bench:
        yield bench
