"""Keys and captures in a tmux pane: one control-mode connection against a process per call.

`python -m benchmarks.tmux [--rounds 200]`

Checked first: both ways show the same pane, and the keys of both arrive. Rounds are taken in turns,
so that the machine's noise hits both alike. Exit 1 when the goal is not met.
"""

import argparse
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from benchmarks._measure import median, print_table

from bridle.drives.tmux.server import TmuxServer

GOAL = 8.0
NAME = "bench"


def main() -> int:
    """Measure and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=200)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="bridle-") as folder:
        server = TmuxServer(str(Path(folder) / "s"))
        server.start()
        try:
            return rows(server, folder, args.rounds)
        finally:
            server.kill()


def rows(server: TmuxServer, folder: str, rounds: int) -> int:
    """The table: median of each call, and how many times faster the connection is."""
    env = {"PATH": "/usr/bin:/bin", "LANG": "C.UTF-8"}
    server.new_session(NAME, ["/bin/cat", "-"], cwd=folder, env=env)

    def alone(*words: str) -> str:
        argv = ["tmux", "-S", server.socket, *words]
        return subprocess.run(argv, capture_output=True, text=True, check=True).stdout

    def key_alone() -> None:
        alone("send-keys", "-t", f"={NAME}:", "a")

    def capture_alone() -> str:
        return alone("capture-pane", "-p", "-t", f"={NAME}:")

    _check(server, key_alone, capture_alone)
    pairs: dict[str, tuple[Callable[[], object], Callable[[], object]]] = {
        "a key": (lambda: server.send_keys(NAME, "a"), key_alone),
        "a capture": (lambda: server.capture(NAME), capture_alone),
    }
    table, worst = [], float("inf")
    for what, (connected, process) in pairs.items():
        times: tuple[list[float], list[float]] = ([], [])
        for _ in range(rounds):
            for each, call in zip(times, (connected, process), strict=True):
                began = time.perf_counter()
                call()
                each.append(time.perf_counter() - began)
        fast, slow = median(times[0]), median(times[1])
        worst = min(worst, slow / fast)
        table.append([what, f"{fast * 1e6:.0f}", f"{slow * 1e6:.0f}", f"{slow / fast:.1f}"])
    print_table(
        f"tmux calls ({rounds} rounds in turns, medians; goal at least {GOAL:g} times)",
        ["call", "connection µs", "process µs", "times faster"],
        table,
    )
    return 0 if worst >= GOAL else 1


def _check(
    server: TmuxServer, key_alone: Callable[[], None], capture_alone: Callable[[], str]
) -> None:
    """Both ways must do the same before their time counts."""
    server.send_keys(NAME, "b")
    key_alone()
    until = time.monotonic() + 10
    while server.capture(NAME).strip() != "ba":
        if time.monotonic() > until:
            raise RuntimeError("the keys did not arrive")
    if server.capture(NAME).rstrip("\n") != capture_alone().rstrip("\n"):
        raise RuntimeError("the two ways show different panes")


if __name__ == "__main__":
    sys.exit(main())
