"""Runs shfmt, the shell parser that comes with the installation.

It is called by its absolute path, never through a PATH that an agent can set, with a time limit and
a limit on what it may print. Any failure is a `ParseError`.
"""

import os
import select
import signal
import sys
import time

MAX_TREE = 8 << 20
"""Largest answer of the parser that is read, in bytes."""
TIME_LIMIT = 5.0
"""Seconds a parse may take before the command is refused."""


class ParseError(Exception):
    """The text cannot be read as a shell program we know."""


def shfmt_path() -> str:
    """Absolute path of the shfmt that came with this installation. Raises `ParseError`."""
    global _binary
    if not _binary:
        name = "shfmt.exe" if os.name == "nt" else "shfmt"
        scripts = os.path.dirname(os.path.abspath(sys.executable))
        for folder in (
            scripts,
            os.path.join(sys.prefix, "bin"),
            os.path.join(sys.prefix, "Scripts"),
        ):
            path = os.path.join(folder, name)
            if os.access(path, os.X_OK):
                _binary = path
                break
        else:
            raise ParseError("shfmt is missing from this installation; reinstall bridle")
    return _binary


_binary = ""


def run_shfmt(data: bytes, seconds: float = TIME_LIMIT) -> bytes:
    """What the parser prints for the program text within the time. Raises `ParseError`."""
    path = shfmt_path()
    in_read, in_write = os.pipe()
    out_read, out_write = os.pipe()
    pid = 0
    try:
        try:
            pid = os.posix_spawn(
                path,
                [path, "-ln", "bash", "--to-json"],
                {"GOMAXPROCS": "1"},
                file_actions=[
                    (os.POSIX_SPAWN_DUP2, in_read, 0),
                    (os.POSIX_SPAWN_DUP2, out_write, 1),
                    (os.POSIX_SPAWN_OPEN, 2, os.devnull, os.O_WRONLY, 0),
                ],
                setsigdef=[signal.SIGPIPE],
            )
        except OSError as error:
            os.close(in_write)
            raise ParseError(f"the shell parser could not be started ({error.strerror})") from None
        finally:
            os.close(in_read)
            os.close(out_write)
        output = _exchange(in_write, out_read, data, min(seconds, TIME_LIMIT))
        _, status = os.waitpid(pid, 0)
        pid = 0
        if status != 0:
            raise ParseError("the command is not valid shell")
        return output
    finally:
        os.close(out_read)
        if pid:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)


def _exchange(in_write: int, out_read: int, data: bytes, seconds: float) -> bytes:
    """Feed `data` and collect the answer. Closes `in_write`, whatever happens."""
    deadline = time.monotonic() + seconds
    poll = select.poll()
    poll.register(out_read, select.POLLIN)
    chunks: list[bytes] = []
    view = memoryview(data)
    size = 0
    try:
        os.set_blocking(in_write, False)
        view = _feed(in_write, view)
        if view:
            poll.register(in_write, select.POLLOUT)
        else:
            os.close(in_write)
            in_write = -1
        while True:
            left = deadline - time.monotonic()
            if left <= 0:
                raise ParseError("the shell parser took too long")
            for fd, _ in poll.poll(left * 1000):
                if fd == out_read:
                    chunk = os.read(out_read, 1 << 20)
                    if not chunk:
                        return b"".join(chunks)
                    chunks.append(chunk)
                    size += len(chunk)
                    if size > MAX_TREE:
                        raise ParseError("the command has too many parts")
                    continue
                view = _feed(in_write, view)
                if not view:
                    poll.unregister(in_write)
                    os.close(in_write)
                    in_write = -1
    finally:
        if in_write >= 0:
            os.close(in_write)


def _feed(fd: int, view: memoryview) -> memoryview:
    """Write what the pipe takes now; returns the rest. A parser that has exited gets nothing
    more."""
    try:
        return view[os.write(fd, view) :]
    except BlockingIOError:
        return view
    except BrokenPipeError:
        return view[:0]
