"""The client of the daemon, which it starts when none runs.

Every request may be made twice: a message carries its id, and the others change nothing the second
time. So when the daemon is killed during a request, the client starts another and asks again. The
daemon of an older Bridle is replaced at the first connection; see `protocol`.
"""

import contextlib
import io
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from typing import Any, TypeVar

import msgspec

from bridle.core import structs
from bridle.core.errors import Unavailable, WrongUse
from bridle.core.events import AnyEvent
from bridle.process.launch import default_signals, leave_running
from bridle.sessions import protocol
from bridle.sessions.home import StateHome, explained, socket_path, token_path
from bridle.sessions.protocol import DaemonAhead, Peer, error_from, peer_in
from bridle.sessions.store import SessionStore
from bridle.sessions.verbs import Events, Hello, Shutdown, Status, Verb, result_type

_START = 60.0
"""Seconds for a daemon to come up, and for the previous one to end."""
_ATTEMPTS = 5
"""Attempts at a request when the daemon is lost each time."""
_CHUNK = 1 << 16
_SHOWN = 300
_events_of = structs.decoder(list[AnyEvent])
R = TypeVar("R")


class DaemonClient:
    """A connection to the daemon of one home.

    Contract: one thread uses it, one request at a time. Raises the same errors as the service
    itself, `Unavailable` when no daemon is available, and `DaemonAhead` when the daemon runs a
    newer Bridle. With `start` it starts a daemon where none runs and replaces one that runs an
    older Bridle, which it reports in one line on stderr; without it, it talks to any running
    daemon.
    """

    def __init__(self, home: StateHome, *, start: bool = True) -> None:
        self._home = home
        self._start = start
        self._socket: socket.socket | None = None
        self._lines: io.BufferedReader | None = None
        self._number = 0

    def __enter__(self) -> "DaemonClient":
        return self

    def __exit__(self, *problem: object) -> None:
        self.close()

    def close(self) -> None:
        """End the connection."""
        if self._lines is not None:
            self._lines.close()
            self._lines = None
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def call(self, verb: Verb[R]) -> R:
        """Run a verb and wait for its result; None when the verb's `timeout`, in seconds, has
        passed. Repeats the request when the daemon was lost."""
        timeout: float | None = getattr(verb, "timeout", None)
        until = None if timeout is None else time.monotonic() + timeout
        for _ in range(_ATTEMPTS):
            try:
                self._connect()
                if until is not None:
                    left = max(0.0, until - time.monotonic())
                    verb = msgspec.structs.replace(verb, timeout=left)
                self._say(verb)
                return structs.convert(self._answer(), result_type(verb))
            except (OSError, EOFError):
                self.close()
        raise _no_daemon(self._home, f"lost the daemon {_ATTEMPTS} times")

    def wait_gone(self, seconds: float = 30.0) -> None:
        """Wait until the daemon has released its sessions and ended the connection."""
        if self._socket is not None:
            self._socket.settimeout(seconds)
            with contextlib.suppress(OSError):
                while self._socket.recv(_CHUNK):
                    pass
            self.close()

    def events(self, session: str, after: int = 0, *, follow: bool = True) -> Iterator[AnyEvent]:
        """The session's events with a number above `after`; with `follow` also new ones, until its
        process has ended. A daemon that is lost meanwhile is replaced."""
        lost = 0
        while True:
            try:
                self._connect()
                self._say(Events(session=session, after=after, follow=follow))
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
                    raise _no_daemon(self._home, f"lost the daemon {_ATTEMPTS} times") from None

    # -- the wire -------------------------------------------------------------------------------

    def _say(self, verb: Verb[Any], **more: Any) -> None:
        """Send a request, with the token of the daemon that listens now."""
        assert self._socket is not None
        self._number += 1
        head = {"id": self._number, "token": _read_token(self._home)}
        request = {**head, **msgspec.to_builtins(verb), **more}
        self._socket.sendall(msgspec.json.encode(request) + b"\n")

    def _answer(self) -> Any:
        """The answer to the last request; `EOFError` when the daemon was lost before it."""
        assert self._lines is not None
        while line := self._lines.readline():
            message = msgspec.json.decode(_whole(line))
            if message.get("id") != self._number:
                continue
            if "error" in message:
                raise error_from(message["error"])
            return message.get("result")
        raise EOFError

    def _next_events(self) -> list[AnyEvent] | None:
        assert self._lines is not None
        while line := self._lines.readline():
            message = structs.decode(_whole(line), _Streamed)
            if message.id != self._number:
                continue
            if message.error is not None:
                raise error_from(message.error)
            if isinstance(message.events, msgspec.Raw):
                return _events_of.decode(message.events)
            return None
        raise EOFError

    # -- the daemon -----------------------------------------------------------------------------

    def _connect(self) -> None:
        """Connect to the daemon unless connected; starts or replaces one where allowed."""
        if self._socket is not None:
            return
        until = time.monotonic() + _START
        child: subprocess.Popen[bytes] | None = None
        while True:
            self._socket = _connection(self._home)
            if self._socket is not None:
                self._lines = self._socket.makefile("rb")
                if not self._start or self._agreed():
                    return
            elif not self._start:
                raise Unavailable("no daemon runs", hint="`bridle session` starts one on demand")
            elif child is None or child.poll() is not None:
                if child is None:
                    # A store that the daemon cannot open is better reported here than in its log.
                    SessionStore(self._home).close()
                elif child.returncode:
                    raise _no_daemon(self._home, "the daemon ended while it started")
                child = start_daemon(self._home)
            if time.monotonic() > until:
                raise _no_daemon(self._home, "the daemon did not start")
            time.sleep(0.02)

    def _agreed(self) -> bool:
        """Whether the daemon of the new connection speaks our protocol; an older one has ended when
        this returns False. Raises `DaemonAhead`."""
        try:
            self._say(Hello(), **msgspec.structs.asdict(protocol.here()))
            try:
                peer = peer_in(self._answer())
            except WrongUse:
                # It predates `hello`.
                peer = Peer()
            standing = protocol.standing(peer)
            if standing == "behind":
                self._replace(peer)
        except (OSError, EOFError):
            # Another process has ended it.
            self.close()
            return False
        if standing == "ahead":
            self.close()
            raise DaemonAhead(peer, self._home.root)
        return standing == "same"

    def _replace(self, peer: Peer) -> None:
        """Make an older daemon release its sessions and end."""
        self._say(Shutdown())
        with contextlib.suppress(WrongUse):
            self._answer()
        self.wait_gone()
        sys.stderr.write(
            f"bridle: replacing the daemon ({peer.words}) with {protocol.here().words};"
            " sessions and running turns continue\n"
        )


