"""tmux's control mode: one connection that carries every command and its response.

Each command is a line; its response is a block between `%begin` and `%end` or `%error`. Every line
outside a block is a notification. `ControlParser` parses that without input or output;
`ControlConnection` owns the client process. `quoted` and `unexpanded` write arguments.
"""

import contextlib
import os
import selectors
import subprocess
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence

import msgspec

from bridle.core.errors import TimedOut, WrongUse

_CHUNK = 1 << 16
_KEPT_NOTICES = 256
_OURS = b" 1"
"""How the number of a response ends if the command came over this connection; the command that
opened the connection did not."""
_RAW = "surrogateescape"
_FAREWELL = 1.0
"""Seconds that the client may take to exit."""


class Block(msgspec.Struct, frozen=True, kw_only=True):
    """The response to one command."""

    lines: tuple[bytes, ...]
    failed: bool

    @property
    def text(self) -> str:
        """The lines joined by newlines."""
        return b"\n".join(self.lines).decode(errors="replace")


class Disconnected(Exception):
    """The other side closed the connection."""


class ControlParser:
    """Parses the output of a control client.

    Contract: `feed` never raises. Blocks come out in the order of the commands. A block is closed
    only by the guard line with its own number, whatever else it contains.
    """

    def __init__(self) -> None:
        self.blocks: deque[Block] = deque()
        self.notices: deque[str] = deque(maxlen=_KEPT_NOTICES)
        """The newest notifications, as tmux writes them (`%sessions-changed`, `%exit`)."""
        self.opened = False
        """Whether the command that opened the connection is complete."""
        self._rest = b""
        self._guard: bytes | None = None
        self._lines: list[bytes] = []
        self._mark: bytes | None = None

    def expect(self, mark: bytes) -> None:
        """The next response contains a program's output; the response after it is only `mark`.

        A program could print lines that look like the end of its response or the beginning of
        another, and so shift every later response. It cannot guess the mark: the response ends with
        the last line before the mark that has the response's number.
        """
        self._mark = mark

    def feed(self, data: bytes) -> None:
        """Take bytes as they arrive."""
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in lines:
            self._line(line)

    def _line(self, line: bytes) -> None:
        if self._guard is None:
            if line.startswith(b"%begin "):
                self._guard = line[len(b"%begin ") :]
                self._lines = []
            elif line.startswith(b"%"):
                self.notices.append(line.decode(errors="replace"))
            return
        if self._mark is not None and self._guard.endswith(_OURS):
            self._foreign_line(line)
            return
        word, _, guard = line.partition(b" ")
        if guard != self._guard or word not in (b"%end", b"%error"):
            self._lines.append(line)
            return
        if self._guard.endswith(_OURS):
            self.blocks.append(Block(lines=tuple(self._lines), failed=word == b"%error"))
        else:
            self.opened = True
        self._guard = None

    def _foreign_line(self, line: bytes) -> None:
        if line != self._mark:
            self._lines.append(line)
            return
        assert self._guard is not None
        ends = (b"%end " + self._guard, b"%error " + self._guard)
        last = max(at for at, each in enumerate(self._lines) if each in ends)
        shown, after = self._lines[:last], self._lines[last:]
        self.blocks.append(Block(lines=tuple(shown), failed=after[0] == ends[1]))
        self.notices += [each.decode(errors="replace") for each in after[1:-1]]
        # The last line read is the beginning of the response that consists of the mark.
        self._guard = after[-1].removeprefix(b"%begin ")
        self._lines, self._mark = [line], None


