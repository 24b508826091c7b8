"""`bridle session` and `bridle daemon` as programs call them."""

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from bridle.cli import session_attach
from bridle.sessions.manager import SessionManager
from bridle.testing import ScriptedModel
from tests.cli.session_shell import BRIDLE, Shell
from tests.conftest import wait_until
from tests.sessions.place import wait
from tests.support.real_cli import real_cli


def test_a_conversation(shell: Shell) -> None:
    told = shell.start("- text: one\n- text: two\n- text: three\n", "--name", "talk")
    assert set(told) == {
        *("session_id", "native_session_id", "runtime", "drive", "pid", "state"),
    }
    assert (told["runtime"], told["drive"], told["state"]) == ("scripted", "rpc", "ready")
    sent = shell.json("session", "send", "talk", "hello")
    assert (sent["delivered"], sent["turn"]) == (True, 1)
    waited = shell.json("session", "wait", "talk")
    assert {key: waited[key] for key in ("state", "turn", "status", "text")} == {
        "state": "ready",
        "turn": 1,
        "status": "completed",
        "text": "one",
    }
    shell.json("session", "follow-up", "talk", "-", stdin="by stdin")
    assert shell.json("session", "wait", told["session_id"][:8])["text"] == "two"
    shell.json("session", "steer", "talk", "and this")
    assert shell.json("session", "wait", "talk")["text"] == "three"
    [listed] = shell.json("session", "list")["sessions"]
    assert set(listed) == {
        *("session_id", "native_session_id", "name", "runtime", "drive", "state"),
        *("workdir", "pid", "started_at", "ready_at", "turn", "last_turn", "usage", "cost_usd"),
        *("questions", "last_activity", "stop_reason", "error"),
    }
    assert (listed["name"], listed["workdir"]) == ("talk", str(shell.work))
    assert shell.json("session", "show", "talk")["turn"] == 3
    stopped = shell.json("session", "stop", "talk", "--reason", "enough")
    assert stopped["state"] == "stopped"
    lines = shell.run("session", "logs", "talk").stdout.splitlines()
    events = [json.loads(line) for line in lines]
    assert [event["seq"] for event in events] == list(range(1, len(events) + 1))
    assert events[-1]["type"] == "session_end"


def test_limits_and_raw_messages_by_flags(shell: Shell) -> None:
    script = '- shell: "sleep 30"\n- text: done\n'
    shell.start(script, "--name", "slow", "--timeout", "1", "--raw", "--permission", "bypass")
    shell.json("session", "send", "slow", "go")
    waited = shell.run("session", "wait", "slow")
    assert waited.returncode == 7, waited.stderr
    assert "the turn did not end within 1 s" in waited.stderr
    assert '"raw":' in shell.run("session", "logs", "slow").stdout


def test_a_schema_is_refused_and_not_offered(shell: Shell) -> None:
    refused = shell.run("session", "start", "--runtime", "scripted", "--schema", "a.json")
    assert refused.returncode == 4
    assert "output_schema (not in a session; use `bridle run`)" in refused.stderr
    assert "--schema" not in shell.run("session", "start", "--help").stdout


