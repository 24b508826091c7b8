"""A command at a terminal of its own: what a person would see, and what they would type."""

import os
import pty
import select
import signal
import subprocess
import termios
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType

LIMIT = 30.0


class Terminal:
    """Runs a command with a pseudo-terminal as its stdin, stdout and stderr.

    Use it in `with`; leaving ends the command.
    """

    def __init__(
        self,
        argv: Sequence[str],
        env: Mapping[str, str],
        cwd: Path,
        *,
        columns: int | None = None,
        echo: bool = False,
        limit: float = LIMIT,
    ) -> None:
        """`echo` shows what is typed, as a terminal does; `limit` bounds each waiting."""
        self._limit = limit
        self._master, slave = pty.openpty()
        if columns is not None:
            termios.tcsetwinsize(slave, (24, columns))
        if not echo:
            settings = termios.tcgetattr(slave)
            settings[3] &= ~termios.ECHO
            termios.tcsetattr(slave, termios.TCSANOW, settings)
        self.process = subprocess.Popen(
            argv,
            stdin=slave,
            stdout=slave,
            stderr=slave,
            env=env,
            cwd=cwd,
            start_new_session=True,
        )
        os.close(slave)
        self.screen = ""

    def __enter__(self) -> "Terminal":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        problem: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        os.close(self._master)

    def wait_for(self, text: str) -> None:
        """Read until `text` shows; fails past the deadline."""
        until = time.monotonic() + self._limit
        while text not in self.screen:
            assert self._read(until), f"{text!r} never showed:\n{self.screen}"

    def wait_for_count(self, text: str, count: int) -> bool:
        """Read until `text` shows `count` times, or the command ends; whether it does."""
        until = time.monotonic() + self._limit
        while self.screen.count(text) < count and self._read(until):
            pass
        return self.screen.count(text) >= count

    def type(self, text: str) -> None:
        """Type a text."""
        os.write(self._master, text.encode())

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to the command."""
        self.process.send_signal(number)

    def finish(self) -> int:
        """Read to the end; returns the exit status."""
        until = time.monotonic() + self._limit
        while self._read(until):
            pass
        return self.process.wait(timeout=self._limit)

    def _read(self, until: float) -> bool:
        ready, _, _ = select.select([self._master], [], [], max(0.0, until - time.monotonic()))
        if not ready:
            return False
        try:
            data = os.read(self._master, 65536)
        except OSError:
            return False
        self.screen += data.decode(errors="replace").replace("\r\n", "\n")
        return bool(data)
