"""What a guarded tool call costs: verdicts in process, the hook process, a call inside Claude Code.

    python benchmarks/guard.py [--claude PATH] [--rounds N]

Answers are checked first. Processor time of a guarded run is everything's: the agent, its hooks,
and the judge and the scripted model in our own process.
"""

import argparse
import json
import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
from _measure import median, print_table

from bridle.core.options import ModelServer, RunOptions
from bridle.core.results import GuardReport
from bridle.drives.guarding import GuardMechanism, HookShape
from bridle.guard import Call, Judge, JudgeService, Policy
from bridle.running import prepare
from bridle.runtimes.claude import ClaudeRuntime
from bridle.testing import ScriptedModel

FEW, MANY = 10, 50


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


def _write(path: str) -> Call:
    return Call(tool="Write", input={"file_path": path})


def _shell(command: str) -> Call:
    return Call(tool="Bash", input={"command": command})


def hook_process(root: Path) -> None:
    """The hook process against a shell that does nothing."""
    service = JudgeService()
    folder = root / "guard"
    folder.mkdir(0o700)
    session = service.open(str(folder), stdio=False)
    command = session.command(HookShape())
    policy = Policy(capability="builder", worktree=str(root))
    session.begin(GuardMechanism(name="benchmark", fails="open", proof="none"), policy)
    works = {
        "sh -c :": ([":"], _payload(root, 1_000)),
        "hook, 1 KB": ([command], _payload(root, 1_000)),
        "hook, 64 KB": ([command], _payload(root, 64_000)),
        "bare Python": (None, b""),
    }
    wall: dict[str, list[float]] = {name: [] for name in works}
    cpu: dict[str, list[float]] = {name: [] for name in works}
    try:
        assert _run(["sh", "-c", command], _payload(root, 10, "/etc/x"))[2]
        assert not _run(["sh", "-c", command], _payload(root, 10))[2]
        for _ in range(200):
            for name, (words, payload) in works.items():
                argv = (
                    [sys.executable, "-I", "-S", "-c", "pass"]
                    if words is None
                    else ["sh", "-c", *words]
                )
                took, used, _ = _run(argv, payload)
                wall[name].append(took)
                cpu[name].append(used)
    finally:
        service.close()
    floor_wall, floor_cpu = median(wall["sh -c :"]), statistics.mean(cpu["sh -c :"])
    rows = [
        [
            name,
            f"{median(wall[name]) * 1e3:.2f} ms",
            f"{median(wall[name]) / floor_wall:.2f}",
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


def inside_claude(binary: str, root: Path, rounds: int) -> None:
    """Processor time that the guard adds to each tool call of the real Claude Code.

    A guarded run also pays once for the judge's import, so a call's price is how much faster its
    cost grows with the number of calls.
    """
    runtime = ClaudeRuntime()
    runtime.use_binary(binary)
    used: dict[tuple[str | None, int], list[float]] = {
        (guard, calls): [] for guard in (None, "builder") for calls in (FEW, MANY)
    }
    for number in range(rounds + 1):
        for (guard, calls), values in used.items():
            cost = _claude(runtime, root, calls, guard)
            if number:
                values.append(cost)
    typical = {key: median(values) for key, values in used.items()}
    slope = {
        guard: (typical[guard, MANY] - typical[guard, FEW]) / (MANY - FEW)
        for guard in (None, "builder")
    }
    once = typical["builder", FEW] - typical[None, FEW] - FEW * (slope["builder"] - slope[None])
    rows = [
        [
            "unguarded" if guard is None else "guarded over stdio",
            f"{typical[guard, FEW] * 1e3:.0f} ms",
            f"{typical[guard, MANY] * 1e3:.0f} ms",
            f"{slope[guard] * 1e3:.2f} ms",
        ]
        for guard in (None, "builder")
    ]
    head = ["run", f"CPU, {FEW} calls", f"CPU, {MANY} calls", "per call"]
    print_table("guarded tool call in Claude Code", head, rows)
    added = slope["builder"] - slope[None]
    print(f"added per call: {added * 1e3:.2f} ms; once: {once * 1e3:.0f} ms; each round:")
    for (guard, calls), values in used.items():
        shown = " ".join(f"{value * 1e3:.0f}" for value in sorted(values))
        print(f"  {guard or 'unguarded'}, {calls} calls: {shown}")


def _claude(runtime: ClaudeRuntime, root: Path, calls: int, guard: str | None) -> float:
    home, folder = root / "home", root / "worktree"
    for each in (home, folder):
        each.mkdir(exist_ok=True)
    (folder / "a.txt").write_text("hello\n")
    env = {"PATH": os.environ["PATH"], "HOME": str(home), "LANG": "C.UTF-8", "IS_SANDBOX": "1"}
    script: list[dict[str, str]] = [{"read_file": "a.txt"}] * calls
    with ScriptedModel([*script, {"text": "Finished."}]) as model:
        options = RunOptions(
            prompt="Do it.",
            cwd=str(folder),
            permission_mode="bypass",
            timeout=100.0,
            guard=guard,
            model_server=ModelServer(url=model.url, api_key=model.api_key),
        )
        began = _all_cpu()
        run = prepare(runtime, options, env=env).run
        for _ in run.events():
            pass
        used = _all_cpu() - began
    assert run.result.status == "completed", run.result.error
    if guard is not None:
        assert isinstance(run.result.guard, GuardReport)
        assert run.result.guard.allowed == calls
    return used


def _all_cpu() -> float:
    """Processor time of this process and of every child that has ended."""
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--claude", help="Claude Code's command; without it that table is left out")
    parser.add_argument("--rounds", type=int, default=5)
    args = parser.parse_args()
    root = Path(tempfile.mkdtemp(prefix="bridle-guard-"))
    try:
        in_process(str(root))
        hook_process(root)
        binary = args.claude or shutil.which("claude")
        if binary:
            inside_claude(binary, root, args.rounds)
        else:
            print("\nno Claude Code: give it with --claude")
        print("\nsandbox start: see benchmarks/sandbox_start.py")
    finally:
        shutil.rmtree(root, ignore_errors=True)


if __name__ == "__main__":
    main()
