"""A spinner on stderr while an agent starts."""

import sys
import threading
import time

from bridle.cli.output import is_dumb

_FRAMES = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
_ASCII_FRAMES = "|/-\\"
_DELAY = 0.4
"""Seconds before anything is drawn: an agent that starts at once needs no spinner."""
_STEP = 0.12


class Spinner:
    """One line on stderr with a spinner and a count of seconds, removed at the end.

    Contract: call `start` and `stop` from one thread, any number of times. Nothing is drawn unless
    `shown` is true and stderr is a terminal. After `stop` the line is empty and the cursor at its
    start. A terminal that cannot move its cursor (`TERM=dumb`) gets one plain line instead.
    """

    def __init__(self, text: str, *, shown: bool = True) -> None:
        self._text = text
        self._shown = shown and sys.stderr is not None and sys.stderr.isatty()
        self._over = threading.Event()
        self._thread: threading.Thread | None = None

    def __enter__(self) -> "Spinner":
        self.start()
        return self

    def __exit__(self, *problem: object) -> None:
        self.stop()

    def start(self) -> None:
        """Draw from now on."""
        if self._shown and self._thread is None:
            self._over.clear()
            self._thread = threading.Thread(target=self._draw, daemon=True)
            self._thread.start()

    def stop(self) -> None:
        """Remove the line; it is gone when this returns."""
        if self._thread is not None:
            self._over.set()
            self._thread.join()
            self._thread = None

    def _draw(self) -> None:
        begin = time.monotonic()
        if self._over.wait(_DELAY):
            return
        if is_dumb():
            sys.stderr.write(f"{self._text}\n")
            sys.stderr.flush()
            return
        width = 0
        frames = _FRAMES if "utf" in (sys.stderr.encoding or "").lower() else _ASCII_FRAMES
        number = 0
        while True:
            seconds = time.monotonic() - begin
            line = f"{frames[number % len(frames)]} {self._text} ({seconds:.0f} s)"
            sys.stderr.write("\r" + line.ljust(width))
            sys.stderr.flush()
            width, number = max(width, len(line)), number + 1
            if self._over.wait(_STEP):
                break
        sys.stderr.write("\r" + " " * width + "\r")
        sys.stderr.flush()
