"""Guarded sessions at the command line."""

import json
import os
import signal

import pytest

from bridle.testing import ScriptedModel
from tests.cli.session_shell import Shell
from tests.conftest import wait_until
from tests.support.real_cli import real_cli

GUARDED = """\
- shell: "echo hi > inside.txt"
- shell: "echo bad > ../outside.txt"
- shell: "touch waits; until [ -e go-on ]; do sleep 0.05; done"
- shell: "echo bad > ../outside.txt"
- write_file: {path: late.txt, content: fine}
- text: done
"""


def verdicts(shell: Shell, name: str) -> list[tuple[str, str]]:
    lines = shell.run("session", "logs", name).stdout.splitlines()
    return [
        (event["decision"], event["reason"].partition(":")[0])
        for event in map(json.loads, lines)
        if event["type"] == "permission_decision" and event["by"] == "guard"
    ]


def test_a_guarded_session_is_held_with_and_without_a_daemon(shell: Shell) -> None:
    shell.start(GUARDED, "go", "--name", "held", "--guard", "builder")
    shown = shell.json("session", "show", "held")
    assert (shown["guard"], shown["capability"]) == ("hook command", "builder")
    wait_until(lambda: (shell.work / "waits").exists())
    os.kill(shell.json("daemon", "status")["pid"], signal.SIGKILL)
    # What follows happens without anybody who drives it.
    (shell.work / "go-on").touch()
    wait_until(lambda: (shell.work / "late.txt").exists())
    assert shell.json("session", "wait", "held")["text"] == "done"
    assert not (shell.work.parent / "outside.txt").exists()
    assert verdicts(shell, "held") == [
        ("allow", "allowed"),
        ("deny", "path-outside"),
        ("allow", "allowed"),
        ("deny", "path-outside"),
        ("allow", "allowed"),
    ]
    [told] = shell.json("guard", "status")["sessions"]
    assert (told["name"], told["state"], told["proof"]) == ("held", "live", "SessionStart")


def test_a_resumed_session_is_guarded_as_before(shell: Shell) -> None:
    script = '- text: one\n- shell: "echo bad > ../outside.txt"\n- text: two\n'
    shell.start(script, "go", "--name", "again", "--capability", "builder")
    shell.json("session", "wait", "again")
    shell.json("session", "stop", "again")
    shell.json("session", "resume", "again", "more")
    assert shell.json("session", "wait", "again")["text"] == "two"
    assert verdicts(shell, "again") == [("deny", "path-outside")]
    assert not (shell.work.parent / "outside.txt").exists()


def test_going_without_a_guard_is_written_down(shell: Shell) -> None:
    script = '- shell: "echo fine > ../outside.txt"\n- text: one\n'
    shell.start(script, "go", "--name", "free", "--capability", "builder", "--unguarded")
    shell.json("session", "wait", "free")
    assert shell.json("session", "show", "free")["guard"] == "unguarded"
    [told] = shell.json("guard", "status")["sessions"]
    assert (told["guard"], told["state"]) == ("unguarded", "unguarded")
    assert (shell.work.parent / "outside.txt").exists()


def test_a_session_that_cannot_be_guarded_is_not_started(shell: Shell) -> None:
    words = ("session", "start", "--runtime", "scripted", "--guard")
    assert shell.run(*words, "nobody").returncode == 2
    (shell.work / ".bridle").mkdir()
    (shell.work / ".bridle/config.yaml").write_text("guards:\n  allow_commands: [git]\n")
    assert shell.run(*words, "builder").returncode == 2
    assert shell.json("session", "list")["sessions"] == []


@pytest.mark.real_cli
def test_an_agent_whose_hooks_are_off_does_not_start(shell: Shell) -> None:
    (shell.work / ".claude").mkdir()
    (shell.work / ".claude/settings.json").write_text('{"disableAllHooks": true}')
    binary = real_cli("claude", "2.1.325")
    config = f"runtime:\n  adapters:\n    claude:\n      binary: {binary}\n"
    (shell.work / ".bridle").mkdir()
    (shell.work / ".bridle/config.yaml").write_text(config)
    shell.env |= {"IS_SANDBOX": "1"}
    words = ["session", "start", "--runtime", "claude", "--permission", "bypass", "--json"]
    with ScriptedModel([{"text": "yes"}, {"text": "yes"}]) as model:
        shell.env["BRIDLE_MODEL_SERVER_KEY"] = model.api_key
        words += ["--model-server", model.url]
        refused = shell.run(*words, "--guard", "builder", "--raw-arg=--safe-mode", "go")
        assert refused.returncode == 9, refused.stderr
        assert json.loads(refused.stdout)["error"]["kind"] == "guard_refused"
        assert model.requests == []
        # What the project's settings say is outranked.
        guarded = shell.run(*words, "--name", "held", "--guard", "builder", "go")
        assert guarded.returncode == 0, guarded.stderr
        free = shell.run(*words, "--name", "free", "--guard", "builder", "--unguarded", "go")
        assert free.returncode == 0, free.stderr
        listed = shell.json("session", "list")["sessions"]
        shell.sessions += [one["session_id"] for one in listed]
        for name in ("held", "free"):
            assert shell.json("session", "wait", name)["status"] == "completed"
        states = {one["name"]: one["state"] for one in shell.json("guard", "status")["sessions"]}
        assert states == {"held": "live", "free": "unguarded"}
        for name in ("held", "free"):
            shell.json("session", "stop", name)
