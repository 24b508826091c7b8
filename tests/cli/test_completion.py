"""Shell completion: what the scripts offer, tried in a real bash, and their text for each shell."""

import shutil
import subprocess
from pathlib import Path

import pytest

from bridle.cli.completion import SHELLS, Option, places, script
from bridle.cli.completion import Place as Spot
from tests.cli.session_shell import BRIDLE, Shell
from tests.support.preset_agent import Place

GOLDEN = Path(__file__).parent / "completions"
TOY = [
    Spot(words=(), verbs=(("run", "run it"), ("session", "talk to it"))),
    Spot(
        words=("run",),
        options=(
            Option(flags=("-r", "--runtime"), value="runtimes", text="the agent's name"),
            Option(flags=("--file",), value="files", text="a file"),
            Option(flags=("--json",), text="print JSON"),
        ),
        arguments=(Option(flags=(), value="any"),),
    ),
    Spot(words=("session",), verbs=(("send", "send a prompt"), ("list", "list them"))),
    Spot(
        words=("session", "send"),
        options=(Option(flags=("--timeout",), value="any", text="seconds"),),
        arguments=(Option(flags=(), value="sessions"), Option(flags=(), value="any")),
    ),
    Spot(
        words=("session", "list"),
        options=(
            Option(flags=("--state",), value="choices", choices=("ready", "lost"), text="state"),
            Option(flags=("--cwd",), value="folders", text="a folder"),
        ),
    ),
]


@pytest.mark.parametrize("shell", SHELLS)
def test_the_script_of_each_shell(shell: str) -> None:
    assert script(shell, TOY) == (GOLDEN / f"toy.{shell}").read_text()


@pytest.mark.parametrize("shell", SHELLS)
def test_every_command_verb_and_option_is_in_the_script(shell: str) -> None:
    text = script(shell, places())
    for place in places():
        for name, _ in place.verbs:
            assert name in text
        for option in place.options:
            for flag in option.flags:
                assert (flag if shell != "fish" else flag.lstrip("-")) in text


def completed(shell: Shell, *words: str) -> list[str]:
    """What a real bash offers for the last of `words`."""
    driver = (
        'source <(bridle completion bash); COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _bridle;'
        ' for word in "${COMPREPLY[@]}"; do echo "$word"; done'
    )
    done = subprocess.run(
        [shutil.which("bash") or "bash", "-c", driver, "bash", *words],
        cwd=shell.work,
        env={**shell.env, "PATH": f"{Path(BRIDLE).parent}:{shell.env['PATH']}"},
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert done.stderr == ""
    return done.stdout.split()


def test_bash_completes_commands_verbs_options_and_values(shell: Shell) -> None:
    assert completed(shell, "bridle", "sess") == ["session"]
    assert completed(shell, "bridle", "session", "se") == ["send"]
    assert completed(shell, "bridle", "session", "send", "--tim") == ["--timeout"]
    assert completed(shell, "bridle", "session", "send", "--wrong") == []
    assert completed(shell, "bridle", "run", "-r", "scr") == ["scripted"]
    assert completed(shell, "bridle", "run", "--runtime", "=", "scr") == ["scripted"]
    assert completed(shell, "bridle", "run", "x", "--permission", "") == ["ask", "bypass"]
    assert completed(shell, "bridle", "session", "permit", "q", "all") == ["allow"]
    assert completed(shell, "bridle", "session", "permit", "q", "id", "de") == ["deny"]
    # Files are left to bash.
    assert completed(shell, "bridle", "run", "--file", "") == []


def test_bash_completes_session_names_and_runs_none_of_them(shell: Shell) -> None:
    told = shell.start("- text: one\n", "-n", "review")
    odd = shell.start("- text: one\n", "-n", "$(touch hit)")
    assert completed(shell, "bridle", "session", "send", "rev") == ["review"]
    offered = completed(shell, "bridle", "session", "show", "")
    assert {"review", odd["session_id"]} <= set(offered)
    assert told["session_id"] not in offered
    assert not (shell.work / "hit").exists()


def test_wrong_use(place: Place) -> None:
    assert place.bridle("completion").status == 2
    done = place.bridle("completion", "fihs")
    assert "did you mean `fish`?" in done.err
