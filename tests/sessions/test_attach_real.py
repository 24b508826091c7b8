"""`bridle session attach` of a Codex session that shares its socket, at a terminal."""

import json
import os
import subprocess
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from bridle.drives.tmux.server import TmuxServer
from bridle.process.process_tree import kill_marked, marked_processes
from bridle.testing import ScriptedModel
from tests.sessions.place import wait
from tests.support.panes import private_server
from tests.support.real_cli import real_cli

pytestmark = [pytest.mark.real_cli, pytest.mark.timeout(300)]

BRIDLE = str(Path(sys.executable).parent / "bridle")
SCRATCH = Path(__file__).parents[2] / ".tmp" / "sessions"
TURNS = [{"text": f"Answer number {number}."} for number in range(1, 5)]
START = ("--runtime", "codex", "--permission", "bypass", "--name", "talk", "--model", "gpt-5.5")
SHARED = ("--provider-option", "shared_socket=true")


class Shell:
    """`bridle` with a Codex on its PATH, in a home and a terminal of its own."""

    def __init__(self, root: Path, tmux: TmuxServer) -> None:
        self.work, self.tmux = root / "work", tmux
        self.sessions: list[str] = []
        for folder in (self.work, root / "home", root / "bin"):
            folder.mkdir(parents=True)
        (root / "bin" / "codex").symlink_to(real_cli("codex", "0.166.0"))
        self.env = {
            "PATH": f"{root / 'bin'}{os.pathsep}{os.environ['PATH']}",
            "HOME": str(root / "home"),
            "LANG": "C.UTF-8",
            "TERM": "xterm-256color",
            "BRIDLE_DAEMON_IDLE": "30",
        }
        subprocess.run(["git", "init", "-q"], cwd=self.work, env=self.env, check=True)

    def run(self, *words: str) -> Any:
        done = subprocess.run(
            [BRIDLE, "session", *words, "--json"],
            cwd=self.work,
            env=self.env,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=100,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    def start(self, model: ScriptedModel, *words: str) -> str:
        self.env["BRIDLE_MODEL_SERVER_KEY"] = model.api_key
        told = self.run("start", "Begin.", *START, "--model-server", model.url, *words)
        self.sessions.append(told["session_id"])
        return self.sessions[-1]

    def attach(self) -> None:
        words = [BRIDLE, "session", "attach", "talk"]
        self.tmux.new_session("person", words, cwd=str(self.work), env=self.env)

    def sees(self, text: str) -> None:
        wait(lambda: text in self.tmux.capture("person", history=True))

    def types(self, text: str) -> None:
        self.tmux.paste("person", text)
        self.sees(text)
        self.tmux.send_keys("person", "Enter")

    def close(self) -> None:
        words = [BRIDLE, "daemon", "stop"]
        subprocess.run(words, cwd=self.work, env=self.env, capture_output=True, check=False)
        for session_id in self.sessions:
            kill_marked(session_id)


@pytest.fixture
def shell() -> Iterator[Shell]:
    with private_server() as tmux:
        here = Shell(SCRATCH / uuid.uuid4().hex[:8], tmux)
        yield here
    # The person went first: an attached view would start the daemon again.
    here.close()


def test_codex_itself_at_the_terminal(shell: Shell) -> None:
    with ScriptedModel(TURNS) as model:
        session = shell.start(model, *SHARED)
        assert shell.run("wait", "talk")["text"] == "Answer number 1."
        shell.attach()
        shell.sees("OpenAI Codex")
        shell.sees("Answer number 1.")
        shell.types("Typed by a person.")
        shell.sees("Answer number 2.")
        wait(lambda: shell.run("show", "talk")["turn"] == 2)
        assert shell.run("wait", "talk")["text"] == "Answer number 2."
        exported = shell.run("export", "talk")["messages"]
        assert [(each["text"], each["typed"]) for each in exported][-1] == (
            "Typed by a person.",
            True,
        )

        shell.types("/quit")
        wait(lambda: shell.tmux.pane("person").dead)
        assert shell.tmux.pane("person").exit_code == 0
        shell.sees("the session continues")
        shell.run("send", "talk", "Still there?")
        assert shell.run("wait", "talk")["text"] == "Answer number 3."

        assert shell.run("stop", "talk")["state"] == "stopped"
        wait(lambda: marked_processes(session) == [])
        shell.run("resume", "talk", "Go on.")
        assert shell.run("wait", "talk")["text"] == "Answer number 4."
        assert "Typed by a person." in str(model.requests[-1].body)
        assert shell.run("stop", "talk")["state"] == "stopped"
        wait(lambda: marked_processes(session) == [])


def test_killed_and_taken_up(shell: Shell) -> None:
    with ScriptedModel(TURNS) as model:
        session = shell.start(model, *SHARED)
        shell.run("wait", "talk")
        # Relay, app-server and all: the socket is left, and must not be in the way.
        kill_marked(session)
        wait(lambda: shell.run("show", "talk")["state"] in ("failed", "lost"))
        shell.run("resume", "talk", "Go on.")
        assert shell.run("wait", "talk")["text"] == "Answer number 2."
        shell.attach()
        shell.sees("Answer number 2.")
        assert shell.run("stop", "talk")["state"] == "stopped"
        wait(lambda: marked_processes(session) == [])


def test_a_live_view_where_nothing_is_shared(shell: Shell) -> None:
    with ScriptedModel(TURNS) as model:
        shell.start(model)
        shell.run("wait", "talk")
        shell.attach()
        shell.sees("attached to")
        shell.sees("/detach leaves")
