"""Hosts the drivers of many sessions in one thread.

A program that uses the library runs one in the background; the daemon runs one as its main loop.
Other threads pass it work with `call`, so drivers need no locks.
"""

import contextlib
import os
import selectors
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from functools import partial
from typing import Any, TypeVar, overload

from bridle.config import load_config
from bridle.core.errors import BridleError, Unavailable
from bridle.core.events import Event
from bridle.guard.hooks.host import HookHost
from bridle.process.folder_watch import watch_folders
from bridle.runtimes.contract import Adapter
from bridle.runtimes.registry import get_adapter, is_registered
from bridle.sessions.clocks import Clocks
from bridle.sessions.driver import SessionDriver
from bridle.sessions.home import StateHome
from bridle.sessions.lock import SessionHeld, SessionLock
from bridle.sessions.store import SessionRecord, SessionStore

LIVENESS = 2.0
"""Seconds between checks of processes whose end the system does not report: a killed one leaves no
other trace."""
_ROUND = 60
"""Checks within which every other process is checked once too, some at a time, in case the system
did not report an end."""

T = TypeVar("T")
FindRuntime = Callable[[str, str], Adapter]
"""The adapter of a name, as the configuration of a working directory declares it."""
Listener = Callable[[list[Event]], None]
"""Called with new events in the engine's thread; must not block."""


class _Waiter:
    def __init__(self, done: Callable[[], Any], future: "Future[Any]", until: float | None) -> None:
        self.done = done
        self.future = future
        self.until = until


