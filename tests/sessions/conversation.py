"""One conversation with a real agent in a live session, offline against the scripted model.

    turn 1   a tool runs; meanwhile a steer and a follow-up are sent
    turn …   the follow-up (and the steer, where an agent takes none in a turn)
    then     a prompt whose tool is aborted, a prompt that works, a stop, a resume, a prompt

An agent without tools is asked for slow answers instead; one that cannot take its conversation up
in another process has one turn in a print session.
"""

import os
import subprocess
import time
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

from bridle.core import events as ev
from bridle.core.options import ModelServer, RunOptions
from bridle.process.process_tree import kill_marked, marked_processes
from bridle.runtimes.contract import Adapter
from bridle.sessions import verbs
from bridle.sessions.event_log import EventLog
from bridle.sessions.home import StateHome
from bridle.sessions.start import resume_session, start_session
from bridle.sessions.store import SessionRecord, SessionStore
from bridle.testing import ScriptedModel
from tests.sessions.place import Host

TURNS: list[dict[str, Any]] = [
    {"text": "I run a tool.", "shell": "touch began; sleep 3; echo one"},
    {"text": "The tool has run."},
    {"text": "The follow-up is done."},
    {"text": "Once more.", "shell": "touch again; sleep 120"},
    {"text": "Still here."},
    {"text": "Back again."},
]
LONG = 180.0


class Conversation:
    """One agent's conversation, in folders of its own below `parent`."""

    def __init__(self, runtime: Adapter, drive: ev.Drive, parent: Path) -> None:
        self.runtime, self.drive = runtime, drive
        self.folder = parent / uuid.uuid4().hex[:8]
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

    @property
    def events(self) -> list[ev.Event]:
        """What the session recorded so far; empty before it began."""
        if not self.session_id:
            return []
        return list(EventLog(self.home.folder(self.session_id)).read())

    def talk(self) -> list[ev.Event]:
        """The whole conversation; returns its events."""
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
                record = self._start(model)
                self._converse(host, record)
            finally:
                host.close()
                kill_marked(self.session_id)
        return self.events

    def _start(self, model: ScriptedModel) -> SessionRecord:
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
            drive=self.drive,
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
        waiting = host.engine.call(
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
                raise AssertionError("no answer in time")
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
