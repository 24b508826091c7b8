"""`bridle session ask|permit|fork|compact|rename|rm|prune|stop --all|list|show|logs`."""

import json
import os
import signal
from pathlib import Path

import pytest

from bridle.testing import ScriptedModel
from tests.cli.session_shell import BRIDLE, Shell
from tests.support.real_cli import real_cli
from tests.support.terminal import Terminal

ASKS = '- text: I write now\n  shell: "echo hi"\n- text: done\n'


def _asking(shell: Shell, name: str, script: str = ASKS) -> None:
    file = shell.work / f"{name}.yaml"
    file.write_text(script)
    told = shell.json(
        *("session", "start", "-r", "scripted", "--permission", "ask", "-n", name),
        *("--provider-option", f"script={file}", "run it"),
    )
    shell.sessions.append(told["session_id"])


def test_ask_sends_waits_and_prints_the_answer(shell: Shell) -> None:
    shell.start("- text: one\n- text: two\n- text: three\n", "-n", "talk")
    done = shell.run("session", "ask", "talk", "hello")
    assert (done.returncode, done.stdout) == (0, "one\n")
    asked = shell.json("session", "ask", "--timeout", "60", "talk", "again")
    assert (asked["text"], asked["status"], asked["turn"]) == ("two", "completed", 2)
    waited = shell.run("session", "send", "talk", "--wait", "more")
    assert (waited.returncode, waited.stdout) == (0, "three\n")
    assert shell.json("session", "wait", "talk").keys() == asked.keys()


def test_ask_joins_stdin(shell: Shell) -> None:
    shell.start("- text: one\n", "-n", "talk")
    shell.run("session", "ask", "talk", "review", stdin="+ added\n")
    text = shell.run("session", "export", "talk", "--format", "json").stdout
    assert "review\\n\\n+ added" in text


def test_ask_gives_up_in_time(shell: Shell) -> None:
    shell.start('- shell: "sleep 30"\n- text: late\n', "-n", "slow")
    done = shell.run("session", "ask", "slow", "go", "--timeout", "1")
    assert done.returncode == 7


def test_permit_needs_no_id_when_one_waits(shell: Shell) -> None:
    _asking(shell, "one")
    until = shell.run("session", "wait", "one", "--timeout", "2")
    assert until.returncode == 7
    shown = shell.run("session", "show", "one")
    assert "it asks: shell echo hi" in shown.stderr
    answer = shell.json("session", "permit", "one", "allow")
    assert answer["decision"] == "allow"
    assert shell.json("session", "wait", "one")["text"] == "done"
    none = shell.run("session", "permit", "one", "allow")
    assert (none.returncode, "is not waiting for permission" in none.stderr) == (2, True)


def test_rename(shell: Shell) -> None:
    told = shell.start("- text: one\n- text: two\n", "-n", "old")
    shell.start("- text: one\n", "-n", "taken")
    assert shell.json("session", "rename", "old", "new")["name"] == "new"
    # The driver must not write the old name again.
    shell.json("session", "ask", "new", "hello")
    assert shell.json("session", "show", told["session_id"])["name"] == "new"
    assert shell.run("session", "rename", "new", "taken").returncode == 2
    assert shell.run("session", "rename", "new", "").returncode == 2
    shell.json("session", "stop", "new")
    assert shell.json("session", "rename", "new", "ended")["name"] == "ended"
    near = shell.run("session", "show", "endde")
    assert "did you mean `ended`?" in near.stderr


def test_rm_removes_what_is_over_and_nothing_that_lives(shell: Shell) -> None:
    told = shell.start("- text: one\n", "-n", "talk")
    folder = next(Path(shell.env["HOME"]).rglob(told["session_id"]))
    alive = shell.run("session", "rm", "talk")
    assert (alive.returncode, "is alive" in alive.stderr) == (2, True)
    assert folder.exists()
    shell.json("session", "stop", "talk")
    assert shell.json("session", "rm", "talk") == {
        "session_id": told["session_id"],
        "removed": True,
    }
    assert not folder.exists()
    assert shell.json("session", "list")["sessions"] == []
    assert shell.run("session", "rm", "talk").returncode == 2
    forced = shell.start("- text: one\n", "-n", "second")
    shell.json("session", "rm", "second", "--force")
    assert shell.json("session", "list")["sessions"] == []
    assert not os.path.exists(f"/proc/{forced['pid']}")


