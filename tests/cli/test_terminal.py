"""What a person at a terminal sees, is asked, and can stop."""

import json
from pathlib import Path
from signal import SIGINT as _INT

import pytest

from tests.support import asker
from tests.support.preset_agent import Place
from tests.support.terminal import Terminal


@pytest.fixture
def env(place: Place, tmp_path: Path) -> dict[str, str]:
    return place.environment(PYTHONPATH=asker.install(tmp_path / "lib"))


def terminal(place: Place, env: dict[str, str], *words: str) -> Terminal:
    return Terminal(place.command(*words), env, place.project)


def test_text_shows_as_it_streams_and_once(place: Place, env: dict[str, str]) -> None:
    with terminal(place, env, "run", "lines 3", "--quiet", "--permission", "bypass") as screen:
        assert screen.finish() == 0
    lines = screen.screen.splitlines()
    assert lines[:3] == ["line 0", "line 1", "line 2"]
    assert "completed in" in lines[3]
    assert len(lines) == 4


def test_text_shows_while_the_agent_still_works(place: Place, env: dict[str, str]) -> None:
    with terminal(place, env, "run", "wait") as screen:
        screen.wait_for("waiting")
        screen.signal(_INT)
        assert screen.finish() == 130
    assert "stopping the agent; once more kills it at once" in screen.screen
    assert "stopped by SIGINT" in screen.screen


def test_control_characters_do_not_reach_the_terminal(place: Place, env: dict[str, str]) -> None:
    with terminal(place, env, "run", "garbage") as screen:
        assert screen.finish() == 0
    assert "ok" in screen.screen
    assert "\x1b]52" not in screen.screen
    assert "\x07" not in screen.screen


def test_no_color(place: Place, env: dict[str, str]) -> None:
    with terminal(place, env, "run", "echo a") as screen:
        assert screen.finish() == 0
    assert "\x1b[2m" in screen.screen
    for plain in ({"NO_COLOR": "1"}, {"TERM": "dumb"}):
        with terminal(place, {**env, **plain}, "run", "echo a") as screen:
            assert screen.finish() == 0
        assert "\x1b" not in screen.screen


@pytest.mark.parametrize(
    ("typed", "answer"),
    [
        ("y\n", '[true, "allowed at the terminal"]'),
        ("YES\n", '[true, "allowed at the terminal"]'),
        ("\n", '[false, "refused at the terminal"]'),
        ("n\n", '[false, "refused at the terminal"]'),
        ("sure\nyess\ny\n", '[true, "allowed at the terminal"]'),
        ("yn\n\n", '[false, "refused at the terminal"]'),
    ],
)
def test_the_person_is_asked(place: Place, env: dict[str, str], typed: str, answer: str) -> None:
    with terminal(place, env, "run", "1", "--runtime", "asker") as screen:
        screen.wait_for("Allow it?")
        assert "The agent asks to use shell:" in screen.screen
        assert '"command": "rm' in screen.screen
        screen.type(typed)
        assert screen.finish() == 0
    assert f"answer: {answer}" in screen.screen
    assert "bridle: warning: asker is only for tests" in screen.screen
    assert "· shell rm [31mx" in screen.screen
    assert "1,000 tokens in, 20 out · $0.0100" in screen.screen
    assert "\x1b[31m" not in screen.screen


def test_a_slip_of_the_finger_is_asked_again(place: Place, env: dict[str, str]) -> None:
    with terminal(place, env, "run", "1", "--runtime", "asker") as screen:
        screen.wait_for("Allow it? [y]es, [N]o, [a]lways this tool: ")
        screen.type("maybe\n")
        screen.wait_for("tool: [y]es, [N]o, [a]lways this tool: ")
        screen.type("n\n")
        assert screen.finish() == 0
    assert screen.screen.count("answer: [false") == 1
    assert "completed, 1 tool call refused in" in screen.screen


def test_the_question_comes_after_the_text_that_explains_it(
    place: Place, env: dict[str, str], tmp_path: Path
) -> None:
    """The agent says both in one breath; the person reads the text first."""
    script = tmp_path / "script.json"
    script.write_text('[{"text": "I write the file now.", "shell": "echo > x"}, {"text": "Done."}]')
    words = ("run", "x", "--runtime", "scripted", "--provider-option", f"script={script}")
    for _ in range(3):
        with terminal(place, env, *words) as screen:
            screen.wait_for("Allow it?")
            screen.type("n\n")
            assert screen.finish() == 0
        shown = screen.screen
        assert shown.index("I write the file now.\n") < shown.index("The agent asks to use shell")
        assert "shell refused: refused at the terminal" in shown
        assert "failed:" not in shown


def test_always_holds_for_the_run(place: Place, env: dict[str, str]) -> None:
    with terminal(place, env, "run", "3", "--runtime", "asker") as screen:
        screen.wait_for("Allow it?")
        screen.type("a\n")
        assert screen.finish() == 0
    assert screen.screen.count("Allow it?") == 1
    assert screen.screen.count("answer: [true") == 3


