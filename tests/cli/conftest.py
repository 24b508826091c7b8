"""Every test of the command line has a project and a home of its own."""

from pathlib import Path

import pytest

from tests.support.preset_agent import Place, make_place


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return make_place(tmp_path)
