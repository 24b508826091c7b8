"""Talking to the daemon, which is started when it is not there.

Every request may be made twice: a message carries its id, and the rest changes nothing the second
time. So when the daemon is killed in the middle of one, the client starts another and asks again.
"""

import contextlib
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from typing import Any

import msgspec

from bridle.core import errors
from bridle.core.errors import BridleError, Unavailable
from bridle.core.events import AnyEvent
from bridle.drives.starting import default_signals, leave_running
from bridle.sessions import lock as _lock
from bridle.sessions import store as _store
from bridle.sessions.home import StateHome, socket_path, token_path

_START = 30.0
"""Seconds for a daemon to come up."""
_ATTEMPTS = 5
"""How often a request is made when the daemon is lost meanwhile."""
_CHUNK = 1 << 16
_events_of = msgspec.json.Decoder(type=list[AnyEvent])


class DaemonClient:
    """A connection to the daemon of one home.

    Contract: one thread uses it, one request at a time. Raises the same errors as the service
    itself, and `Unavailable` when no daemon can be had.
    """

    def __init__(self, home: StateHome, *, start: bool = True) -> None:
        self._home = home
        self._start = start
        self._socket: socket.socket | None = None
        self._in = bytearray()
        self._number = 0

    def __enter__(self) -> "DaemonClient":
        return self

    def __exit__(self, *problem: object) -> None:
        self.close()

    def close(self) -> None:
        """End the connection."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None
        self._in.clear()

    def request(self, op: str, *, timeout: float | None = None, **fields: Any) -> Any:
        """Ask for something and wait for the answer. `timeout` is the request's own, in seconds:
        the daemon answers null when it has passed."""
        until = None if timeout is None else time.monotonic() + timeout
        for attempt in range(_ATTEMPTS):
            left = None if until is None else max(0.0, until - time.monotonic())
            try:
                self._ask(op, {**fields, "timeout": left})
                return self._answer()
            except (OSError, EOFError):
                self.close()
                if attempt == _ATTEMPTS - 1:
                    raise Unavailable(
                        "the daemon was lost again and again",
                        hint=f"look into {self._home.root}/daemon.log",
                    ) from None
        raise AssertionError("unreachable")

    def wait_gone(self, seconds: float = 30.0) -> None:
        """Wait until the daemon has let its sessions go and ended the connection."""
        if self._socket is not None:
            self._socket.settimeout(seconds)
            with contextlib.suppress(OSError):
                while self._socket.recv(_CHUNK):
                    pass
            self.close()

    def events(self, session: str, after: int = 0, *, follow: bool = True) -> Iterator[AnyEvent]:
        """The session's events with a number above `after`; with `follow` also those to come,
        until its process is gone. A daemon that is lost meanwhile is replaced."""
        lost = 0
        while True:
            try:
                self._ask("events", {"session": session, "after": after, "follow": follow})
                while (events := self._next_events()) is not None:
                    for event in events:
                        after = event.seq
                        lost = 0
                        yield event
                return
            except (OSError, EOFError):
                self.close()
                lost += 1
                if lost >= _ATTEMPTS:
                    raise Unavailable("the daemon was lost again and again") from None

    # -- the wire -------------------------------------------------------------------------------

    def _ask(self, op: str, fields: dict[str, Any]) -> None:
        connection = self._connected()
        self._number += 1
        token = _read_token(self._home)
        request = {"id": self._number, "op": op, "token": token, **fields}
        connection.sendall(msgspec.json.encode(request) + b"\n")

    def _answer(self) -> Any:
        while True:
            message = msgspec.json.decode(self._line())
            if message.get("id") != self._number:
                continue
            if "error" in message:
                raise error_from(message["error"])
            return message.get("result")

    def _next_events(self) -> list[AnyEvent] | None:
        while True:
            message = msgspec.json.decode(self._line(), type=_Streamed)
            if message.id != self._number:
                continue
            if message.error is not None:
                raise error_from(message.error)
            if isinstance(message.events, msgspec.Raw):
                return _events_of.decode(message.events)
            return None

    def _line(self) -> bytes:
        assert self._socket is not None
        while (end := self._in.find(b"\n")) < 0:
            data = self._socket.recv(_CHUNK)
            if not data:
                raise EOFError
            self._in += data
        line = bytes(self._in[:end])
        del self._in[: end + 1]
        return line

    # -- the daemon -----------------------------------------------------------------------------

    def _connected(self) -> socket.socket:
        if self._socket is not None:
            return self._socket
        until = time.monotonic() + _START
        child: subprocess.Popen[bytes] | None = None
        while True:
            connection = _connect(self._home)
            if connection is not None:
                self._socket = connection
                return connection
            if not self._start:
                raise Unavailable("no daemon runs", hint="`bridle session` starts one on demand")
            if child is None or child.poll() is not None:
                child = start_daemon(self._home)
            if time.monotonic() > until:
                raise Unavailable(
                    "the daemon does not come up", hint=f"look into {self._home.root}/daemon.log"
                )
            time.sleep(0.02)


class _Streamed(msgspec.Struct):
    id: int
    events: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    error: dict[str, Any] | None = None


def start_daemon(home: StateHome) -> "subprocess.Popen[bytes]":
    """Start the daemon of a home, detached from this process; it ends at once when there is one."""
    home.make()
    log = os.open(
        os.path.join(home.root, "daemon.log"),
        os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC,
        0o600,
    )
    words = [sys.executable, "-m", "bridle.sessions.daemon", home.root]
    if home.project is not None:
        words.append(home.project)
    try:
        daemon = subprocess.Popen(
            words,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            cwd="/",
            start_new_session=True,
            preexec_fn=default_signals(),
        )
        leave_running(daemon)
        return daemon
    finally:
        os.close(log)


def daemon_status(home: StateHome) -> dict[str, Any]:
    """Whether a daemon runs there, and what it says of itself; starts none."""
    try:
        with DaemonClient(home, start=False) as client:
            found: dict[str, Any] = client.request("status")
            return found
    except Unavailable:
        return {"running": False, "pid": None, "socket": socket_path(home), "sessions": 0}


def _connect(home: StateHome) -> socket.socket | None:
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        connection.connect(socket_path(home))
    except OSError:
        connection.close()
        return None
    return connection


def _read_token(home: StateHome) -> str:
    with contextlib.suppress(OSError), open(token_path(home), encoding="ascii") as file:
        return file.read()
    return ""


_ERRORS: dict[str, type[BridleError]] = {
    cls.__name__: cls
    for module in (errors, _lock, _store)
    for cls in vars(module).values()
    if isinstance(cls, type) and issubclass(cls, BridleError)
}


def error_from(data: dict[str, Any]) -> BridleError:
    """The error that the daemon told as data."""
    cls = _ERRORS.get(data.get("type", ""), BridleError)
    problem = cls.__new__(cls)
    BridleError.__init__(problem, data.get("message", ""), hint=data.get("hint", ""))
    if isinstance(problem, errors.AgentError):
        errors.AgentError.__init__(problem, data.get("message", ""), hint=data.get("hint", ""))
    return problem
