"""Drives sessions inside a program: one engine in a background thread for each state home.

It is made on first use and closed when the program ends; agents go on. A session that the daemon
holds is asked for and taken over.
"""

import atexit
import contextlib
import os
import threading
import time
import weakref
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, TypeVar

from bridle.core.errors import BridleError, Unavailable
from bridle.runtimes.contract import Adapter
from bridle.sessions.driver import SessionDriver
from bridle.sessions.engine import Engine
from bridle.sessions.home import StateHome, homes
from bridle.sessions.hooks import HookHandler, HookRunner
from bridle.sessions.lock import SessionHeld
from bridle.sessions.service import SessionService
from bridle.sessions.store import SessionRecord

T = TypeVar("T")
_CLOSING = 10.0
"""Seconds for the engine to let its sessions go."""
_TAKING_OVER = 10.0
"""Seconds for whoever holds a session to let it go, when it was asked."""
_LAST_HOOKS = 5.0
"""Seconds for the hooks that still wait when the program ends."""
_LETTING_GO = 2.0
"""Seconds for a holder that cannot be asked: it may be about to end, or to start the session."""


class SessionHost:
    """The sessions that this program drives in one state home.

    Contract: safe to use from every thread. `take_up` waits; what `ask` returns is a future.
    """

    def __init__(self, home: StateHome) -> None:
        self.home = home
        self._runtimes: dict[str, Adapter] = {}
        self._holders: weakref.WeakKeyDictionary[SessionDriver, int] = weakref.WeakKeyDictionary()
        self._engine = Engine(home, self._find_runtime)
        self._hooks = _hooks_of(home)
        self._engine.on_events = self._hooks.published
        self._service = SessionService(self._engine)
        # A daemon thread: it must not keep a program from ending, whose end then closes it.
        self._thread = threading.Thread(
            target=self._engine.run, name="bridle-sessions", daemon=True
        )
        self._thread.start()

    @property
    def is_open(self) -> bool:
        """Whether it can be used."""
        return self._thread.is_alive()

    def drives(self, session_id: str) -> bool:
        """Whether it drives that session now."""
        return session_id in self._engine.drivers

    def _find_runtime(self, name: str, workdir: str) -> Adapter:
        if name not in self._runtimes:
            from bridle.sessions.daemon import find_runtime

            self._runtimes[name] = find_runtime(name, workdir)
        return self._runtimes[name]

    # -- sessions -------------------------------------------------------------------------------

    def take_up(
        self,
        record: SessionRecord,
        runtime: Adapter,
        taken: Callable[[SessionDriver, Engine], None],
    ) -> None:
        """Drive a session, and have `taken` called with its driver in the engine's thread before
        anything else happens to it. Each call is undone by one of `let_go`.

        Raises `SessionHeld` when a process that is not the daemon holds it.
        """
        self._runtimes[runtime.id] = runtime

        def adopt() -> None:
            driver = self._engine.adopt(record)
            taken(driver, self._engine)
            self._holders[driver] = self._holders.get(driver, 0) + 1

        began = time.monotonic()
        while True:
            try:
                self._engine.call(adopt).result()
                return
            except SessionHeld:
                asked = release_by_daemon(self.home, record.session_id)
                if time.monotonic() > began + (_TAKING_OVER if asked else _LETTING_GO):
                    raise
                time.sleep(0.02)

    def let_go(self, driver: SessionDriver) -> "Future[None]":
        """Stop driving a session, unless somebody else in this program wants it driven."""

        def let_go() -> None:
            session_id = driver.record.session_id
            left = self._holders.pop(driver, 1) - 1
            if left > 0:
                self._holders[driver] = left
            elif self._engine.drivers.get(session_id) is driver:
                self._engine.release(session_id)

        return self._engine.call(let_go)

    def on_hook(self, handler: HookHandler) -> Callable[[], None]:
        """Have `handler` called with each hook event of its sessions; see `on_hook`."""
        return self._hooks.subscribe(handler)

    def ask(self, act: Callable[[SessionService], "Future[T]"]) -> "Future[T]":
        """Have something done in the engine's thread; the future is that of the final answer.

        One that is cancelled before its turn came does nothing at all.
        """
        answer: Future[T] = Future()

        def begin() -> None:
            if not answer.set_running_or_notify_cancel():
                return
            try:
                found = act(self._service)
            except BaseException as problem:
                answer.set_exception(problem)
                return
            found.add_done_callback(lambda done: _pass_on(done, answer))

        self._engine.call(begin).add_done_callback(lambda done: _pass_failure(done, answer))
        return answer

    def close(self) -> None:
        """Let every session go; agents go on. Hooks that wait have a moment to run."""
        self._engine.stop()
        self._thread.join(_CLOSING)
        self._hooks.close(_LAST_HOOKS)


def _hooks_of(home: StateHome) -> HookRunner:
    """What runs the configured hooks of the sessions in `home`: those that its daemon would run."""
    from bridle.config import load_config
    from bridle.config.schema import HooksSection

    try:
        hooks = load_config(home.project or os.path.expanduser("~")).hooks
    except BridleError:
        # Whoever starts a session there is told of it; one that runs is not held up.
        hooks = HooksSection()
    return HookRunner(hooks, home)


def _pass_on(done: "Future[Any]", answer: "Future[Any]") -> None:
    problem = done.exception()
    if problem is not None:
        answer.set_exception(problem)
    else:
        answer.set_result(done.result())


def _pass_failure(done: "Future[None]", answer: "Future[Any]") -> None:
    """The engine ended before it came to it."""
    if done.exception() is not None and answer.set_running_or_notify_cancel():
        answer.set_exception(Unavailable("sessions are not driven any more: the program ends"))


def release_by_daemon(home: StateHome, session_id: str) -> bool:
    """Ask the daemon, if one runs, to let a session go; False when it cannot be asked."""
    from bridle.sessions.client import DaemonClient

    with contextlib.suppress(BridleError), DaemonClient(home, start=False) as client:
        client.request("release", session=session_id)
        return True
    return False


def return_to_daemon(home: StateHome, session_id: str) -> None:
    """Have the daemon, if one runs, drive a session again that it was asked for in vain."""
    from bridle.sessions.client import DaemonClient

    with contextlib.suppress(BridleError), DaemonClient(home, start=False) as client:
        client.request("adopt", session=session_id)


_hosts: dict[tuple[int, str], SessionHost] = {}
_lock = threading.Lock()


def host_of(home: StateHome) -> SessionHost:
    """The host of a state home in this process; a process that was forked off has its own."""
    key = (os.getpid(), os.path.realpath(home.root))
    with _lock:
        host = _hosts.get(key)
        if host is None or not host.is_open:
            host = _hosts[key] = SessionHost(home)
        return host


def on_hook(handler: HookHandler, *, cwd: str | None = None) -> Callable[[], None]:
    """Have `handler` called with each hook event (`SessionStart`, `SessionStop`, `OnMessage`,
    `OnError`) of the sessions that this program drives in the project around `cwd`, or the user's
    own place outside of one; from now on, beside the configured commands.

    It is called in a thread of Bridle's own, in the order things happened; what it raises is
    logged. Returns how to stop that.
    """
    return host_of(homes(cwd or os.getcwd(), os.environ)[0]).on_hook(handler)


def close_hosts() -> None:
    """Close every host of this process."""
    with _lock:
        mine = [_hosts.pop(key) for key in list(_hosts) if key[0] == os.getpid()]
    for host in mine:
        host.close()


atexit.register(close_hosts)
