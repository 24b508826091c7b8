"""What must hold for whole classes of commands."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from bridle.guard import Judge
from bridle.guard.shell import parse as parsing
from bridle.guard.tools import TOOLS, lookup
from bridle.process.process_tree import descendants
from tests.guard.conftest import bash

FOR_ALL = ["git push", "git reset --hard", "touch ../x", "claude -p x", "sudo ls", "rm -rf .git"]
FOR_SCOUTS = ["rm a.txt", "git commit -m x", "sed -i s/a/b/ a.txt", "python3 -c 1", "mkdir d"]
HARMLESS = ["ls", "cat a.txt", "git status", "grep -rn 'git push' .", "sed -n 1p a.txt"]


def _single(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"


WRAPPERS = [
    lambda c: f"env {c}",
    lambda c: f"env A=1 {c}",
    lambda c: f"command {c}",
    lambda c: f"nice -n 5 {c}",
    lambda c: f"timeout 5 {c}",
    lambda c: f"nohup {c}",
    lambda c: f"setsid {c}",
    lambda c: f"stdbuf -oL {c}",
    lambda c: f"A=1 {c}",
    lambda c: f"! {c}",
    lambda c: f"time {c}",
    lambda c: f"( {c}\n)",
    lambda c: f"{{ {c}\n}}",
    lambda c: f"ls && {c}",
    lambda c: f"ls; {c}",
    lambda c: f"false || {c}",
    lambda c: f"ls | {{ {c}\n}}",
    lambda c: f"{{ {c}\n}} &",
    lambda c: f"if {c}\nthen :; fi",
    lambda c: f"while {c}\ndo break; done",
    lambda c: f"for i in 1 2; do {c}\ndone",
    lambda c: f"case x in *) {c}\n;; esac",
    lambda c: f"echo $( {c}\n)",
    lambda c: f'echo "$( {c}\n)"',
    lambda c: f"cat <( {c}\n)",
    lambda c: f"f() {{ {c}\n}}; f",
    lambda c: f"bash -c {_single(c)}",
    lambda c: f"sh -ec {_single(c)}",
    lambda c: f"eval {_single(c)}",
    lambda c: f"trap {_single(c)} EXIT",
    lambda c: f"echo {_single(c)} | bash",
    lambda c: f"bash <<'E{len(c)}'\n{c}\nE{len(c)}",
    lambda c: f"bash <<< {_single(c)}",
    lambda c: f"cat <<E{len(c)}\n$( {c}\n)\nE{len(c)}",
    lambda c: f'x={_single(c)}; eval "$x"',
    lambda c: f"script -qc {_single(c)} /dev/null",
    lambda c: f"find . -maxdepth 0 -exec sh -c {_single(c)} \\;",
    lambda c: f"true | xargs sh -c {_single(c)}",
    lambda c: f"uv run {c}",
    lambda c: f"  {c}  # done",
    lambda c: f"ls\n{c}\nls",
]
# What takes a simple command only: compound ones would be a syntax error, which blocks anyway.
SIMPLE_ONLY = 9
# `! ! c` and `time ! c` are valid shell that shfmt does not parse, so they are blocked.
PREFIXES = (9, 10)


def _wrapped(simple: str, wraps: list[int]) -> str:
    text = simple
    plain = True
    for index in wraps:
        if index < SIMPLE_ONLY and not plain:
            continue
        if index in PREFIXES and text.startswith(("! ", "time ")):
            continue
        text = WRAPPERS[index](text)
        plain = plain and index < SIMPLE_ONLY
    return text


WRAPS = st.lists(st.integers(0, len(WRAPPERS) - 1), max_size=4)
RELAXED = settings(
    max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


@RELAXED
@given(command=st.sampled_from(FOR_ALL), wraps=WRAPS)
@example(command="git push", wraps=[11, 35])
@example(command="git push", wraps=[18, 35])
@example(command="git push", wraps=[25, 35])
@example(command="git push", wraps=[34, 35])
def test_wrapping_does_not_unblock(builder: Judge, command: str, wraps: list[int]) -> None:
    assert not builder.judge(bash(_wrapped(command, wraps))).allowed


@RELAXED
@given(command=st.sampled_from(FOR_ALL + FOR_SCOUTS), wraps=WRAPS)
def test_wrapping_does_not_unblock_scouts(scout: Judge, command: str, wraps: list[int]) -> None:
    assert not scout.judge(bash(_wrapped(command, wraps))).allowed


@RELAXED
@given(command=st.sampled_from(HARMLESS), wraps=st.lists(st.integers(0, 34), max_size=3))
def test_wrapping_does_not_block_what_is_harmless(
    builder: Judge, command: str, wraps: list[int]
) -> None:
    verdict = builder.judge(bash(_wrapped(command, wraps)))
    assert verdict.allowed, verdict.reason


@pytest.mark.parametrize(
    "text",
    ["( git push )", "'git' push", "g\\it push", "git\tpush", "{git,push}", "x=git; $x push",
     "if git push; then :; fi", "f() { git push; }; f", "ls; git push", "! ! git push",
     "> ../x", "cd ..; make"],
)  # fmt: skip
@pytest.mark.parametrize(
    "form", ["script -qc {} /dev/null", "script -qc{} log", "frobnicate --exec={}", "frobnicate {}"]
)
def test_a_command_text_for_an_unknown_program_is_judged(
    builder: Judge, form: str, text: str
) -> None:
    """Whatever the text begins with, and however the option is joined to it."""
    assert not builder.judge(bash(form.format(_single(text)))).allowed


@pytest.mark.parametrize(
    "text", ["make the git history nicer", "SELECT * FROM t WHERE a = 'cat'", "find the cat"]
)
def test_prose_for_an_unknown_program_is_no_command(builder: Judge, text: str) -> None:
    verdict = builder.judge(bash(f"frobnicate -m {_single(text)} -c {_single(text)}"))
    assert verdict.allowed, verdict.reason


@RELAXED
@given(data=st.data(), command=st.sampled_from(["git push", "rm a.txt", "touch t"]))
def test_quotes_and_escapes_hide_nothing(scout: Judge, data: st.DataObject, command: str) -> None:
    spelled = ""
    for char in command:
        how = data.draw(st.integers(0, 4)) if char != " " else 0
        spelled += [char, f"'{char}'", f'"{char}"', f"\\{char}", f"$'\\x{ord(char):02x}'"][how]
    assert not scout.judge(bash(spelled)).allowed


@settings(max_examples=150, deadline=None)
@given(
    words=st.lists(
        st.text("abcABC019_./:@%+=,-", min_size=1, max_size=8)
        | st.sampled_from(
            ["if", "for", "in", "time", "ls", "export", "A=1", "--x=y", "%1", "-", "@"]
        ),
        min_size=1,
        max_size=5,
    )
)
def test_the_short_cut_reads_as_the_parser_does(words: list[str]) -> None:
    text = " ".join(words)
    quick = parsing.plain(text)
    if quick is not None:
        assert quick == parsing.parse_with_shfmt(text)


def test_the_short_cut_agrees_on_many_generated_commands(monkeypatch: pytest.MonkeyPatch) -> None:
    """One parser run over thousands of lines, each compared with the short cut's tree."""
    import random

    # That is more than any call has, and a busy machine may take long for it.
    monkeypatch.setattr("bridle.guard.shell.shfmt.TIME_LIMIT", 100.0)
    monkeypatch.setattr("bridle.guard.shell.shfmt.MAX_TREE", 16 << 20)
    draw = random.Random(7)
    letters = "abcxyzABZ0189_./:@%+=,-"
    lines: list[str] = []
    while len(lines) < 5000:
        count = draw.randint(1, 6)
        words = ["".join(draw.choices(letters, k=draw.randint(1, 9))) for _ in range(count)]
        text = " ".join(words)
        if parsing.plain(text) is not None:
            lines.append(text)
    expected = [statement for line in lines for statement in parsing.plain(line) or ()]
    assert list(parsing.parse_with_shfmt("\n".join(lines))) == expected


