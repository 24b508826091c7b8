"""Fixtures for every test: nothing of the user's is read or written, nothing is left behind."""

import contextlib
import os
import signal
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import settings

import bridle.runs  # noqa: F401  (so that `nothing_left` finds it)
from bridle.process.process_tree import kill_marked, marked_processes
from bridle.testing.bench import AgentBench
from tests.process.children import children_of_ours
from tests.support import real_cli

SCRATCH = Path(__file__).parents[1] / ".tmp" / "bench"

pytest_plugins = ["bridle.testing.bench.pytest_plugin"]

# The machines that run these tests are slow and shared: time proves nothing here. The examples are
# the same each time, so that a red run can be repeated.
settings.register_profile("bridle", deadline=None, derandomize=True)
settings.load_profile("bridle")


# A shell that starts the tests in the background has these ignored. Tests send them to programs
# that keep an ignored signal ignored, as `bridle run` does.
with contextlib.suppress(ValueError):
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGHUP, signal.SIG_DFL)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--cli",
        action="append",
        default=[],
        metavar="NAME",
        help="run real-CLI tests of this CLI alone (claude, codex-0.166.0); may be given again",
    )


def pytest_configure(config: pytest.Config) -> None:
    real_cli.chosen = frozenset(config.getoption("--cli"))


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(autouse=True)
def private_home(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A throw-away home: HOME and the XDG folders point below it, BRIDLE_* variables are gone."""
    home = tmp_path_factory.mktemp("home")
    monkeypatch.setenv("HOME", str(home))
    for name, folder in (
        ("XDG_CONFIG_HOME", ".config"),
        ("XDG_CACHE_HOME", ".cache"),
        ("XDG_STATE_HOME", ".local/state"),
        ("XDG_DATA_HOME", ".local/share"),
        ("XDG_RUNTIME_DIR", ".run"),
    ):
        (home / folder).mkdir(mode=0o700, parents=True, exist_ok=True)
        monkeypatch.setenv(name, str(home / folder))
    for name in list(os.environ):
        if name.startswith("BRIDLE_"):
            monkeypatch.delenv(name)
    return home


@pytest.fixture
def no_leftovers() -> Iterator[Callable[[], str]]:
    """Gives fresh session ids; at the end no process may carry one of them as its mark.

    Whoever does is named in the failure, and killed.
    """
    given: list[str] = []

    def fresh() -> str:
        given.append(str(uuid.uuid4()))
        return given[-1]

    yield fresh
    left = [pid for session_id in given for pid in marked_processes(session_id)]
    words = [_command_of(pid) for pid in left]
    for session_id in given:
        kill_marked(session_id)
    assert not left, f"processes were left behind: {words}"


@pytest.fixture
def nothing_left(
    no_leftovers: Callable[[], str], monkeypatch: pytest.MonkeyPatch
) -> Iterator[Callable[[], str]]:
    """Every run's mark is one of `no_leftovers`; our own children, zombies too, are counted."""
    for name, module in list(sys.modules.items()):
        if name.startswith("bridle.") and hasattr(module, "new_session_id"):
            monkeypatch.setattr(module, "new_session_id", no_leftovers)
    children = set(children_of_ours())
    yield no_leftovers
    assert set(children_of_ours()) <= children


@pytest.fixture
def bench() -> Iterator[AgentBench]:
    """A bench for a real CLI: its working directory is a repository.

    Not below a temp folder: some sandboxes leave those writable.
    """
    with AgentBench(SCRATCH / uuid.uuid4().hex[:12]) as made:
        made.make_repository()
        yield made


def wait_until(holds: Callable[[], bool], *, seconds: float = 20.0) -> None:
    """Wait for a fact with a deadline; fails when it does not come true."""
    until = time.monotonic() + seconds
    while not holds():
        if time.monotonic() > until:
            pytest.fail(f"not true after {seconds} s: {holds}")
        time.sleep(0.01)


def _command_of(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode()
    except OSError:
        return str(pid)
