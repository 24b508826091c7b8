"""Has one conversation with real agents in live sessions and prints the traces side by side.

`python scripts/session_traces.py [RUNTIME[-VERSION][:DRIVE]]…`; without arguments every agent that
the issue of live sessions names. All of them run offline against the scripted model:

    turn 1   a tool runs; meanwhile a steer and a follow-up are sent
    turn …   the follow-up (and the steer, where an agent takes none in a turn)
    then     a prompt whose tool is aborted, a prompt that works, a stop, a resume, a prompt

An agent without tools is asked for slow answers instead; one that cannot take its conversation up
in another process has one turn in a print session.

Exit status 1 when an agent did not do what the table of the others shows.
"""

import argparse
import os
import subprocess
import sys
import time
import uuid
from collections.abc import Callable
from itertools import zip_longest
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from tests.sessions.place import Host  # noqa: E402 - path first
from tests.support.clis import PINS, cli_path  # noqa: E402 - path first

from bridle.core import events as ev  # noqa: E402 - path first
from bridle.core.errors import BridleError  # noqa: E402 - path first
from bridle.core.options import ModelServer, RunOptions  # noqa: E402 - path first
from bridle.process.process_tree import kill_marked, marked_processes  # noqa: E402 - path first
from bridle.runtimes.contract import Adapter  # noqa: E402 - path first
from bridle.runtimes.registry import get_adapter  # noqa: E402 - path first
from bridle.sessions import verbs  # noqa: E402 - path first
from bridle.sessions.event_log import EventLog  # noqa: E402 - path first
from bridle.sessions.home import StateHome  # noqa: E402 - path first
from bridle.sessions.start import resume_session, start_session  # noqa: E402 - path first
from bridle.sessions.store import SessionRecord, SessionStore  # noqa: E402 - path first
from bridle.testing import ScriptedModel  # noqa: E402 - path first

AGENTS = (
    *("scripted", "claude-2.1.325", "codex-0.166.0", "pi-1.5.0", "opencode-acp", "claude-acp"),
    *("claude-2.1.325:tmux", "codex-0.166.0:tmux", "pi-1.5.0:tmux", "copilot-1.0.102:tmux"),
    *("scripted:print", "claude-2.1.325:print", "codex-0.166.0:print", "pi-1.5.0:print"),
    *("copilot-1.0.102:print", "opencode-1.18.33:print", "gemini-0.61.0:print"),
    *("aider-0.86.2:print", "cline-3.0.65:print"),
)
TURNS = [
    {"text": "I run a tool.", "shell": "touch began; sleep 3; echo one"},
    {"text": "The tool has run."},
    {"text": "The follow-up is done."},
    {"text": "Once more.", "shell": "touch again; sleep 120"},
    {"text": "Still here."},
    {"text": "Back again."},
]
LONG = 180.0


