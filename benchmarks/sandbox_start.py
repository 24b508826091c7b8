"""What the sandbox adds to a start: `/bin/true` plain against confined.

`python -m benchmarks.sandbox_start [--rounds 40]`

Each row is first checked: the confined process must be able to write inside and not outside.
"""

import argparse
import os
import sys
import tempfile
from functools import partial
from pathlib import Path

import msgspec
from benchmarks._measure import cost_of, in_turns, median, print_table

from bridle.process.spec import ProcessSpec
from bridle.sandbox import Enforcement, SandboxPolicy, confine, policy_for, preflight


def main() -> int:
    """Measure each means and print the table; exit 1 when this machine has no sandbox."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=40)
    args = parser.parse_args()
    can = preflight()
    if not can.holds_writes:
        print("\n".join(can.gaps))
        return 1
    with tempfile.TemporaryDirectory() as folder:
        rows(Path(folder), can, args.rounds)
    return 0


def rows(folder: Path, can: Enforcement, rounds: int) -> None:
    """The table: wall and CPU of each start, as multiples of the plain one."""
    work, scratch = folder / "work", folder / "scratch"
    for each in (work, scratch):
        each.mkdir()
    policy = policy_for("worktree", str(work), scratch=str(scratch))
    env = {"PATH": os.environ["PATH"], "HOME": str(scratch)}
    nothing = msgspec.structs.replace(can, mounts=False, landlock=False, seccomp=False)
    kinds = {"all means": can}
    if can.mounts:
        kinds["mounts"] = msgspec.structs.replace(nothing, mounts=True)
    if can.landlock and can.landlock_version >= 3:
        kinds["Landlock"] = msgspec.structs.replace(nothing, landlock=True)
    starts = {"plain /bin/true": ("/bin/true",)}
    starts["bare Python, then it"] = (
        *(sys.executable, "-I", "-S", "-c"),
        "import ctypes, json, os; os.execv('/bin/true', ['true'])",
    )
    for name, means in kinds.items():
        _check(policy, means, env, work)
        spec = ProcessSpec(argv=("/bin/true",), env=env, cwd=str(work))
        starts[f"confined: {name}"] = confine(spec, policy, means).argv
    costs = in_turns(
        rounds, {name: partial(cost_of, argv, env, work) for name, argv in starts.items()}
    )
    floor = costs["plain /bin/true"]
    table = [
        [
            name,
            f"{median([c.wall for c in row]) * 1000:.1f}",
            f"{median([c.wall for c in row]) / median([c.wall for c in floor]):.1f}",
            f"{median([c.cpu for c in row]) * 1000:.1f}",
            f"{median([c.cpu for c in row]) / median([c.cpu for c in floor]):.1f}",
        ]
        for name, row in costs.items()
    ]
    print_table(
        f"start of a confined process ({rounds} rounds in turns, medians)",
        ["start", "wall ms", "ratio", "CPU ms", "ratio"],
        table,
    )


def _check(policy: SandboxPolicy, means: Enforcement, env: dict[str, str], work: Path) -> None:
    """See that the means hold before their cost is counted."""
    probe = "echo in > inside && ! (echo out > ../outside) 2>/dev/null"
    spec = ProcessSpec(argv=("sh", "-c", probe), env=env, cwd=str(work))
    cost_of(confine(spec, policy, means).argv, env, work)
    assert (work / "inside").read_text() == "in\n"
    assert not (work.parent / "outside").exists()


if __name__ == "__main__":
    sys.exit(main())
