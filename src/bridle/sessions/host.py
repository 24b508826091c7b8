"""Drives sessions inside a program: one engine in a background thread for each state home.

The host is made on first use and closed when the program ends; agents run on. It takes over
sessions that the daemon holds.
"""

import atexit
import contextlib
import os
import threading
import time
import weakref
from collections.abc import Callable
from concurrent.futures import Future
from typing import TypeVar

from bridle.core.errors import BridleError
from bridle.runtimes.contract import Adapter
from bridle.sessions import verbs
from bridle.sessions.client import DaemonClient
from bridle.sessions.driver import SessionDriver
from bridle.sessions.engine import Engine, find_runtime
from bridle.sessions.home import StateHome, homes
from bridle.sessions.hooks import HookHandler, HookRunner
from bridle.sessions.lock import SessionHeld
from bridle.sessions.service import SessionService
from bridle.sessions.store import SessionRecord
from bridle.sessions.verbs import Verb

R = TypeVar("R")
_CLOSING = 10.0
"""Seconds for the engine to release its sessions."""
_TAKING_OVER = 10.0
"""Seconds for the daemon to release a session on request."""
_LAST_HOOKS = 5.0
"""Seconds for the pending hooks when the program ends."""
_LETTING_GO = 2.0
"""Seconds for another holder to release a session: it may be about to end, or starting it."""


class SessionHost:
    """The sessions that this program drives in one state home.

    Contract: safe to use from every thread. `take_up` waits; `call` returns a future.
    """

    def __init__(self, home: StateHome) -> None:
        self.home = home
        self._runtimes: dict[str, Adapter] = {}
        self._users: weakref.WeakKeyDictionary[SessionDriver, int] = weakref.WeakKeyDictionary()
        self._engine = Engine(home, self._find_runtime)
        self._hooks = _hooks_of(home)
        self._engine.on_events = self._hooks.published
        self._service = SessionService(self._engine)
        # A daemon thread does not keep the program alive; `close_hosts` closes it at exit.
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
            self._runtimes[name] = find_runtime(name, workdir)
        return self._runtimes[name]

    # -- sessions -------------------------------------------------------------------------------

    def take_up(
        self,
        record: SessionRecord,
        runtime: Adapter,
        taken: Callable[[SessionDriver, Engine], None],
    ) -> None:
        """Drive a session. Calls `taken` with its driver in the engine's thread before anything
        else happens to it. `release` undoes one call.

        Raises `SessionHeld` when a process other than the daemon holds it.
        """
        self._runtimes[runtime.id] = runtime

        def adopt() -> None:
            driver = self._engine.adopt(record)
            taken(driver, self._engine)
            self._users[driver] = self._users.get(driver, 0) + 1

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

    def release(self, driver: SessionDriver) -> "Future[None]":
        """Stop driving a session, unless another user in this program wants it driven."""

        def release() -> None:
            session_id = driver.record.session_id
            left = self._users.pop(driver, 1) - 1
            if left > 0:
                self._users[driver] = left
            elif self._engine.drivers.get(session_id) is driver:
                self._engine.release(session_id)

        return self._engine.call(release)

    def on_hook(self, handler: HookHandler) -> Callable[[], None]:
        """Call `handler` with each hook event of these sessions; see `on_hook`."""
        return self._hooks.subscribe(handler)

    def call(self, verb: Verb[R]) -> "Future[R]":
        """Carry out a verb in the engine's thread. Cancelling the future before the engine gets to
        it prevents any effect."""
        return self._engine.call(lambda: self._service.call(verb))

    def close(self) -> None:
        """Release every session; agents run on. Pending hooks get a moment to run."""
        self._engine.stop()
        self._thread.join(_CLOSING)
        self._hooks.close(_LAST_HOOKS)


def _hooks_of(home: StateHome) -> HookRunner:
    """The runner of the hooks that are configured for `home`, as its daemon would run them."""
    from bridle.config import load_config
    from bridle.config.schema import HooksSection

    try:
        hooks = load_config(home.project or os.path.expanduser("~")).hooks
    except BridleError:
        # Starting a session there reports the error; a running one must not fail because of it.
        hooks = HooksSection()
    return HookRunner(hooks, home)


def release_by_daemon(home: StateHome, session_id: str) -> bool:
    """Ask the daemon, if one runs, to release a session; False when there is no daemon."""
    with contextlib.suppress(BridleError), DaemonClient(home, start=False) as client:
        client.call(verbs.Release(session=session_id))
        return True
    return False


def return_to_daemon(home: StateHome, session_id: str) -> None:
    """Make the daemon, if one runs, drive a session again that it released needlessly."""
    with contextlib.suppress(BridleError), DaemonClient(home, start=False) as client:
        client.call(verbs.Adopt(session=session_id))


_hosts: dict[tuple[int, str], SessionHost] = {}
_lock = threading.Lock()


def host_of(home: StateHome) -> SessionHost:
    """The host of a state home in this process; a forked process gets its own."""
    key = (os.getpid(), os.path.realpath(home.root))
    with _lock:
        host = _hosts.get(key)
        if host is None or not host.is_open:
            host = _hosts[key] = SessionHost(home)
        return host


def on_hook(handler: HookHandler, *, cwd: str | None = None) -> Callable[[], None]:
    """Call `handler` with each hook event (`SessionStart`, `SessionStop`, `OnMessage`, `OnError`)
    of the sessions that this program drives in the project around `cwd`, or in the user's state
    folder outside of a project; from now on, in addition to the configured commands.

    It is called in one of Bridle's threads, in the order things happened; what it raises is logged.
    Returns a function that unsubscribes.
    """
    return host_of(homes(cwd or os.getcwd(), os.environ)[0]).on_hook(handler)


def close_hosts() -> None:
    """Close every host of this process."""
    with _lock:
        mine = [_hosts.pop(key) for key in list(_hosts) if key[0] == os.getpid()]
    for host in mine:
        host.close()


atexit.register(close_hosts)