class Agent:
    """One agent's conversation."""

    def __init__(self, label: str) -> None:
        self.label = label
        name, _, self.drive = label.partition(":")
        self.drive = self.drive or "rpc"
        pin = next((p for p in PINS if name == f"{p.name}-{p.version}"), None)
        self.runtime = self._runtime(name, pin.name if pin else name, pin.version if pin else "")
        self.folder = ROOT / ".tmp" / "traces" / uuid.uuid4().hex[:8]
        self.work, home = self.folder / "work", self.folder / "home"
        self.work.mkdir(parents=True)
        home.mkdir()
        self.env = {
            "PATH": os.environ["PATH"],
            "HOME": str(home),
            "LANG": "C.UTF-8",
            "TERM": "xterm-256color",
        }
        subprocess.run(["git", "init", "-q"], cwd=self.work, env=self.env, check=True)
        self.home = StateHome(str(self.folder / "state"))
        self.statuses: list[str] = []
        self.runs_tools = self.remembers = True
        self.model: ScriptedModel
        self.session_id = ""

    def _runtime(self, name: str, pin: str, version: str) -> Adapter:
        runtime = get_adapter(pin)
        packages = {p.name: p.version for p in PINS}
        wanted = pin if version else next((n for n in (pin, runtime.binary) if n in packages), "")
        if wanted:
            runtime.use_binary(str(cli_path(wanted, version or packages[wanted])))
        return runtime

    def talk(self) -> list[ev.Event]:
        """The whole conversation; returns its events."""
        scripted = self.runtime.id == "scripted"
        features = self.runtime.features.in_session(self.drive)
        self.runs_tools, self.remembers = self.runtime.id != "aider", features.resume
        turns = list(TURNS) if self.runs_tools else [{"text": turn["text"]} for turn in TURNS]
        if not self.runs_tools:
            # Its one answer is the end of the turn, slow enough for what is sent meanwhile.
            turns[0] = {**turns[0], "fault": {"delay": 4}}
            turns[3] = {**turns[3], "fault": {"delay": 100}}
            del turns[1]
        if not features.steer:
            turns.insert(2 if self.runs_tools else 1, {"text": "The steer is read."})
        with ScriptedModel(turns) as model:
            self.model = model
            host = Host(self.home)
            try:
                record = self._start(model, scripted)
                self._converse(host, record)
            finally:
                host.close()
                kill_marked(self.session_id)
        return list(EventLog(self.home.folder(self.session_id)).read())

    def _start(self, model: ScriptedModel, scripted: bool) -> SessionRecord:
        self.server = ModelServer(url=model.url, api_key="bridle-scripted-key")
        options = RunOptions(
            prompt="", cwd=str(self.work), permission_mode="bypass", model_server=self.server
        )
        store = SessionStore(self.home)
        record = start_session(
            self.home,
            store,
            self.runtime,
            options,
            env=self.env,
            drive=self.drive,  # type: ignore[arg-type]  # a word of the label
        )
        store.close()
        self.session_id = record.session_id
        return record

    def _converse(self, host: Host, record: SessionRecord) -> None:
        host.send(record, "Please begin.")
        if not self.remembers:
            # It has one turn, and says so.
            self._rest(host, record)
            receipt = host.send(record, "And then this.")
            if receipt is None or receipt.delivered or not receipt.error:
                raise AssertionError(f"a second turn was promised: {receipt}")
            host.stop(record)
            return
        self._wait(self._works(host, record, "began"))
        host.send(record, "Mind the steer.", "steer")
        host.send(record, "And then this.", "follow_up")
        self._rest(host, record)
        host.send(record, "Run the long tool.")
        self._wait(self._works(host, record, "again"))
        host.do(verbs.Abort(session=record.session_id, reason="enough"))
        self._rest(host, record)
        host.send(record, "Are you there?")
        self._rest(host, record)
        host.stop(record)
        store = SessionStore(self.home)
        known = store.get(record.session_id)
        resumed = resume_session(
            self.home,
            store,
            self.runtime,
            known,
            env=self.env,
            changes={"model_server": {"url": self.server.url, "api_key": self.server.api_key}},
        )
        store.close()
        host.send(resumed, "Do you remember?")
        self._rest(host, resumed)
        ended = host.stop(resumed)
        if ended.native_session_id != known.native_session_id:
            raise AssertionError("another conversation came back")
        self._wait(lambda: not marked_processes(record.session_id))

    def _works(self, host: Host, record: SessionRecord, file: str) -> Callable[[], bool]:
        """Whether its tool runs; for an agent without tools, whether its model was asked."""
        if self.runs_tools:
            return (self.work / file).exists
        before = len(self.model.requests)
        return lambda: len(self.model.requests) > before

    def _rest(self, host: Host, record: SessionRecord) -> None:
        waiting = host.call(
            lambda: host.service.call(verbs.WaitIdle(session=record.session_id, timeout=LONG))
        )
        report = waiting.result(LONG + 9)
        if report is None or report.state != "ready":
            raise AssertionError(f"did not come to rest: {report}")
        self.statuses.append(report.status or "")

    def _wait(self, done: Callable[[], bool]) -> None:
        until = time.monotonic() + LONG
        while not done():
            if time.monotonic() > until:
                raise AssertionError("waited in vain")
            time.sleep(0.02)


def trace(events: list[ev.Event]) -> list[str]:
    """The events in words, one a line, pieces of text left out."""
    lines = []
    for event in events:
        kind = str(event.__struct_config__.tag)
        if isinstance(event, ev.StateChange):
            lines.append(f"{event.old} -> {event.new}")
        elif isinstance(event, ev.AgentEnd):
            lines.append(f"agent_end {event.turn} {event.status}")
        elif not isinstance(event, ev.MessageUpdate | ev.Unknown):
            lines.append(kind)
    return lines


def main() -> int:
    """Talk to all agents that were named, then print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("agent", nargs="*", metavar="RUNTIME[-VERSION][:DRIVE]")
    wanted = parser.parse_args().agent or list(AGENTS)
    try:
        agents = {label: Agent(label) for label in wanted}
    except BridleError as problem:
        parser.error(str(problem))
    columns: dict[str, list[str]] = {}
    failed = False
    for label, agent in agents.items():
        began = time.monotonic()
        try:
            columns[label] = trace(agent.talk())
        except Exception as problem:
            failed = True
            columns[label] = [f"FAILED {type(problem).__name__}: {problem}"[:60]]
        print(f"{label}: {time.monotonic() - began:.1f} s, {agent.statuses}", flush=True)
    width = 34
    print("".join(f"{label:<{width}}" for label in columns))
    for row in zip_longest(*columns.values(), fillvalue=""):
        print("".join(f"{cell:<{width}}" for cell in row))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