def _no_daemon(home: StateHome, what: str) -> Unavailable:
    """The error of a daemon that does not answer, with the last line of its log."""
    log = os.path.join(home.root, "daemon.log")
    last = ""
    with contextlib.suppress(OSError), open(log, errors="replace") as file:
        lines = [line.strip() for line in file.read()[-_CHUNK:].splitlines() if line.strip()]
        last = lines[-1].removeprefix("bridle daemon: ")[:_SHOWN] if lines else ""
    if not last:
        return Unavailable(
            what, hint=f"check that {home.root} can be written and has room, then try again"
        )
    return Unavailable(f"{what}: {last}", hint=f"see {log}")


class _Streamed(msgspec.Struct):
    id: int
    events: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    error: dict[str, Any] | None = None


def start_daemon(home: StateHome) -> "subprocess.Popen[bytes]":
    """Start the daemon of a home, detached from this process; it ends at once when one runs."""
    with explained(home.root):
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
    """Whether a daemon runs there, and its status; never starts one."""
    try:
        with DaemonClient(home, start=False) as client:
            found = client.call(Status())
            # A daemon from before `hello` names no version.
            return {**found, **msgspec.to_builtins(peer_in(found))}
    except Unavailable:
        return {
            "running": False,
            "pid": None,
            "socket": socket_path(home),
            "sessions": 0,
            "protocol": None,
            "version": None,
        }


def _whole(line: bytes) -> bytes:
    """A complete line; `EOFError` for one that was cut off."""
    if not line.endswith(b"\n"):
        raise EOFError
    return line


def _connection(home: StateHome) -> socket.socket | None:
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
