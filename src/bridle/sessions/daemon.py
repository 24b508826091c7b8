"""The daemon: one process for each state home that drives its sessions for all clients.

It holds nothing that cannot be lost. Kill it at any moment: agents run on, and the next command
starts another daemon, which replays journal and ledger of every session and continues.

It listens on a Unix socket in a private folder and requires a token that only the user can read.
The wire is one JSON object a line: requests `{"id", "op", …}` (see `verbs`), answers
`{"id", "result"}` or `{"id", "error"}`, and for `events` any number of `{"id", "events": […]}`
before the answer. The first request is `hello`; see `protocol`.
"""

import contextlib
import fcntl
import os
import secrets
import selectors
import socket
import sys
import time
from collections.abc import Callable
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any

import msgspec

from bridle.core import structs
from bridle.core.errors import BridleError, WrongUse
from bridle.core.events import Event, encode_event
from bridle.core.files import write_atomic
from bridle.sessions.clocks import Clocks, configured_clocks
from bridle.sessions.engine import Engine, find_runtime
from bridle.sessions.home import StateHome, explained, socket_path, token_path
from bridle.sessions.protocol import error_data, here
from bridle.sessions.service import SessionService
from bridle.sessions.verbs import VERBS, Events, Hello, Shutdown, Status

if TYPE_CHECKING:
    from bridle.sessions.hooks import HookRunner

IDLE = 300.0
"""Seconds without clients and without work after which it ends."""
_COUNT = 5.0
"""Seconds between checks whether any session works, while nobody is connected."""
_MOST_UNSENT = 64 << 20
"""Bytes that may wait for a client that does not read; then it is disconnected."""
_MOST_REQUEST = 96 << 20
_CHUNK = 1 << 16
_SHOWN = 16
_HOME_LOOK = 1.0
"""Seconds between checks whether its home still exists."""
_LAST_HOOKS = 5.0
"""Seconds for pending hooks when it ends."""


class _Client:
    """One connection: lines in, lines out, never blocking."""

    def __init__(self, daemon: "Daemon", connection: socket.socket) -> None:
        self._daemon = daemon
        self._socket = connection
        self._in = bytearray()
        self._out = bytearray()
        self.trusted = False
        """Whether it has shown the token."""
        self._open = True
        self._ends: list[Callable[[], None]] = []
        connection.setblocking(False)
        self._wanted = selectors.EVENT_READ
        daemon.engine.register(connection, self._wanted, self._ready)

    def send(self, line: bytes) -> None:
        """Queue a line for the client."""
        if not self._open:
            return
        self._out += line + b"\n"
        self._write()
        if len(self._out) > _MOST_UNSENT:
            self.close()

    def at_end(self, act: Callable[[], None]) -> None:
        """Call `act` when the connection has ended."""
        self._ends.append(act)

    def close(self) -> None:
        """End the connection."""
        if not self._open:
            return
        self._open = False
        self._daemon.engine.unregister(self._socket)
        self._socket.close()
        for act in self._ends:
            act()
        self._daemon.gone(self)

    def _ready(self, mask: int) -> None:
        if mask & selectors.EVENT_WRITE:
            self._write()
        if not (mask & selectors.EVENT_READ and self._open):
            return
        try:
            data = self._socket.recv(_CHUNK)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self.close()
            return
        self._in += data
        if len(self._in) > _MOST_REQUEST:
            self.close()
            return
        if b"\n" in data:
            *lines, rest = self._in.split(b"\n")
            self._in = rest
            for line in lines:
                if self._open:
                    self._daemon.serve(self, bytes(line))

    def _write(self) -> None:
        try:
            while self._out:
                sent = self._socket.send(self._out[:_CHUNK])
                del self._out[:sent]
        except BlockingIOError:
            pass
        except OSError:
            self.close()
            return
        wanted = selectors.EVENT_READ | (selectors.EVENT_WRITE if self._out else 0)
        if wanted == self._wanted:
            return
        self._wanted = wanted
        self._daemon.engine.register(self._socket, wanted, self._ready)


class _Head(msgspec.Struct):
    """What every request has."""

    id: Any = None
    op: str = ""
    token: str = ""


_heads = structs.decoder(_Head)
_requests = {name: structs.decoder(row) for name, row in VERBS.items()}
"""The decoder of each request, by its name."""


