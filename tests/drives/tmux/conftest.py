"""A private tmux server for each test, gone at its end."""

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from bridle.drives.tmux.server import TmuxServer


@pytest.fixture
def server() -> Iterator[TmuxServer]:
    # The folders that pytest makes have paths too long for a socket.
    folder = tempfile.mkdtemp(prefix="bridle-tmux-")
    made = TmuxServer(str(Path(folder) / "s"))
    try:
        made.start()
        yield made
    finally:
        made.kill()
        shutil.rmtree(folder, ignore_errors=True)