def test_whoever_waits_is_told_what_the_agent_asks(shell: Shell) -> None:
    file = shell.work / "ask.yaml"
    file.write_text('- shell: "echo hi"\n- text: done\n')
    started = shell.run(
        *("session", "start", "--runtime", "scripted", "--permission", "ask", "--name", "two"),
        *("--provider-option", f"script={file}", "run it"),
    )
    shell.sessions.append(started.stdout.split()[0])
    waiter = subprocess.Popen(
        [BRIDLE, "session", "wait", "two"],
        cwd=shell.work,
        env=shell.env,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert waiter.stderr is not None
    asked, hint = waiter.stderr.readline(), waiter.stderr.readline()
    assert asked.startswith("it asks: shell")
    assert "echo hi" in asked
    words = hint.split("`")[1].split()
    assert words[:4] == ["bridle", "session", "permit", "two"]
    assert words[4] in shell.run("session", "show", "two").stderr
    late = shell.run("session", "wait", "two", "--timeout", "0.5")
    assert late.returncode == 7
    assert "still waits for an answer after 0.5 s" in late.stderr
    assert "it asks: shell" in late.stderr
    shell.json(*words[1:])
    said, more = waiter.communicate(timeout=60)
    assert (said, more, waiter.returncode) == ("done\n", "", 0)


def test_a_failed_turn_is_reported(shell: Shell) -> None:
    told = shell.start("- fault: {status: 401}\n", "--name", "ill")
    shell.run("session", "send", "ill", "go")
    waited = shell.run("session", "wait", "ill")
    assert (waited.returncode, waited.stdout) == (5, "")
    error, hint = waited.stderr.splitlines()
    assert error.startswith("bridle: error: not_authenticated: ")
    assert hint.startswith("hint: ")
    assert "not_authenticated" in shell.run("session", "list").stdout
    assert "not_authenticated" in shell.run("session", "show", "ill").stdout
    shown = shell.json("session", "show", "ill")
    assert {"kind", "message", "hint"} <= set(shown["last_turn"]["error"])
    os.kill(told["pid"], signal.SIGKILL)
    wait(lambda: shell.json("session", "show", "ill")["state"] == "failed")
    killed = shell.run("session", "wait", "ill")
    assert killed.returncode == 5
    assert "bridle: error: " in killed.stderr


def test_an_idle_agent_that_is_killed_is_reported(shell: Shell) -> None:
    told = shell.start("- text: fine\n- text: more\n", "--name", "gone", "go")
    assert shell.run("session", "wait", "gone").stdout == "fine\n"
    os.kill(told["pid"], signal.SIGKILL)
    wait(lambda: shell.json("session", "show", "gone")["state"] == "failed")
    waited = shell.run("session", "wait", "gone")
    assert waited.returncode == 1
    assert waited.stderr.startswith("bridle: error: crashed: ")
    assert "crashed: " in shell.run("session", "list").stdout


def test_a_session_is_found_by_the_agents_own_id(shell: Shell) -> None:
    told = shell.start("- text: one\n")
    found = shell.json("session", "show", told["native_session_id"])
    assert found["session_id"] == told["session_id"]


def test_a_start_that_is_refused_leaves_no_session(shell: Shell) -> None:
    # tmux is not there: the folder has links to all that an agent of Python needs.
    bin_folder = shell.work / "bin"
    bin_folder.mkdir()
    for name in ("sh", "env"):
        (bin_folder / name).symlink_to(f"/bin/{name}")
    (bin_folder / "claude").write_text("#!/bin/sh\necho '2.1.211 (Claude Code)'\n")
    (bin_folder / "claude").chmod(0o755)
    shell.env["PATH"] = str(bin_folder)
    refused = shell.run(
        *("session", "start", "--runtime", "claude", "--drive", "tmux", "--permission", "ask")
    )
    assert refused.returncode == 3, refused.stderr
    assert "tmux" in refused.stderr
    assert shell.json("session", "list")["sessions"] == []
    assert not list(Path(shell.env["HOME"]).glob(".local/state/bridle/sessions/*"))


def test_a_prompt_at_the_start(shell: Shell) -> None:
    told = shell.start("- text: hello\n", "the prompt")
    assert shell.json("session", "wait", told["session_id"])["text"] == "hello"


def test_every_command_works_when_the_daemon_was_just_killed(shell: Shell) -> None:
    told = shell.start("- text: one\n- text: two\n", "--name", "talk")

    def kill_daemon() -> None:
        pid = shell.json("daemon", "status")["pid"]
        if pid is not None:
            os.kill(pid, signal.SIGKILL)

    kill_daemon()
    assert shell.json("session", "send", "talk", "hello")["delivered"]
    kill_daemon()
    assert shell.json("session", "wait", "talk")["text"] == "one"
    kill_daemon()
    assert shell.json("session", "list")["sessions"][0]["state"] == "ready"
    kill_daemon()
    assert shell.json("session", "abort", "talk")["aborted"] is False
    kill_daemon()
    assert shell.run("session", "logs", "talk").stdout
    kill_daemon()
    assert shell.json("session", "stop", "talk")["state"] == "stopped"
    kill_daemon()
    resumed = shell.json("session", "resume", "talk", "go on")
    assert resumed["native_session_id"] == told["native_session_id"]
    assert shell.json("session", "wait", "talk")["text"] == "two"


def test_exit_statuses(shell: Shell) -> None:
    shell.start('- shell: "sleep 30"\n- text: late\n', "go", "--name", "slow")
    late = shell.run("session", "wait", "slow", "--timeout", "0.3", "--json")
    assert late.returncode == 7
    assert json.loads(late.stdout)["error"]["kind"] == "timeout"
    assert shell.run("session", "send", "nobody", "hi").returncode == 2
    assert shell.run("session", "send", "slow", "hi", "--delivery", "tmux").returncode == 2
    assert shell.run("session", "send", "slow", "").returncode == 2
    assert shell.run("session", "dance").returncode == 2
    assert shell.json("session", "abort", "slow", "--reason", "enough")["aborted"]
    aborted = shell.run("session", "wait", "slow", "--json")
    assert aborted.returncode == 130
    assert json.loads(aborted.stdout)["status"] == "aborted"
    shell.run("session", "stop", "slow")
    over = shell.run("session", "send", "slow", "hi")
    assert over.returncode == 2
    assert "resume" in over.stderr


def test_an_agent_that_does_not_start(shell: Shell) -> None:
    failed = shell.run("session", "start", "--runtime", "claude", "--json")
    assert failed.returncode == 3
    assert json.loads(failed.stdout)["error"]["kind"] == "not_installed"


def test_a_name_is_taken_only_while_its_session_lives(shell: Shell) -> None:
    shell.start("- text: one\n", "--name", "same")
    file = shell.work / "script-0.yaml"
    words = ["session", "start", "--runtime", "scripted", "--name", "same"]
    words += ["--provider-option", f"script={file}"]
    refused = shell.run(*words)
    assert refused.returncode == 2
    assert "alive" in refused.stderr
    shell.run("session", "stop", "same")
    shell.sessions.append(shell.json(*words)["session_id"])


def test_permission_from_the_command_line(shell: Shell) -> None:
    file = shell.work / "ask.yaml"
    file.write_text('- shell: "touch made"\n- text: done\n')
    told = shell.json(
        *("session", "start", "go", "--runtime", "scripted", "--permission", "ask"),
        *("--provider-option", f"script={file}"),
    )
    name = told["session_id"]
    shell.sessions.append(name)
    request = None
    for line in _lines(shell, name):
        event = json.loads(line)
        if event["type"] == "permission_request":
            request = event["request_id"]
            shell.json("session", "permit", name, request, "allow")
        elif event["type"] == "agent_end":
            break
    assert request is not None
    assert (shell.work / "made").exists()


def _lines(shell: Shell, name: str) -> Iterator[str]:
    """The lines of `logs -f`, as they come."""
    with subprocess.Popen(
        [BRIDLE, "session", "logs", name, "-f"],
        cwd=shell.work,
        env=shell.env,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        try:
            yield from process.stdout
        finally:
            process.kill()


def test_a_project_keeps_its_own_sessions(shell: Shell) -> None:
    (shell.work / ".bridle").mkdir()
    told = shell.start("- text: one\n")
    assert (shell.work / ".bridle" / "state" / "sessions" / told["session_id"]).is_dir()
    assert (shell.work / ".bridle" / "state" / ".gitignore").read_text() == "*\n"
    assert len(shell.json("session", "list")["sessions"]) == 1
    assert shell.json("session", "stop", told["session_id"])["state"] == "stopped"


def test_attach_shows_and_sends(shell: Shell) -> None:
    told = shell.start("- text: first answer\n- text: second answer\n")
    name = told["session_id"]
    with subprocess.Popen(
        [BRIDLE, "session", "attach", name],
        cwd=shell.work,
        env=shell.env,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdin is not None
        assert process.stderr is not None
        process.stdin.write("hello\n")
        process.stdin.flush()
        for line in process.stderr:
            if "turn 1" in line:
                break
        process.stdin.write("/stop\n")
        process.stdin.close()
        rest = process.stderr.read()
        assert process.wait(60) == 0
    assert "stopped at the terminal" in rest
    assert shell.json("session", "show", name)["state"] == "stopped"


@pytest.mark.parametrize("verb", [("attach",), ("logs", "-f")])
def test_a_view_ends_with_its_reader(shell: Shell, verb: tuple[str, ...]) -> None:
    name = shell.start("- text: first answer\n")["session_id"]
    reading, writing = os.pipe()
    with subprocess.Popen(
        [BRIDLE, "session", verb[0], name, *verb[1:]],
        cwd=shell.work,
        env=shell.env,
        # Somebody is at the other end, and types nothing.
        stdin=subprocess.PIPE,
        stdout=writing,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        os.close(writing)
        assert process.stderr is not None
        if verb == ("attach",):
            assert "attached to" in process.stderr.readline()
        else:
            assert os.read(reading, 1)
        os.close(reading)
        assert process.wait(60) == 130
        assert "Traceback" not in process.stderr.read()
    assert shell.json("session", "show", name)["state"] == "ready"


def test_a_turn_that_ends_before_the_watcher_runs_is_shown(
    shell: Shell, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    name = shell.start("- text: first answer\n")["session_id"]
    for variable in [each for each in os.environ if each.startswith("XDG_")]:
        monkeypatch.delenv(variable)
    for variable, value in shell.env.items():
        monkeypatch.setenv(variable, value)
    watchers: list[threading.Thread] = []
    shown: list[str] = []

    class Late(threading.Thread):
        def start(self) -> None:
            watchers.append(self)

    def seen() -> bool:
        shown.append(capsys.readouterr().err)
        return "turn 1" in "".join(shown)

    def typed() -> Iterator[str]:
        yield "hello\n"
        shell.json("session", "wait", name)
        threading.Thread.start(watchers[0])
        wait_until(seen)
        yield "/stop\n"
        yield ""

    threads = SimpleNamespace(Thread=Late, Event=threading.Event)
    monkeypatch.setattr(session_attach, "threading", threads)
    lines = typed()
    keyboard = SimpleNamespace(readline=lambda: next(lines), isatty=lambda: False)
    monkeypatch.setattr("sys.stdin", keyboard)
    with SessionManager(str(shell.work)) as manager:
        assert session_attach.attach(manager, manager.show(name)) == 0


TOY = """\
runtime:
  adapters:
    other:
      binary: /bin/cat
      prompt: stdin
"""


def test_a_conversation_is_handed_over(shell: Shell) -> None:
    (shell.work / ".bridle").mkdir()
    (shell.work / ".bridle" / "config.yaml").write_text(TOY)
    held = ("--sandbox", "worktree", "--task", "gp-1", "--agent", "ivy")
    old = shell.start("- text: I found it in parser.py.\n", "Find the bug", "--name", "one", *held)
    shell.json("session", "wait", "one")
    words = ("session", "resume", "one", "--runtime", "other", "--permission", "bypass")
    new = shell.json(*words, "--name", "two")
    shell.sessions.append(new["session_id"])
    assert (new["runtime"], new["handover"], new["parent"]) == ("other", "brief", old["session_id"])
    # It prints what it was given: the brief.
    text = shell.json("session", "wait", "two")["text"]
    assert "Find the bug" in text
    assert "I found it in parser.py." in text
    shown = shell.json("session", "show", "two")
    assert (shown["sandbox"], shown["task"], shown["agent"]) == ("worktree", "gp-1", "ivy")
    assert shell.json("session", "show", "one")["state"] == "ready"
    refused = shell.run("session", "resume", "one", "--runtime", "nobody")
    assert refused.returncode == 2
    for name in ("one", "two"):
        shell.json("session", "stop", name)


@pytest.mark.real_cli
def test_a_conversation_on_a_scripted_model_stays_there(shell: Shell) -> None:
    binary = real_cli("claude", "2.1.325")
    (shell.work / ".bridle").mkdir()
    config = f"runtime:\n  adapters:\n    claude:\n      binary: {binary}\n"
    (shell.work / ".bridle/config.yaml").write_text(config)
    with ScriptedModel([{"text": "All is read."}]) as model:
        shell.env["BRIDLE_MODEL_SERVER_KEY"] = model.api_key
        server = ("--model-server", model.url, "--env", "NOTE=kept")
        old = shell.start("- text: found\n", "Find it", "--name", "one", *server)
        shell.json("session", "wait", "one")
        words = ("session", "resume", old["session_id"], "--runtime", "claude")
        new = shell.json(*words, "--name", "two", "--permission", "bypass")
        shell.sessions.append(new["session_id"])
        assert shell.json("session", "wait", "two")["text"] == "All is read."
        assert "Find it" in str(model.requests[-1].body)
        for name in ("one", "two"):
            shell.json("session", "stop", name)
        ledger = next(shell.work.rglob(f"{new['session_id']}/ledger.jsonl"))
        assert '"NOTE":"kept"' in ledger.read_text()
        assert model.api_key not in ledger.read_text()


def test_a_session_that_asks_nobody_says_so_at_its_start(shell: Shell) -> None:
    (shell.work / ".bridle").mkdir()
    (shell.work / ".bridle" / "config.yaml").write_text(
        "runtime:\n  adapters:\n    plain:\n      binary: /bin/echo\n"
    )
    words = ("session", "start", "--runtime", "plain", "--drive", "print", "--json")
    told = shell.run(*words)
    assert told.returncode == 0, told.stderr
    shell.sessions.append(json.loads(told.stdout)["session_id"])
    line = "plain: it asks nobody in a session with drive print: its own settings decide"
    assert line in told.stderr
    shell.json("session", "stop", shell.sessions[-1])


def test_what_a_start_left_open_is_told_and_kept(shell: Shell) -> None:
    told = shell.run(
        *("session", "start", "--runtime", "scripted", "--name", "open", "--json"),
        *("--ignore-unsupported", "--mcp-config", "none.json"),
    )
    assert told.returncode == 0, told.stderr
    shell.sessions.append(json.loads(told.stdout)["session_id"])
    assert "mcp_config" in told.stderr
    assert "mcp_config" in str(shell.json("session", "show", "open")["warnings"])
    assert "warning: " in shell.run("session", "show", "open").stdout
    shell.json("session", "stop", "open")


def test_a_session_is_written_out(shell: Shell) -> None:
    shell.start("- text: an answer\n", "a question", "--name", "talk")
    shell.json("session", "wait", "talk")
    text = shell.run("session", "export", "talk").stdout
    assert "a question" in text
    assert "an answer" in text
    told = shell.json("session", "export", "talk", "--format", "atif", "--out", "talk.json")
    assert told["file"] == "talk.json"
    written = json.loads((shell.work / "talk.json").read_text())
    assert [step["source"] for step in written["steps"]] == ["user", "agent"]
    assert shell.run("session", "export", "talk", "--format", "pdf").returncode == 2
    assert shell.json("session", "export", "talk")["format"] == "bridle-session"
    assert shell.run("session", "export", "talk", "--format", "html", "--json").returncode == 2
    assert shell.run("session", "attach", "talk", "--json").returncode == 2
    shell.run("session", "stop", "talk")
    assert shell.run("session", "resume", "talk", "--name", "other").returncode == 2


def test_what_a_session_cannot_be(shell: Shell) -> None:
    for words in (
        ("--runtime", "scripted", "--drive", "tmux"),
        ("--runtime", "aider", "--drive", "tmux"),
        ("--runtime", "aider", "--drive", "rpc"),
    ):
        refused = shell.run("session", "start", *words)
        assert refused.returncode == 4, refused.stderr


def test_a_process_for_each_turn(shell: Shell) -> None:
    script = "- text: one\n- text: two\n- text: three\n"
    told = shell.start(script, "--drive", "print", "--name", "talk")
    assert (told["drive"], told["state"], told["pid"]) == ("print", "ready", None)
    assert shell.json("session", "send", "talk", "first")["turn"] == 1
    assert shell.json("session", "wait", "talk")["text"] == "one"
    shown = shell.json("session", "show", "talk")
    assert (shown["state"], shown["pid"]) == ("ready", None)
    assert "no process" in shown["evidence"]
    os.kill(shell.json("daemon", "status")["pid"], signal.SIGKILL)
    # The next daemon plans the next process in the environment that the session was started in.
    shell.json("session", "steer", "talk", "second")
    assert shell.json("session", "wait", "talk")["text"] == "two"
    assert shell.json("session", "stop", "talk")["state"] == "stopped"
    assert shell.json("session", "resume", "talk", "third")["drive"] == "print"
    waited = shell.json("session", "wait", "talk")
    assert (waited["turn"], waited["text"]) == (3, "three")
    shell.json("session", "stop", "talk")


def test_a_program_without_a_protocol_has_a_session_of_one_turn(shell: Shell) -> None:
    (shell.work / ".bridle").mkdir()
    (shell.work / ".bridle" / "config.yaml").write_text(
        "runtime:\n  adapters:\n    plain:\n      binary: /bin/echo\n"
    )
    told = shell.json("session", "start", "--runtime", "plain", "--permission", "bypass", "hello")
    shell.sessions.append(told["session_id"])
    assert (told["runtime"], told["drive"]) == ("plain", "print")
    waited = shell.json("session", "wait", told["session_id"])
    assert (waited["turn"], waited["status"], waited["text"]) == (1, "completed", "hello")
    refused = shell.run("session", "send", told["session_id"], "again")
    assert refused.returncode == 2
    assert "cannot resume a conversation" in refused.stderr
    assert shell.json("session", "stop", told["session_id"])["state"] == "stopped"


def test_an_agent_that_the_project_declares(shell: Shell) -> None:
    (shell.work / ".bridle").mkdir()
    agent = Path(__file__).parents[1] / "runtimes" / "acp" / "bad_agent.py"
    (shell.work / ".bridle" / "config.yaml").write_text(
        "runtime:\n  adapters:\n    toy:\n      protocol: acp\n"
        f"      binary: {sys.executable}\n      flags: [{agent}, silent]\n"
    )
    # The daemon must find the declaration too.
    told = shell.json("session", "start", "--runtime", "toy")
    shell.sessions.append(told["session_id"])
    assert (told["runtime"], told["state"]) == ("toy", "ready")
    assert shell.json("session", "stop", told["session_id"])["state"] == "stopped"
