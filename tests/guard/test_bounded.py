"""No call holds the judge: its work grows with the length of the call, and ends at a limit."""

import contextlib
import functools
import os
import threading
import time
from collections.abc import Callable

import pytest

from bridle.guard import Call, Judge, Policy, budget
from bridle.guard.code import check_code
from bridle.guard.commands import sed_awk
from bridle.guard.commands.registry import effects_of
from bridle.guard.effects import Command
from bridle.guard.paths import Places, may_meet
from bridle.guard.shell import parse as parsing
from bridle.guard.shell import words
from bridle.guard.shell.producers import output
from bridle.guard.shell.values import literal
from bridle.guard.tools import diff_paths, patch_paths
from bridle.guard.verdict import Blocked
from tests.guard import worst
from tests.guard.conftest import bash

SIZE = 2_000
LONG = 5_000
"""Longer than what is read without the parser, so that both sizes go the same way; and long enough
that what is nested is refused at twice the length."""
NESTED = ("loops in loops", "loops of variables", "elifs")


@pytest.mark.parametrize("name", worst.GROWING)
def test_work_grows_in_proportion(builder: Judge, name: str) -> None:
    """Counted work for twice the length is about twice as much, until the call is refused."""
    make = worst.GROWING[name]
    fields = make(SIZE).input
    command = fields.get("command") if isinstance(fields, dict) else None
    plain = isinstance(command, str) and parsing.plain(command) is not None
    size = LONG if plain or name in NESTED else SIZE
    assert builder.judge(make(size)).rule != "internal-error"
    once = budget.spent()
    verdict = builder.judge(make(2 * size))
    twice = budget.spent()
    assert verdict.rule != "internal-error"
    assert twice <= budget.MOST_WORK * 1.2
    if verdict.rule != "too-long":
        assert twice <= 2.5 * once + 1_000


@pytest.mark.parametrize("name", worst.CROSSING)
def test_what_grows_faster_is_refused(builder: Judge, name: str) -> None:
    """State that every later part looks at makes the square of the length: the limit ends it."""
    verdict = builder.judge(worst.CROSSING[name](120_000))
    assert verdict.rule in ("too-long", "shell-unparsed")
    assert budget.spent() <= budget.MOST_WORK * 1.2
    assert verdict.reason


def _scanners(place: str) -> dict[str, Callable[[str], object]]:
    places = Places(Policy(capability="builder", worktree=place))

    def run(name: str, *before: str) -> Callable[[str], object]:
        def effects(text: str) -> object:
            args = tuple(literal(word) for word in (*before, text))
            command = Command(name, args, directories=(place,))
            return effects_of(command, name, "bridle", (), place)

        return effects

    def printed(name: str) -> Callable[[str], object]:
        def lines(text: str) -> object:
            args = (literal(text), literal("-" + text))
            return output(Command(name, args, directories=(place,), piped=True), place)

        return lines

    def code(language: str) -> Callable[[str], object]:
        def check(text: str) -> None:
            check_code("write system " + text, language, places, place)

        return check

    languages = ("node", "python", "perl", "editor", "make")
    found = {f"{language} code": code(language) for language in languages}
    return found | {
        "git in code": lambda text: check_code("system git reset " + text, "ruby", places, place),
        "sed": lambda text: sed_awk.sed_effects(text),
        "sed expression": lambda text: sed_awk.sed_effects("s/" + text),
        "awk": lambda text: sed_awk.awk_effects(text, {}),
        "awk print": lambda text: sed_awk.awk_effects("{ print > " + text, {}),
        "patterns": words._globs,
        "escapes": words._ansi,
        "patch": patch_paths,
        "diff": lambda text: diff_paths(text, 1),
        "guard's names": lambda text: may_meet(text, "settings*.json"),
        "sqlite3": run("sqlite3", "a.db"),
        "psql": run("psql", "-c"),
        "gdb": run("gdb", "-ex"),
        "git checkout": run("git", "checkout"),
        "jar": run("jar"),
        "pkill": run("pkill", "-f"),
        "bundled options": lambda text: run("ls")("-" + text),
        "docker": run("docker", "run", "-v"),
        "unknown program": run("frobnicate", "--out"),
        **{f"output of {name}": printed(name) for name in ("git", "printf", "mktemp", "grep")},
    }


