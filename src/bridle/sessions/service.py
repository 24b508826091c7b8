"""What can be asked of sessions that an engine hosts, in plain data.

The daemon offers these over its socket and the library calls them directly, so both behave the
same. Every function here runs in the engine's thread.
"""

import shutil
from collections.abc import Callable, Collection
from concurrent.futures import Future
from typing import Any, TypeVar

import msgspec

from bridle.core.errors import BridleError, WrongUse
from bridle.core.events import Event
from bridle.sessions.driver import SessionDriver
from bridle.sessions.engine import Engine
from bridle.sessions.event_log import EventLog
from bridle.sessions.ledger import MessageKind
from bridle.sessions.lock import SessionLock, SessionOver
from bridle.sessions.record_changes import after_events
from bridle.sessions.store import OpenQuestion, SessionRecord, check_name

T = TypeVar("T")


class Receipt(msgspec.Struct, frozen=True, kw_only=True):
    """What became of a message so far."""

    session_id: str
    """The session it was sent to."""
    message_id: str
    """Names the message; sending the same id again changes nothing."""
    delivered: bool
    """Whether the agent has it."""
    queued: bool = False
    """Whether it waits for its time."""
    turn: int | None = None
    """The turn it reached."""
    error: str | None = None
    """Why the agent did not take it."""


class TurnReport(msgspec.Struct, frozen=True, kw_only=True):
    """How a session stands, with its last finished turn."""

    session_id: str
    """The session."""
    state: str
    """The session's state: `ready`, `working`, `stopped`, …"""
    turn: int
    """The number of the last finished turn; 0 before the first."""
    status: str | None = None
    """How that turn ended."""
    text: str = ""
    """The agent's last text in it."""
    marker_detected: bool = False
    """Whether the agent said the completion marker in that turn."""
    error: dict[str, Any] | None = None
    """Why the turn, or else the session, failed."""
    questions: tuple[OpenQuestion, ...] = ()
    """The permission requests that wait for an answer."""


