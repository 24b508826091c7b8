"""What a guarded tool call costs: verdicts in process, the hook process, a call inside Claude Code.

    python benchmarks/guard.py [--claude PATH] [--rounds N] [--calls N] [--mixed N] [--only-mixed]

Answers are checked first. Rows of one table are taken in turns, and compared pair by pair.
"""

import argparse
import json
import random
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent))
from benchmarks._claude_calls import CallCosts, Kind, added, play
from benchmarks._measure import median, print_table
from benchmarks.sandbox_start import rows as sandbox_rows
from tests.guard.worst import kinds as kinds_of_hard_calls

from bridle.guard import Call, HookHost, Judge, Policy
from bridle.guard.corpus import make_places, read_cases
from bridle.runtimes.claude import ClaudeRuntime
from bridle.sandbox import preflight
from bridle.turns.guard_contract import GuardMechanism, HookShape


def in_process(worktree: str) -> None:
    """Verdicts per second of a ready judge. No call comes twice: a command that was parsed before
    is not parsed again, so a repeated one would only show how fast it is looked up."""
    judge = Judge(Policy(capability="builder", worktree=worktree))
    calls: dict[str, tuple[str, Callable[[int], Call]]] = {
        "file tool, allowed": ("allow", lambda n: _write(f"src/a{n}.py")),
        "file tool, refused": ("block", lambda n: _write(f"/etc/a{n}")),
        "shell, short": ("allow", lambda n: _shell(f"ls -l a{n} | head")),
        "shell, long": (
            "block",
            lambda n: _shell(f"cd x{n} && make 2>&1 | tail -5; git push origin"),
        ),
        "shell, seen before": ("allow", lambda n: _shell("ls -l | head")),
    }
    rows = []
    for name, (expected, make) in calls.items():
        times = []
        for number in range(300):
            call = make(number)
            began = time.perf_counter()
            verdict = judge.judge(call)
            times.append(time.perf_counter() - began)
            assert verdict.decision == expected, verdict
        typical = statistics.median(times)
        rows.append([name, f"{typical * 1e6:.0f} µs", f"{1 / typical:.0f}"])
    print_table("verdicts in process", ["call", "p50", "verdicts/s"], rows)


def mixed(root: Path, count: int) -> None:
    """Verdicts on `count` calls in one order: nine of ten are those of the labelled corpora, one is
    made up to be hard (`tests.guard.worst`), 500 to 120,000 characters long."""
    draw = random.Random(11)
    places = make_places(str(root / "places"))
    policy = Policy(
        capability="builder", worktree=places["{{WORKTREE}}"], agent="alice",
        scratch=places["{{SCRATCH}}"], main_repo=places["{{REPO}}"], home=places["{{HOME}}"],
    )  # fmt: skip
    judge = Judge(policy)
    folder = Path(__file__).parent.parent / "tests" / "guard"
    cases = [
        case for file in sorted(folder.glob("corpus*.jsonl")) for case in read_cases(str(file))
    ]
    everyday = [Call(tool=case.tool, input=_filled(case.input, places)) for case in cases]
    kinds = list(kinds_of_hard_calls().items())
    costs: dict[str, list[tuple[float, float, str]]] = {"everyday": [], "made up": []}
    for number in range(count):
        if number % 10:
            group, name, call = "everyday", "", draw.choice(everyday)
        else:
            name, make = draw.choice(kinds)
            size = int(500 * 240 ** draw.random())
            group, name, call = "made up", f"{name}, {size}", make(size)
        began, used = time.perf_counter(), time.thread_time()
        judge.judge(call)
        took = (time.perf_counter() - began, time.thread_time() - used, name)
        costs[group].append(took)
    costs["all"] = costs["everyday"] + costs["made up"]
    rows = []
    for group, taken in costs.items():
        for kind, column in (("wall", 0), ("CPU", 1)):
            times = sorted(float(cost[column]) for cost in taken)
            at = [times[int(len(times) * share)] for share in (0.5, 0.99)]
            shown = [f"{value * 1e3:.2f} ms" for value in (*at, times[-1])]
            rows.append([f"{group}, {kind}", str(len(times)), *shown])
    print_table(f"{count} mixed calls", ["calls", "number", "p50", "p99", "max"], rows)
    hardest = sorted(costs["made up"], key=lambda cost: cost[1])[-3:]
    print("hardest (CPU): " + "; ".join(f"{n}: {cpu * 1e3:.0f} ms" for _, cpu, n in hardest))


