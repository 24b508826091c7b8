"""The bench of the tests with real CLIs."""

import shutil
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from bridle.testing.bench import AgentBench

SCRATCH = Path(__file__).parents[2] / ".tmp" / "bench"


@pytest.fixture
def bench() -> Iterator[AgentBench]:
    """A bench whose working directory is a repository.

    Not below a temp folder: some sandboxes leave those writable.
    """
    folder = SCRATCH / uuid.uuid4().hex[:12]
    try:
        with AgentBench(folder) as made:
            made.make_repository()
            yield made
    finally:
        shutil.rmtree(folder, ignore_errors=True)