class Engine:
    """The drivers of one state home.

    Contract: `run` is the loop; all other methods except `call` and `stop` are called in its
    thread. Closing it ends no agent.
    """

    def __init__(
        self, home: StateHome, find_runtime: FindRuntime, *, clocks: Clocks | None = None
    ) -> None:
        self.home = home
        self.store = SessionStore(home)
        self.drivers: dict[str, SessionDriver] = {}
        self._find_runtime = find_runtime
        self._clocks = clocks or Clocks()
        self._watch = watch_folders()
        self._selector = selectors.DefaultSelector()
        self._wake_read, self._wake_write = os.pipe()
        for end in (self._wake_read, self._wake_write):
            os.set_blocking(end, False)
        self._selector.register(self._wake_read, selectors.EVENT_READ, self._woken)
        notify = self._watch.fileno()
        if notify is not None:
            self._selector.register(notify, selectors.EVENT_READ, lambda mask: None)
        self._calls: list[tuple[Callable[[], Any], Future[Any]]] = []
        self._lock = threading.Lock()
        self._by_folder: dict[str, SessionDriver] = {}
        self.guards = HookHost()
        """Answers the hooks of guarded sessions."""
        self._deadlines: dict[str, float] = {}
        self._listeners: dict[str, list[Listener]] = {}
        self._waiters: dict[str, list[_Waiter]] = {}
        self._more: set[str] = set()
        self._ends: dict[str, int] = {}
        """Descriptors that become readable when a process ends, by session."""
        self._most_ends = _most_ends()
        self._look_number = 0
        self._look_at = 0.0
        self._running = True
        self.on_events: Callable[[SessionRecord, list[Event]], None] | None = None
        """Called with the new events of every session; must not block."""
        self.every_turn: Callable[[], float | None] | None = None
        """Called once a loop, in its thread; returns when to call it next (monotonic)."""

    # -- from any thread ------------------------------------------------------------------------

    @overload
    def call(self, act: "Callable[[], Future[T]]") -> "Future[T]": ...
    @overload
    def call(self, act: Callable[[], T]) -> "Future[T]": ...
    def call(self, act: Callable[[], Any]) -> "Future[Any]":
        """Call `act` in the engine's thread; where it returns a future, that one's outcome counts.
        Cancelling before the engine gets to it prevents any effect. `Unavailable` when the engine
        has ended."""
        future: Future[Any] = Future()
        with self._lock:
            if not self._running:
                ended = "sessions are no longer driven: the program is ending"
                future.set_exception(Unavailable(ended))
                return future
            self._calls.append((act, future))
        self._wake()
        return future

    def stop(self) -> None:
        """End the loop soon; agents run on."""
        self._running = False
        self._wake()

    def _wake(self) -> None:
        # A full pipe wakes the loop too; a closed one means that the loop has ended.
        with contextlib.suppress(OSError):
            os.write(self._wake_write, b"x")

    # -- the loop -------------------------------------------------------------------------------

    def run(self) -> None:
        """Drive until `stop`; then release every session."""
        try:
            while self._running:
                self._turn()
        finally:
            self._close()

    def _turn(self) -> None:
        now = time.monotonic()
        waits = [self._look_at - now]
        if self._deadlines:
            waits.append(min(self._deadlines.values()) - now)
        waits += [w.until - now for each in self._waiters.values() for w in each if w.until]
        if self._watch.interval is not None and self.drivers:
            waits.append(self._watch.interval)
        if self._more:
            waits.append(0.0)
        if self.every_turn is not None and (at := self.every_turn()) is not None:
            waits.append(at - now)
        for key, mask in self._selector.select(max(0.0, min(waits))):
            key.data(mask)
        self._run_calls()
        due = {self._by_folder[f] for f in self._watch.changed() if f in self._by_folder}
        now = time.monotonic()
        due |= {self.drivers[s] for s, at in self._deadlines.items() if at <= now}
        due |= {self.drivers[s] for s in self._more if s in self.drivers}
        self._more.clear()
        if now >= self._look_at:
            self._look_at = now + LIVENESS
            due |= self._to_look_at()
        for driver in due:
            self.poll(driver)
        self._expire_waiters(now)

    def _to_look_at(self) -> set[SessionDriver]:
        """The sessions to check although nothing was reported about them."""
        self._look_number = (self._look_number + 1) % _ROUND
        return {
            driver
            for number, (session_id, driver) in enumerate(self.drivers.items())
            if session_id not in self._ends or number % _ROUND == self._look_number
        }

    def poll(self, driver: SessionDriver) -> None:
        """Bring a session up to date, and answer its waiters."""
        session_id = driver.record.session_id
        if self.drivers.get(session_id) is not driver:
            return
        try:
            if driver.poll():
                self._more.add(session_id)
        except (BridleError, OSError):
            # A store that cannot be written now is tried again at the next check.
            self._more.discard(session_id)
        except Exception:
            # Even giving it up failed. Other sessions continue; callers of this one get the error
            # when it is adopted again.
            self.release(session_id)
            return
        self.update(driver)

    def update(self, driver: SessionDriver) -> None:
        """After anything was done with a driver: restart its timer, answer waiters, release it when
        its session is over."""
        session_id = driver.record.session_id
        deadline = driver.deadline()
        if deadline is None:
            self._deadlines.pop(session_id, None)
        else:
            # A clock that ran out without effect yet must not make the loop spin.
            self._deadlines[session_id] = max(deadline, time.monotonic() + 0.02)
        self._await_end(driver)
        if driver.is_over:
            # Release first: a waiter for the end may resume it at once.
            self.release(session_id)
        else:
            self._answer_waiters(session_id)

    def _await_end(self, driver: SessionDriver) -> None:
        """Have the system report the end of a session's process, where it can."""
        session_id = driver.record.session_id
        if session_id in self._ends or self.drivers.get(session_id) is not driver:
            return
        if len(self._ends) >= self._most_ends:
            return
        handle = driver.end_fd()
        if handle is None:
            return
        self._ends[session_id] = handle

        def ended(mask: int) -> None:
            # Reported once; if it cannot be written now, the next checks do that.
            self._forget_end(session_id)
            self._more.add(session_id)

        self._selector.register(handle, selectors.EVENT_READ, ended)

    def _forget_end(self, session_id: str) -> None:
        handle = self._ends.pop(session_id, None)
        if handle is not None:
            self.unregister(handle)
            os.close(handle)

    def _woken(self, mask: int) -> None:
        with contextlib.suppress(BlockingIOError):
            os.read(self._wake_read, 1 << 12)

    def _run_calls(self) -> None:
        with self._lock:
            calls, self._calls = self._calls, []
        for act, future in calls:
            if not future.set_running_or_notify_cancel():
                continue
            try:
                found = act()
            except BaseException as problem:
                future.set_exception(problem)
                continue
            if isinstance(found, Future):
                found.add_done_callback(partial(_pass_on, future))
            else:
                future.set_result(found)

    # -- sessions -------------------------------------------------------------------------------

    def adopt(self, record: SessionRecord) -> SessionDriver:
        """The driver of a session, made now if there is none; `SessionHeld` when another process
        drives it."""
        known = self.drivers.get(record.session_id)
        if known is not None:
            return known
        folder = self.home.folder(record.session_id)
        lock = SessionLock(folder, record.session_id)
        try:
            # The last holder of the session may have changed the record.
            record = self.store.get(record.session_id)
            driver = SessionDriver(
                self.home,
                record,
                self._find_runtime(record.runtime, record.workdir),
                self.store,
                lock,
                clocks=self._clocks,
                publish=self._published,
            )
            self.drivers[record.session_id] = driver
            if os.path.isdir(driver.run_folder):
                self._watch.add(driver.run_folder)
            driver.open()
        except BaseException:
            self.drivers.pop(record.session_id, None)
            lock.release()
            raise
        self._by_folder[driver.run_folder] = driver
        self._guard(driver)
        self.update(driver)
        return driver

    def _guard(self, driver: SessionDriver) -> None:
        """Answer the session's hooks, and watch for their notes."""
        folder = driver.guard_folder
        if folder is None or driver.is_over or not os.path.isdir(folder):
            return
        self._watch.add(folder)
        self._by_folder[folder] = driver
        session_id = driver.record.session_id
        self.guards.take_session(session_id, folder)
        driver.judge = lambda call: self.guards.judge_wire_call(session_id, call)
        driver.poll()

    def adopt_living(self) -> None:
        """Adopt every living session that nobody drives."""
        for record in self.store.all(living=True):
            with contextlib.suppress(SessionHeld, BridleError, OSError):
                self.adopt(record)

    def release(self, session_id: str) -> None:
        """Stop driving a session; its agent runs on."""
        driver = self.drivers.pop(session_id, None)
        if driver is None:
            return
        self._watch.remove(driver.run_folder)
        self._by_folder.pop(driver.run_folder, None)
        if driver.guard_folder is not None:
            self._watch.remove(driver.guard_folder)
            self._by_folder.pop(driver.guard_folder, None)
            self.guards.release_session(session_id)
        self._deadlines.pop(session_id, None)
        self._forget_end(session_id)
        driver.close()
        self._answer_waiters(session_id)

    # -- listeners and waiters ------------------------------------------------------------------

    def listen(self, session_id: str, listener: Listener) -> Callable[[], None]:
        """Call `listener` with a session's events from now on; returns a function that
        unsubscribes."""
        self._listeners.setdefault(session_id, []).append(listener)

        def unsubscribe() -> None:
            with contextlib.suppress(KeyError, ValueError):
                self._listeners[session_id].remove(listener)

        return unsubscribe

    def _published(self, driver: SessionDriver, events: list[Event]) -> None:
        if self.on_events is not None:
            self.on_events(driver.record, events)
        for listener in list(self._listeners.get(driver.record.session_id, ())):
            listener(events)

    def wait(
        self, session_id: str, done: Callable[[], T | None], seconds: float | None = None
    ) -> "Future[T | None]":
        """A future of the first result of `done` that is not None; None when time runs out first.

        `done` is called after every change of the session.
        """
        future: Future[T | None] = Future()
        future.set_running_or_notify_cancel()
        answer = done()
        if answer is not None:
            driver = self.drivers.get(session_id)
            if driver is not None and driver.is_over:
                self.release(session_id)
            future.set_result(answer)
            return future
        until = None if seconds is None else time.monotonic() + seconds
        self._waiters.setdefault(session_id, []).append(_Waiter(done, future, until))
        return future

    def _answer_waiters(self, session_id: str) -> None:
        waiting = self._waiters.get(session_id)
        if not waiting:
            return
        still = []
        for waiter in waiting:
            try:
                answer = waiter.done()
            except BridleError as problem:
                waiter.future.set_exception(problem)
                continue
            if answer is None:
                still.append(waiter)
            else:
                waiter.future.set_result(answer)
        self._waiters[session_id] = still

    def _expire_waiters(self, now: float) -> None:
        for session_id, waiting in list(self._waiters.items()):
            for waiter in waiting:
                if waiter.until is not None and now >= waiter.until:
                    waiter.future.set_result(None)
            left = [waiter for waiter in waiting if not waiter.future.done()]
            if left:
                self._waiters[session_id] = left
            else:
                del self._waiters[session_id]

    # -- the daemon's sockets -------------------------------------------------------------------

    def register(self, fileobj: Any, events: int, callback: Callable[[int], None]) -> None:
        """Call `callback` in the loop when a file is ready; call again to change the events."""
        try:
            self._selector.modify(fileobj, events, callback)
        except KeyError:
            self._selector.register(fileobj, events, callback)

    def unregister(self, fileobj: Any) -> None:
        """Stop watching a file."""
        with contextlib.suppress(KeyError, ValueError):
            self._selector.unregister(fileobj)

    def _close(self) -> None:
        self._running = False
        for session_id in list(self.drivers):
            self.release(session_id)
        self._run_calls()
        for waiting in self._waiters.values():
            for waiter in waiting:
                if not waiter.future.done():
                    waiter.future.set_result(None)
        self.guards.close()
        self._watch.close()
        self._selector.close()
        os.close(self._wake_read)
        os.close(self._wake_write)
        self.store.close()


def _pass_on(future: "Future[Any]", done: "Future[Any]") -> None:
    problem = done.exception()
    if problem is not None:
        future.set_exception(problem)
    else:
        future.set_result(done.result())


def _most_ends() -> int:
    """How many descriptors may watch for the ends of processes; the rest is for everything else."""
    import resource

    return resource.getrlimit(resource.RLIMIT_NOFILE)[0] // 4


_runtimes: dict[str, Adapter] = {}


def find_runtime(name: str, workdir: str | None = None) -> Adapter:
    """The adapter of a session's runtime; a preset as the configuration of `workdir` defines it."""
    if is_registered(name):
        if name not in _runtimes:
            _runtimes[name] = get_adapter(name)
        return _runtimes[name]
    return get_adapter(name, load_config(workdir))
