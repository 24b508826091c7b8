"""The front door: help, versions, unknown words, bugs, lost readers."""

import json
import os
import subprocess
import sys

import pytest

import bridle.cli
from bridle._version import __version__
from bridle.cli import COMMANDS
from tests.support.preset_agent import Place


def test_version(place: Place) -> None:
    for flag in ("--version", "-V"):
        done = place.bridle(flag)
        assert (done.status, done.out, done.err) == (0, f"bridle {__version__}\n", "")


def test_version_imports_nothing_of_bridle_but_itself(place: Place) -> None:
    done = subprocess.run(
        [sys.executable, "-X", "importtime", "-m", "bridle", "--version"],
        capture_output=True,
        text=True,
        env=place.environment(),
        check=True,
    )
    loaded = {line.split("|")[-1].strip() for line in done.stderr.splitlines()}
    assert {name for name in loaded if name.startswith("bridle")} == {"bridle", "bridle._version"}
    assert not loaded & {"typing", "re", "argparse", "msgspec"}


def test_help_lists_every_command(place: Place) -> None:
    for words in (["--help"], ["-h"], ["help"]):
        done = place.bridle(*words)
        assert done.status == 0
        for name, (_, text) in COMMANDS.items():
            assert f"  {name} " in done.out
            assert text in done.out


def test_without_a_command_the_help_is_an_error(place: Place) -> None:
    done = place.bridle()
    assert done.status == 2
    assert done.err.startswith("usage: bridle COMMAND")


@pytest.mark.parametrize("name", [name for name in COMMANDS if name != "demo"])
def test_every_command_has_help_and_json(place: Place, name: str) -> None:
    done = place.bridle(name, "--help")
    assert done.status == 0
    assert done.out.startswith(f"usage: bridle {name}")
    assert place.bridle("help", name).out == done.out


def test_an_unknown_command_names_the_nearest(place: Place) -> None:
    done = place.bridle("rnu", "--json")
    assert done.status == 2
    assert done.err == "bridle: error: unknown command: rnu\nhint: did you mean `run`?\n"
    assert json.loads(done.out)["error"]["message"] == "unknown command: rnu"
    assert "hint: see `bridle --help`" in place.bridle("xyzzy").err


def test_flags_are_not_abbreviated_and_the_nearest_is_named(place: Place) -> None:
    done = place.bridle("run", "echo a", "--verbos")
    assert done.status == 2
    assert done.err == "bridle: error: unknown option: --verbos\nhint: did you mean `--verbose`?\n"
    listing = place.bridle("runtime", "list", "--jsno")
    assert "did you mean `--json`?" in listing.err


def test_a_bug_is_one_line_and_the_trace_on_request(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken(name: str) -> object:
        raise ZeroDivisionError("oh\nno")

    monkeypatch.setattr(bridle.cli, "load", broken)
    monkeypatch.delenv("BRIDLE_DEBUG", raising=False)
    assert bridle.cli.run(["run", "x"]) == 1
    said = capsys.readouterr().err
    assert said.splitlines()[0] == (
        "bridle: error: this is a bug in bridle: ZeroDivisionError: oh no"
    )
    assert "Traceback" not in said
    monkeypatch.setenv("BRIDLE_DEBUG", "1")
    assert bridle.cli.run(["run", "x"]) == 1
    assert "Traceback" in capsys.readouterr().err


def test_a_reader_that_goes_away_is_no_error(place: Place) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    done = subprocess.run(
        place.command("runtime", "list"),
        stdout=writing,
        stderr=subprocess.PIPE,
        cwd=place.project,
        env=place.environment(),
        check=False,
        timeout=60,
    )
    os.close(writing)
    assert (done.returncode, done.stderr) == (130, b"")


def test_a_closed_stdout_is_no_bug(place: Place) -> None:
    command = " ".join(place.command("run", "'echo a'", "--runtime", "tiny"))
    done = subprocess.run(
        ["sh", "-c", f"{command} >&-"],
        capture_output=True,
        cwd=place.project,
        env=place.environment(),
        check=False,
        timeout=60,
    )
    assert done.returncode == 0
    assert b"bug" not in done.stderr


def test_a_full_disk_is_told_in_one_line(place: Place) -> None:
    with open("/dev/full", "wb") as full:
        done = subprocess.run(
            place.command("runtime", "list", "--json"),
            stdout=full,
            stderr=subprocess.PIPE,
            cwd=place.project,
            env=place.environment(),
            check=False,
            timeout=60,
        )
    assert done.returncode == 1
    said = done.stderr.decode()
    assert "No space left on device" in said
    assert "Traceback" not in said
