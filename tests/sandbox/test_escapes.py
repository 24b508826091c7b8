"""Ways around the file system: other processes, terminals, sockets, shared memory."""

import os
import pty
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest
from tests.conftest import wait_until
from tests.sandbox.test_confinement import MEANS, Place, only

from bridle.process.process_tree import KEEPER, end_marked, kill_marked, look, marked_processes
from bridle.process.spec import SESSION_MARK, ProcessSpec
from bridle.sandbox import confine, launcher, policy_for, preflight
from bridle.sandbox.preflight import SIGNAL_SCOPE

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the sandbox is Linux's")


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def python(code: str) -> str:
    return f"{sys.executable} -c '{code}'"


@pytest.mark.parametrize("means", MEANS)
def test_limits_of_other_processes_cannot_be_changed(place: Place, means: str) -> None:
    change = "import os, resource; resource.prlimit({}, resource.RLIMIT_CPU, (600, 600))"
    with subprocess.Popen(["sleep", "60"]) as other:
        try:
            assert place.run(python(change.format(other.pid)), means=means) != 0
            assert "PermissionError" in place.last.stderr
            limits = Path(f"/proc/{other.pid}/limits").read_text()
            assert " 600 " not in limits
        finally:
            other.kill()
    own = "import resource; resource.setrlimit(resource.RLIMIT_CPU, (600, 600))"
    assert place.run(python(own), means=means) == 0


@pytest.mark.parametrize("means", MEANS)
def test_no_input_can_be_pushed_into_a_terminal(place: Place, means: str) -> None:
    """In a terminal of its own, as under `--interactive`."""
    can = only(means)
    policy = policy_for(
        "read-only", str(place.worktree), scratch=str(place.scratch), mounts=can.mounts
    )
    code = (
        "import fcntl, termios, sys\n"
        "try: fcntl.ioctl(0, termios.TIOCSTI, b'x')\n"
        "except PermissionError: sys.exit(42)"
    )
    env = {"PATH": os.environ["PATH"], "HOME": str(place.scratch)}
    spec = ProcessSpec(argv=(sys.executable, "-c", code), env=env, cwd=str(place.worktree))
    spec = confine(spec, policy, can)
    pid, terminal = pty.fork()
    if pid == 0:
        os.execve(spec.argv[0], spec.argv, spec.env)
    try:
        _, status = os.waitpid(pid, 0)
    finally:
        os.close(terminal)
    assert os.waitstatus_to_exitcode(status) == 42


@pytest.mark.parametrize("means", MEANS)
def test_datagram_socket_pairs_are_refused_and_others_work(place: Place, means: str) -> None:
    pair = "import socket; socket.socketpair(socket.AF_UNIX, socket.{})"
    assert place.run(python(pair.format("SOCK_DGRAM")), means=means) != 0
    assert place.run(python(pair.format("SOCK_STREAM")), means=means) == 0


@pytest.mark.parametrize("means", MEANS)
def test_multiprocessing_has_shared_memory(place: Place, means: str) -> None:
    code = (
        "import multiprocessing as m; p = m.Pool(2); v = m.Value(chr(105), 7);"
        " assert p.map(abs, [-1]) == [1] and v.value == 7; p.terminate()"
    )
    assert place.run(python(code), means=means) == 0, place.last.stderr


@pytest.mark.parametrize("means", ["all", "mounts"])
def test_shared_memory_and_terminals_are_private_with_namespaces(place: Place, means: str) -> None:
    name = f"bridle-test-{os.getpid()}"
    assert place.run(f"echo bad > /dev/shm/{name} && ls /dev/shm", means=means) == 0
    assert place.last.stdout.split() == [name]
    assert not Path("/dev/shm", name).exists()
    # Another terminal of the user's: its name does not exist inside.
    ours, theirs = pty.openpty()
    try:
        assert place.run(f"echo bad > {os.ttyname(theirs)}", means=means) != 0
    finally:
        os.close(ours)
        os.close(theirs)
    outer = os.readlink("/proc/self/ns/ipc")
    assert place.run("readlink /proc/self/ns/ipc", means=means) == 0
    assert place.last.stdout.strip() != outer


