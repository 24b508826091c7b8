"""What an agent does on a signal does not depend on how Bridle itself was started."""

import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest

from bridle.drives.tmux.server import TmuxServer
from tests.conftest import wait_until

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="signals are read from /proc")

LOOK = "grep -E '^Sig(Ign|Blk)' /proc/self/status"

HOST = f"""
import os, signal, sys, time
drive, mark, folder, *path = sys.argv[1:]
sys.path[:0] = path
from bridle.process.spec import SESSION_MARK, ProcessSpec
assert signal.getsignal(signal.SIGINT) == signal.SIG_IGN, "the test starts us with it ignored"
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])
spec = ProcessSpec(argv=('/bin/sh', '-c', {LOOK!r}), cwd='/',
                   env={{SESSION_MARK: mark, 'PATH': os.environ['PATH']}})
until = time.monotonic() + 60
if drive == 'attached':
    from bridle.process.attached import AttachedProcess
    held = AttachedProcess(spec)
    held.start()
    while (lines := held.next_lines(until)) is not None and time.monotonic() < until:
        for line in lines:
            print(line.decode())
    held.close()
elif drive == 'detached':
    from bridle.process.detached import DetachedProcess
    kept = DetachedProcess(folder)
    kept.start(spec)
    while kept.exit() is None and time.monotonic() < until:
        time.sleep(0.01)
    for line in kept.read_lines():
        print(line.decode())
elif drive == 'interactive':
    from bridle.process.terminal import run_at_terminal
    run_at_terminal(spec)
elif drive == 'attach':
    from bridle.cli.session_attach import show_terminal
    show_terminal(spec)
elif drive == 'daemon':
    from bridle.sessions.client import start_daemon
    from bridle.sessions.home import StateHome
    daemon = start_daemon(StateHome(folder))
    os.system(f"grep -E '^Sig(Ign|Blk)' /proc/{{daemon.pid}}/status")
    daemon.terminate()
    print('ended by', daemon.wait(60))
"""

IGNORING = 'trap "" HUP INT QUIT TERM PIPE; exec "$@"'
ALL = (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM, signal.SIGPIPE)


def ignored_in(report: str) -> list[str]:
    """The names of the signals that a process said it ignores or blocks."""
    masks = [int(line.split()[1], 16) for line in report.splitlines() if line.startswith("Sig")]
    assert len(masks) == 2, report
    return [each.name for each in ALL if any(mask & 1 << each - 1 for mask in masks)]


@pytest.mark.parametrize("drive", ["attached", "detached", "interactive", "attach", "daemon"])
def test_signals_that_we_ignore_have_their_effect_on_agents(
    drive: str, tmp_path: Path, no_leftovers: Callable[[], str]
) -> None:
    words = ["-I", "-c", HOST, drive, no_leftovers(), str(tmp_path / "folder"), *sys.path]
    done = subprocess.run(
        ["/bin/sh", "-c", IGNORING, "sh", sys.executable, *words],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    # Python itself ignores SIGPIPE; what it starts does not.
    ours = {"SIGPIPE"} if drive == "daemon" else set()
    assert set(ignored_in(done.stdout)) <= ours
    if drive == "daemon":
        assert f"ended by {-signal.SIGTERM}" in done.stdout


PANE = """
import os, sys
folder, script, *path = sys.argv[1:]
sys.path[:0] = path
from bridle.drives.tmux.server import TmuxServer
server = TmuxServer(folder)
server.start()
server.new_session("one", ["/bin/sh", "-c", script], cwd="/", env={"PATH": os.environ["PATH"]})
server.close()
"""


@pytest.mark.real_cli(only="tmux")
def test_a_pane_does_not_ignore_what_we_ignore(tmp_path: Path) -> None:
    told = tmp_path / "told"
    script = f"{LOOK} >{told}.part; mv {told}.part {told}; exec sleep 60"
    # The folders that pytest makes have paths too long for a socket.
    with tempfile.TemporaryDirectory(prefix="bridle-tmux-") as folder:
        words = [sys.executable, "-I", "-c", PANE, os.path.join(folder, "s"), script, *sys.path]
        try:
            subprocess.run(["/bin/sh", "-c", IGNORING, "sh", *words], timeout=100, check=True)
            wait_until(told.exists)
        finally:
            TmuxServer(os.path.join(folder, "s")).kill()
    assert ignored_in(told.read_text()) == []
