"""Finds, signals and ends processes: the only module that reads the system's process table.

On Linux it reads `/proc`, without imports; elsewhere it uses psutil. No other module makes calls
that exist on only one system.
"""

import os
import select
import signal
import sys
import time
from collections.abc import Callable, Iterable
from typing import NamedTuple

from bridle.process.spec import SESSION_MARK

RUN_MOUNT = "bridle:"
"""Prefix of the mount name that marks the processes of a sandbox; the session id follows. A process
can clear its environment, but not its mounts."""

KEEPER = b"bridle-keeper"
"""The name of the process that a sandbox without mounts runs next to an agent: it ends all
processes of the agent, none of which can escape it. SIGTERM makes it do so, SIGQUIT at once."""
_KEEPING = 4.0
"""Seconds that the keeper needs for that."""

_TICK = 0.01
"""Seconds between two checks if the system cannot signal the end of a process."""


class Process(NamedTuple):
    """A process; its start time distinguishes it from a later one with the same id."""

    pid: int
    parent: int
    group: int
    started: str


def marked_processes(session_id: str) -> list[int]:
    """Ids of the running processes with this session's mark in their environment, without its
    keeper.

    An agent's tools run in their own sessions and process groups; they all inherit the environment.
    Zombies do not count.
    """
    return [pid for pid in _sighted(session_id) if look(pid) is not None]


def descendants(pid: int) -> list[Process]:
    """The running descendants of `pid`, whatever their environment contains."""
    return _below({pid})


def kill_marked(session_id: str, *, deadline: float = 5.0) -> list[int]:
    """Kill every process of this session at once; returns their ids."""
    return end_marked(session_id, grace=0.0, deadline=deadline)


def end_marked(
    session_id: str,
    *,
    also: Iterable[Process] = (),
    spare: int = 0,
    grace: float = 1.5,
    deadline: float = 5.0,
    first: Process | None = None,
) -> list[int]:
    """End every process of this session: SIGTERM, up to `grace` seconds, then SIGKILL.

    The time between the two lets a Bridle that an agent started end its own agents, which have
    another mark. `also` are earlier descendants of the agent: a process that cleared its
    environment cannot be found in another way. `spare` is not ended. `first` is the process that
    brought the mark, if the caller knows it: then nothing is read of processes that started before
    it, because reading a busy process may take long. Returns the ids of the processes found.

    Contract: returns within about `grace` plus `deadline`, whatever the processes do. Repeats the
    search until none is left, because a process may fork during the search.
    """
    known = {process.pid: process for process in also if process.pid != spare}
    keepers: list[int] = []
    found = _session_processes(session_id, known, spare, first, keepers)
    if keepers and not spare:
        _have_kept(keepers, signal.SIGTERM if grace > 0 else signal.SIGQUIT)
        found = _session_processes(session_id, known, spare, first)
    pids = [process.pid for process in found]
    if found and grace > 0:
        for process in found:
            _signal_if_same(process, signal.SIGTERM)
        _wait_gone(found, time.monotonic() + grace)
    until = time.monotonic() + deadline
    while found and time.monotonic() < until:
        known.update((process.pid, process) for process in found)
        # Killed during the search: a moment later the process may have forked and exited.
        sighted = _sighted(session_id, lambda pid: _kill_with_group(pid, spare), first=first)
        found = _session_processes("", known, spare)
        for process in found:
            _signal_if_same(process, signal.SIGKILL)
        _wait_gone(found, min(until, time.monotonic() + 0.5))
        found = _session_processes(session_id, known, spare, first)
        pids += [pid for pid in (*sighted, *(each.pid for each in found)) if pid not in pids]
    return pids


def _have_kept(pids: list[int], number: int) -> None:
    """Make keepers end their agents' processes; then the keepers end too."""
    keepers = [process for pid in pids if (process := look(pid)) is not None]
    for process in keepers:
        _signal_if_same(process, number)
    _wait_gone(keepers, time.monotonic() + _KEEPING)
    for process in keepers:
        _signal_if_same(process, signal.SIGKILL)


def send_signal(pid: int, number: int) -> bool:
    """Send a signal to a process; False if it has ended or belongs to another user."""
    try:
        os.kill(pid, number)
    except (ProcessLookupError, PermissionError):
        return False
    return True


def send_group_signal(pgid: int, number: int) -> bool:
    """Send a signal to a process group; False if it has ended or belongs to another user."""
    try:
        os.killpg(pgid, number)
    except (ProcessLookupError, PermissionError):
        return False
    return True


