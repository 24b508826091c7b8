"""Every test of the command line has a project and a home of its own."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from bridle.process.process_tree import kill_marked
from tests.cli.session_shell import Shell
from tests.support.preset_agent import Place, make_place


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return make_place(tmp_path)


@pytest.fixture
def shell(tmp_path: Path) -> Iterator[Shell]:
    here = Shell(tmp_path)
    yield here
    here.run("daemon", "stop")
    for session_id in here.sessions:
        kill_marked(session_id)
