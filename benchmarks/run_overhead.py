"""What Bridle adds to a start and to a headless run (design rows 1 and 2).

`python -m benchmarks.run_overhead [--version 2.1.325] [--rounds 15]`

Row 1: `bridle --version` against `python -c pass`. Row 2: `bridle run` in a linked git worktree
against plain `claude -p`, both with the same real Claude Code, the same home, the same scripted
model and the same answer (a text, a shell call that writes a file, a closing text), checked before
anything is counted.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from benchmarks._measure import Cost, cost_of, in_turns, median, print_table
from tests.support.clis import cli_path

from bridle.process.process_tree import marked_processes
from bridle.testing import ScriptedModel

BIN = Path(sys.executable).parent
SCRIPT = """
- text: I will write the file.
  shell: "echo hi > hello.txt"
  usage: {input_tokens: 100, output_tokens: 20}
- text: Done. ORCHESTRA_COMPLETE
  usage: {input_tokens: 200, output_tokens: 10}
"""


def main() -> int:
    """Measure both rows and print them; exit 1 when a goal is missed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--version", default="2.1.325", help="Claude Code version")
    parser.add_argument("--rounds", type=int, default=15)
    args = parser.parse_args()
    ok = start_row(args.rounds * 2)
    ok = run_row(args.version, args.rounds) and ok
    return 0 if ok else 1


def start_row(rounds: int) -> bool:
    """`bridle --version` against the bare interpreter."""
    env = {"PATH": os.environ["PATH"], "HOME": os.environ["HOME"], "LANG": "C.UTF-8"}
    costs = in_turns(
        rounds,
        {
            "python -c pass": lambda: cost_of([sys.executable, "-c", "pass"], env, Path.cwd()),
            "bridle --version": lambda: cost_of(
                [str(BIN / "bridle"), "--version"], env, Path.cwd()
            ),
        },
    )
    floor = median([cost.cpu for cost in costs["python -c pass"]])
    ours = median([cost.cpu for cost in costs["bridle --version"]])
    print_table(
        "bridle --version (CPU, median)",
        ["command", "ms", "ratio", "goal"],
        [
            ["python -c pass", f"{floor * 1000:.1f}", "1.00", ""],
            ["bridle --version", f"{ours * 1000:.1f}", f"{ours / floor:.2f}", "<= 2"],
        ],
    )
    return ours / floor <= 2


def run_row(version: str, rounds: int) -> bool:
    """`bridle run` against plain `claude -p`."""
    claude = str(cli_path("claude", version))
    with tempfile.TemporaryDirectory() as folder, ScriptedModel(SCRIPT) as model:
        home, worktree = _home_and_worktree(Path(folder))
        env = {
            "PATH": f"{Path(claude).parent}:{os.environ['PATH']}",
            "HOME": str(home),
            "TERM": "dumb",
            "LANG": "C.UTF-8",
            "ANTHROPIC_BASE_URL": model.url,
            "ANTHROPIC_API_KEY": model.api_key,
            "DISABLE_TELEMETRY": "1",
            "DISABLE_AUTOUPDATER": "1",
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
            "IS_SANDBOX": "1",
        }
        prompt = "Write hello.txt, then say that you are done."
        sessions: list[str] = []

        def plain() -> Cost:
            argv = [claude, "-p", "--permission-mode", "bypassPermissions", prompt]
            return _checked(worktree, lambda: cost_of(argv, env, worktree))

        def ours() -> Cost:
            argv = [str(BIN / "bridle"), "run", "--runtime", "claude", "--permission", "bypass"]
            argv += ["--json", prompt]
            cost = _checked(worktree, lambda: cost_of(argv, env, worktree))
            result = json.loads(cost.output)
            assert result["status"] == "completed", result
            assert result["usage"]["input_tokens"] == 300, result
            sessions.append(result["session_id"])
            return cost

        costs = in_turns(rounds, {"claude -p": plain, "bridle run": ours})
        left = sum(len(marked_processes(session_id)) for session_id in sessions)
    return _report(version, costs, left)


def _home_and_worktree(folder: Path) -> tuple[Path, Path]:
    home, repo, worktree = folder / "home", folder / "repo", folder / "worktree"
    home.mkdir()
    git = ["git", "-C", str(repo), "-c", "user.name=b", "-c", "user.email=b@example.invalid"]
    subprocess.run(["git", "init", "-q", str(repo)], check=True)
    subprocess.run([*git, "commit", "-q", "--allow-empty", "-m", "start"], check=True)
    subprocess.run([*git, "worktree", "add", "-q", str(worktree), "-b", "agent"], check=True)
    return home, worktree


def _checked(worktree: Path, work: Callable[[], Cost]) -> Cost:
    """Run the work and see that the agent really did it."""
    written = worktree / "hello.txt"
    written.unlink(missing_ok=True)
    cost = work()
    assert written.read_text() == "hi\n"
    assert b"ORCHESTRA_COMPLETE" in cost.output
    return cost


def _report(version: str, costs: dict[str, list[Cost]], left: int) -> bool:
    plain, ours = costs["claude -p"], costs["bridle run"]
    wall = median([c.wall for c in ours]) / median([c.wall for c in plain])
    cpu = median([c.cpu for c in ours]) / median([c.cpu for c in plain])
    memory = median([c.peak_kb for c in ours]) / 1024
    rows = [
        ["wall", *(f"{median([c.wall for c in row]) * 1000:.0f} ms" for row in (plain, ours))],
        ["CPU", *(f"{median([c.cpu for c in row]) * 1000:.0f} ms" for row in (plain, ours))],
    ]
    print_table(
        f"headless run in a worktree, Claude Code {version} ({len(ours)} rounds, medians)",
        ["what", "claude -p", "bridle run", "ratio", "goal"],
        [
            [*rows[0], f"{wall:.3f}", "<= 1.12"],
            [*rows[1], f"{cpu:.3f}", "<= 1.12"],
            ["our memory", "", f"{memory:.1f} MB", "", "<= 30 MB"],
            ["processes left", "", str(left), "", "0"],
        ],
    )
    return wall <= 1.12 and cpu <= 1.12 and memory <= 30 and left == 0


if __name__ == "__main__":
    sys.exit(main())
