"""Chaos on real agents: the same runs, against the scripted model on loopback."""

import contextlib
import json
import os
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path

import msgspec
from benchmarks.chaos import DEADLINE, Run, Wrong
from tests.support.clis import PINS, cli_path

from bridle.core.errors import WrongUse
from bridle.core.events import Drive
from bridle.core.options import ModelServer, RunOptions
from bridle.drives.tmux.server import PanePlace, TmuxServer, server_folder
from bridle.runtimes.contract import Adapter
from bridle.runtimes.registry import get_adapter
from bridle.sessions import verbs
from bridle.sessions.client import DaemonClient
from bridle.sessions.start import resume_session, start_session
from bridle.sessions.store import SessionRecord, SessionStore
from bridle.testing import ScriptedModel

TURNS = [
    {
        "text": "a few words that come slowly, one after another, to be cut somewhere",
        "chunk_size": 4,
        "shell": "sleep 0.3; echo one",
        "fault": {"slow": 0.02},
    },
    {"text": "and the end of it"},
] * 12


def base_folder() -> Path:
    """A new folder for the runs; not below the system's temporary one, which some agents refuse."""
    above = Path(__file__).parents[1] / ".tmp"
    above.mkdir(exist_ok=True)
    return Path(tempfile.mkdtemp(prefix="chaos-", dir=above))


def real_run(label: str) -> Callable[[Path, int, int], Run]:
    """What makes runs of the agent that a label names: NAME-VERSION, with `:tmux` in a terminal,
    with `:print` a process for each turn."""
    name, _, drive = label.partition(":")
    pin = next((p for p in PINS if name == f"{p.name}-{p.version}"), None)
    if pin is None or drive not in ("", "tmux", "print"):
        known = ", ".join(f"{p.name}-{p.version}" for p in PINS)
        raise SystemExit(f"no agent {label}; there are {known}, and each with :tmux or :print")
    name, binary = pin.name, str(cli_path(pin.name, pin.version))

    base: type[RealRun] = TerminalRun if drive == "tmux" else RealRun
    if drive == "print":
        from benchmarks._chaos_print import RealPrintRun

        base = RealPrintRun
    return type("Named", (base,), {"runtime_id": name, "program": binary})


class RealRun(Run):
    """One session of a real agent."""

    runtime_id = ""
    program = ""
    drive: Drive = "rpc"
    latest_kill = 4.0
    longest_pause = 1.0

    def __init__(self, base: Path, number: int, seed: int) -> None:
        super().__init__(base, number, seed)
        # Few runs: each part has its turn.
        self.target = self.targets[number % len(self.targets)]
        Path(self.env["HOME"]).mkdir()
        self.env["TERM"] = "xterm-256color"
        subprocess.run(["git", "init", "-q"], cwd=self.work, env=self.env, check=True)

    def play(self) -> None:
        """The whole run; raises `Wrong`."""
        with ScriptedModel(TURNS) as self.model:
            super().play()

    def _runtime(self) -> Adapter:
        runtime = get_adapter(self.runtime_id)
        runtime.use_binary(self.program)
        return runtime

    def _start(self) -> SessionRecord:
        server = ModelServer(url=self.model.url, api_key=self.model.api_key)
        options = RunOptions(
            prompt="", cwd=str(self.work), permission_mode="bypass", model_server=server
        )
        store = SessionStore(self.home)
        try:
            return start_session(
                self.home, store, self._runtime(), options, env=self.env, drive=self.drive
            )
        finally:
            store.close()

    def _resumed(self, store: SessionStore, record: SessionRecord) -> None:
        server = {"url": self.model.url, "api_key": self.model.api_key}
        changes = {"model_server": server}
        resume_session(self.home, store, self._runtime(), record, env=self.env, changes=changes)

    def _finally(self, client: DaemonClient) -> None:
        """Ask once more: the request that this makes holds all that the agent remembers."""
        self._say(client, "prompt")
        report = client.call(verbs.WaitIdle(session=self.record.session_id, timeout=DEADLINE))
        if report is None or report.state != "ready" or report.status != "completed":
            raise Wrong(f"the last prompt was not answered: {report}")
        for message_id, kind in list(self.accepted.items()):
            # The same message again changes nothing and tells what became of it.
            with contextlib.suppress(WrongUse):
                receipt = self._send(client, message_id, kind)
                if receipt is not None and receipt["error"]:
                    self.notes["told undelivered"] += 1
                    self.refused.append(message_id)
                    del self.accepted[message_id]

    def _kept_nothing(self, record: SessionRecord) -> bool:
        account = Path(self.home.folder(record.session_id)) / "account"
        return not list(account.rglob(f"*{record.native_session_id}*.jsonl"))

    def _check_messages(self, record: SessionRecord) -> None:
        asked = [each for each in self.model.requests if each.outcome in ("turn", "overrun")]
        if not asked:
            raise Wrong("the agent never asked its model")
        last = json.dumps(asked[-1].body)
        for number, message_id in enumerate(self.accepted, 1):
            self.notes["messages"] += 1
            times = last.count(message_id)
            if times != 1:
                how = "lost" if times == 0 else f"there {times} times"
                raise Wrong(f"message {number} was {how}")
        if any(message_id in last for message_id in self.refused):
            raise Wrong("the agent heard a message that was refused")


class TerminalRun(RealRun):
    """One session of a real agent in a pane."""

    drive: Drive = "tmux"
    targets = ("driver", "daemon", "agent", "tmux server")

    def play(self) -> None:
        """The whole run; its tmux server is ended with it."""
        try:
            super().play()
        finally:
            TmuxServer(server_folder(os.environ, self.home.root)).kill()

    def _part(self, run: Path) -> int | None:
        if self.target != "tmux server":
            return super()._part(run)
        if not (run / "pane").exists():
            return None
        place = msgspec.json.decode((run / "pane").read_bytes(), type=PanePlace)
        asked = ["tmux", "-S", TmuxServer(place.server).socket, "display-message", "-p", "#{pid}"]
        told = subprocess.run(asked, capture_output=True, text=True, check=False, timeout=10)
        return int(told.stdout) if told.stdout.strip().isdigit() else None
