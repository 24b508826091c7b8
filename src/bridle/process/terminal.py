"""Gives this terminal to an agent that a person uses, and restores it afterwards."""

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any

from bridle.process.launch import default_signals, start_error
from bridle.process.process_tree import end_marked
from bridle.process.spec import SESSION_MARK, ProcessSpec


def run_at_terminal(spec: ProcessSpec) -> int:
    """Run `spec` in the foreground of this terminal; returns its exit status, negative if a signal
    killed it.

    Contract: the agent shares this process group, so that Ctrl-C, Ctrl-Z and changes of the
    terminal's size reach it directly. Bridle survives Ctrl-C and passes SIGTERM and SIGHUP on. A
    signal that this process ignores still has its default effect on the agent. Afterwards Bridle is
    in the foreground, the terminal is in its old mode, and no process of the agent is left. Raises
    an `AgentError` if the agent cannot be started. Call it from the main thread.
    """
    child: subprocess.Popen[bytes] | None = None
    early: list[int] = []

    def pass_on(number: int, frame: FrameType | None) -> None:
        if child is None:
            early.append(number)
        else:
            child.send_signal(number)

    def leave_it(number: int, frame: FrameType | None) -> None:
        """Ignore it: the terminal also sent it to the agent, which decides."""

    with (
        _terminal_kept(),
        _handled((signal.SIGINT, signal.SIGQUIT), leave_it),
        _handled((signal.SIGTERM, signal.SIGHUP), pass_on),
    ):
        try:
            child = subprocess.Popen(
                spec.argv, cwd=spec.cwd, env=spec.env, preexec_fn=default_signals()
            )
        except (OSError, ValueError) as problem:
            raise start_error(spec, problem) from None
        try:
            for number in early:
                # It came during the start of the child, which must get it too.
                child.send_signal(number)
            return child.wait()
        finally:
            if child.returncode is None:
                child.kill()
                child.wait()
            end_marked(spec.env.get(SESSION_MARK, ""))


@contextlib.contextmanager
def _handled(numbers: tuple[int, ...], handler: Callable[..., Any]) -> Iterator[None]:
    """Install `handler` for these signals, except those that this process ignores."""
    old = {number: signal.getsignal(number) for number in numbers}
    mine = [number for number, was in old.items() if was not in (None, signal.SIG_IGN)]
    try:
        for number in mine:
            signal.signal(number, handler)
        yield
    finally:
        for number in mine:
            signal.signal(number, old[number])


@contextlib.contextmanager
def _terminal_kept() -> Iterator[None]:
    """Restore the terminal's mode, and put this process back into the foreground."""
    import termios

    try:
        fd = sys.__stdin__.fileno() if sys.__stdin__ is not None else -1
        before = termios.tcgetattr(fd)
        group = os.tcgetpgrp(fd)
    except (OSError, ValueError, termios.error):
        yield
        return
    try:
        yield
    finally:
        # An agent that took the foreground and died leaves this process in the background, where a
        # change of the terminal would stop it.
        old = signal.signal(signal.SIGTTOU, signal.SIG_IGN)
        try:
            if group == os.getpgrp():
                os.tcsetpgrp(fd, group)
            termios.tcsetattr(fd, termios.TCSADRAIN, before)
        except (OSError, termios.error):
            # The terminal was closed: there is nothing to restore.
            pass
        finally:
            signal.signal(signal.SIGTTOU, old)