def test_stop_all_and_prune(shell: Shell) -> None:
    first = shell.start("- text: one\n", "-n", "a")["session_id"]
    second = shell.start("- text: one\n", "-n", "b")["session_id"]
    stopped = shell.json("session", "stop", "--all", "--reason", "evening")
    assert {each["session_id"]: each["state"] for each in stopped["sessions"]} == {
        first: "stopped",
        second: "stopped",
    }
    assert shell.json("session", "stop", "--all")["sessions"] == []
    assert shell.run("session", "stop").returncode == 2
    assert shell.run("session", "stop", "a", "--all").returncode == 2
    third = shell.start("- text: one\n", "-n", "c")["session_id"]
    assert shell.json("session", "prune", "--older-than", "1")["removed"] == []
    would = shell.json("session", "prune", "--dry-run")
    assert set(would["removed"]) == {first, second}
    assert set(shell.json("session", "prune")["removed"]) == {first, second}
    assert [each["session_id"] for each in shell.json("session", "list")["sessions"]] == [third]


def test_fork_continues_in_a_copy_where_the_runtime_can(shell: Shell) -> None:
    shell.start("- text: one\n", "-n", "talk")
    shell.json("session", "ask", "talk", "hello")
    done = shell.run("session", "fork", "talk", "-n", "copy")
    assert done.returncode == 4
    assert "runtime scripted does not support option fork" in done.stderr


@pytest.mark.real_cli
def test_a_fork_and_its_parent_are_two_conversations(shell: Shell) -> None:
    binary = real_cli("claude", "2.1.325")
    (shell.work / ".bridle").mkdir()
    config = f"runtime:\n  adapters:\n    claude:\n      binary: {binary}\n"
    (shell.work / ".bridle/config.yaml").write_text(config)
    with ScriptedModel([{"text": "one"}, {"text": "two"}, {"text": "three"}]) as model:
        shell.env["BRIDLE_MODEL_SERVER_KEY"] = model.api_key
        told = shell.json(
            *("session", "start", "-r", "claude", "-n", "first", "--permission", "bypass"),
            *("--model-server", model.url),
        )
        shell.sessions.append(told["session_id"])
        assert shell.run("session", "ask", "first", "hello").stdout == "one\n"
        copy = shell.json("session", "fork", "first", "-n", "copy")
        shell.sessions.append(copy["session_id"])
        assert copy["parent"] == told["session_id"]
        assert shell.run("session", "ask", "copy", "in the copy").stdout == "two\n"
        assert "hello" in str(model.requests[-1].body)
        assert shell.run("session", "ask", "first", "in the first").stdout == "two\n"
        assert "in the copy" not in str(model.requests[-1].body)
        shell.json("session", "stop", "--all")


def test_compact_is_passed_on(shell: Shell) -> None:
    shell.start("- text: one\n", "-n", "talk")
    done = shell.run("session", "compact", "talk")
    assert (done.returncode, "compact" in done.stderr) == (4, True)


def test_list_all_shows_every_project_of_the_machine(shell: Shell, tmp_path: Path) -> None:
    here = shell.start("- text: one\n", "-n", "here")["session_id"]
    other = tmp_path / "other"
    (other / ".bridle").mkdir(parents=True)
    home, shell.work = shell.work, other
    there = shell.start("- text: one\n", "-n", "there")["session_id"]
    near = {each["session_id"] for each in shell.json("session", "list")["sessions"]}
    shell.work = home
    assert near == {there}
    found = {each["session_id"] for each in shell.json("session", "list", "--all")["sessions"]}
    assert found == {here, there}
    assert shell.run("session", "show", "there").returncode == 2
    # By its id it is found from anywhere; the daemon of its project does the work.
    assert shell.json("session", "stop", there)["state"] == "stopped"
    assert str(other) in shell.run("session", "list", "--all").stdout
    shell.work = other
    shell.run("daemon", "stop")
    shell.work = home