def _filled(value: Any, places: dict[str, str]) -> Any:
    """The value with each placeholder of the corpora replaced."""
    text = json.dumps(value)
    for mark, path in places.items():
        text = text.replace(mark, path)
    return json.loads(text)


def _write(path: str) -> Call:
    return Call(tool="Write", input={"file_path": path})


def _shell(command: str) -> Call:
    return Call(tool="Bash", input={"command": command})


def hook_process(root: Path) -> None:
    """The hook process against a shell that does nothing.

    `plain` is the hook of a runtime that stops a tool whose hook dies or is late (Claude 2.1.325);
    others keep the time themselves, and where a killed hook would let the call pass a second shell
    watches. Ratios are medians of pairs taken right after one another.
    """
    service = HookHost()
    policy = Policy(capability="builder", worktree=str(root))
    shapes = {
        "plain": HookShape(timed=False),
        "keeps the time": HookShape(),
        "and watched": HookShape(watched=True),
    }
    commands = {}
    for name, shape in shapes.items():
        folder = root / name.replace(" ", "-")
        folder.mkdir(0o700)
        session = service.open_run(str(folder), stdio=False)
        commands[name] = session.command(shape)
        mechanism = GuardMechanism(name="benchmark", fails="open", proof="none", shape=shape)
        session.begin(mechanism, policy)
    small, large = _payload(root, 1_000), _payload(root, 64_000)
    works: dict[str, tuple[list[str], bytes]] = {"sh -c :": (["sh", "-c", ":"], small)}
    for name, command in commands.items():
        works[f"hook, {name}, 1 KB"] = (["sh", "-c", command], small)
    works["hook, plain, 64 KB"] = (["sh", "-c", commands["plain"]], large)
    works["bash -c :"] = (["bash", "-c", ":"], small)
    works["the same in bash, watched, 1 KB"] = (["bash", "-c", commands["and watched"]], small)
    works["bare Python"] = ([sys.executable, "-I", "-S", "-c", "pass"], b"")
    wall: dict[str, list[float]] = {name: [] for name in works}
    cpu: dict[str, list[float]] = {name: [] for name in works}
    try:
        for command in commands.values():
            assert _run(["sh", "-c", command], _payload(root, 10, "/etc/x"))[2]
            assert not _run(["sh", "-c", command], _payload(root, 10))[2]
        for _ in range(200):
            for name, (argv, payload) in works.items():
                took, used, _ = _run(argv, payload)
                wall[name].append(took)
                cpu[name].append(used)
    finally:
        service.close()
    floor_wall, floor_cpu = wall["sh -c :"], statistics.mean(cpu["sh -c :"])
    rows = [
        [
            name,
            f"{median(wall[name]) * 1e3:.2f} ms",
            f"{median([a / b for a, b in zip(wall[name], floor_wall, strict=True)]):.2f}",
            f"{statistics.mean(cpu[name]) / floor_cpu:.2f}",
        ]
        for name in works
    ]
    head = ["process", "wall p50", "x sh -c : (wall)", "x sh -c : (CPU)"]
    print_table("hook process that asks the judge", head, rows)


def _payload(root: Path, size: int, path: str = "a.txt") -> bytes:
    content = {"file_path": path, "content": "x" * size}
    call = {"hook_event_name": "PreToolUse", "tool_name": "Write", "tool_input": content}
    return json.dumps({**call, "cwd": str(root), "tool_use_id": "c"}).encode()


