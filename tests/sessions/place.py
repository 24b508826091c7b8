"""A state home, an engine and scripted sessions for the tests."""

import os
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from bridle.core.events import Event
from bridle.core.ids import new_session_id
from bridle.core.options import RunOptions
from bridle.process.process_tree import kill_marked
from bridle.runtimes.registry import get_adapter
from bridle.sessions import verbs
from bridle.sessions.clocks import Clocks
from bridle.sessions.driver import SessionDriver
from bridle.sessions.engine import Engine, find_runtime
from bridle.sessions.event_log import EventLog
from bridle.sessions.home import StateHome
from bridle.sessions.service import SessionService
from bridle.sessions.start import resume_session, start_session
from bridle.sessions.store import SessionRecord, SessionStore
from bridle.sessions.verbs import Receipt, TurnReport

DEADLINE = 60.0
T = TypeVar("T")


class Host:
    """An engine in a thread of its own."""

    def __init__(self, home: StateHome, clocks: Clocks | None = None) -> None:
        self.engine = Engine(home, find_runtime, clocks=clocks)
        self.service = SessionService(self.engine)
        self._thread = threading.Thread(target=self.engine.run)
        self._thread.start()

    def call(self, act: Callable[[], T]) -> T:
        """Have something done in the engine's thread, and wait for it."""
        return self.engine.call(act).result(DEADLINE)

    def do(self, verb: verbs.Verb[T]) -> T:
        """Have a verb carried out, and wait for its result."""
        return self.engine.call(lambda: self.service.call(verb)).result(DEADLINE)

    def driver(self, record: SessionRecord) -> SessionDriver:
        """The driver of a session."""
        return self.call(lambda: self.engine.adopt(record))

    def send(
        self, record: SessionRecord, text: str, kind: Any = "prompt", **more: Any
    ) -> Receipt | None:
        """Send a message and wait until it is taken or waits."""
        more.setdefault("message_id", new_session_id())
        return self.do(
            verbs.Send(session=record.session_id, kind=kind, text=text, timeout=DEADLINE, **more)
        )

    def idle(self, record: SessionRecord, seconds: float = DEADLINE) -> TurnReport:
        """Wait until a session is idle or over."""
        verb = verbs.WaitIdle(session=record.session_id, timeout=seconds)
        waiting = self.engine.call(lambda: self.service.call(verb))
        report = waiting.result(seconds + DEADLINE)
        assert report is not None, "it never came to rest"
        return report

    def stop(self, record: SessionRecord) -> SessionRecord:
        """End a session."""
        ended = self.do(verbs.Stop(session=record.session_id, reason="done", timeout=DEADLINE))
        assert ended is not None
        return ended

    def close(self) -> None:
        """End the engine; agents go on."""
        self.engine.stop()
        self._thread.join(DEADLINE)


class Place:
    """Sessions of the scripted agent in a home of their own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.work = folder / "work"
        self.work.mkdir()
        self.home = StateHome(str(folder / "state"))
        self.env = {
            "PATH": os.environ["PATH"],
            "HOME": str(folder / "home"),
            "LANG": "C.UTF-8",
            "BRIDLE_DAEMON_IDLE": "30",
        }
        self.sessions: list[str] = []
        self.hosts: list[Host] = []

    def host(self, clocks: Clocks | None = None) -> Host:
        """An engine that is closed after the test."""
        host = Host(self.home, clocks)
        self.hosts.append(host)
        return host

    def start(self, script: str, **more: Any) -> SessionRecord:
        """Start a session that plays `script`."""
        file = self.folder / f"script-{len(self.sessions)}.yaml"
        file.write_text(script)
        options: dict[str, Any] = {"permission_mode": "bypass", **more.pop("options", {})}
        store = SessionStore(self.home)
        try:
            record = start_session(
                self.home,
                store,
                get_adapter("scripted"),
                RunOptions(
                    prompt="",
                    cwd=str(self.work),
                    provider_options={"script": str(file)},
                    account_dir=str(self.folder / "account"),
                    **options,
                ),
                env=self.env,
                **more,
            )
        finally:
            store.close()
        self.sessions.append(record.session_id)
        return record

    def resume(self, record: SessionRecord) -> SessionRecord:
        """Start the next process of a session."""
        store = SessionStore(self.home)
        try:
            record = store.get(record.session_id)
            return resume_session(self.home, store, get_adapter("scripted"), record, env=self.env)
        finally:
            store.close()

    def record(self, record: SessionRecord) -> SessionRecord:
        """A session's record as it stands in the store."""
        store = SessionStore(self.home)
        try:
            return store.get(record.session_id)
        finally:
            store.close()

    def events(self, record: SessionRecord) -> list[Event]:
        """The events on disk."""
        return list(EventLog(self.home.folder(record.session_id)).read())

    def run_file(self, record: SessionRecord, name: str, run: int = 1) -> Path:
        """A file of one of a session's processes."""
        return Path(self.home.run_folder(record.session_id, run)) / name

    def close(self) -> None:
        """End all of it."""
        for host in self.hosts:
            host.close()
        for session_id in self.sessions:
            kill_marked(session_id)


def wait(done: Callable[[], Any], seconds: float = DEADLINE) -> None:
    """Wait until something is so."""
    until = time.monotonic() + seconds
    while not done():
        assert time.monotonic() < until, "waited in vain"
        time.sleep(0.01)


def kinds(events: list[Event]) -> list[str]:
    """The types of events, pieces of text left out."""
    tags = [str(event.__struct_config__.tag) for event in events]
    return [tag for tag in tags if tag != "message_update"]
