"""The one module that looks at processes of the operating system.

Linux answers from `/proc`, without importing anything; elsewhere psutil does.
"""

import os
import signal
import sys
import time

from bridle.drives.spec import SESSION_MARK


def marked_processes(session_id: str) -> list[int]:
    """Pids of the living processes that carry this session's mark in their environment.

    An agent's tools run in sessions and process groups of their own; the environment is what they
    all inherit. Zombies do not count: they hold nothing.
    """
    mark = f"{SESSION_MARK}={session_id}".encode()
    if sys.platform == "linux":
        return [pid for pid in _linux_pids() if _linux_has_mark(pid, mark)]
    return _psutil_marked(session_id)


def kill_marked(session_id: str, *, deadline: float = 5.0) -> list[int]:
    """Kill every process of this session; returns those that were found.

    Repeats until none is left, since a process may fork while it is being looked for.
    """
    found: list[int] = []
    until = time.monotonic() + deadline
    while time.monotonic() < until:
        alive = marked_processes(session_id)
        if not alive:
            break
        for pid in alive:
            send_signal(pid, signal.SIGKILL)
            if pid not in found:
                found.append(pid)
        time.sleep(0.01)
    return found


def send_signal(pid: int, number: int) -> bool:
    """Send a signal to a process; False when it is already gone or not ours."""
    try:
        os.kill(pid, number)
    except (ProcessLookupError, PermissionError):
        return False
    return True


def send_group_signal(pgid: int, number: int) -> bool:
    """Send a signal to a process group; False when it is already gone or not ours."""
    try:
        os.killpg(pgid, number)
    except (ProcessLookupError, PermissionError):
        return False
    return True


def _linux_pids() -> list[int]:
    me = os.getpid()
    return [pid for name in os.listdir("/proc") if name.isdigit() and (pid := int(name)) != me]


def _linux_has_mark(pid: int, mark: bytes) -> bool:
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:
            if mark not in file.read().split(b"\0"):
                return False
        with open(f"/proc/{pid}/stat", "rb") as file:
            return file.read().rpartition(b")")[2].split()[0] != b"Z"
    except (OSError, IndexError):
        return False


def _psutil_marked(session_id: str) -> list[int]:
    import psutil

    found = []
    for process in psutil.process_iter():
        try:
            if (
                process.pid != os.getpid()
                and process.environ().get(SESSION_MARK) == session_id
                and process.status() != psutil.STATUS_ZOMBIE
            ):
                found.append(process.pid)
        except psutil.Error:
            continue
    return found


def exit_fd(pid: int) -> int | None:
    """A descriptor that becomes readable when `pid` ends, where the system has such a thing."""
    if sys.platform == "linux":
        try:
            return os.pidfd_open(pid)
        except OSError:
            return None
    return None
