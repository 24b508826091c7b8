"""Small real processes for the tests of the holders."""

import contextlib
import os
import sys
import time
from pathlib import Path
from typing import Any

from bridle.process.attached import AttachedProcess
from bridle.process.spec import SESSION_MARK, ProcessSpec, StopStep

QUICK_STOP = (
    StopStep(signal=15, grace=10.0),
    StopStep(signal=9, grace=5.0, to="group"),
)


def python_spec(
    code: str, mark: str, *args: str, cwd: str | Path = "/", **more: Any
) -> ProcessSpec:
    """A child that runs `code` in a bare interpreter, in an environment built from nothing."""
    return ProcessSpec(
        argv=(sys.executable, "-I", "-S", "-c", code, *args),
        env={"PATH": os.environ["PATH"], SESSION_MARK: mark},
        cwd=str(cwd),
        **more,
    )


def sh_spec(script: str, mark: str, *, cwd: str | Path = "/", **more: Any) -> ProcessSpec:
    return ProcessSpec(
        argv=("/bin/sh", "-c", script),
        env={"PATH": os.environ["PATH"], SESSION_MARK: mark},
        cwd=str(cwd),
        **more,
    )


def all_lines(process: AttachedProcess, *, seconds: float = 60.0) -> list[bytes]:
    """Everything a started child says, to its end."""
    lines: list[bytes] = []
    until = time.monotonic() + seconds
    while (more := process.next_lines(until)) is not None:
        lines += more
        assert time.monotonic() < until, f"the child did not end within {seconds} s"
    return lines


def wait_for(process: AttachedProcess, line: bytes, *, seconds: float = 30.0) -> list[bytes]:
    """Read until `line` was said; returns what was said before it."""
    seen: list[bytes] = []
    until = time.monotonic() + seconds
    while line not in seen:
        more = process.next_lines(until)
        assert more is not None, f"the child ended, having said {seen!r}"
        assert time.monotonic() < until, f"{line!r} did not come; {seen!r} did"
        seen += more
    return seen


def open_fds() -> int:
    return len(os.listdir("/proc/self/fd"))


def memory_peak() -> int:
    """This process's highest resident memory so far since `reset_memory_peak`, in bytes."""
    for row in Path("/proc/self/status").read_text().splitlines():
        if row.startswith("VmHWM:"):
            return int(row.split()[1]) * 1024
    raise AssertionError("no VmHWM")


def reset_memory_peak() -> None:
    Path("/proc/self/clear_refs").write_text("5")


def is_gone(pid: int) -> bool:
    """Whether a process ended (one that only waits to be reaped counts as ended)."""
    try:
        state = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()[0]
    except OSError:
        return True
    return state == b"Z"


def children_of_ours() -> list[int]:
    """Pids of our own children, zombies included."""
    found: list[int] = []
    for task in Path("/proc/self/task").iterdir():
        # A thread may end while we look; its children then belong to another one.
        with contextlib.suppress(OSError):
            found += [int(pid) for pid in (task / "children").read_text().split()]
    return found