def exit_fd(pid: int) -> int | None:
    """A descriptor that becomes readable when `pid` ends; None if the system has none."""
    if sys.platform == "linux":
        try:
            return os.pidfd_open(pid)
        except OSError:
            return None
    return None


def has_ended(pid: int) -> bool | None:
    """Whether the child `pid` has ended, without reaping it.

    Until it is reaped, its id cannot be reused and its group can be signalled safely. None if the
    system cannot tell: poll the child instead.
    """
    if sys.platform == "linux":
        try:
            return os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
        except ChildProcessError:
            return True
    return None


# -- processes of a session -----------------------------------------------------------------------


def _session_processes(
    session_id: str,
    known: dict[int, Process],
    spare: int,
    first: Process | None = None,
    keepers: list[int] | None = None,
) -> list[Process]:
    """Marked processes, known processes that still run, and all their descendants; `keepers` gets
    the session's keepers."""
    alive: dict[int, Process] = {}
    for pid in _sighted(session_id, keepers=keepers, first=first):
        process = look(pid)
        if process is not None:
            alive[pid] = process
    for process in known.values():
        if _still(process):
            alive[process.pid] = process
    if alive:
        alive.update((process.pid, process) for process in _below(set(alive)))
    alive.pop(spare, None)
    return list(alive.values())


def _below(roots: set[int]) -> list[Process]:
    """Every running descendant of `roots`."""
    parents: dict[int, Process] = {}
    for pid in _pids():
        process = look(pid)
        if process is not None:
            parents[pid] = process
    found: list[Process] = []
    inside = set(roots)
    grew = True
    while grew:
        grew = False
        for pid, process in parents.items():
            if pid not in inside and process.parent in inside:
                inside.add(pid)
                found.append(process)
                grew = True
    return found


def _kill_with_group(pid: int, spare: int) -> None:
    # The group contains only processes of the agent, and the kernel signals a whole group at once,
    # so that a process that forks faster than the search cannot escape.
    if pid == spare:
        return
    try:
        group = os.getpgid(pid)
    except OSError:
        return
    if group > 1 and group not in (os.getpgrp(), spare):
        send_group_signal(group, signal.SIGKILL)
    send_signal(pid, signal.SIGKILL)


def _signal_if_same(process: Process, number: int) -> None:
    """Signal a process, never another one that reused its id."""
    if sys.platform == "linux":
        try:
            handle = os.pidfd_open(process.pid)
        except OSError:
            return
        try:
            if _still(process):
                signal.pidfd_send_signal(handle, number)
        except (ProcessLookupError, PermissionError):
            return
        finally:
            os.close(handle)
    elif _still(process):
        send_signal(process.pid, number)


def _wait_gone(processes: list[Process], until: float) -> None:
    """Wait until all `processes` have ended or `until` (monotonic) has passed."""
    for process in processes:
        handle = exit_fd(process.pid)
        if handle is None:
            while _still(process) and time.monotonic() < until:
                time.sleep(_TICK)
            continue
        try:
            if _still(process):
                waiter = select.poll()
                waiter.register(handle, select.POLLIN)
                waiter.poll(max(0.0, until - time.monotonic()) * 1000)
        finally:
            os.close(handle)


# -- the process table ----------------------------------------------------------------------------


def _sighted(
    session_id: str,
    act: Callable[[int], None] | None = None,
    keepers: list[int] | None = None,
    first: Process | None = None,
) -> list[int]:
    """Ids of processes with the mark; `act` is called on each at once. Keepers are not included;
    `keepers` gets them. Processes that started before `first` are left out (Linux only)."""
    if not session_id:
        return []
    if sys.platform == "linux":
        return _linux_sighted(f"{SESSION_MARK}={session_id}".encode(), act, keepers, first)
    found = _psutil_marked(session_id)
    if act is not None:
        for pid in found:
            act(pid)
    return found


def _pids() -> list[int]:
    if sys.platform == "linux":
        return _linux_pids()
    import psutil

    return [pid for pid in psutil.pids() if pid != os.getpid()]


def look(pid: int) -> Process | None:
    """The running process `pid`; None if it has ended, also before it is reaped."""
    if sys.platform == "linux":
        return _linux_look(pid)
    return _psutil_look(pid)


def command_words(pid: int) -> list[str]:
    """The command line of a running process; [] if it has ended or cannot be read."""
    if sys.platform == "linux":
        if _linux_look(pid) is None:
            return []
        return [os.fsdecode(word) for word in _read_proc(f"/proc/{pid}/cmdline").split(b"\0")]
    import psutil

    try:
        return list(psutil.Process(pid).cmdline())
    except psutil.Error:
        return []


