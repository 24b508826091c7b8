"""Launching a process: no moment in which it could be lost, default signals, typed errors."""

import contextlib
import errno
import os
import signal
import subprocess
from collections.abc import Callable
from types import FrameType, TracebackType

from bridle.core.errors import AgentError, Crashed, NotInstalled
from bridle.process.spec import ProcessSpec


class Uninterrupted:
    """Delays Ctrl-C during a block, so that no child is started or half ended unnoticed.

    Contract: the interrupt is delivered at the end of the block; `on_interrupt` is called at once.
    Only the main thread gets interrupts, so in other threads this has no effect. The child is not
    affected: a handler, unlike an ignored signal, is not inherited.
    """

    def __init__(self, on_interrupt: Callable[[], None] | None = None) -> None:
        self._on_interrupt = on_interrupt
        self._old: Callable[[int, FrameType | None], object] | int | None = None
        self._caught = False

    def __enter__(self) -> None:
        old = signal.getsignal(signal.SIGINT)
        if old is None or old == signal.SIG_IGN:
            return
        try:
            signal.signal(signal.SIGINT, self._catch)
        except ValueError:
            return
        self._old = old

    def __exit__(
        self,
        kind: type[BaseException] | None,
        problem: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._old is None:
            return
        signal.signal(signal.SIGINT, self._old)
        if self._caught:
            signal.raise_signal(signal.SIGINT)

    def _catch(self, number: int, frame: FrameType | None) -> None:
        self._caught = True
        if self._on_interrupt is not None:
            self._on_interrupt()


_DEFAULT_IN_AGENTS = (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM)
"""Signals that end or interrupt an agent. `subprocess` resets SIGPIPE by itself."""


def default_signals() -> Callable[[], None] | None:
    """The `preexec_fn` that gives a child default handling of these signals.

    A shell starts background jobs with SIGINT and SIGQUIT ignored, and `nohup` ignores SIGHUP. A
    program inherits that, and then no signal could interrupt it. None if this process ignores and
    blocks none of them: a child without `preexec_fn` starts faster.
    """
    blocked = signal.pthread_sigmask(signal.SIG_BLOCK, ())
    if blocked.isdisjoint(_DEFAULT_IN_AGENTS) and all(
        signal.getsignal(number) != signal.SIG_IGN for number in _DEFAULT_IN_AGENTS
    ):
        return None
    return _reset_signals


def _reset_signals() -> None:
    # Runs between fork and exec, where other threads no longer exist: it must take no lock.
    for number in _DEFAULT_IN_AGENTS:
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _DEFAULT_IN_AGENTS)


def start_error(spec: ProcessSpec, problem: OSError | ValueError) -> AgentError:
    """The typed error for a process that could not be started."""
    program = spec.argv[0] if spec.argv else "nothing"
    if not isinstance(problem, OSError):
        # An argument or a variable contains a NUL or a character that cannot be encoded.
        return Crashed(
            f"cannot start {program}: {problem}",
            hint="remove the character from the options or the environment",
        )
    why = problem.strerror or str(problem)
    if not os.path.isdir(spec.cwd):
        return Crashed(
            f"cannot start {program}: the working directory {spec.cwd} does not exist",
            hint="give an existing folder",
        )
    if problem.errno == errno.E2BIG:
        return Crashed(
            f"cannot start {program}: its arguments and environment are too long for this system",
            hint="pass long texts in files instead of options",
        )
    if problem.errno == errno.ENOENT and os.path.exists(program):
        return NotInstalled(
            f"cannot start {program}: its interpreter is missing",
            hint="install the program that the first line of that file names",
        )
    if problem.errno in (errno.ENOENT, errno.EACCES, errno.ENOEXEC, errno.ENOTDIR):
        return NotInstalled(
            f"cannot start {program}: {why}", hint="install it, or check that it can be executed"
        )
    return Crashed(f"cannot start {program}: {why}")


_left_running: "list[subprocess.Popen[bytes]]" = []


def leave_running(child: "subprocess.Popen[bytes]") -> None:
    """Let a child outlive this process; if it ends before, it is reaped."""
    reap()
    _left_running.append(child)


def reap() -> None:
    """Collect the exit status of such children that have ended."""
    # Removed one by one: another thread may add a child meanwhile, and a new list would drop it.
    for child in _left_running.copy():
        if child.poll() is not None:
            with contextlib.suppress(ValueError):
                _left_running.remove(child)
