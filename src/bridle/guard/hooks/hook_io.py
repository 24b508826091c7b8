"""Reads a hook process's payload and writes its answer, without its help where possible.

The hook runs as the same user below the agent, so its descriptors are accessible through `/proc`,
or through `pidfd_getfd` if they are sockets (Node gives those to its children).
"""

import os
import re
import select
import stat
import time
from types import TracebackType

from bridle.guard.hooks.hook_judge import LARGEST
from bridle.guard.hooks.hook_script import ANSWERS, COPY, PAYLOAD

_DEADLINE = 15.0
"""Seconds within which a payload must arrive."""
_QUIET = 0.05
"""Seconds after which a complete payload is taken although its writer has not closed it."""
_PIDFD_GETFD = 438
_LINE = re.compile(rb"^(\d{1,10}) ([0-9a-f-]{36})( \d+)?$", re.MULTILINE)


class NeedsCopy(Exception):
    """The payload cannot be reached from here: the hook must send it."""


class Reached:
    """A hook process that waits for an answer.

    Contract: entering raises `OSError` when it is gone, is not a hook of `script`, or waits for
    nothing. `say` never blocks.
    """

    def __init__(self, pid: int, script: str) -> None:
        self.pid = pid
        self._script = os.fsencode(script)
        self._pipe = -1

    def __enter__(self) -> "Reached":
        # Never write to a process that only claims to be a hook.
        with open(f"/proc/{self.pid}/cmdline", "rb") as file:
            if self._script not in file.read(1 << 16):
                raise OSError("not a hook")
        self._pipe = os.open(self._path(ANSWERS), os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        if not stat.S_ISFIFO(os.fstat(self._pipe).st_mode):
            os.close(self._pipe)
            raise OSError("not a pipe")
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        problem: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        os.close(self._pipe)

    def say(self, word: bytes) -> None:
        """Wake the hook up. Other processes can do that too, so the hook does not trust the word
        itself."""
        os.write(self._pipe, word + b"\n")

    def answer(self, path: str, line: bytes) -> None:
        """Answer the hook, which looks for it at `path`; raises `OSError` if the file exists: only
        the host may answer."""
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        file = os.open(path, flags, 0o400)
        try:
            os.write(file, line.replace(b"\n", b" ") + b"\n")
        finally:
            os.close(file)
        self.say(b"done")

    def open_input(self, number: int) -> int:
        """This process's own descriptor for the hook's descriptor `number`; raises `NeedsCopy`."""
        path = self._path(number)
        mode = os.stat(path).st_mode
        if stat.S_ISFIFO(mode) or stat.S_ISREG(mode):
            return os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        return _taken_over(self.pid, number)

    def _path(self, number: int) -> str:
        return f"/proc/{self.pid}/fd/{number}"


def lines_of(text: bytes) -> list[tuple[int, str, int]]:
    """Process ids, each with the name of its question and the descriptor of its payload, from what
    hooks wrote into the FIFO. Anything else is ignored: the agent's own commands can write there
    too."""
    found = []
    for pid, key, copy in _LINE.findall(text):
        found.append((int(pid), key.decode(), COPY if copy else PAYLOAD))
    return found


def reach(hook: Reached, number: int) -> bytes | None:
    """The hook's payload; None when it did not come in time. Raises `NeedsCopy`, `OSError`."""
    source = hook.open_input(number)
    if number == COPY:
        hook.say(b"go")
    try:
        return _read_all(source)
    finally:
        os.close(source)


def _read_all(source: int) -> bytes | None:
    data = bytearray()
    until = time.monotonic() + _DEADLINE
    watch = select.poll()
    watch.register(source, select.POLLIN | select.POLLHUP)
    while time.monotonic() < until:
        if not watch.poll(_QUIET * 1000):
            if _is_whole(data):
                return bytes(data)
            continue
        try:
            chunk = os.read(source, 1 << 18)
        except BlockingIOError:
            continue
        if not chunk:
            return bytes(data)
        data += chunk
        if len(data) > LARGEST:
            return bytes(data)
    return None


def _is_whole(data: bytearray) -> bool:
    if not data.rstrip().endswith(b"}"):
        return False
    import msgspec

    try:
        msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return False
    return True


def _taken_over(pid: int, number: int) -> int:
    """A copy of another process's descriptor of any kind."""
    import ctypes

    try:
        process = os.pidfd_open(pid)
    except (OSError, AttributeError):
        raise NeedsCopy from None
    try:
        libc = ctypes.CDLL(None, use_errno=True)
        copy = int(libc.syscall(ctypes.c_long(_PIDFD_GETFD), process, number, 0))
    finally:
        os.close(process)
    if copy < 0:
        raise NeedsCopy
    return copy
