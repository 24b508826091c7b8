"""Every test of sessions has a home of its own, and leaves nothing running."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.sessions.place import Place


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    here = Place(tmp_path)
    try:
        yield here
    finally:
        here.close()