def test_ctrl_c_at_a_question_refuses_and_ends(place: Place, env: dict[str, str]) -> None:
    with terminal(place, env, "run", "5", "--runtime", "asker") as screen:
        screen.wait_for("Allow it?")
        screen.signal(_INT)
        assert screen.finish() == 130
    assert screen.screen.count("Allow it?") == 1


def test_a_question_waits_no_longer_than_the_run(place: Place, env: dict[str, str]) -> None:
    with terminal(place, env, "run", "5", "--runtime", "asker", "--timeout", "0.5") as screen:
        assert screen.finish() == 7
    assert "did not finish within 0.5 s" in screen.screen


def test_nobody_there_means_no(place: Place, env: dict[str, str]) -> None:
    done = place.bridle("run", "1", "--runtime", "asker", env={"PYTHONPATH": env["PYTHONPATH"]})
    assert done.status == 0
    assert done.out.startswith('answer: [false, "nobody is there to give permission')
    assert "shell refused: nobody is there" in done.err
    warned = "bridle: warning: asker: nobody is there to give permission: its permission requests"
    assert done.err.count(warned) == 1
    assert "completed, 1 tool call refused in" in done.err


def test_what_happens_instead_of_asking_is_no_part_of_the_json(
    place: Place, env: dict[str, str]
) -> None:
    path = {"PYTHONPATH": env["PYTHONPATH"]}
    done = place.bridle("run", "2", "--runtime", "asker", "--json", env=path)
    assert json.loads(done.out)["refusals"] == 2
    assert json.loads(done.out)["status"] == "completed"
    assert "asker: nobody is there to give permission" in done.err
    allowed = place.bridle("run", "x", "--permission", "bypass", "--json")
    assert "permission" not in allowed.err
    assert json.loads(allowed.out)["refusals"] == 0


def test_an_interactive_run_has_the_terminal(place: Place, env: dict[str, str]) -> None:
    for typed, status in (("me\n", 0), ("you\n", 1)):
        with terminal(place, env, "run", "--interactive", "--runtime", "asker") as screen:
            screen.wait_for("who?")
            screen.type(typed)
            assert screen.finish() == status


def test_a_runtime_without_a_terminal_interface_refuses(place: Place, env: dict[str, str]) -> None:
    with terminal(place, env, "run", "--interactive") as screen:
        assert screen.finish() == 4
    assert "tiny does not support option interactive" in screen.screen
    assert "supported by: " in screen.screen


def test_a_prompt_is_not_waited_for_at_a_terminal(place: Place, env: dict[str, str]) -> None:
    with terminal(place, env, "run") as screen:
        assert screen.finish() == 2
    assert "the prompt is missing" in screen.screen


def test_an_unreadable_settings_file(place: Place, env: dict[str, str]) -> None:
    path = {"PYTHONPATH": env["PYTHONPATH"]}
    done = place.bridle("run", "0", "--runtime=asker", "--settings=no.json", env=path)
    assert done.status == 2
    assert f"cannot read settings {place.project}/no.json: No such file" in done.err


def test_a_line_turns_while_the_agent_starts_and_leaves_nothing(
    place: Place, env: dict[str, str]
) -> None:
    agent = place.project / "late"
    agent.write_text("#!/bin/sh\nsleep 2\necho here\n")
    agent.chmod(0o755)
    place.configure("runtime:\n  adapters:\n    late: {binary: ./late}\n")
    with terminal(place, env, "run", "x", "-r", "late") as screen:
        screen.wait_for("starting late (")
        assert screen.finish() == 0
    after = screen.screen.rpartition("\r")[2]
    assert after.startswith("here")
    with terminal(place, env, "run", "x", "-r", "late", "-q") as screen:
        assert screen.finish() == 0
    assert "starting" not in screen.screen
    done = place.bridle("run", "x", "-r", "late")
    assert "starting" not in done.err
    with terminal(place, {**env, "TERM": "dumb"}, "run", "x", "-r", "late") as screen:
        assert screen.finish() == 0
    lines = screen.screen.splitlines()
    assert lines[lines.index("starting late") + 1] == "here"
    assert "\r" not in screen.screen.replace("\r\n", "\n")


def test_thinking_shows_on_request(place: Place, env: dict[str, str]) -> None:
    script = place.project / "script.yaml"
    script.write_text("- thinking: let me see\n  text: done\n")
    words = ("run", "x", "-r", "scripted", "--provider-option", f"script={script}")
    with terminal(place, env, *words, "--verbose") as screen:
        assert screen.finish() == 0
    assert "\x1b[2mlet me see" in screen.screen
    with terminal(place, env, *words) as screen:
        assert screen.finish() == 0
    assert "let me see" not in screen.screen
