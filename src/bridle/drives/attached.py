"""Holding a process that ends with us: pipes, one loop, nothing left behind.

One selector watches stdout, stderr, stdin, the process's end and a wake-up pipe, so no thread is
needed, nothing blocks while the agent waits for something else, and a caller that stops reading
slows the agent down instead of filling memory.
"""

import contextlib
import errno
import os
import selectors
import signal
import subprocess
import time

from bridle.core.errors import AgentError, Crashed, NotInstalled, ProtocolDrift
from bridle.core.redact import Redactor
from bridle.drives.processes import (
    exit_fd,
    kill_marked,
    send_group_signal,
    send_signal,
)
from bridle.drives.spec import MAX_LINE, SESSION_MARK, ProcessExit, ProcessSpec

_CHUNK = 1 << 16
_TAIL = 1 << 16
"""Bytes of standard error that are kept."""
_DRAIN_GRACE = 1.0
"""Seconds that output may still arrive after the process has ended (a child holds the pipe)."""
_CLOSED_GRACE = 5.0
"""Seconds a process may live on after it closed its stdout."""
_TICK = 0.1
"""Longest sleep where the system cannot tell us of a process's end."""


class AttachedProcess:
    """A child in a session and process group of its own, read line by line.

    Contract: `start` once; then `next_lines` until it returns None; then `exit` tells how it
    ended. `request_stop` may be called at any time, from any thread or a signal handler, and twice.
    `close` ends it whatever its state and must be called at the end. One thread reads.
    """

    def __init__(self, spec: ProcessSpec, redactor: Redactor | None = None) -> None:
        self.spec = spec
        self.exit: ProcessExit | None = None
        self.failure: AgentError | None = None
        """Why reading ended early, when it did."""
        self._redactor = redactor or Redactor()
        self._process: subprocess.Popen[bytes] | None = None
        self._selector = selectors.DefaultSelector()
        self._wake_read, self._wake_write = os.pipe()
        self._exit_fd: int | None = None
        self._buffer = bytearray()
        self._scanned = 0
        self._stderr = bytearray()
        self._to_write = bytearray(spec.stdin or b"")
        self._close_input = not spec.keep_stdin
        self._stdout_open = False
        self._stopping = False
        self._kill_now = False
        self._step = -1
        self._step_until = 0.0
        self._ended_at: float | None = None
        self._closed_at: float | None = None
        self._group_killed = False

    @property
    def pid(self) -> int | None:
        """The child's process id, also its process group's; None before the start."""
        return self._process.pid if self._process else None

    def start(self) -> None:
        """Start the child; raises an `AgentError` that says why it could not be started."""
        spec = self.spec
        piped = spec.stdin is not None or spec.keep_stdin
        try:
            self._process = process = subprocess.Popen(
                spec.argv,
                stdin=subprocess.PIPE if piped else subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                cwd=spec.cwd,
                env=spec.env,
                start_new_session=True,
                bufsize=0,
            )
        except OSError as problem:
            self.close()
            raise _start_error(spec, problem) from None
        assert process.stdout is not None
        assert process.stderr is not None
        for stream, name in ((process.stdout, "stdout"), (process.stderr, "stderr")):
            os.set_blocking(stream.fileno(), False)
            self._selector.register(stream, selectors.EVENT_READ, name)
        self._stdout_open = True
        os.set_blocking(self._wake_read, False)
        self._selector.register(self._wake_read, selectors.EVENT_READ, "wake")
        self._exit_fd = exit_fd(process.pid)
        if self._exit_fd is not None:
            self._selector.register(self._exit_fd, selectors.EVENT_READ, "exit")
        if process.stdin is not None:
            os.set_blocking(process.stdin.fileno(), False)
            self._watch_input()

    def next_lines(self, until: float | None = None) -> list[bytes] | None:
        """The next whole lines, without their newlines; [] when `until` (monotonic) passed or it
        was only woken; None when the child is gone and all it said was handed over.

        A last line without newline is handed over as it is.
        """
        lines: list[bytes] = []
        while self._process is not None and self._alive_or_talking():
            for key, _ in self._selector.select(self._wait_time(until)):
                self._handle(key.data, lines)
            self._advance_stop()
            if lines or (until is not None and time.monotonic() >= until):
                return lines
            if self._stopping and self._step < 0:
                return lines
        if self._buffer:
            lines.append(bytes(self._buffer))
            self._buffer.clear()
            return lines
        self._reap()
        return None

    def write(self, data: bytes) -> None:
        """Queue bytes for the child's stdin; dropped when that is closed."""
        self._to_write += data
        self._watch_input()

    def close_input(self) -> None:
        """Close the child's stdin once everything queued was written."""
        self._close_input = True
        self._watch_input()

    def request_stop(self, *, now: bool = False) -> None:
        """Begin the runtime's own stop sequence; with `now`, kill at once."""
        self._stopping = True
        self._kill_now = self._kill_now or now
        with contextlib.suppress(OSError):
            os.write(self._wake_write, b"x")

    def close(self) -> None:
        """End the child and all it started, and free everything. Safe in any state."""
        if self._process is not None and self.exit is None:
            self._kill_all()
            self._reap()
        for stream in (
            (self._process.stdin, self._process.stdout, self._process.stderr)
            if self._process
            else ()
        ):
            if stream is not None:
                with contextlib.suppress(OSError):
                    stream.close()
        for fd in (self._wake_read, self._wake_write, self._exit_fd):
            if fd is not None and fd >= 0:
                with contextlib.suppress(OSError):
                    os.close(fd)
        self._wake_read = self._wake_write = -1
        self._exit_fd = None
        self._selector.close()

    # -- the loop's parts -----------------------------------------------------------------------

    def _alive_or_talking(self) -> bool:
        assert self._process is not None
        now = time.monotonic()
        if self._ended_at is None and self._process.poll() is not None:
            self._ended_at = now
        if not self._stdout_open and self._closed_at is None:
            self._closed_at = now
        if self._ended_at is not None:
            if not self._stdout_open:
                return False
            if now > self._ended_at + 2 * _DRAIN_GRACE:
                return False
            if now > self._ended_at + _DRAIN_GRACE and not self._group_killed:
                self._kill_all()
            return True
        if self._closed_at is not None and now > self._closed_at + _CLOSED_GRACE:
            self._stopping = True
        return True

    def _wait_time(self, until: float | None) -> float | None:
        now = time.monotonic()
        waits = [until - now] if until is not None else []
        if self._stopping and self._step >= 0:
            waits.append(self._step_until - now)
        if self._ended_at is not None:
            grace = _DRAIN_GRACE * (2 if self._group_killed else 1)
            waits.append(self._ended_at + grace - now)
        elif self._exit_fd is None:
            waits.append(_TICK)
        if self._closed_at is not None and self._ended_at is None:
            waits.append(self._closed_at + _CLOSED_GRACE - now)
        return max(0.0, min(waits)) + 0.001 if waits else None

    def _handle(self, source: str, lines: list[bytes]) -> None:
        if source == "stdout":
            self._read_stdout(lines)
        elif source == "stderr":
            self._read_stderr()
        elif source == "stdin":
            self._feed_input()
        elif source == "wake":
            with contextlib.suppress(BlockingIOError):
                os.read(self._wake_read, 64)
        elif source == "exit" and self._exit_fd is not None:
            self._selector.unregister(self._exit_fd)

    def _read_stdout(self, lines: list[bytes]) -> None:
        assert self._process is not None
        assert self._process.stdout is not None
        data = _read(self._process.stdout.fileno())
        if data is None:
            return
        if not data:
            self._selector.unregister(self._process.stdout)
            self._stdout_open = False
            return
        self._buffer += data
        end = self._buffer.rfind(b"\n", self._scanned)
        if end >= 0:
            lines.extend(bytes(self._buffer[:end]).split(b"\n"))
            del self._buffer[: end + 1]
            self._scanned = 0
        else:
            self._scanned = len(self._buffer)
        if len(self._buffer) > MAX_LINE:
            self.failure = ProtocolDrift(
                f"the agent printed a line of more than {MAX_LINE >> 20} MiB",
            )
            self._buffer.clear()
            self._stopping = True

    def _read_stderr(self) -> None:
        assert self._process is not None
        assert self._process.stderr is not None
        data = _read(self._process.stderr.fileno())
        if data is None:
            return
        if not data:
            self._selector.unregister(self._process.stderr)
            return
        self._stderr += data
        if len(self._stderr) > 2 * _TAIL:
            del self._stderr[:-_TAIL]

    def _watch_input(self) -> None:
        stream = self._process.stdin if self._process else None
        if stream is None or stream.closed:
            return
        if self._to_write:
            with contextlib.suppress(KeyError):
                self._selector.unregister(stream)
            self._selector.register(stream, selectors.EVENT_WRITE, "stdin")
        elif self._close_input:
            with contextlib.suppress(KeyError):
                self._selector.unregister(stream)
            stream.close()

    def _feed_input(self) -> None:
        assert self._process is not None
        stream = self._process.stdin
        assert stream is not None
        try:
            sent = os.write(stream.fileno(), memoryview(self._to_write)[:_CHUNK])
        except BlockingIOError:
            return
        except OSError:
            # The child closed its end: what it did not want to read is not an error of ours.
            self._to_write.clear()
            self._close_input = True
            self._watch_input()
            return
        del self._to_write[:sent]
        if not self._to_write:
            self._selector.unregister(stream)
            self._watch_input()

    # -- stopping -------------------------------------------------------------------------------

    def _advance_stop(self) -> None:
        if not self._stopping or self._ended_at is not None or self._process is None:
            return
        if self._kill_now:
            self._kill_all()
            return
        now = time.monotonic()
        if self._step >= 0 and now < self._step_until:
            return
        self._step += 1
        if self._step >= len(self.spec.stop):
            self._kill_all()
            self._step_until = now + _DRAIN_GRACE
            return
        step = self.spec.stop[self._step]
        send = send_group_signal if step.to == "group" else send_signal
        send(self._process.pid, step.signal)
        self._step_until = now + step.grace

    def _kill_all(self) -> None:
        assert self._process is not None
        self._group_killed = True
        send_group_signal(self._process.pid, signal.SIGKILL)
        kill_marked(self.spec.env.get(SESSION_MARK, ""))

    def _reap(self) -> None:
        """Learn the exit status and end whatever the child left behind."""
        if self.exit is not None or self._process is None:
            return
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(timeout=_CLOSED_GRACE)
        send_group_signal(self._process.pid, signal.SIGKILL)
        kill_marked(self.spec.env.get(SESSION_MARK, ""))
        self._read_rest_of_stderr()
        tail = self._redactor.text(self._stderr[-_TAIL:].decode(errors="replace"))
        self.exit = ProcessExit(code=self._process.returncode, stderr_tail=tail[-4096:])

    def _read_rest_of_stderr(self) -> None:
        assert self._process is not None
        stream = self._process.stderr
        if stream is None or stream.closed:
            return
        for _ in range(64):
            data = _read(stream.fileno())
            if not data:
                return
            self._stderr += data


def _read(fd: int) -> bytes | None:
    """What is there to read; empty at the end; None when there is nothing now."""
    try:
        return os.read(fd, _CHUNK)
    except BlockingIOError:
        return None
    except OSError:
        return b""


def _start_error(spec: ProcessSpec, problem: OSError) -> AgentError:
    program = spec.argv[0]
    if problem.errno in (errno.ENOENT, errno.EACCES, errno.ENOEXEC):
        return NotInstalled(f"cannot start {program}: {problem.strerror}")
    return Crashed(f"cannot start {program}: {problem.strerror}")
