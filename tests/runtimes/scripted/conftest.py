from pathlib import Path

import pytest

from tests.runtimes.scripted.runs import Stage


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    return Stage(tmp_path)