def _run(argv: list[str], payload: bytes) -> tuple[float, float, bytes]:
    """Wall time, processor time and output of one process that is fed `payload`."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    began = time.perf_counter()
    done = subprocess.run(argv, input=payload, stdout=subprocess.PIPE, check=True)
    took = time.perf_counter() - began
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return took, used, done.stdout


def inside_claude(binary: str, root: Path, rounds: int, calls: int) -> None:
    """What the guard adds to each tool call of the real Claude Code; see `_claude_calls`."""
    runtime = ClaudeRuntime()
    runtime.use_binary(binary)
    kinds: tuple[Kind, ...] = ("unguarded", "stdio", "hooks")
    costs: dict[Kind, list[CallCosts]] = {kind: [] for kind in kinds}
    shells: list[float] = []
    for kind in kinds:
        play(runtime, root, 3, kind)
    for number in range(rounds):
        for kind in kinds if number % 2 == 0 else reversed(kinds):
            costs[kind].append(play(runtime, root, calls, kind))
        shells += [_run(["sh", "-c", ":"], b"")[0] for _ in range(20)]
    plain = costs["unguarded"]
    shell = median(shells)
    rows = []
    for kind in kinds[1:]:
        cpu = added([c.cpu for c in costs[kind]], [c.cpu for c in plain])
        own = added([c.own for c in costs[kind]], [c.own for c in plain])
        wall = added([c.wall for c in costs[kind]], [c.wall for c in plain])
        ended = statistics.median(c.children for c in costs[kind])
        ended -= statistics.median(c.children for c in plain)
        rows.append(
            [
                kind,
                f"{cpu.median * 1e3:.2f} ms",
                f"{cpu.low * 1e3:.1f} to {cpu.high * 1e3:.1f}",
                f"{own.median * 1e3:.2f} ({own.low * 1e3:.2f} to {own.high * 1e3:.2f})",
                f"{ended * 1e3:.2f} ms",
                f"{wall.median * 1e3:.2f} ms",
                f"{wall.low * 1e3:.1f} to {wall.high * 1e3:.1f}",
                f"{wall.median / shell:.2f}",
            ]
        )
    head = ["guard", "CPU added", "95 %", "of it ours (95 %)", "CPU of hooks", "wall added", "95 %",
            "x sh -c :"]  # fmt: skip
    title = f"added to each tool call of Claude Code ({rounds} sessions each, {calls} calls)"
    print_table(title, head, rows)
    each = statistics.median(value for c in plain for value in c.cpu)
    print(f"an unguarded call: {each * 1e3:.1f} ms of processor time; sh -c : {shell * 1e3:.2f} ms")


def sandbox_start(root: Path) -> None:
    """What the sandbox adds to a start, as a ratio."""
    folder = root / "sandbox"
    folder.mkdir()
    can = preflight()
    if can.holds_writes:
        sandbox_rows(folder, can, 40)
    else:
        print("\n".join(["", "no sandbox here:", *can.gaps]))


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--claude", help="Claude Code's command; without it that table is left out")
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--calls", type=int, default=60)
    parser.add_argument("--mixed", type=int, default=10_000, help="calls of the mixed table")
    parser.add_argument("--only-mixed", action="store_true", help="the mixed table alone")
    args = parser.parse_args()
    root = Path(tempfile.mkdtemp(prefix="bridle-guard-"))
    try:
        mixed(root, args.mixed)
        if args.only_mixed:
            return
        in_process(str(root))
        hook_process(root)
        binary = args.claude or shutil.which("claude")
        if binary:
            inside_claude(binary, root, args.rounds, args.calls)
        else:
            print("\nno Claude Code: give it with --claude")
        sandbox_start(root)
    finally:
        shutil.rmtree(root, ignore_errors=True)


if __name__ == "__main__":
    main()