def test_the_short_cut_takes_plain_commands_only() -> None:
    assert parsing.plain("git status -sb") is not None
    for text in (
        "a  b",
        "a;b",
        "A=1 ls",
        "if x",
        "ls *",
        "a\tb",
        " ls",
        "~/x",
        "a\nb",
        "{a,b}",
        "",
    ):
        assert parsing.plain(text) is None


@pytest.mark.parametrize("name", sorted(TOOLS))
def test_no_writing_tool_is_open_to_scouts(scout: Judge, name: str) -> None:
    from bridle.guard import Call

    tool = lookup(name)
    assert tool is not None
    fields = {"path": "a.txt", "file_path": "a.txt", "command": "rm a.txt", "cmd": "rm a.txt",
              "chars": "rm a.txt\n", "input": "rm a.txt\n", "commands": ["rm a.txt"],
              "tool_calls": [{"tool": "Write", "parameters": {"file_path": "a.txt"}}]}  # fmt: skip
    verdict = scout.judge(Call(tool=name, input=fields))
    assert verdict.allowed == (tool.action == "read")


def test_the_import_is_light() -> None:
    code = "import sys, json, bridle.guard; print(json.dumps(sorted(sys.modules)))"
    done = subprocess.run(
        [sys.executable, "-I", "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    loaded = set(json.loads(done.stdout))
    heavy = {"asyncio", "logging", "subprocess", "dataclasses", "pathlib", "tempfile", "shutil",
             "threading", "bridle.guard.corpus", "bridle.guard.explain"}  # fmt: skip
    assert not loaded & heavy


def test_nothing_is_left_running(builder: Judge) -> None:
    before = len(os.listdir("/proc/self/fd")) if Path("/proc/self/fd").exists() else 0
    children = {process.pid for process in descendants(os.getpid())}
    for number in range(20):
        builder.judge(bash(f"ls | head -{number}"))
    if before:
        assert len(os.listdir("/proc/self/fd")) <= before + 1
    assert {process.pid for process in descendants(os.getpid())} <= children
