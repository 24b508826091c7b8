from pathlib import Path

import pytest

from tests.runtimes.scripted.runs import ScriptedBench


@pytest.fixture
def bench(tmp_path: Path) -> ScriptedBench:
    return ScriptedBench(tmp_path)