def test_a_list_has_headings_age_answer_tokens_and_errors(shell: Shell) -> None:
    script = "- text: the first answer\n- fault: {kind: authentication}\n"
    told = shell.start(script, "-n", "talk")
    shell.json("session", "ask", "talk", "hello")
    head, line = shell.run("session", "list").stdout.splitlines()
    assert head.split() == [
        *("ID", "NAME", "STATE", "AGE", "RUNTIME", "TURNS", "TOKENS", "COST", "LAST"),
    ]
    assert line.startswith(f"{told['session_id']}  talk  ready")
    assert line.endswith("the first answer")
    shown = shell.run("session", "show", "talk").stdout
    assert "last answer: the first answer" in shown
    assert "turns:       1, the last one completed" in shown
    assert "{" not in shown
    failed = shell.run("session", "ask", "talk", "again")
    assert failed.returncode == 5
    assert "not_authenticated: " in shell.run("session", "list").stdout.splitlines()[1]
    assert "error:       not_authenticated: " in shell.run("session", "show", "talk").stdout


def test_a_narrow_list_keeps_state_and_answer(shell: Shell) -> None:
    told = shell.start("- text: the first answer\n", "-n", "talk")
    shell.json("session", "ask", "talk", "hello")
    env = {**shell.env, "TERM": "xterm"}
    with Terminal([BRIDLE, "session", "list"], env, shell.work, columns=100) as seen:
        assert seen.finish() == 0
    assert "ID        NAME" in seen.screen
    assert told["session_id"] not in seen.screen
    assert told["session_id"][:8] in seen.screen
    with Terminal([BRIDLE, "session", "list"], env, shell.work, columns=40) as seen:
        assert seen.finish() == 0
    first, second = seen.screen.splitlines()
    assert first.startswith(f"{told['session_id'][:8]} talk ready")
    assert "turn 1" in second
    assert max(len(first), len(second)) <= 40


def test_logs_on_a_terminal_are_a_transcript(shell: Shell) -> None:
    shell.start('- text: I look\n  shell: "echo hi"\n- text: all done\n', "-n", "talk")
    shell.json("session", "ask", "talk", "look around")
    env = {**shell.env, "TERM": "dumb"}
    with Terminal([BRIDLE, "session", "logs", "talk"], env, shell.work) as seen:
        assert seen.finish() == 0
    assert "> look around" in seen.screen
    assert "· shell echo hi" in seen.screen
    assert "all done" in seen.screen
    assert "── completed" in seen.screen
    assert '{"' not in seen.screen
    with Terminal([BRIDLE, "session", "logs", "talk", "--json"], env, shell.work) as seen:
        assert seen.finish() == 0
    assert json.loads(seen.screen.splitlines()[0])["seq"] == 1


def test_an_empty_name_and_an_empty_id_are_refused(shell: Shell) -> None:
    start = shell.run("session", "start", "-r", "scripted", "--name", "")
    assert (start.returncode, "must not be empty" in start.stderr) == (2, True)
    stop = shell.run("session", "stop", "")
    assert (stop.returncode, "id is empty" in stop.stderr) == (2, True)


def test_the_beginning_of_an_id_needs_four_characters(shell: Shell) -> None:
    told = shell.start("- text: one\n")
    beginning = told["session_id"][:4]
    assert shell.json("session", "show", beginning)["session_id"] == told["session_id"]
    assert shell.run("session", "show", beginning[:3]).returncode == 2


def test_export_into_a_missing_folder_is_wrong_use(shell: Shell) -> None:
    shell.start("- text: one\n", "-n", "talk")
    done = shell.run("session", "export", "talk", "--out", "missing/x.html")
    assert done.returncode == 2
    assert "cannot write missing/x.html: No such file or directory" in done.stderr
    assert ".part" not in done.stderr


