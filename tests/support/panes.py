"""A tmux server of a test's own, and a pane whose goal is waited for."""

import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager

from bridle.drives.tmux.server import TmuxServer
from bridle.drives.tmux.terminal import Terminal


@contextmanager
def private_server() -> Iterator[TmuxServer]:
    """A server that runs, and is gone at the end."""
    # The folders that pytest makes have paths too long for a socket.
    folder = tempfile.mkdtemp(prefix="bridle-tmux-")
    made = TmuxServer(os.path.join(folder, "s"))
    try:
        made.start()
        yield made
    finally:
        made.kill()
        shutil.rmtree(folder, ignore_errors=True)


def reach(terminal: Terminal) -> None:
    """Do what is due at a pane until its goal is reached; raises what says why it cannot be."""
    while (until := terminal.step()) is not None:
        time.sleep(max(0.0, until - time.monotonic()))
