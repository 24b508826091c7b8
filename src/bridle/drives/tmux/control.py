"""tmux's control mode: one connection that carries every order and its answer.

Each order is a line; its answer is a block between `%begin` and `%end` or `%error`. Whatever stands
outside a block is a notification. `ControlParser` reads that without any input or output of its
own; `ControlConnection` owns the process.
"""

import contextlib
import os
import selectors
import subprocess
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence

import msgspec

from bridle.core.errors import TimedOut

_CHUNK = 1 << 16
_KEPT_NOTICES = 256
_OURS = b" 1"
"""How the number of an answer ends when the order came over this connection; the order by which it
was opened did not."""
_RAW = "surrogateescape"
_FAREWELL = 1.0
"""Seconds that the client may take to leave."""


class Block(msgspec.Struct, frozen=True, kw_only=True):
    """The answer to one order."""

    lines: tuple[bytes, ...]
    failed: bool

    @property
    def text(self) -> str:
        """The lines as they were, joined by newlines."""
        return b"\n".join(self.lines).decode(errors="replace")


class Disconnected(Exception):
    """The connection is closed from the other side."""


class ControlParser:
    """Reads what a control client prints.

    Contract: `feed` never raises. Blocks come out in the order of the orders. A block is closed
    only by the guard line that bears its own number, whatever else stands in it.
    """

    def __init__(self) -> None:
        self.blocks: deque[Block] = deque()
        self.notices: deque[str] = deque(maxlen=_KEPT_NOTICES)
        """The newest notifications, as tmux words them (`%sessions-changed`, `%exit`)."""
        self.opened = False
        """The order by which the connection was opened has been carried out."""
        self._rest = b""
        self._guard: bytes | None = None
        self._lines: list[bytes] = []
        self._mark: bytes | None = None

    def expect(self, mark: bytes) -> None:
        """The next answer shows what a program wrote, and the one after it is `mark` alone.

        A program could write lines that look like the end of its answer, or the beginning of
        another, and so shift every answer that follows. None can guess the mark: the answer ends
        with the last line before it that bears the answer's number.
        """
        self._mark = mark

    def feed(self, data: bytes) -> None:
        """Take bytes as they come."""
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
        # What was read last is the beginning of the answer that consists of the mark.
        self._guard = after[-1].removeprefix(b"%begin ")
        self._lines, self._mark = [line], None


class ControlConnection:
    """A control client of ours, attached to one session of a tmux server.

    Contract: one thread uses it. `ask` raises `Disconnected` when the client or the server is
    gone, and `TimedOut` when no answer came; after either it is closed. `close` may be called at
    any time, and twice.
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
        """The client's process."""
        return self._process.pid

    @property
    def notices(self) -> deque[str]:
        """The newest notifications; whoever reads them may remove them."""
        return self._parser.notices

    def alive(self) -> bool:
        """Whether the other side is still there, as far as can be seen without asking."""
        # The server may still read from a client that is dead, for a moment.
        if self.closed or self._process.poll() is not None:
            return False
        try:
            while self._reading.select(0):
                self._read()
        except Disconnected:
            return False
        return True

    def wait_opened(self, until: float) -> None:
        """Return once the client is attached. tmux may take orders before that, and carries them
        out without a session."""
        self._until(lambda: self._parser.opened, until)
        self.notices.clear()

    def ask(self, order: str, until: float) -> Block:
        """Give an order and return its answer; `until` is monotonic time."""
        return self._ask((order,), until)

    def ask_foreign(self, order: str, until: float) -> Block:
        """The same for an order that shows what a program wrote; see `ControlParser.expect`."""
        mark = os.urandom(12).hex()
        self._parser.expect(mark.encode())
        return self._ask((order, f"display-message -p {mark}"), until)

    def _ask(self, orders: Sequence[str], until: float) -> Block:
        data = "".join(f"{order}\n" for order in orders)
        blocks = self._parser.blocks
        self._until(lambda: len(blocks) >= len(orders), until, data.encode(errors=_RAW))
        answers = [blocks.popleft() for _ in orders]
        return answers[0]

    def _until(self, holds: Callable[[], bool], until: float, data: bytes = b"") -> None:
        """Write `data`, then read until something holds."""
        try:
            self._write(data, until)
            while not holds():
                self._wait(self._reading, until)
                self._read()
        except (Disconnected, TimedOut):
            # A client without its server has nobody to take leave of.
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
        """Let the client go: the end of its input is its cue."""
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
        # Only now: a client that cannot say its last words does not leave.
        self._process.stdout.close()
