"""A private tmux server for each test, gone at its end."""

from collections.abc import Iterator

import pytest

from bridle.drives.tmux.server import TmuxServer
from tests.support.panes import private_server


@pytest.fixture
def server() -> Iterator[TmuxServer]:
    with private_server() as made:
        yield made
