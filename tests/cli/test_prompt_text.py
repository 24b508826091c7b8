"""Where a prompt comes from: argument, files, stdin; joined, and never waited for without end."""

import os
import subprocess
import time

import pytest

from bridle.cli.prompt_text import PATIENCE
from tests.support.preset_agent import Place
from tests.support.terminal import Terminal


def test_stdin_is_joined_to_the_prompt(place: Place) -> None:
    done = place.bridle("run", "echo review", "-r", "feed", stdin="+ a line\n")
    assert done.out == "review\n\n+ a line\n"
    assert place.bridle("run", "echo alone", stdin="").out == "alone\n"


def test_a_file_on_stdin_is_joined_too(place: Place) -> None:
    text = place.project / "diff.txt"
    text.write_text("from a file")
    with text.open() as file:
        done = subprocess.run(
            place.command("run", "echo review", "-r", "feed"),
            stdin=file,
            capture_output=True,
            cwd=place.project,
            env=place.environment(),
            timeout=60,
            check=True,
        )
    assert done.stdout == b"review\n\nfrom a file\n"


def test_files_are_joined_in_their_order(place: Place) -> None:
    (place.project / "a.txt").write_text("one")
    (place.project / "b.txt").write_text("two")
    words = ("run", "echo x", "-r", "feed", "--file", "a.txt", "--file", "b.txt")
    assert place.bridle(*words, stdin="three").out == "x\n\none\n\ntwo\n\nthree\n"
    last = ("run", "echo x", "-r", "feed", "--file", "-", "--file", "a.txt")
    assert place.bridle(*last, stdin="three").out == "x\n\nthree\n\none\n"
    (place.project / "a.txt").write_text("one\n")
    (place.project / "b.txt").write_text("two\n\n")
    assert place.bridle(*words, stdin="three\n").out == "x\n\none\n\ntwo\n\nthree\n"
    missing = place.bridle("run", "echo x", "--file", "none.txt")
    assert (missing.status, "cannot read none.txt" in missing.err) == (2, True)


def test_an_open_pipe_that_nobody_writes_to_does_not_hang(place: Place) -> None:
    reading, writing = os.pipe()
    try:
        began = time.monotonic()
        done = subprocess.run(
            place.command("run", "echo a", "-r", "feed"),
            stdin=reading,
            capture_output=True,
            text=True,
            cwd=place.project,
            env=place.environment(),
            timeout=60,
            check=False,
        )
    finally:
        os.close(reading)
        os.close(writing)
    assert time.monotonic() - began >= PATIENCE
    assert (done.returncode, done.stdout) == (0, "a\n")
    assert "it is not joined to the prompt" in done.stderr


def test_a_terminal_is_not_read(place: Place) -> None:
    words = place.command("run", "echo a", "-q", "--permission", "bypass")
    with Terminal(words, place.environment(), place.project) as seen:
        assert seen.finish() == 0
    assert seen.screen.startswith("a")


@pytest.mark.parametrize("verb", ["send", "ask", "steer", "follow-up"])
def test_a_missing_message_is_wrong_use(place: Place, verb: str) -> None:
    with Terminal(place.command("session", verb, "q1"), place.environment(), place.project) as seen:
        assert seen.finish() == 2
    assert "the prompt is missing" in seen.screen
