"""Handing this terminal to an agent that a person drives, and taking it back as it was."""

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any

from bridle.process.process_tree import end_marked
from bridle.process.spec import SESSION_MARK, ProcessSpec
from bridle.process.starting import default_signals, start_error


def run_at_terminal(spec: ProcessSpec) -> int:
    """Run `spec` in the foreground of this terminal; returns its exit status, negative when a
    signal killed it.

    Contract: the agent shares our process group, so that Ctrl-C, Ctrl-Z and the terminal's size
    reach it as they would without us; we outlive Ctrl-C and pass SIGTERM and SIGHUP on. A signal
    that this process ignores still has its default effect on the agent. Afterwards
    the terminal is ours and in the mode it was in, and nothing the agent started is left. Raises
    an `AgentError` when it cannot be started. Call it from the main thread.
    """
    child: subprocess.Popen[bytes] | None = None
    early: list[int] = []

    def pass_on(number: int, frame: FrameType | None) -> None:
        if child is None:
            early.append(number)
        else:
            child.send_signal(number)

    def leave_it(number: int, frame: FrameType | None) -> None:
        """The agent got it too, from the terminal, and decides."""

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
                # It came while the child was being started, and belongs to it too.
                child.send_signal(number)
            return child.wait()
        finally:
            if child.returncode is None:
                child.kill()
                child.wait()
            end_marked(spec.env.get(SESSION_MARK, ""))


@contextlib.contextmanager
def _handled(numbers: tuple[int, ...], handler: Callable[..., Any]) -> Iterator[None]:
    """Our own handler for these signals, unless whoever started us wants them ignored."""
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
    """Put the terminal back into the mode it was in, and us into its foreground."""
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
        # An agent that made itself the terminal's foreground and died leaves us in the background,
        # where changing the terminal would stop us.
        old = signal.signal(signal.SIGTTOU, signal.SIG_IGN)
        try:
            if group == os.getpgrp():
                os.tcsetpgrp(fd, group)
            termios.tcsetattr(fd, termios.TCSADRAIN, before)
        except (OSError, termios.error):
            # The terminal itself is gone (it was closed): there is nothing to put back.
            pass
        finally:
            signal.signal(signal.SIGTTOU, old)