@pytest.mark.parametrize("deaf", [False, True])
@pytest.mark.parametrize("grace", [0.0, 1.5])
def test_landlock_alone_ends_a_daemon_without_environment(
    place: Place, deaf: bool, grace: float, no_leftovers: Callable[[], str]
) -> None:
    """It left its group and session, lost its parents, and bears no mark."""
    session_id = no_leftovers()
    can = msgspec.structs.replace(preflight(), mounts=False)
    policy = policy_for("read-only", str(place.worktree), scratch=str(place.scratch), mounts=False)
    noted = place.scratch / "pid"
    inner = (
        f"trap : TERM; echo $$ > {noted}; while :; do sleep 300; done"
        if deaf
        else (f"echo $$ > {noted}; exec sleep 300")
    )
    leave = f"setsid env -i /bin/sh -c '{inner}' >/dev/null 2>&1 </dev/null & sleep 0.5"
    env = {"PATH": os.environ["PATH"], SESSION_MARK: session_id}
    spec = ProcessSpec(argv=("sh", "-c", leave), env=env, cwd=str(place.worktree))
    spec = confine(spec, policy, can)
    with subprocess.Popen(["sleep", "60"]) as other:
        try:
            done = subprocess.Popen(spec.argv, env=spec.env, cwd=spec.cwd, stdin=subprocess.DEVNULL)
            wait_until(lambda: noted.exists() and noted.read_text().endswith("\n"))
            pid = int(noted.read_text())
            assert look(pid) is not None
            assert pid not in marked_processes(session_id)
            assert done.wait(30) == 0
            end_marked(session_id, grace=grace)
            assert look(pid) is None
            assert other.poll() is None, "no other process was touched"
        finally:
            other.kill()


KEEPER_HUNT = """
import os, signal, sys
kept = []
for name in filter(str.isdigit, os.listdir("/proc")):
    try:
        if open(f"/proc/{name}/comm").read().strip() != "bridle-keeper":
            continue
        if MARK in open(f"/proc/{name}/environ").read():
            kept.append(int(name))
    except OSError:
        pass
assert len(kept) == 1, kept
try:
    os.kill(kept[0], signal.SIGKILL)
except PermissionError:
    sys.exit(42)
"""


def test_the_agent_cannot_end_its_keeper(place: Place, no_leftovers: Callable[[], str]) -> None:
    session_id = no_leftovers()
    can = msgspec.structs.replace(preflight(), mounts=False)
    policy = policy_for("read-only", str(place.worktree), scratch=str(place.scratch), mounts=False)
    code = KEEPER_HUNT.replace("MARK", repr(session_id))
    env = {"PATH": os.environ["PATH"], SESSION_MARK: session_id}
    spec = ProcessSpec(argv=(sys.executable, "-c", code), env=env, cwd=str(place.worktree))
    spec = confine(spec, policy, can)
    done = subprocess.run(
        spec.argv, env=spec.env, cwd=spec.cwd, stdin=subprocess.DEVNULL, timeout=60
    )
    assert done.returncode == 42
    kill_marked(session_id)


@pytest.mark.parametrize("nested", ["", "unshare -U "])
def test_a_daemon_without_environment_is_found_and_ended(
    place: Place, nested: str, no_leftovers: Callable[[], str]
) -> None:
    session_id = no_leftovers()
    policy = policy_for("read-only", str(place.worktree), scratch=str(place.scratch))
    noted = place.scratch / "pid"
    inner = f"echo $$ > {noted}; exec sleep 300"
    leave = f"{nested}setsid env -i /bin/sh -c '{inner}' >/dev/null 2>&1 </dev/null &"
    env = {"PATH": os.environ["PATH"], SESSION_MARK: session_id}
    spec = ProcessSpec(argv=("sh", "-c", leave), env=env, cwd=str(place.worktree))
    spec = confine(spec, policy)
    subprocess.run(spec.argv, env=spec.env, cwd=spec.cwd, check=True, stdin=subprocess.DEVNULL)
    wait_until(lambda: noted.exists() and noted.read_text().endswith("\n"))
    pid = int(noted.read_text())
    assert look(pid) is not None
    assert marked_processes(session_id) == [pid]
    assert pid in kill_marked(session_id)
    wait_until(lambda: look(pid) is None)


def test_the_launcher_which_imports_nothing_of_bridle_agrees_with_it() -> None:
    assert launcher.KEEPER.encode() == KEEPER
    assert launcher._SIGNAL_SCOPE == SIGNAL_SCOPE