def _cost(scan: Callable[[str], object], text: str, turns: int = 3) -> float:
    """Least processor time of this thread in some turns."""
    costs = []
    for _ in range(turns):
        began = time.thread_time()
        with contextlib.suppress(Blocked, sed_awk.ScriptError):
            scan(text)
        costs.append(time.thread_time() - began)
    return min(costs)


def _yardstick(length: int) -> float:
    """What a plain loop over as many characters costs here and now."""

    def loop(text: str) -> int:
        return sum(char == "x" for char in text)

    return _cost(loop, "y" * length)


_first_yardstick = functools.cache(_yardstick)


@pytest.mark.parametrize("name", _scanners("/w"))
def test_scanners_are_linear(places: dict[str, str], name: str) -> None:
    """Four times the text takes about four times as long; a square would take sixteen times."""
    scan = _scanners(places["{{WORKTREE}}"])[name]
    slow = []
    for unit in worst.UNITS:
        # Longer than a text whose parse is remembered.
        text = unit * (4_200 // len(unit))
        for _ in range(3):
            # Most are so cheap, or so clearly linear, that one turn shows it.
            once = _cost(scan, text * 4, 1)
            if once <= _first_yardstick(len(text) * 4) or once <= 9 * _cost(scan, text, 2):
                break
            long = _cost(scan, text * 4)
            if long <= _yardstick(len(text) * 4) or long <= 9 * _cost(scan, text):
                break
        else:
            slow.append(unit)
    assert slow == []


def test_a_form_without_conversions_ends(builder: Judge) -> None:
    assert builder.judge(bash("touch $(printf '100%% ' a b)")).rule != "internal-error"


def test_a_call_past_the_count_is_refused_with_a_reason(
    builder: Judge, monkeypatch: pytest.MonkeyPatch
) -> None:
    command = "touch a; " * 200
    assert builder.judge(bash(command)).allowed
    monkeypatch.setattr(budget, "MOST_WORK", 1_000)
    verdict = builder.judge(bash(command))
    assert (verdict.decision, verdict.rule) == ("block", "too-long")
    assert "Split it" in verdict.reason
    assert builder.judge(bash("touch a")).allowed


def test_a_call_past_the_deadline_is_refused(
    builder: Judge, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each text for `eval` starts the parser; together they take longer than a verdict may."""
    texts = "; ".join(f"eval 'true; # {number}'" for number in range(1_000))
    monkeypatch.setattr(budget, "SECONDS", 0.2)
    assert builder.judge(bash(texts)).rule in ("too-long", "shell-unparsed")
    monkeypatch.setattr(budget, "SECONDS", 60.0)
    assert builder.judge(bash("eval 'true; # again'")).allowed


def test_two_threads_have_accounts_of_their_own(builder: Judge) -> None:
    spent: list[int] = []

    def small() -> None:
        builder.judge(bash("ls -l | head"))
        spent.append(budget.spent())

    builder.judge(bash("touch a; " * 500))
    mine = budget.spent()
    thread = threading.Thread(target=small)
    thread.start()
    thread.join(60)
    assert spent
    assert spent[0] < mine
    assert budget.spent() == mine


@pytest.mark.parametrize("command", ["sed -f pipe a.txt", "awk -f pipe a.txt", "git commit -m x"])
def test_a_fifo_does_not_hold_the_judge(
    policy: Policy, places: dict[str, str], command: str
) -> None:
    """An agent can put a FIFO where the judge reads a file: opening one waits for a writer."""
    worktree = places["{{WORKTREE}}"]
    ready = Judge(policy)
    os.mkfifo(os.path.join(worktree, "pipe"))
    os.mkfifo(os.path.join(worktree, ".git"))
    answers: list[bool] = []
    thread = threading.Thread(
        target=lambda: answers.append(ready.judge(bash(command)).allowed), daemon=True
    )
    thread.start()
    thread.join(60)
    assert answers, "the judge waits"
    if command.startswith("git"):
        assert answers == [False]


def test_a_command_of_too_many_words_is_refused(builder: Judge) -> None:
    assert builder.judge(bash("rm " + "{1..150} " * 100)).rule == "too-long"
    assert builder.judge(bash("rm " + "a " * 2_000)).allowed


def test_arguments_nested_too_deeply_are_refused(builder: Judge) -> None:
    nested: object = {"path": "a"}
    for _ in range(200):
        nested = {"a": [nested]}
    assert builder.judge(Call(tool="mcp__x__do", input=nested)).rule == "bad-input"