def environment(pid: int) -> dict[str, str]:
    """The environment that a process was started with; {} if it has ended or cannot be read."""
    if sys.platform == "linux":
        words = _read_proc(f"/proc/{pid}/environ").split(b"\0")
        pairs = (os.fsdecode(word).partition("=") for word in words if b"=" in word)
        return {name: value for name, _, value in pairs}
    import psutil

    try:
        return dict(psutil.Process(pid).environ())
    except psutil.Error:
        return {}


def _still(process: Process) -> bool:
    """Whether exactly this process runs; its parent and group may have changed."""
    now = look(process.pid)
    return now is not None and now.started == process.started


def _linux_pids() -> list[int]:
    me = os.getpid()
    return [pid for name in os.listdir("/proc") if name.isdigit() and (pid := int(name)) != me]


def _linux_sighted(
    mark: bytes,
    act: Callable[[int], None] | None,
    keepers: list[int] | None,
    first: Process | None,
) -> list[int]:
    """Check every process, then those that started meanwhile, until there are none.

    A process that constantly forks and exits is never in the current list; but its child is new,
    and the newest processes are checked first.
    """
    found: list[int] = []
    seen: set[int] = set()
    unclear: set[int] = set()
    ours = _linux_user_space(os.getpid())
    # With separators around it: one session id may be the prefix of another.
    mount = b" " + RUN_MOUNT.encode() + mark.partition(b"=")[2] + b" "
    for _ in range(_MOST_LOOKS):
        fresh = [pid for pid in _linux_pids() if pid not in seen]
        if not fresh:
            break
        for pid in reversed(fresh):
            seen.add(pid)
            # Ids increase and wrap around at the maximum: only a lower one can be older.
            if first is not None and pid < first.pid and _linux_before(pid, first):
                continue
            environment = _read_proc(f"/proc/{pid}/environ")
            held = _linux_user_space(pid) not in (ours, "")
            if (mark in environment and mark in environment.split(b"\0")) or (
                held and mount in _mounts(pid)
            ):
                if not held and _read_proc(f"/proc/{pid}/comm").strip() == KEEPER:
                    if keepers is not None:
                        keepers.append(pid)
                    continue
                found.append(pid)
                if act is not None:
                    act(pid)
            elif environment == b"" and pid not in unclear:
                # During an exec the environment is empty: check once more.
                unclear.add(pid)
                seen.discard(pid)
    return found


_MOST_LOOKS = 50


def _linux_user_space(pid: int) -> str:
    """The user namespace of a process; empty if it has ended or cannot be read."""
    try:
        return os.readlink(f"/proc/{pid}/ns/user")
    except OSError:
        return ""


def _mounts(pid: int) -> bytes:
    return _read_proc(f"/proc/{pid}/mountinfo")


def _linux_before(pid: int, first: Process) -> bool:
    """Whether a process started before `first`, or has ended."""
    fields = _linux_stat(pid)
    return len(fields) < 20 or int(fields[19]) < int(first.started)


def _linux_stat(pid: int) -> list[bytes]:
    """What the system says about a process, from its state on."""
    return _read_proc(f"/proc/{pid}/stat").rpartition(b")")[2].split()


def _linux_look(pid: int) -> Process | None:
    fields = _linux_stat(pid)
    if len(fields) < 20 or fields[0] in (b"Z", b"X"):
        return None
    return Process(pid, int(fields[1]), int(fields[2]), fields[19].decode())


def _read_proc(path: str) -> bytes:
    """A file of `/proc`; `_NOTHING` if the process has ended or cannot be read. Uses raw calls:
    this runs for every process of the machine at the end of each run."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return _NOTHING
    try:
        parts = []
        while part := os.read(fd, 1 << 16):
            parts.append(part)
        return parts[0] if len(parts) == 1 else b"".join(parts)
    except OSError:
        return _NOTHING
    finally:
        os.close(fd)


_NOTHING = b"\0"
"""The content of a file that cannot be read."""


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


def _psutil_look(pid: int) -> Process | None:
    import psutil

    try:
        process = psutil.Process(pid)
        if process.status() == psutil.STATUS_ZOMBIE:
            return None
        return Process(pid, process.ppid(), os.getpgid(pid), str(process.create_time()))
    except (psutil.Error, OSError):
        return None
