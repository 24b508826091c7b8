"""Starting a process without a gap in which it could be lost, and saying why one did not start."""

import errno
import os
import signal
import subprocess
from collections.abc import Callable
from types import FrameType, TracebackType

from bridle.core.errors import AgentError, Crashed, NotInstalled
from bridle.process.spec import ProcessSpec


class Uninterrupted:
    """Holds Ctrl-C back for a moment, so that no child is started or half ended unseen.

    Contract: the interrupt is delivered when the block is left; `on_interrupt` hears of it at once.
    Only the main thread gets interrupts, so elsewhere this does nothing. The child is not affected:
    a handler, unlike an ignored signal, is not inherited.
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
    program inherits that, and then no signal could interrupt it. None when this process ignores
    and blocks none of them: a child without `preexec_fn` starts faster.
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
        # A NUL or a character that the system cannot encode, in an argument or a variable.
        return Crashed(
            f"cannot start {program}: {problem}",
            hint="take the character out of the options or the environment",
        )
    why = problem.strerror or str(problem)
    if not os.path.isdir(spec.cwd):
        return Crashed(
            f"cannot start {program}: the working directory {spec.cwd} is gone",
            hint="give an existing folder",
        )
    if problem.errno == errno.E2BIG:
        return Crashed(
            f"cannot start {program}: its arguments and environment are too long for this system",
            hint="give long texts by file instead of as an option",
        )
    if problem.errno == errno.ENOENT and os.path.exists(program):
        return NotInstalled(
            f"cannot start {program}: its interpreter is missing",
            hint="look at the first line of that file, and install what it names",
        )
    if problem.errno in (errno.ENOENT, errno.EACCES, errno.ENOEXEC, errno.ENOTDIR):
        return NotInstalled(
            f"cannot start {program}: {why}", hint="install it, or check that it can be executed"
        )
    return Crashed(f"cannot start {program}: {why}")


_left_running: "list[subprocess.Popen[bytes]]" = []


def leave_running(child: "subprocess.Popen[bytes]") -> None:
    """Let a child outlive this process; while both live, it is reaped when it has ended."""
    reap()
    _left_running.append(child)


def reap() -> None:
    """Take the exit status of children that were left running and have ended."""
    _left_running[:] = [child for child in _left_running if child.poll() is None]
