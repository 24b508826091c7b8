"""Holds a process that ends with Bridle: pipes, one loop, no leftover processes.

One selector watches stdout, stderr, stdin, the end of the process and a wake-up pipe. So no thread
is needed, nothing blocks while the agent waits for something else, and a caller that stops reading
slows the agent down instead of filling memory.
"""

import atexit
import contextlib
import os
import selectors
import signal
import subprocess
import threading
import time
from collections import deque

from bridle.core.errors import STDERR_TAIL, AgentError, ProtocolDrift
from bridle.core.redaction import Redactor
from bridle.process.launch import Uninterrupted, default_signals, start_error
from bridle.process.process_tree import (
    Process,
    descendants,
    end_marked,
    exit_fd,
    has_ended,
    look,
    send_group_signal,
    send_signal,
)
from bridle.process.spec import MAX_LINE, SESSION_MARK, ProcessExit, ProcessSpec

_CHUNK = 1 << 16
_TAIL = 1 << 16
"""Bytes of stderr that are kept."""
_ERROR_LINE = 1 << 14
"""Longest line of stderr that is passed on in full."""
_DRAIN_GRACE = 1.0
"""Seconds that output may still arrive after the process has ended (a child holds the pipe)."""
_DRAIN_MOST = 1 << 22
"""Bytes read after the leftover processes have ended: more than any pipe contains."""
_CLOSED_GRACE = 5.0
"""Seconds that a process may keep running after it closed its stdout."""
_KILL_GRACE = 5.0
"""Seconds to wait for a killed process; then Bridle gives up."""
_FAREWELL = 1.5
"""Seconds between SIGTERM and SIGKILL for leftover processes."""
_TICK = 0.1
"""Longest sleep if the system cannot signal the end of a process."""


