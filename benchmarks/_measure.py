"""Measuring whole processes: wall time, processor time, memory, and what they leave running.

All figures of a table are taken in turns in one run, so that noise of the machine hits every row
alike; medians are compared.
"""

import os
import statistics
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple


class Cost(NamedTuple):
    """What one process cost, everything it waited for included (memory: the process alone)."""

    wall: float
    cpu: float
    peak_kb: int
    output: bytes


def cost_of(argv: Sequence[str], env: Mapping[str, str], cwd: Path) -> Cost:
    """Run a command to its end and measure it. Raises when it fails or takes over two minutes."""
    began = time.monotonic()
    with subprocess.Popen(
        argv, env=env, cwd=cwd, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        os.set_blocking(process.stdout.fileno(), False)
        chunks: list[bytes] = []
        peak = 0
        while True:
            peak = max(peak, _peak_kb(process.pid))
            while chunk := _read(process.stdout.fileno()):
                chunks.append(chunk)
            pid, status, usage = os.wait4(process.pid, os.WNOHANG)
            if pid:
                break
            if time.monotonic() - began > 120:
                process.kill()
                raise TimeoutError(f"{argv[0]} did not end")
            time.sleep(0.005)
        wall = time.monotonic() - began
        process.returncode = os.waitstatus_to_exitcode(status)
        while chunk := _read(process.stdout.fileno()):
            chunks.append(chunk)
    output = b"".join(chunks)
    if process.returncode != 0:
        raise RuntimeError(f"{argv[0]} exited {process.returncode}: {output[-2000:]!r}")
    return Cost(wall, usage.ru_utime + usage.ru_stime, peak, output)


def _read(fd: int) -> bytes:
    try:
        return os.read(fd, 1 << 16)
    except BlockingIOError:
        return b""


def _peak_kb(pid: int) -> int:
    """High-water mark of the process's own memory; 0 once it is gone."""
    try:
        text = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return 0
    for line in text.splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1])
    return 0


def in_turns(rounds: int, works: Mapping[str, Callable[[], Cost]]) -> dict[str, list[Cost]]:
    """Run every work `rounds` times, alternating, after one unmeasured round to warm up."""
    costs: dict[str, list[Cost]] = {name: [] for name in works}
    for number in range(rounds + 1):
        for name, work in works.items():
            cost = work()
            if number:
                costs[name].append(cost)
    return costs


def median(values: Sequence[float]) -> float:
    """The middle value."""
    return statistics.median(values)


def print_table(title: str, head: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """A plain table with aligned columns."""
    widths = [max(len(row[i]) for row in (head, *rows)) for i in range(len(head))]
    print(f"\n{title}")
    for row in (head, ["-" * width for width in widths], *rows):
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)))
