"""A guarded session of a real agent with an engine of its own, and nothing left of it after."""

import os
import threading
from types import TracebackType
from typing import TypeVar
from unittest import mock

from bridle.core import events as ev
from bridle.core.ids import new_session_id
from bridle.core.options import RunOptions
from bridle.core.results import RunResult
from bridle.drives.tmux.server import TmuxServer, server_folder
from bridle.guard.hooks.host import HostedGuard
from bridle.process.process_tree import kill_marked
from bridle.runtimes.contract import Adapter
from bridle.sessions import verbs
from bridle.sessions.clocks import Clocks
from bridle.sessions.driver import SessionDriver
from bridle.sessions.engine import Engine
from bridle.sessions.event_log import EventLog
from bridle.sessions.home import StateHome
from bridle.sessions.service import SessionService
from bridle.sessions.start import start_session
from bridle.sessions.store import SessionRecord, SessionStore
from bridle.sessions.verbs import Receipt
from tests.sandbox.bench import Bench

T = TypeVar("T")
DEADLINE = 100.0
_PATIENCE = 3
"""Seconds that a hook waits for a judge that was broken on purpose."""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable


class GuardedSession:
    """A session that is driven from entering to leaving, save where a test lets it go."""

    def __init__(
        self,
        place: Bench,
        runtime: Adapter,
        options: RunOptions,
        drive: ev.Drive,
        sabotage: "Callable[[HostedGuard], None] | None" = None,
        clocks: Clocks | None = None,
    ) -> None:
        self.home = StateHome(str(place.root / "state"))
        self.runtime = runtime
        self._drive = drive
        self._sabotage = sabotage
        patient = mock.patch("bridle.guard.hooks.guard_folder.SECONDS", _PATIENCE)
        with patient if sabotage is not None else mock.patch.dict({}):
            self.record = start_session(
                self.home,
                self._store(),
                runtime,
                options,
                env=place.env,
                drive=drive,
                clocks=clocks,
            )
        self.driver: SessionDriver

    def _store(self) -> SessionStore:
        self._opened = SessionStore(self.home)
        return self._opened

    def __enter__(self) -> "GuardedSession":
        self._opened.close()
        self.take_up()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        problem: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            if not self.driver.is_over:
                self.leave()
        finally:
            self.let_go()
            kill_marked(self.record.session_id)
            if self._drive == "tmux":
                TmuxServer(server_folder(os.environ, self.home.root)).kill()
        folder = self.driver.guard_folder
        assert folder is None or not os.path.exists(folder)

    def take_up(self) -> None:
        """Drive it, in a thread of its own."""
        self.engine = Engine(self.home, lambda name, workdir: self.runtime)
        self.service = SessionService(self.engine)
        self._thread = threading.Thread(target=self.engine.run)
        self._thread.start()
        self.driver = self.engine.call(lambda: self.engine.adopt(self.record)).result(DEADLINE)
        if self._sabotage is not None:
            self._sabotage(self.engine.guards.sessions[self.record.session_id])

    def let_go(self) -> None:
        """Drive it no more; the agent goes on."""
        self.engine.stop()
        self._thread.join(DEADLINE)

    def do(self, verb: verbs.Verb[T]) -> T:
        """Have a verb carried out, and wait for its result."""
        return self.engine.call(lambda: self.service.call(verb)).result(DEADLINE + 5)

    def ready(self) -> bool:
        """Whether it became ready; else it is over."""
        record = self.do(verbs.WaitReady(session=self.record.session_id, timeout=DEADLINE))
        assert record is not None, "it never became ready"
        return record.state == "ready"

    def send(self, text: str) -> Receipt:
        """Give it a prompt."""
        name = new_session_id()
        verb = verbs.Send(
            session=self.record.session_id,
            kind="prompt",
            text=text,
            message_id=name,
            timeout=DEADLINE,
        )
        receipt = self.do(verb)
        assert receipt is not None, "it was not taken in time"
        return receipt

    def wait(self) -> None:
        """Wait until it is idle or over."""
        assert self.do(verbs.WaitIdle(session=self.record.session_id, timeout=DEADLINE))

    def prompt(self, text: str) -> Receipt:
        """Give it a prompt, and wait for the end of the turn."""
        receipt = self.send(text)
        self.wait()
        return receipt

    def abort(self, reason: str) -> None:
        """Bring the open turn to its end."""
        assert self.do(verbs.Abort(session=self.record.session_id, reason=reason))["aborted"]

    def leave(self) -> SessionRecord:
        """End it, and wait until its agent is gone; returns its record."""
        verb = verbs.Stop(session=self.record.session_id, reason="done", timeout=DEADLINE)
        record = self.do(verb)
        assert record is not None, "it never left"
        return record

    def journal(self) -> bytes:
        """What the agent printed so far."""
        folder = self.home.run_folder(self.record.session_id, self.record.run)
        with open(os.path.join(folder, "journal"), "rb") as file:
            return file.read()

    def events(self) -> list[ev.Event]:
        """The events on disk."""
        return list(EventLog(self.home.folder(self.record.session_id)).read())

    def result(self) -> RunResult:
        """What a run with these events would have come to."""
        return self.driver.player.recorder.result()