class Daemon:
    """The server around an engine.

    Contract: `run` returns when it was idle for `idle` seconds, or after a `shutdown` request.
    """

    def __init__(
        self,
        home: StateHome,
        *,
        idle: float = IDLE,
        clocks: Clocks | None = None,
        hooks: "HookRunner | None" = None,
    ) -> None:
        self.home = home
        self.engine = Engine(home, find_runtime, clocks=clocks)
        self._hooks = hooks
        if hooks is not None:
            self.engine.on_events = hooks.published
        self.service = SessionService(self.engine)
        self.token = _token(home)
        self._idle = idle
        self._clients: set[_Client] = set()
        self._busy_at = time.monotonic()
        self._count_at = 0.0
        self._socket: socket.socket | None = None
        self._ending = False
        self._look_at = 0.0

    def run(self) -> None:
        """Serve."""
        path = socket_path(self.home)
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path)
        self._socket = listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        mask = os.umask(0o177)
        try:
            listening.bind(path)
        finally:
            os.umask(mask)
        # Listen now, so that clients can queue while sessions are adopted.
        listening.listen(128)
        listening.setblocking(False)
        self.engine.register(listening, selectors.EVENT_READ, self._connect)
        self.engine.every_turn = self._look_if_idle
        self.engine.adopt_living()
        try:
            self.engine.run()
        finally:
            with contextlib.suppress(OSError):
                os.unlink(path)
            listening.close()
            for client in list(self._clients):
                client.close()
            if self._hooks is not None:
                self._hooks.close(_LAST_HOOKS)

    def _connect(self, mask: int) -> None:
        assert self._socket is not None
        with contextlib.suppress(BlockingIOError):
            while True:
                connection, _ = self._socket.accept()
                self._clients.add(_Client(self, connection))

    def gone(self, client: _Client) -> None:
        """A connection ended."""
        self._clients.discard(client)
        self._busy_at = time.monotonic()

    def _look_if_idle(self) -> float | None:
        now = time.monotonic()
        if now >= self._look_at:
            self._look_at = now + _HOME_LOOK
            if not os.path.exists(token_path(self.home)):
                # Its home was deleted: no client can reach it, and another home may be made there.
                self._end()
        if self._clients:
            self._busy_at = now
        elif now >= self._count_at or now - self._busy_at >= self._idle:
            # Not on every iteration: there may be a thousand sessions.
            self._count_at = now + min(_COUNT, self._idle / 4)
            if any(_busy(driver.player) for driver in self.engine.drivers.values()):
                self._busy_at = now
        if now - self._busy_at >= self._idle:
            self._end()
        return self._busy_at + self._idle

    # -- requests -------------------------------------------------------------------------------

    def serve(self, client: _Client, line: bytes) -> None:
        """Carry out a request; the answer is sent now or when it is known. A client that does not
        speak the protocol, or has not shown the token, is disconnected."""
        try:
            head = _heads.decode(line)
        except (msgspec.MsgspecError, UnicodeDecodeError):
            client.close()
            return
        if not client.trusted:
            client.trusted = secrets.compare_digest(head.token.encode(), self.token.encode())
            if not client.trusted:
                client.close()
                return
        try:
            if head.op not in _requests:
                raise WrongUse(
                    f"the daemon does not know {head.op[:_SHOWN]!r}",
                    hint=f"it knows {', '.join(_requests)}",
                )
            try:
                verb = _requests[head.op].decode(line)
            except msgspec.ValidationError as problem:
                raise WrongUse(f"the request {head.op!r} is wrong: {problem}") from None
            match verb:
                case Events():
                    self._events(client, head.id, verb)
                case Hello():
                    client.send(_result(head.id, here()))
                case Status():
                    client.send(_result(head.id, self._status()))
                case Shutdown():
                    client.send(_result(head.id, self._shutdown()))
                case _:
                    future = self.service.call(verb)
                    future.add_done_callback(lambda done: self._reply(client, head.id, done))
        except BaseException as problem:
            client.send(_error(head.id, problem))

    def _status(self) -> dict[str, Any]:
        return {
            "running": True,
            "pid": os.getpid(),
            "socket": socket_path(self.home),
            "sessions": len(self.engine.drivers),
            "protocol": here().protocol,
            "version": here().version,
        }

    def _events(self, client: _Client, number: Any, verb: Events) -> None:
        shown = msgspec.json.encode(number)

        def tell(events: list[Event]) -> None:
            if events:
                body = b",".join(encode_event(event) for event in events)
                client.send(b'{"id":' + shown + b',"events":[' + body + b"]}")
            else:
                client.send(_result(number, {"over": True}))

        stop = self.service.subscribe(verb.session, verb.after, tell)
        if verb.follow:
            client.at_end(stop)
        else:
            stop()
            client.send(_result(number, {"over": False}))

    def _shutdown(self) -> dict[str, Any]:
        self._end()
        return {"stopping": True}

    def _end(self) -> None:
        self._ending = True
        self.engine.stop()

    def _reply(self, client: _Client, number: Any, done: "Future[Any]") -> None:
        problem = done.exception()
        if problem is not None:
            client.send(_error(number, problem))
        elif self._ending and done.result() is None:
            # This is not a timeout: the client has to ask the next daemon.
            client.close()
        else:
            client.send(_result(number, done.result()))


def _result(number: Any, result: Any) -> bytes:
    return msgspec.json.encode({"id": number, "result": result})


def _error(number: Any, problem: BaseException) -> bytes:
    return msgspec.json.encode({"id": number, "error": error_data(problem)})


def _busy(player: Any) -> bool:
    return not player.is_idle and not player.finished


def _token(home: StateHome) -> str:
    """This daemon's token, in a file that only the user can read."""
    token = secrets.token_hex(24)
    path = token_path(home)
    write_atomic(path, token)
    return token


def raise_file_limit() -> None:
    """Raise the limit of open files to what the system allows: each session needs one."""
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        with contextlib.suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def main(argv: list[str]) -> int:
    """Run as the daemon of the state home that `argv` names: its root, then its project if any."""
    home = StateHome(argv[0], argv[1] if len(argv) > 1 else None)
    try:
        with explained(home.root):
            return _run(home)
    except BridleError as problem:
        # stderr is its log; the client that started it shows the last line.
        sys.stderr.write(f"bridle daemon: {problem.message}\n")
        return 1


def _run(home: StateHome) -> int:
    home.make()
    handle = os.open(
        os.path.join(home.root, "daemon.lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600
    )
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        # There is a daemon already; the client will find it.
        return 0
    raise_file_limit()
    from bridle.config import load_config
    from bridle.sessions.hooks import HookRunner

    try:
        config = load_config(home.project or os.path.expanduser("~"))
    except BridleError as problem:
        # The next client reports the same error; sessions must not wait for that.
        sys.stderr.write(f"bridle daemon: {problem.message}\n")
        Daemon(home).run()
        return 0
    idle = config.sessions.daemon_idle
    with contextlib.suppress(ValueError):
        idle = float(os.environ.get("BRIDLE_DAEMON_IDLE") or idle)
    Daemon(
        home,
        idle=idle,
        clocks=configured_clocks(config),
        hooks=HookRunner(config.hooks, home),
    ).run()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
