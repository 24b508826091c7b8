"""Drives an app-server that listens on a socket as if it spoke on its standard streams.

    python -P -m bridle.runtimes.codex.relay SOCKET -- codex app-server --listen unix://SOCKET …

One app-server serves its standard streams or a socket, never both, and only a socket can be shared
with a person's terminal interface. So this process starts the app-server, is one WebSocket client
of it, and copies: a line of stdin is a frame, a frame is a line of stdout. To its holder it is the
app-server: it exits with the same status, and ends the app-server when stdin ends or on a signal.

It uses threads with blocking calls, because stdout may be a plain file, which no event loop can
wait for.
"""

import contextlib
import os
import select
import shutil
import signal
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Literal, TypeVar

from bridle.core.errors import BridleError, NotInstalled
from bridle.drives.tmux.server import make_private
from bridle.process.process_tree import Process, descendants, look, send_signal
from bridle.process.spec import MAX_LINE
from bridle.runtimes.codex.command import RELAY, require_library

if TYPE_CHECKING:
    from websockets.sync.client import ClientConnection

_START = 60.0
"""Seconds for the app-server to listen."""
_POLL = 0.02
_PATIENCE = (0.8, 0.8)
"""Seconds after each SIGTERM. The first lets an app-server with a socket finish its turns, the
second does not; the holder's own patience (three seconds) must outlast both."""
_DRAIN = 1.0
"""Seconds for stdout to take the rest after a signal; without a signal there is no limit."""
_QUEUE = 1 << 16
"""Frames that may wait for stdout. The app-server does not wait for a slow client: it disconnects
one that is some hundred messages behind, so frames that stdout does not take yet are kept here."""

T = TypeVar("T")
_News = Literal["input over", "signal", "gone", "drained", "broken"]


_WORDS: tuple[_News, ...] = ("input over", "gone", "drained", "broken")
_FIRST_WORD = 100
"""The byte of the first word; the bytes below are numbers of signals."""


class Inbox:
    """News for the main thread, as bytes in a pipe.

    A queue would lose a signal that comes just before the main thread waits for the queue's lock:
    Python runs its handler only when that wait ends. A byte in the pipe ends the wait.
    """

    def __init__(self) -> None:
        self._read, self._write = os.pipe()
        os.set_blocking(self._write, False)

    def take_signals(self, *numbers: signal.Signals) -> None:
        """Turn these signals into news."""
        signal.set_wakeup_fd(self._write, warn_on_full_buffer=False)
        for number in numbers:
            signal.signal(number, lambda *_: None)

    def put(self, word: _News) -> None:
        """Leave a word; safe in every thread."""
        os.write(self._write, bytes([_FIRST_WORD + _WORDS.index(word)]))

    def empty(self) -> bool:
        """Whether there is no news."""
        return not select.select([self._read], [], [], 0)[0]

    def get(self, timeout: float | None) -> _News | None:
        """The next word; None after `timeout` seconds."""
        if not select.select([self._read], [], [], timeout)[0]:
            return None
        (byte,) = os.read(self._read, 1)
        return "signal" if byte < _FIRST_WORD else _WORDS[byte - _FIRST_WORD]


