"""Commands that are broken, absurd or made to be slow are still judged, and soon."""

import json
import random
import subprocess
import sys
from pathlib import Path

import pytest

from bridle.guard import Judge
from tests.guard.conftest import bash

HERE = Path(__file__).parent
ROUNDS = 400
LONGEST = 4000
ENOUGH = 120
"""Seconds after which a verdict counts as never given; the slowest takes a small part of them."""

PIECES = [
    *"'\"`$(){}[]<>|&;!*?~#\\\n\t=-/.%",
    "$(", "${", "<<E\n", "<<<", ">(", "$((", "))", "[[", "\0", "\ud800", "${x:-", "&>", "do ",
    "done", "fi", "esac", "function f ", "coproc ", "eval ", "xargs ", "-exec ", "{}", '"$@"',
    "{1..9999999}", "{a,b}{a,b}{a,b}{a,b}", "../", "~/", "*/*/*",
]  # fmt: skip


def _commands() -> list[str]:
    found: list[str] = []
    for name in ("corpus", "corpus_hard", "corpus_fresh"):
        for line in (HERE / f"{name}.jsonl").read_text().splitlines():
            command = json.loads(line)["input"].get("command")
            if isinstance(command, str):
                found.append(command)
    return found


def _mangled(text: str, commands: list[str], dice: random.Random) -> str:
    for _ in range(dice.randint(1, 6)):
        start = dice.randint(0, len(text))
        end = min(len(text), start + dice.randint(1, 12))
        before, middle, after = text[:start], text[start:end], text[end:]
        other = dice.choice(commands)
        quoted = text.replace("'", "'\\''")
        text = dice.choice(
            [
                before + after,
                before + dice.choice(PIECES) + middle + after,
                before + middle * dice.randint(2, 30) + after,
                before + other[dice.randint(0, len(other)) :] + after,
                text + dice.choice([" && ", " | ", "; ", "\n"]) + other,
                f"$({text})",
                f"bash -c '{quoted}'",
            ]
        )[:LONGEST]
    return text


@pytest.mark.parametrize("seed", range(3))
def test_no_mangled_command_breaks_the_judge(builder: Judge, scout: Judge, seed: int) -> None:
    dice = random.Random(seed)
    commands = _commands()
    for _ in range(ROUNDS):
        text = _mangled(dice.choice(commands), commands, dice)
        for judge in (builder, scout):
            assert judge.judge(bash(text)).rule != "internal-error", text


HARD = {
    "dashes in code": "python3 -c \"import os; os.system('git " + "-" * 60 + "x')\"",
    "words in code": "python3 -c \"import os; os.system('" + "git reset " * 2000 + "')\"",
    "paths in code": "python3 -c \"open('" + "a/" * 4000 + "!','w')\"",
    "loops": "".join(f"for a{n} in 1 2 3; do " for n in range(12)) + "touch $a0" + "; done" * 12,
    "calls of calls": "".join(f"f{n}() {{ f{n + 1}; f{n + 1}; }}; " for n in range(20)) + "f0",
    "directories": "cd a; " * 1500 + "touch x",
    "directories pushed": "pushd a; " * 800 + "popd; " * 800 + "touch x",
    "doublings": "x=aaaaaaaa; " + "x=$x$x; " * 40 + "touch $x",
    "braces": "touch " + "{a,b,c}" * 12,
    "stars": "rm .c" + "*a?" * 200,
    "patterns": "find . -path '" + "*c" * 200 + "' -delete",
    "substitutions": "echo " + "$(" * 200 + "ls" + ")" * 200,
}
_JUDGE = """
import sys
from bridle.guard import Call, Judge, Policy
judge = Judge(Policy(capability="builder", worktree=sys.argv[1], agent="alice"))
print(judge.judge(Call(tool="Bash", input={"command": sys.stdin.read()})).rule)
"""


@pytest.mark.parametrize("name", HARD)
def test_no_command_keeps_the_judge_busy(tmp_path: Path, name: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", _JUDGE, str(tmp_path)],
        input=HARD[name],
        capture_output=True,
        text=True,
        timeout=ENOUGH,
        check=True,
    )
    assert done.stdout.strip() not in ("", "internal-error")