class SessionService:
    """The sessions of one engine.

    Contract: sessions are named by id, by name, or by the beginning of an id. What takes time
    returns a future, answered in the engine's thread. Raises `UnknownSession`, `SessionOver`,
    `SessionHeld`, `WrongUse`.
    """

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def driver(self, name: str) -> SessionDriver:
        """The driver of a session that lives."""
        record = self._engine.store.get(name)
        known = self._engine.drivers.get(record.session_id)
        if known is not None:
            return known
        if record.is_over:
            raise SessionOver(record)
        driver = self._engine.adopt(record)
        if driver.is_over:
            raise SessionOver(driver.record)
        return driver

    def show(self, name: str) -> SessionRecord:
        """A session's record, brought up to date."""
        record = self._engine.store.get(name)
        if not record.is_over:
            driver = self._engine.drivers.get(record.session_id)
            if driver is not None:
                self._engine.poll(driver)
            else:
                self._engine.adopt(record)
            record = self._engine.store.get(record.session_id)
        return self._whole(record)

    def _whole(self, record: SessionRecord) -> SessionRecord:
        """The record of a session that is over, with what its events say where an older Bridle
        wrote it without that."""
        if record.seq or not record.is_over:
            return record
        log = EventLog(self._engine.home.folder(record.session_id))
        whole = after_events(record, log.read())
        if whole.seq:
            self._engine.store.put(whole)
        return whole

    def all(self) -> list[SessionRecord]:
        """Every session's record, those that should live brought up to date."""
        self._engine.adopt_living()
        return self._engine.store.all()

    def send(
        self,
        name: str,
        kind: MessageKind,
        text: str,
        *,
        message_id: str,
        images: tuple[str, ...] = (),
        timeout: float | None = None,
    ) -> "Future[Receipt | None]":
        """Take a message, then wait until the agent has it; at most `timeout` seconds. A message
        that must wait for the turn to end is answered at once."""
        if not text.strip() and not images:
            raise WrongUse("the message is empty", hint="say what the agent is to do")
        driver = self.driver(name)
        driver.accept(message_id, kind, text, images)
        self._engine.settle(driver)

        def settled() -> Receipt | None:
            receipt = self.receipt(driver, message_id)
            # While the agent starts, a message is as good as on its way.
            waits = receipt.queued and driver.record.state != "starting"
            on_its_way = not receipt.delivered and not waits and receipt.error is None
            return None if on_its_way and not driver.is_over else receipt

        return self._engine.wait(driver.record.session_id, settled, timeout)

    def receipt(self, driver: SessionDriver, message_id: str) -> Receipt:
        """What became of a message."""
        state = driver.player.messages[message_id]
        return Receipt(
            session_id=driver.record.session_id,
            message_id=message_id,
            delivered=state.status == "taken",
            queued=state.status == "queued" and not driver.is_over,
            turn=state.turn or None,
            error=state.error.message if state.error else None,
        )

    def abort(self, name: str, reason: str, *, clear: bool = False) -> dict[str, Any]:
        """Bring the open turn to its end; with `clear` also forget the messages that wait."""
        driver = self.driver(name)
        dropped = driver.clear_queue(reason) if clear else []
        aborted = driver.abort(reason)
        self._engine.settle(driver)
        return {
            "session_id": driver.record.session_id,
            "aborted": aborted,
            "dropped": dropped,
        }

    def answer(
        self, name: str, request_id: str, allowed: bool, by: str, reason: str = ""
    ) -> dict[str, Any]:
        """Answer a permission request."""
        driver = self.driver(name)
        driver.answer(request_id, allowed, by, reason)
        self._engine.settle(driver)
        return {"session_id": driver.record.session_id, "request_id": request_id}

    def set_model(self, name: str, model: str) -> dict[str, Any]:
        """Use another model from the next turn on."""
        driver = self.driver(name)
        driver.set_model(model)
        self._engine.settle(driver)
        return {"session_id": driver.record.session_id, "model": model}

    def compact(self, name: str) -> dict[str, Any]:
        """Have the agent shorten its context."""
        driver = self.driver(name)
        driver.compact()
        self._engine.settle(driver)
        return {"session_id": driver.record.session_id}

    def abort_compaction(self, name: str) -> dict[str, Any]:
        """Give up the compaction that runs."""
        driver = self.driver(name)
        aborted = driver.abort_compaction()
        self._engine.settle(driver)
        return {"session_id": driver.record.session_id, "aborted": aborted}

    def rename(self, name: str, new: str) -> SessionRecord:
        """Give a session another name; `WrongUse` when a living session has it."""
        check_name(new)
        record = self._engine.store.get(name)
        if record.is_over:
            record = msgspec.structs.replace(record, name=new)
            self._engine.store.add(record)
            return record
        driver = self.driver(name)
        record = msgspec.structs.replace(driver.record, name=new)
        self._engine.store.add(record)
        driver.record = record
        return record

    def remove(
        self, name: str, *, force: bool = False, timeout: float | None = None
    ) -> "Future[dict[str, Any] | None]":
        """Forget a session with everything that Bridle keeps of it. The agent's own transcripts
        stay. `WrongUse` for a living session, unless `force` stops it first."""
        record = self.show(name)
        if not record.is_over and not force:
            raise WrongUse(
                f"session {record.name or record.session_id} is alive",
                hint="stop it first, or remove it with --force",
            )
        removed: Future[dict[str, Any] | None] = Future()

        def forget(stopped: "Future[SessionRecord | None]") -> None:
            try:
                if stopped.result() is not None:
                    self._forget(record.session_id)
                    removed.set_result({"session_id": record.session_id, "removed": True})
                else:
                    removed.set_result(None)
            except BaseException as problem:
                removed.set_exception(problem)

        self.stop(record.session_id, "removed", timeout).add_done_callback(forget)
        return removed

    def _forget(self, session_id: str) -> None:
        """Delete a session's record and folder, with the lock held: nobody drives it then."""
        folder = self._engine.home.folder(session_id)
        lock = SessionLock(folder, session_id)
        try:
            self._engine.store.remove(session_id)
            shutil.rmtree(folder, ignore_errors=True)
        finally:
            lock.release()

    def stop(
        self, name: str, reason: str, timeout: float | None = None
    ) -> "Future[SessionRecord | None]":
        """End a session and wait until its process is gone. One that is over stays as it is."""
        record = self._engine.store.get(name)
        if self._is_gone(record):
            return done(record)
        driver = self._engine.adopt(record)
        driver.leave(reason)
        self._engine.settle(driver)
        return self._engine.wait(
            record.session_id, lambda: driver.record if driver.is_over else None, timeout
        )

    def release(self, name: str, timeout: float | None = None) -> "Future[dict[str, Any] | None]":
        """Stop driving a session, so that somebody else can. One whose process is gone is let go
        when all that it left behind is ended: the next process carries the same mark."""
        session_id = self._engine.store.get(name).session_id
        driver = self._engine.drivers.get(session_id)
        if driver is not None and not driver.player.finished:
            self._engine.release(session_id)
        answer = {"session_id": session_id}
        return self._engine.wait(
            session_id, lambda: None if session_id in self._engine.drivers else answer, timeout
        )

    def wait_ready(self, name: str, timeout: float | None = None) -> "Future[SessionRecord | None]":
        """Wait until a session is ready for its first prompt, or over."""
        record = self._engine.store.get(name)
        if self._is_gone(record):
            return done(record)
        driver = self._engine.adopt(record)

        def ready() -> SessionRecord | None:
            is_there = driver.record.state not in ("starting", "unknown")
            return driver.record if driver.is_over or is_there else None

        return self._engine.wait(record.session_id, ready, timeout)

    def wait_idle(
        self,
        name: str,
        timeout: float | None = None,
        known_questions: Collection[str] | None = None,
    ) -> "Future[TurnReport | None]":
        """Wait until the agent waits for a prompt and none is on its way, or it is gone; with
        `known_questions` also until it asks anything that is not among them."""
        record = self._engine.store.get(name)
        if self._is_gone(record):
            return done(self.report(record))
        driver = self._engine.adopt(record)

        def idle() -> TurnReport | None:
            # What was true a moment ago is not enough: its process may just have died.
            if driver.is_over or driver.is_idle_now():
                return self.report(driver.record)
            asked = driver.record.questions if known_questions is not None else ()
            if any(each.request_id not in (known_questions or ()) for each in asked):
                return self.report(driver.record)
            return None

        return self._engine.wait(record.session_id, idle, timeout)

    def _is_gone(self, record: SessionRecord) -> bool:
        """Whether a session is over, with what its last process left behind."""
        return record.is_over and record.session_id not in self._engine.drivers

    def report(self, record: SessionRecord) -> TurnReport:
        """How a session stands."""
        record = self._whole(record)
        last = record.last_turn
        return TurnReport(
            session_id=record.session_id,
            state=record.state,
            turn=last.turn if last else 0,
            status=last.status if last else None,
            text=last.text if last else "",
            marker_detected=last.marker_detected if last else False,
            questions=record.questions,
            error=msgspec.to_builtins(last.error) if last and last.error else record.error,
        )

    def subscribe(
        self, name: str, after: int, listener: Callable[[list[Event]], None]
    ) -> Callable[[], None]:
        """Hear every event with a number above `after`, those of the past first, each once.

        An empty list says that the session is over and nothing more will come.
        """
        record = self._engine.store.get(name)
        driver = None
        if not record.is_over:
            driver = self._engine.adopt(record)
        log = EventLog(self._engine.home.folder(record.session_id))
        past: list[Event] = list(log.read(after))
        seen = past[-1].seq if past else after
        if past:
            listener(past)
        if driver is None or driver.is_over:
            listener([])
            return lambda: None

        def fresh(events: list[Event]) -> None:
            new = [event for event in events if event.seq > seen]
            if new:
                listener(new)
            if events and events[-1].__struct_config__.tag == "session_end":
                listener([])

        return self._engine.listen(record.session_id, fresh)


def done(value: T) -> "Future[T]":
    """A future that is there already."""
    future: Future[T] = Future()
    future.set_result(value)
    return future


def error_data(problem: BaseException) -> dict[str, Any]:
    """An error as plain data, for the other side of a socket."""
    if isinstance(problem, BridleError):
        return {
            "type": type(problem).__name__,
            "kind": problem.kind,
            "message": problem.message,
            "hint": problem.hint,
            "exit_code": problem.exit_code,
        }
    return {
        "type": type(problem).__name__,
        "kind": "crashed",
        "message": f"{type(problem).__name__}: {problem}",
        "hint": "",
        "exit_code": 1,
    }