class Relay:
    """One app-server and our connection to it. Contract: `run` once."""

    def __init__(self, socket: str, command: list[str]) -> None:
        self._socket = socket
        self._command = command
        self._news = Inbox()
        self._below: dict[int, Process] = {}

    def run(self) -> int:
        """Copy until the app-server ends; its exit status, negative when a signal killed it."""
        folder = os.path.dirname(self._socket)
        make_private(folder)
        # A relay that was killed left it.
        remove_socket(self._socket)
        try:
            self._news.take_signals(signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
            # Its other output must not get between the lines of the protocol.
            with subprocess.Popen(self._command, stdin=subprocess.DEVNULL, stdout=2) as process:
                try:
                    return self._driven(process)
                finally:
                    self._end_rest(process)
        finally:
            remove_socket(self._socket)
            shutil.rmtree(folder, ignore_errors=True)

    def _driven(self, process: "subprocess.Popen[bytes]") -> int:
        _begin(self._watch, process)
        connection = self._connected(process)
        if connection is None:
            self._end(process)
            return process.wait() or 1
        _begin(self._copy_in, connection)
        _begin(self._copy_out, connection)
        return self._until_over(process)

    def _until_over(self, process: "subprocess.Popen[bytes]") -> int:
        """Wait for the end of the app-server and for its last message."""
        gone = drained = broken = hurried = False
        while not (gone and drained):
            bounded = drained or (gone and hurried)
            word = self._news.get(_DRAIN if bounded else None)
            if word is None:
                if gone:
                    break
                _complain(
                    "codex disconnected; it does so when its messages are not read fast enough"
                )
                word = "broken"
            gone = gone or word == "gone"
            drained = drained or word == "drained"
            broken = broken or word == "broken"
            hurried = hurried or word in ("signal", "broken")
            if word in ("input over", "signal", "broken"):
                self._end(process)
        return process.wait() or int(broken)

    # -- the app-server -------------------------------------------------------------------------

    def _connected(self, process: "subprocess.Popen[bytes]") -> "ClientConnection | None":
        """The connection, as soon as the socket is there; None when the app-server ends before."""
        from websockets.exceptions import InvalidHandshake
        from websockets.sync.client import ClientConnection, unix_connect

        until = time.monotonic() + _START
        while time.monotonic() < until and self._news.empty():
            try:
                made = unix_connect(
                    self._socket,
                    legacy=True,
                    compression=None,
                    max_size=MAX_LINE,
                    max_queue=_QUEUE,
                    # A busy app-server is not a dead one; its end shows that.
                    ping_interval=None,
                    close_timeout=_DRAIN,
                )
            except (FileNotFoundError, ConnectionRefusedError):
                time.sleep(_POLL)
                continue
            except (OSError, InvalidHandshake, EOFError) as problem:
                _complain(f"codex does not answer on its socket: {problem}")
                return None
            assert isinstance(made, ClientConnection)
            return made
        if self._news.empty():
            _complain(f"codex did not listen on its socket in {_START:g} seconds")
        return None

    def _end(self, process: "subprocess.Popen[bytes]") -> None:
        """End the app-server; it ends its commands."""
        for patience in _PATIENCE:
            self._below |= {each.pid: each for each in descendants(process.pid)}
            if process.poll() is None:
                process.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(patience)
                return
        process.kill()
        process.wait()

    def _end_rest(self, process: "subprocess.Popen[bytes]") -> None:
        """Leave no process behind in any case."""
        if process.poll() is None:
            self._end(process)
        for each in self._below.values():
            now = look(each.pid)
            if now is not None and now.started == each.started:
                send_signal(each.pid, signal.SIGKILL)

    # -- threads --------------------------------------------------------------------------------

    def _watch(self, process: "subprocess.Popen[bytes]") -> None:
        process.wait()
        self._news.put("gone")

    def _copy_in(self, connection: "ClientConnection") -> None:
        from websockets.exceptions import ConnectionClosed

        with contextlib.suppress(ConnectionClosed):
            for line in sys.stdin.buffer:
                if text := line.strip():
                    connection.send(text, text=True)
            self._news.put("input over")

    def _copy_out(self, connection: "ClientConnection") -> None:
        from websockets.exceptions import ConnectionClosed

        try:
            while True:
                frame = connection.recv(decode=False)
                # In JSON a bare newline can only be space between tokens.
                _write(frame.replace(b"\n", b" ") + b"\n")
        except ConnectionClosed:
            self._news.put("drained")
        except OSError as problem:
            _complain(f"cannot write the messages of codex: {problem}")
            self._news.put("broken")
            self._news.put("drained")


def remove_socket(path: str) -> None:
    """Remove the socket of an app-server that ended: Codex makes a link there, to a socket
    elsewhere with a lock beside it."""
    with contextlib.suppress(OSError):
        target = os.path.realpath(path)
        if stat.S_ISSOCK(os.lstat(target).st_mode):
            os.unlink(target)
            os.unlink(f"{target}.lock")
    with contextlib.suppress(OSError):
        os.unlink(path)


def _begin(act: Callable[[T], None], about: T) -> None:
    """Run `act` in a thread that does not keep the process alive."""
    threading.Thread(target=act, args=(about,), daemon=True).start()


def _write(data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(1, view) :]


def _complain(text: str) -> None:
    os.write(2, f"bridle: {text}\n".encode(errors="replace"))


def _leave(status: int) -> None:
    """End as the app-server did, by the same signal if one killed it."""
    if status < 0:
        import resource

        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        with contextlib.suppress(OSError):
            signal.signal(-status, signal.SIG_DFL)
        os.kill(os.getpid(), -status)
    # Without waiting for the thread that still reads stdin.
    os._exit(status if status >= 0 else 128 - status)


def main(words: list[str]) -> int:
    """The command line above; returns an exit status, negative for a signal."""
    if len(words) < 3 or words[1] != "--":
        _complain(f"usage: python -m {RELAY} SOCKET -- COMMAND…")
        return 2
    try:
        require_library()
    except NotInstalled as problem:
        _complain(f"{problem.message}; {problem.hint}")
        return NotInstalled.exit_code
    try:
        return Relay(words[0], words[2:]).run()
    except (BridleError, OSError) as problem:
        _complain(str(problem))
        return 1


if __name__ == "__main__":
    _leave(main(sys.argv[1:]))
