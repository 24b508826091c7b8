"""A private tmux server for each test, gone at its end."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from bridle.drives.tmux.server import TmuxServer
from tests.support.panes import private_server


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """A test with a server needs tmux, which a plain machine lacks."""
    for item in items:
        asked = getattr(item, "fixturenames", ())
        if "server" in asked and item.path.parent == Path(__file__).parent:
            item.add_marker(pytest.mark.real_cli(only="tmux"))


@pytest.fixture
def server() -> Iterator[TmuxServer]:
    with private_server() as made:
        yield made