class ControlConnection:
    """A control client, attached to one session of a tmux server.

    Contract: one thread uses it. `ask` raises `Disconnected` if the client or the server has ended,
    and `TimedOut` if no response came; after either the connection is closed. `close` may be called
    at any time and repeatedly.
    """

    def __init__(self, argv: Sequence[str], env: Mapping[str, str]) -> None:
        self._parser = ControlParser()
        self._process = subprocess.Popen(
            argv,
            env=dict(env),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
            bufsize=0,
        )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._in, self._out = self._process.stdin.fileno(), self._process.stdout.fileno()
        os.set_blocking(self._in, False)
        os.set_blocking(self._out, False)
        self._reading = selectors.DefaultSelector()
        self._reading.register(self._out, selectors.EVENT_READ)
        self.closed = False

    @property
    def pid(self) -> int:
        """The client's process id."""
        return self._process.pid

    @property
    def notices(self) -> deque[str]:
        """The newest notifications; the reader may remove them."""
        return self._parser.notices

    def alive(self) -> bool:
        """Whether the connection is alive, as far as can be seen without a command."""
        # For a moment the server may still read from a dead client.
        if self.closed or self._process.poll() is not None:
            return False
        try:
            while self._reading.select(0):
                self._read()
        except Disconnected:
            return False
        return True

    def wait_opened(self, until: float) -> None:
        """Wait until the client is attached. Before that tmux accepts commands, but runs them
        without a session."""
        self._until(lambda: self._parser.opened, until)
        self.notices.clear()

    def ask(self, command: str, until: float) -> Block:
        """Send a command and return its response; `until` is monotonic time."""
        return self._ask((command,), until)

    def ask_foreign(self, command: str, until: float) -> Block:
        """Like `ask`, for a command that shows a program's output; see `ControlParser.expect`."""
        mark = os.urandom(12).hex()
        self._parser.expect(mark.encode())
        return self._ask((command, f"display-message -p {mark}"), until)

    def _ask(self, commands: Sequence[str], until: float) -> Block:
        data = "".join(f"{command}\n" for command in commands)
        blocks = self._parser.blocks
        self._until(lambda: len(blocks) >= len(commands), until, data.encode(errors=_RAW))
        responses = [blocks.popleft() for _ in commands]
        return responses[0]

    def _until(self, holds: Callable[[], bool], until: float, data: bytes = b"") -> None:
        """Write `data`, then read until `holds` is true."""
        try:
            self._write(data, until)
            while not holds():
                self._wait(self._reading, until)
                self._read()
        except (Disconnected, TimedOut):
            # A client without its server does not exit by itself.
            self._process.kill()
            self.close()
            raise

    def _write(self, data: bytes, until: float) -> None:
        view = memoryview(data)
        while view:
            try:
                view = view[os.write(self._in, view) :]
            except BlockingIOError:
                with selectors.DefaultSelector() as writing:
                    writing.register(self._in, selectors.EVENT_WRITE)
                    self._wait(writing, until)
            except OSError:
                raise Disconnected from None

    @staticmethod
    def _wait(selector: selectors.BaseSelector, until: float) -> None:
        left = until - time.monotonic()
        if left <= 0 or not selector.select(left):
            raise TimedOut("tmux did not answer in time", hint="see whether the machine is stuck")

    def _read(self) -> None:
        try:
            data = os.read(self._out, _CHUNK)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            raise Disconnected
        self._parser.feed(data)
        if self._parser.notices and self._parser.notices[-1].startswith("%exit"):
            raise Disconnected

    def close(self) -> None:
        """End the client by closing its stdin."""
        if self.closed:
            return
        self.closed = True
        self._reading.close()
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        with contextlib.suppress(OSError):
            self._process.stdin.close()
        try:
            self._process.wait(_FAREWELL)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        # Closed last: a client that cannot write its last output does not exit.
        self._process.stdout.close()


# -- quoting --------------------------------------------------------------------------------------

_PLAIN = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_=/.,+@:")


def quoted(word: str) -> str:
    """`word` as one argument in a line of tmux commands, whatever it contains.

    Raises `WrongUse` for a NUL character, which cannot be passed to a program.
    """
    if "\0" in word:
        raise WrongUse("a NUL character cannot be passed to a program")
    if word and all(char in _PLAIN for char in word) and word[0] not in "-=":
        return word
    return "".join(_pieces(word)) or "''"


def _pieces(word: str) -> list[str]:
    pieces: list[str] = []
    plain = ""
    for char in word:
        if char == "'" or char < " " or char == "\x7f":
            if plain:
                pieces.append(f"'{plain}'")
                plain = ""
            pieces.append('"\'"' if char == "'" else f'"\\{ord(char):03o}"')
        else:
            plain += char
    if plain:
        pieces.append(f"'{plain}'")
    return pieces


def unexpanded(path: str) -> str:
    """`path` for an argument in which tmux expands formats: each `#` is doubled, except before a
    bracket, where tmux does not expand it."""
    out = ""
    for at, char in enumerate(path):
        rest = path[at:].lstrip("#")
        out += "##" if char == "#" and not rest.startswith("[") else char
    return out