class AttachedProcess:
    """A child in its own session and process group, read line by line.

    Contract: `start` once; then `next_lines` until it returns None; then `exit` says how it ended.
    `request_stop` may be called at any time and repeatedly, from any thread or a signal handler.
    `close` ends the child in any state, may be called repeatedly, and must be called at the end (at
    the latest it is called when the program ends). One thread reads, writes and closes.
    """

    def __init__(self, spec: ProcessSpec, redactor: Redactor | None = None) -> None:
        self.spec = spec
        self.exit: ProcessExit | None = None
        self.failure: AgentError | None = None
        """Why reading ended early, when it did."""
        self._redactor = redactor or Redactor()
        self._owner = os.getpid()
        self._process: subprocess.Popen[bytes] | None = None
        self._selector: selectors.BaseSelector | None = None
        self._wake_read = self._wake_write = -1
        self._wake_lock = threading.RLock()
        self._exit_fd: int | None = None
        self._buffer = bytearray()
        self._stderr = bytearray()
        self._error_line = bytearray()
        self._error_lines: list[bytes] = []
        self._to_write: deque[memoryview] = deque()
        self._close_input = not spec.keep_stdin
        self._stdout_open = False
        self._stopping = False
        self._kill_now = False
        self._step = -1
        self._step_until = 0.0
        self._ended_at: float | None = None
        self._closed_at: float | None = None
        self._seen: dict[int, Process] = {}
        self._first: Process | None = None
        if spec.stdin:
            self._to_write.append(memoryview(spec.stdin))

    @property
    def pid(self) -> int | None:
        """The child's process id, also its process group's; None before the start."""
        return self._process.pid if self._process else None

    def start(self) -> None:
        """Start the child; raises an `AgentError` if that fails."""
        with Uninterrupted():
            try:
                self._start()
            except BaseException as problem:
                self.close()
                if isinstance(problem, OSError | ValueError):
                    raise start_error(self.spec, problem) from None
                raise

    def _start(self) -> None:
        spec = self.spec
        piped = spec.stdin is not None or spec.keep_stdin
        self._selector = selector = selectors.DefaultSelector()
        self._wake_read, self._wake_write = os.pipe()
        os.set_blocking(self._wake_read, False)
        os.set_blocking(self._wake_write, False)
        selector.register(self._wake_read, selectors.EVENT_READ, "wake")
        self._process = process = subprocess.Popen(
            spec.argv,
            stdin=subprocess.PIPE if piped else subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=spec.cwd,
            env=spec.env,
            start_new_session=True,
            preexec_fn=default_signals(),
            bufsize=0,
        )
        _living.add(self)
        self._first = look(process.pid)
        for stream, name in ((process.stdout, "stdout"), (process.stderr, "stderr")):
            assert stream is not None
            os.set_blocking(stream.fileno(), False)
            selector.register(stream, selectors.EVENT_READ, name)
        self._stdout_open = True
        self._exit_fd = exit_fd(process.pid)
        if self._exit_fd is not None:
            selector.register(self._exit_fd, selectors.EVENT_READ, "exit")
        if process.stdin is not None:
            os.set_blocking(process.stdin.fileno(), False)
            self._watch_input()

    def next_lines(self, until: float | None = None) -> list[bytes] | None:
        """The next complete lines, without their newlines. None when the child has ended and all
        its output was returned; [] when `until` (monotonic) passed, on a wake-up, or if only
        watched stderr has new lines.

        A last line without a newline is returned too.
        """
        lines: list[bytes] = []
        while not self._over():
            woken = self._work(lines, until)
            if lines or woken or self._error_lines:
                return lines
            if until is not None and time.monotonic() >= until:
                return lines
        if self._stdout_open:
            self._end_leftovers()
            self._drain_stdout(lines)
        if self._buffer:
            lines.append(bytes(self._buffer))
            self._buffer.clear()
        if lines:
            return lines
        self._reap()
        return None

    def take_stderr(self) -> list[bytes]:
        """The lines of stderr since the last call, if the spec says to watch it."""
        lines, self._error_lines = self._error_lines, []
        if self.exit is not None and self._error_line:
            lines.append(bytes(self._error_line))
            self._error_line.clear()
        return lines

    def write(self, data: bytes) -> None:
        """Queue bytes for the child's stdin; dropped if it is closed."""
        if data:
            self._to_write.append(memoryview(data))
            self._watch_input()

    def close_input(self) -> None:
        """Close the child's stdin after everything queued is written."""
        self._close_input = True
        self._watch_input()

    def request_stop(self, *, now: bool = False) -> None:
        """Begin the runtime's stop sequence; with `now`, kill at once."""
        self._stopping = True
        self._kill_now = self._kill_now or now
        with self._wake_lock:
            if self._wake_write >= 0:
                # A full pipe wakes just as well.
                with contextlib.suppress(BlockingIOError):
                    os.write(self._wake_write, b"x")

    def close(self) -> None:
        """End the child and all its processes, and free everything. Safe in any state.

        A running child gets its stop sequence, whose length bounds the time this takes; an
        interrupt meanwhile skips to the kill.
        """
        with Uninterrupted(on_interrupt=self._kill_at_once):
            try:
                if self._process is not None and self.exit is None and self._owner == os.getpid():
                    self._run_down()
            finally:
                self._free()

    # -- the loop -------------------------------------------------------------------------------

    def _over(self) -> bool:
        """Whether there is nothing left to wait for."""
        if self._process is None or self._selector is None or self.exit is not None:
            return True
        if self._ended_at is None and self._exit_fd is None:
            self._look_for_end()
        if self._ended_at is None:
            return False
        return not self._stdout_open or time.monotonic() > self._ended_at + _DRAIN_GRACE

    def _look_for_end(self) -> None:
        assert self._process is not None
        ended = has_ended(self._process.pid)
        if ended is None:
            ended = self._process.poll() is not None
        if ended:
            self._ended_at = time.monotonic()

    def _work(self, lines: list[bytes], until: float | None) -> bool:
        """Wait for something and handle it; True if it was a wake-up."""
        assert self._selector is not None
        woken = False
        for key, _ in self._selector.select(self._wait_time(until)):
            if key.data == "stdout":
                self._read_stdout(lines)
            elif key.data == "stderr":
                self._read_stderr()
            elif key.data == "stdin":
                self._feed_input()
            elif key.data == "exit":
                self._selector.unregister(key.fileobj)
                self._ended_at = time.monotonic()
            else:
                woken = True
                with contextlib.suppress(BlockingIOError):
                    os.read(self._wake_read, 64)
        if self._closed_at is not None and time.monotonic() > self._closed_at + _CLOSED_GRACE:
            self._stopping = True
        if self._stopping and self._ended_at is None:
            self._advance_stop()
        return woken

    def _wait_time(self, until: float | None) -> float | None:
        now = time.monotonic()
        waits = [until - now] if until is not None else []
        if self._ended_at is not None:
            waits.append(self._ended_at + _DRAIN_GRACE - now)
        elif self._stopping:
            waits.append(self._step_until - now)
        elif self._closed_at is not None:
            waits.append(self._closed_at + _CLOSED_GRACE - now)
        if self._ended_at is None and self._exit_fd is None:
            waits.append(_TICK)
        return max(0.0, min(waits)) + 0.001 if waits else None

    def _read_stdout(self, lines: list[bytes]) -> int:
        """Read what is available; returns the number of bytes."""
        assert self._process is not None
        assert self._process.stdout is not None
        assert self._selector is not None
        data = _read(self._process.stdout.fileno())
        if data is None:
            return 0
        if not data:
            self._selector.unregister(self._process.stdout)
            self._stdout_open = False
            if self._ended_at is None:
                self._closed_at = time.monotonic()
            return 0
        if self.failure is None:
            self._split(data, lines)
        return len(data)

    def _split(self, data: bytes, lines: list[bytes]) -> None:
        """Split only at newlines: the wire handles all other characters."""
        first, newline, rest = data.partition(b"\n")
        if len(self._buffer) + len(first) > MAX_LINE:
            self.failure = ProtocolDrift(
                f"the agent printed a line of more than {MAX_LINE >> 20} MiB"
            )
            self._buffer = bytearray()
            self._stopping = True
            return
        self._buffer += first
        if not newline:
            return
        lines.append(bytes(self._buffer))
        self._buffer.clear()
        if rest:
            more = rest.split(b"\n")
            self._buffer += more.pop()
            lines += more

    def _drain_stdout(self, lines: list[bytes]) -> None:
        """Read the rest of the pipe when no process of the agent can write to it."""
        taken = 0
        while self._stdout_open and taken < _DRAIN_MOST:
            size = self._read_stdout(lines)
            if not size:
                break
            taken += size
        self._stdout_open = False

    def _read_stderr(self) -> bool:
        """Read what is available; False if there is nothing more."""
        assert self._process is not None
        assert self._process.stderr is not None
        assert self._selector is not None
        data = _read(self._process.stderr.fileno())
        if not data:
            if data is not None:
                with contextlib.suppress(KeyError):
                    self._selector.unregister(self._process.stderr)
            return False
        self._stderr += data
        if len(self._stderr) > 4 * _TAIL:
            del self._stderr[:-_TAIL]
        if self.spec.watch_stderr:
            self._error_line += data
            *whole, rest = self._error_line.split(b"\n")
            self._error_lines += [bytes(line[:_ERROR_LINE]) for line in whole]
            self._error_line = rest[:_ERROR_LINE]
        return True

    def _watch_input(self) -> None:
        stream = self._process.stdin if self._process else None
        if stream is None or stream.closed or self._selector is None:
            self._to_write.clear()
            return
        watched = stream in self._selector.get_map()
        if self._to_write and not watched:
            self._selector.register(stream, selectors.EVENT_WRITE, "stdin")
        elif not self._to_write:
            if watched:
                self._selector.unregister(stream)
            if self._close_input:
                stream.close()

    def _feed_input(self) -> None:
        assert self._process is not None
        stream = self._process.stdin
        assert stream is not None
        try:
            sent = os.write(stream.fileno(), self._to_write[0][:_CHUNK])
        except BlockingIOError:
            return
        except OSError:
            # The child closed its stdin: input that it does not read is not an error.
            self._drop_input()
            return
        rest = self._to_write[0][sent:]
        if rest:
            self._to_write[0] = rest
        else:
            self._to_write.popleft()
            self._watch_input()

    def _drop_input(self) -> None:
        self._to_write.clear()
        self._close_input = True
        self._watch_input()

    # -- stopping -------------------------------------------------------------------------------

    def _advance_stop(self) -> None:
        """Take the next step of the stop sequence when the previous one had its time."""
        assert self._process is not None
        now = time.monotonic()
        steps = self.spec.stop
        if self._kill_now and self._step < len(steps):
            self._step = len(steps)
            self._remember_family()
            self._kill_group()
            return
        if self._step >= 0 and now < self._step_until:
            return
        self._step += 1
        if self._step > len(steps):
            # Even SIGKILL did not end it: the kernel holds it. Give up.
            self._ended_at = now - _DRAIN_GRACE
            return
        self._remember_family()
        if self._step == len(steps) or steps[self._step].signal == signal.SIGKILL:
            # The agent's children get SIGTERM before the group gets SIGKILL.
            self._end_marked(spare=self._process.pid, deadline=1.0)
        if self._step == len(steps):
            self._kill_group()
            return
        step = steps[self._step]
        send = send_group_signal if step.to == "group" else send_signal
        send(self._process.pid, step.signal)
        self._step_until = time.monotonic() + step.grace
        if self._step == 0:
            self._drop_input()

    def _kill_group(self) -> None:
        assert self._process is not None
        send_group_signal(self._process.pid, signal.SIGKILL)
        self._step_until = time.monotonic() + _KILL_GRACE

    def _kill_at_once(self) -> None:
        self.request_stop(now=True)

    @property
    def _mark(self) -> str:
        return self.spec.env.get(SESSION_MARK, "")

    def _remember_family(self) -> None:
        """Record the agent's descendants while they can be found: a process that cleared its
        environment cannot be found in another way once its parents are dead."""
        assert self._process is not None
        for process in descendants(self._process.pid):
            self._seen[process.pid] = process

    def _end_leftovers(self) -> None:
        """End the leftover processes of the child. If the system allows it, the child is not reaped
        before, so that its process group id cannot be reused."""
        assert self._process is not None
        self._end_marked(spare=0, deadline=_KILL_GRACE)
        send_group_signal(self._process.pid, signal.SIGKILL)

    def _end_marked(self, *, spare: int, deadline: float) -> None:
        end_marked(
            self._mark,
            also=self._seen.values(),
            spare=spare,
            grace=0.0 if self._kill_now else _FAREWELL,
            deadline=deadline,
            first=self._first,
        )

    def _run_down(self) -> None:
        """End a child in any state; its remaining output is discarded."""
        try:
            self._stopping = True
            while not self._over():
                self._work([], None)
                self._buffer.clear()
        except BaseException:
            if self._process is not None and self._process.returncode is None:
                self._kill_group()
            raise
        finally:
            self._reap()

    def _reap(self) -> None:
        """End leftover processes, then collect the child's exit status."""
        if self.exit is not None or self._process is None:
            return
        self._end_leftovers()
        code: int | None = None
        with contextlib.suppress(subprocess.TimeoutExpired):
            code = self._process.wait(timeout=_KILL_GRACE)
        for _ in range(_DRAIN_MOST // _CHUNK):
            if not self._read_stderr():
                break
        tail = self._redactor.text(self._stderr[-_TAIL:].decode(errors="replace"))
        self.exit = ProcessExit(code=code, stderr_tail=tail[-STDERR_TAIL:])

    def _free(self) -> None:
        _living.discard(self)
        process = self._process
        for stream in (process.stdin, process.stdout, process.stderr) if process else ():
            if stream is not None:
                with contextlib.suppress(OSError):
                    stream.close()
        self._to_write.clear()
        self._buffer.clear()
        if self._selector is not None:
            self._selector.close()
            self._selector = None
        with self._wake_lock:
            ends, self._wake_read, self._wake_write = (self._wake_read, self._wake_write), -1, -1
            for fd in (*ends, self._exit_fd):
                if fd is not None and fd >= 0:
                    os.close(fd)
            self._exit_fd = None


_living: set[AttachedProcess] = set()


@atexit.register
def _close_all() -> None:
    """End the agents that the program did not close."""
    for process in list(_living):
        process.close()


def _read(fd: int) -> bytes | None:
    """The available bytes; empty at the end of the stream; None if there are none now."""
    try:
        return os.read(fd, _CHUNK)
    except BlockingIOError:
        return None
    except OSError:
        return b""