def test_export_onto_a_folder_is_wrong_use(shell: Shell) -> None:
    told = shell.start("[{text: one}]")
    done = shell.run("session", "export", told["session_id"], "--out", str(shell.work))
    assert done.returncode == 2
    assert "it is a folder" in done.stderr
    assert not Path(f"{shell.work}.part").exists()


def test_verbose_shows_what_is_started(shell: Shell) -> None:
    done = shell.run("session", "start", "-r", "scripted", "-v", "--env", "X_TOKEN=verysecret1")
    shell.sessions.append(done.stdout.split()[0])
    assert "runtime: scripted" in done.stderr
    assert "env (X_TOKEN)" in done.stderr
    assert "verysecret1" not in done.stderr
    shell.json("session", "stop", shell.sessions[-1])
    resumed = shell.run("session", "resume", shell.sessions[-1], "-v", "--permission", "bypass")
    assert "changes: permission_mode=bypass" in resumed.stderr


def test_an_interrupted_start_says_what_became_of_it(shell: Shell) -> None:
    agent = shell.work / "slow-agent"
    agent.write_text("#!/bin/sh\necho up >&2\nexec sleep 60\n")
    agent.chmod(0o755)
    (shell.work / ".bridle").mkdir()
    (shell.work / ".bridle" / "config.yaml").write_text(
        "runtime:\n  adapters:\n    slow: {binary: ./slow-agent, protocol: acp}\n"
    )
    screen = _interrupted(shell, "slow", "start", "-r", "slow", "-n", "s1", "do it")
    assert "interrupted: stopping session s1\n" in screen
    assert "session s1 was stopped, and its prompt was not sent" in screen
    [left] = shell.json("session", "list")["sessions"]
    assert left["state"] in ("stopped", "failed")


def test_an_interrupted_handover_says_what_became_of_it(shell: Shell) -> None:
    old = shell.start("[{text: one}]", "-n", "old", "go")["session_id"]
    shell.json("session", "stop", old)
    agent = shell.work / "slow-agent"
    agent.write_text("#!/bin/sh\nexec sleep 60\n")
    agent.chmod(0o755)
    (shell.work / ".bridle").mkdir()
    (shell.work / ".bridle" / "config.yaml").write_text(
        "runtime:\n  adapters:\n    slow: {binary: ./slow-agent, protocol: acp}\n"
    )
    screen = _interrupted(shell, "slow", "resume", old, "-r", "slow", "-n", "new")
    assert "session new was stopped" in screen
    [left] = [
        one for one in shell.json("session", "list", "--all")["sessions"] if one["name"] == "new"
    ]
    assert left["state"] in ("stopped", "failed")


def _interrupted(shell: Shell, agent: str, *words: str) -> str:
    """The screen of a `bridle session` that is broken off while its agent starts."""
    env = {**shell.env, "TERM": "dumb"}
    with Terminal([BRIDLE, "session", *words], env, shell.work) as seen:
        seen.wait_for(f"starting {agent}")
        seen.signal(signal.SIGINT)
        assert seen.finish() == 130
    return seen.screen


def test_a_drive_that_a_runtime_lacks_names_those_that_have_it(shell: Shell) -> None:
    done = shell.run("session", "start", "-r", "claude-acp", "--drive", "print")
    assert done.returncode == 4
    assert "supported by: " in done.stderr
    assert "gemini" in done.stderr
    assert "--ignore-unsupported" not in done.stderr


def test_a_spent_session_takes_no_other_model(shell: Shell) -> None:
    agent = shell.work / "agent"
    agent.write_text("#!/bin/sh\necho said\n")
    agent.chmod(0o755)
    (shell.work / ".bridle").mkdir()
    (shell.work / ".bridle" / "config.yaml").write_text(
        "runtime:\n  adapters:\n    one: {binary: ./agent, modelFlag: --model}\n"
    )
    told = shell.json("session", "start", "-r", "one", "-n", "once", "--permission", "bypass")
    shell.sessions.append(told["session_id"])
    assert shell.run("session", "ask", "once", "hello").stdout == "said\n"
    done = shell.run("session", "model", "once", "other")
    assert done.returncode == 2
    assert "this session has had its one turn" in done.stderr
