"""Carries out session verbs on the sessions that an engine hosts.

The daemon offers this over its socket and the library calls it directly, so both behave the same.
Everything here runs in the engine's thread.
"""

import shutil
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, TypeVar

import msgspec

from bridle.core.errors import WrongUse
from bridle.core.events import Event
from bridle.sessions import verbs
from bridle.sessions.driver import SessionDriver
from bridle.sessions.engine import Engine
from bridle.sessions.event_log import EventLog
from bridle.sessions.lock import SessionLock, SessionOver
from bridle.sessions.store import SessionRecord, after_events, check_name
from bridle.sessions.verbs import Receipt, TurnReport

R = TypeVar("R")


class SessionService:
    """The sessions of one engine.

    Contract: `call` carries out a verb; its future is answered in the engine's thread, with None
    when the verb's time ran out. Sessions are named by id, by name, or by the beginning of an id.
    Raises `UnknownSession`, `SessionOver`, `SessionHeld`, `WrongUse`, at once or by the future.
    """

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._handlers: dict[type[Any], Callable[[Any], Any]] = {
            verbs.Send: self._send,
            verbs.Abort: self._abort,
            verbs.WaitReady: self._wait_ready,
            verbs.WaitIdle: self._wait_idle,
            verbs.Stop: self._stop,
            verbs.Show: lambda verb: self._show(verb.session),
            verbs.List: self._list,
            verbs.Rename: self._rename,
            verbs.Remove: self._remove,
            verbs.Adopt: lambda verb: self._adopted(verb.session).record,
            verbs.Release: self._release,
        }

    def call(self, verb: verbs.Verb[R]) -> "Future[R]":
        """Carry out a verb. A command that has no handler here is carried out by its row alone."""
        handler: Callable[[Any], Any] = self._handlers.get(type(verb)) or self._command
        answer = handler(verb)
        return answer if isinstance(answer, Future) else _answered(answer)

    def subscribe(
        self, name: str, after: int, listener: Callable[[list[Event]], None]
    ) -> Callable[[], None]:
        """Pass every event with a number above `after` to `listener`, past ones first, each once.
        An empty list means that the session is over. Returns a function that unsubscribes."""
        record = self._engine.store.get(name)
        driver = None if record.is_over else self._engine.adopt(record)
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

    # -- messages and commands ------------------------------------------------------------------

    def _driver(self, name: str) -> SessionDriver:
        """The driver of a living session."""
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

    def _command(self, verb: verbs.Command[Any]) -> dict[str, Any]:
        driver = self._driver(verb.session)
        acted = driver.perform(verb)
        self._engine.update(driver)
        return {"session_id": driver.record.session_id, **verb.answer(acted)}

    def _abort(self, verb: verbs.Abort) -> dict[str, Any]:
        dropped = self._driver(verb.session).clear_queue(verb.reason) if verb.clear else []
        return {**self._command(verb), "dropped": dropped}

    def _send(self, verb: verbs.Send) -> "Future[Receipt | None]":
        if not verb.text.strip() and not verb.images:
            raise WrongUse("the message is empty", hint="say what the agent should do")
        driver = self._driver(verb.session)
        driver.accept(verb.message_id, verb.kind, verb.text, verb.images)
        self._engine.update(driver)

        def answered() -> Receipt | None:
            state = driver.player.messages[verb.message_id]
            receipt = Receipt(
                session_id=driver.record.session_id,
                message_id=verb.message_id,
                delivered=state.status == "taken",
                queued=state.status == "queued" and not driver.is_over,
                turn=state.turn or None,
                error=state.error.message if state.error else None,
            )
            # While the agent starts, a queued message counts as on its way.
            waits = receipt.queued and driver.record.state != "starting"
            on_its_way = not receipt.delivered and not waits and receipt.error is None
            return None if on_its_way and not driver.is_over else receipt

        return self._engine.wait(driver.record.session_id, answered, verb.timeout)

    # -- waiting --------------------------------------------------------------------------------

    def _wait_ready(self, verb: verbs.WaitReady) -> "SessionRecord | Future[SessionRecord | None]":
        record = self._engine.store.get(verb.session)
        if self._has_ended(record):
            return record
        driver = self._engine.adopt(record)

        def ready() -> SessionRecord | None:
            is_there = driver.record.state not in ("starting", "unknown")
            return driver.record if driver.is_over or is_there else None

        return self._engine.wait(record.session_id, ready, verb.timeout)

    def _wait_idle(self, verb: verbs.WaitIdle) -> "TurnReport | Future[TurnReport | None]":
        record = self._engine.store.get(verb.session)
        if self._has_ended(record):
            return self._report(record)
        driver = self._engine.adopt(record)
        known = verb.known_questions

        def idle() -> TurnReport | None:
            # The last known state is not enough: the process may just have died.
            if driver.is_over or driver.is_idle_now():
                return self._report(driver.record)
            asked = () if known is None else driver.record.questions
            if any(each.request_id not in (known or ()) for each in asked):
                return self._report(driver.record)
            return None

        return self._engine.wait(record.session_id, idle, verb.timeout)

    def _stop(self, verb: verbs.Stop) -> "SessionRecord | Future[SessionRecord | None]":
        record = self._engine.store.get(verb.session)
        if self._has_ended(record):
            return record
        driver = self._engine.adopt(record)
        driver.leave(verb.reason)
        self._engine.update(driver)
        return self._engine.wait(
            record.session_id, lambda: driver.record if driver.is_over else None, verb.timeout
        )

    def _has_ended(self, record: SessionRecord) -> bool:
        """Whether a session is over and everything its last process started has ended."""
        return record.is_over and record.session_id not in self._engine.drivers

    def _report(self, record: SessionRecord) -> TurnReport:
        record = self._complete(record)
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

    # -- records --------------------------------------------------------------------------------

    def _show(self, name: str) -> SessionRecord:
        record = self._engine.store.get(name)
        if not record.is_over:
            driver = self._engine.drivers.get(record.session_id)
            if driver is not None:
                self._engine.poll(driver)
            else:
                self._engine.adopt(record)
            record = self._engine.store.get(record.session_id)
        return self._complete(record)

    def _complete(self, record: SessionRecord) -> SessionRecord:
        """The record of a session that is over. One that an older Bridle wrote lacks what its
        events say; that is read from them, once."""
        if record.seq or not record.is_over:
            return record
        log = EventLog(self._engine.home.folder(record.session_id))
        complete = after_events(record, log.read())
        if complete.seq:
            self._engine.store.put(complete)
        return complete

    def _list(self, verb: verbs.List) -> dict[str, list[SessionRecord]]:
        self._engine.adopt_living()
        return {"sessions": self._engine.store.all()}

    def _rename(self, verb: verbs.Rename) -> SessionRecord:
        check_name(verb.name)
        record = self._engine.store.get(verb.session)
        driver = None if record.is_over else self._driver(verb.session)
        record = record if driver is None else driver.record
        record = msgspec.structs.replace(record, name=verb.name)
        self._engine.store.add(record)
        if driver is not None:
            driver.record = record
        return record

    def _remove(self, verb: verbs.Remove) -> "Future[dict[str, Any] | None]":
        record = self._show(verb.session)
        if not record.is_over and not verb.force:
            raise WrongUse(
                f"session {record.name or record.session_id} is alive",
                hint="stop it first, or remove it with --force",
            )
        removed: Future[dict[str, Any] | None] = Future()

        def delete(stopped: "Future[SessionRecord | None]") -> None:
            try:
                if stopped.result() is not None:
                    self._delete(record.session_id)
                    removed.set_result({"session_id": record.session_id, "removed": True})
                else:
                    removed.set_result(None)
            except BaseException as problem:
                removed.set_exception(problem)

        stop = verbs.Stop(session=record.session_id, reason="removed", timeout=verb.timeout)
        self.call(stop).add_done_callback(delete)
        return removed

    def _delete(self, session_id: str) -> None:
        """Delete a session's record and folder while holding its lock, so that nobody drives it."""
        folder = self._engine.home.folder(session_id)
        lock = SessionLock(folder, session_id)
        try:
            self._engine.store.remove(session_id)
            shutil.rmtree(folder, ignore_errors=True)
        finally:
            lock.release()

    # -- who drives it --------------------------------------------------------------------------

    def _adopted(self, name: str) -> SessionDriver:
        return self._engine.adopt(self._engine.store.get(name))

    def _release(self, verb: verbs.Release) -> "Future[dict[str, Any] | None]":
        """A session whose process has ended is released once its leftovers have ended too: the next
        process carries the same mark."""
        session_id = self._engine.store.get(verb.session).session_id
        driver = self._engine.drivers.get(session_id)
        if driver is not None and not driver.player.finished:
            self._engine.release(session_id)
        answer = {"session_id": session_id}
        return self._engine.wait(
            session_id, lambda: None if session_id in self._engine.drivers else answer, verb.timeout
        )


def _answered(value: R) -> "Future[R]":
    future: Future[R] = Future()
    future.set_result(value)
    return future
