"""Sessions for tests: made by hand, event by event, or played by the scripted agent."""

import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec

from bridle.core.events import Event
from bridle.core.options import RunOptions
from bridle.process.process_tree import kill_marked, marked_processes
from bridle.runtimes.scripted import ScriptedRuntime
from bridle.sessions.driver import SessionDriver
from bridle.sessions.engine import Engine
from bridle.sessions.event_log import EventLog
from bridle.sessions.home import StateHome
from bridle.sessions.ledger import Accept, Begin, Drop, Entry, Ledger, MessageKind, Send
from bridle.sessions.start import start_session
from bridle.sessions.store import SessionRecord, SessionStore
from bridle.sessions.user_messages import iso
from bridle.turns.recorder import Recorder
from bridle.turns.usage_totals import Before
from bridle.turns.wire import LiveFacts

DEADLINE = 60.0
START = 1_700_000_000.0
"""The moment at which a session made by hand begins."""


class MadeSession:
    """A session on disk without any process: a recorder and a ledger under a clock of the test's
    own. Every call is a second later than the one before."""

    def __init__(self, folder: Path, **fields: Any) -> None:
        self.home = StateHome(str(folder / "state"))
        self.now = START
        given = {"runtime": "codex", "runtime_version": "1.2.3", "model": "big", "workdir": "/w"}
        self.record = SessionRecord(
            session_id="11111111-2222-3333-4444-555555555555",
            started_at=iso(START),
            run=1,
            **{**given, **fields},
        )
        self.folder = self.home.folder(self.record.session_id)
        os.makedirs(self.folder)
        self.log = EventLog(self.folder)
        self._ledger = Ledger(os.path.join(self.folder, "ledger.jsonl"))
        self.recorder = self._new_recorder(Before())
        self.begin()

    def _new_recorder(self, before: Before) -> Recorder:
        return Recorder(
            runtime=self.record.runtime,
            session_id=self.record.session_id,
            options=RunOptions(prompt=""),
            cwd="/w",
            runtime_version="1.2.3",
            drive="rpc",
            before=before,
            clock=lambda: iso(self.now),
        )

    def tick(self) -> float:
        self.now += 1.0
        return self.now

    def enter(self, entry: Entry) -> None:
        self._ledger.append(msgspec.structs.replace(entry, ts=self.tick()))

    def begin(self, run: int = 1, carried: tuple[Accept, ...] = ()) -> None:
        facts = LiveFacts(runtime="codex", runtime_version="1.2.3", dialect="d", cwd="/w")
        self.enter(Begin(run=run, drive="rpc", facts=facts, before=Before(), carried=carried))
        if run > 1:
            self.recorder = self._new_recorder(self.recorder.total())

    def accept(self, name: str, text: str, kind: MessageKind = "prompt", **fields: Any) -> Accept:
        message = Accept(id=name, kind=kind, text=text, **fields)
        self.enter(message)
        return message

    def send(self, name: str, *, steer: bool = False) -> None:
        self.enter(Send(id=name, steer=steer))

    def drop(self, name: str) -> None:
        self.enter(Drop(id=name))

    def ask(self, name: str, text: str, **fields: Any) -> None:
        """A prompt that the agent takes: its turn is open."""
        self.accept(name, text, **fields)
        self.send(name)
        self.do(self.recorder.turn_started)

    def say(self, text: str, thinking: str = "", **fields: Any) -> None:
        def message() -> None:
            self.recorder.message_started()
            self.recorder.thinking_delta(thinking)
            self.recorder.text_delta(text)
            self.recorder.message_ended(**fields)

        self.do(message)

    def use(self, name: str, tool: str, args: Any, result: Any, *, is_error: bool = False) -> None:
        self.do(lambda: self.recorder.tool_started(name, tool, args))
        self.do(lambda: self.recorder.tool_ended(name, is_error=is_error, result=result))

    def end_turn(self) -> None:
        self.do(self.recorder.turn_ended)

    def do(self, act: Callable[[], None]) -> None:
        """Something happens, a second later, and is on disk."""
        self.tick()
        act()
        self.keep(self.recorder.drain())

    def keep(self, events: list[Event]) -> None:
        if events:
            self.log.append(events)
            self.log.rest()


class LiveSession:
    """A session of the scripted agent, driven by an engine in a thread."""

    def __init__(self, engine: Engine, driver: SessionDriver, events: list[Event]) -> None:
        self.engine = engine
        self.driver = driver
        self.events = events
        self._sent = 0

    @property
    def home(self) -> StateHome:
        return self.engine.home

    @property
    def record(self) -> SessionRecord:
        return self.driver.record

    def send(self, text: str, kind: MessageKind = "prompt") -> None:
        self._sent += 1
        name = f"m{self._sent}"
        self.engine.call(lambda: self.driver.accept(name, kind, text)).result(DEADLINE)

    def wait(self, holds: Callable[[], bool]) -> None:
        session_id = self.record.session_id
        came = self.engine.call(
            lambda: self.engine.wait(session_id, lambda: True if holds() else None, DEADLINE)
        )
        assert came.result(DEADLINE + 5), "the session never came to that"

    def wait_idle(self) -> None:
        self.wait(lambda: self.driver.player.is_idle)

    def leave(self) -> None:
        self.engine.call(lambda: self.driver.leave("done")).result(DEADLINE)
        self.wait(lambda: self.driver.is_over)


@contextmanager
def live_session(folder: Path, script: Any, **fields: Any) -> Iterator[LiveSession]:
    """A scripted session that is ready; nothing of it is left afterwards."""
    home = StateHome(str(folder / "state"))
    (folder / "work").mkdir()
    engine = Engine(home, lambda name, workdir: ScriptedRuntime())
    thread = threading.Thread(target=engine.run)
    thread.start()
    store = SessionStore(home)
    env = {"PATH": "/usr/bin:/bin", "HOME": str(folder), "LANG": "C.UTF-8"}
    options = RunOptions(
        prompt="",
        cwd=str(folder / "work"),
        provider_options={"script": script},
        permission_mode="bypass",
    )
    record = start_session(home, store, ScriptedRuntime(), options, env=env, **fields)
    events: list[Event] = []

    def adopt() -> SessionDriver:
        engine.listen(record.session_id, events.extend)
        return engine.adopt(record)

    try:
        live = LiveSession(engine, engine.call(adopt).result(DEADLINE), events)
        live.wait_idle()
        yield live
    finally:
        engine.stop()
        thread.join(DEADLINE)
        store.close()
        kill_marked(record.session_id)
        until = time.monotonic() + DEADLINE
        while marked_processes(record.session_id) and time.monotonic() < until:
            time.sleep(0.01)
