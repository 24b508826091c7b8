"""Tests with the agents that are installed and logged in here; they cost money, so they are opt-in.

`BRIDLE_LIVE=claude,codex scripts/test tests/live` runs them for these runtimes. Without the
variable nothing here is collected.
"""

import os

import pytest

collect_ignore_glob = [] if os.environ.get("BRIDLE_LIVE") else ["test_*.py"]


@pytest.fixture(autouse=True)
def private_home() -> None:
    """The user's own home: the agents' logins are there."""
