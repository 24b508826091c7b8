"""A usage report over 500 MB of transcripts (the usage row of the design's table).

`python -m benchmarks.usage [--megabytes 500] [--rounds 5] [--ccusage PATH]`

The corpus is generated once, in the schema of Claude Code, with repeated lines, forks and
sub-agents, and is kept in `~/.cache/bridle/usage-corpus`. `bridle usage` reads it cold (without its
index), warm (nothing changed) and after one file has grown. Beside it stand `grep -c`, which only
counts the lines, and ccusage if it is installed (`npm install ccusage@20` in
`~/.cache/bridle/bench-ccusage`, or `--ccusage`). Every total is checked before a figure is printed.
"""

import argparse
import json
import os
import shutil
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks._measure import Cost, cost_of, in_turns, median, print_table
from benchmarks._usage_corpus import write_corpus

BIN = Path(sys.executable).parent
CACHE = Path.home() / ".cache" / "bridle"
CCUSAGE = CACHE / "bench-ccusage/node_modules/@ccusage/ccusage-linux-x64/bin/ccusage"
COLD_GOAL = 2.5
WARM_GOAL = 20.0
MEMORY_GOAL = 64 * 1024
"""KiB."""


def main() -> int:
    """Measure and print; exit 1 when a goal is missed or a total is wrong."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--megabytes", type=int, default=500)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--ccusage", type=Path, default=CCUSAGE, help="its native program")
    args = parser.parse_args()
    home = CACHE / "usage-corpus" / str(args.megabytes)
    home.mkdir(parents=True, exist_ok=True)
    facts = write_corpus(home, args.megabytes)
    print(
        f"{facts['bytes'] / 1e6:.0f} MB, {facts['files']} files, {facts['lines']} lines,"
        f" {facts['total']['requests']} requests"
    )
    with tempfile.TemporaryDirectory() as folder:
        return measure(home, facts, Path(folder), args.rounds, args.ccusage)


def measure(home: Path, facts: dict[str, Any], folder: Path, rounds: int, ccusage: Path) -> int:
    """All rows in turns."""
    cache = folder / "cache"
    env = {
        "PATH": os.environ["PATH"],
        "HOME": str(folder),
        "XDG_CACHE_HOME": str(cache),
        "LANG": "C.UTF-8",
    }
    argv = [str(BIN / "bridle"), "usage", "--home", str(home), "--json"]

    def ours() -> Cost:
        cost = cost_of(argv, env, folder)
        check(json.loads(cost.output)["total"], facts)
        return cost

    def cold() -> Cost:
        shutil.rmtree(cache, ignore_errors=True)
        return ours()

    files = home / ".claude" / "projects"
    works: dict[str, Callable[[], Cost]] = {
        "grep -c (counts lines only)": lambda: cost_of(
            ["grep", "-rcF", '"usage":', str(files)], env, folder
        ),
        "bridle usage, cold": cold,
        "bridle usage, nothing changed": ours,
    }
    if ccusage.exists():
        theirs = [str(ccusage), "claude", "daily", "--json", "--offline"]
        works["ccusage"] = lambda: checked(
            cost_of(theirs, {**env, "HOME": str(home)}, folder), facts
        )
    costs = in_turns(rounds, works)
    rows = [
        [
            name,
            f"{median([each.cpu for each in found]) * 1000:.0f}",
            f"{median([each.wall for each in found]) * 1000:.0f}",
            f"{max(each.peak_kb for each in found) / 1024:.0f}",
        ]
        for name, found in costs.items()
    ]
    print_table("usage report", ["", "CPU ms", "wall ms", "peak MB"], rows)
    return judge(costs)


def judge(costs: dict[str, list[Cost]]) -> int:
    """Print what is compared with the goals; 1 when one is missed."""
    cold = median([each.cpu for each in costs["bridle usage, cold"]])
    warm = median([each.cpu for each in costs["bridle usage, nothing changed"]])
    peak = max(each.peak_kb for each in costs["bridle usage, cold"])
    ok = peak <= MEMORY_GOAL
    print(f"memory: {peak / 1024:.0f} MB (goal: at most {MEMORY_GOAL >> 10})")
    if "ccusage" in costs:
        theirs = median([each.cpu for each in costs["ccusage"]])
        print(f"cold: {theirs / cold:.2f} times ccusage per CPU-second (goal: {COLD_GOAL})")
        print(f"nothing changed: {theirs / warm:.1f} times (goal: {WARM_GOAL:.0f})")
        ok = ok and theirs / cold >= COLD_GOAL and theirs / warm >= WARM_GOAL
    else:
        print("ccusage is not installed: nothing to compare with")
    return 0 if ok else 1


def check(total: dict[str, Any], facts: dict[str, Any]) -> None:
    """Raise when a total of ours is wrong."""
    wanted = dict(facts["total"])
    requests = wanted.pop("requests")
    found = {name: total["usage"][name] for name in wanted}
    if found != wanted or total["requests"] != requests:
        raise AssertionError(f"wrong total: {found}, {total['requests']} requests")


def checked(cost: Cost, facts: dict[str, Any]) -> Cost:
    """Raise when a total of ccusage's is wrong: then it measures something else."""
    total = json.loads(cost.output)["totals"]
    wanted = facts["total"]
    if total["outputTokens"] != wanted["output_tokens"]:
        raise AssertionError(f"ccusage counts differently: {total}")
    return cost


if __name__ == "__main__":
    sys.exit(main())
