"""Asks real agents for what they may not do, and prints what stopped each: runtime x drive x case.

`python scripts/guard_table.py [RUNTIME[-VERSION][:DRIVE[:CASES]]]…`; without arguments every agent
and drive of `tests/guard/agents.py` but the older versions. All run offline on the scripted model:

    a  a harmless write inside            happens
    b  a write outside by file tool       c  by shell      d  git push
    e  a tool that a scout may not use    f  a write outside hidden in `python -c`, in a sandbox

Each case is a run or session of its own. A cell says what was done about the call: `done`, or who
refused it (`guard: rule`, `sandbox`, `agent` for a boundary of the agent's own). An agent without
tools cannot be guarded: it runs in the sandbox alone, and `agent` says that it runs no commands.
Exit status 1 when (a) did not happen, or any other did.
"""

import argparse
import sys
import time
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from tests.guard.agents import AGENTS, WITHOUT_GUARD, Agent  # noqa: E402 - path first
from tests.guard.proof import CASES, cell_of  # noqa: E402 - path first

OLDER = {("claude", "2.1.197"), ("pi", "0.74.2")}


def _chosen(words: list[str]) -> list[tuple[Agent, str, str]]:
    # `print-hooks` is no drive: a way of the tests to have hooks in a run.
    pairs = [
        (each, drive)
        for each in (*AGENTS, *WITHOUT_GUARD)
        for drive in each.drives
        if drive != "print-hooks"
    ]
    if not words:
        return [(*pair, CASES) for pair in pairs if (pair[0].name, pair[0].version) not in OLDER]
    chosen = []
    for word in words:
        name, only, cases = [*word.split(":"), "", ""][:3]
        fitting = [
            (agent, drive, cases or CASES)
            for agent, drive in pairs
            if name in (agent.name, str(agent)) and only in ("", drive)
        ]
        if not fitting or not set(cases) <= set(CASES):
            known = ", ".join(f"{agent}:{drive}" for agent, drive in pairs)
            raise SystemExit(f"no such row: {word}. There are: {known}; cases: {CASES}")
        chosen += fitting
    return chosen


def main(words: list[str]) -> int:
    """Print the table, a row as soon as it is known."""
    rows = _chosen(words)
    sys.stdout.write(f"| runtime | drive | {' | '.join(CASES)} |\n|{'---|' * (len(CASES) + 2)}\n")
    began, right = time.monotonic(), True
    for agent, drive, cases in rows:
        cells = []
        for case in CASES:
            if case not in cases:
                cells.append("")
                continue
            said, is_right = cell_of(agent, drive, case)
            cells.append(said if is_right else f"**{said}**")
            right = right and is_right
        sys.stdout.write(f"| {agent} | {drive} | {' | '.join(cells)} |\n")
        sys.stdout.flush()
    sys.stderr.write(f"{time.monotonic() - began:.0f} s\n")
    return 0 if right else 1


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("row", nargs="*", metavar="RUNTIME[-VERSION][:DRIVE[:CASES]]")
    sys.exit(main(parser.parse_args().row))
