"""Output of the command line: JSON lines, errors, and text that is safe for a terminal."""

import os
import sys
from typing import Any, TextIO

import msgspec

from bridle.core.errors import BridleError

_UNSAFE = {code: None for code in (*range(0x20), *range(0x7F, 0xA0)) if chr(code) not in "\n\t"}
"""Control characters: an agent's text must not move the cursor or write to the clipboard."""


READER_GONE = 130
"""Exit status of a command whose stdout was closed by its reader."""


def write_line(data: bytes) -> None:
    """Write one line to stdout and flush it."""
    out = sys.stdout.buffer
    out.write(data + b"\n")
    out.flush()


def write_json(value: Any) -> None:
    """Write one value as one line of JSON."""
    out = sys.stdout.buffer
    out.write(msgspec.json.encode(value) + b"\n")
    out.flush()


def end_with_reader() -> None:
    """End this process when its stdout no longer has a reader, even while it writes nothing.

    For views that wait for events: `bridle … | head` must end with `head`.
    """
    import select
    import threading

    gone = select.poll()
    try:
        gone.register(sys.stdout.fileno(), 0)
    except (OSError, ValueError):
        return

    def watch() -> None:
        while not gone.poll():
            pass
        os._exit(READER_GONE)

    threading.Thread(target=watch, daemon=True).start()


def error_object(problem: BridleError) -> bytes:
    """An error as the JSON that failed commands print."""
    return msgspec.json.encode({"error": problem.info()})


def say_error(problem: BridleError) -> None:
    """Print the error on one line, or one line for each mistake in a file; then the hint."""
    lines = problem.message.split("\n") if problem.exit_code == 2 else [problem.message]
    for line in lines:
        sys.stderr.write(f"bridle: error: {one_line(line)}\n")
    if problem.hint:
        sys.stderr.write(f"hint: {one_line(problem.hint)}\n")


def warn(text: str) -> None:
    """Print a warning on one line."""
    sys.stderr.write(f"bridle: warning: {one_line(text)}\n")


def safe(text: str) -> str:
    """`text` without the control characters that a terminal would obey."""
    return text.translate(_UNSAFE)


def one_line(text: str, longest: int = 2000) -> str:
    """`text` as one line of bounded length, safe for a terminal."""
    line = " ".join(safe(text).split())
    return line if len(line) <= longest else line[: longest - 1] + "…"


def terminal_width(stream: TextIO) -> int:
    """Columns of a stream's terminal; 200 when it is not a terminal."""
    try:
        return max(20, os.get_terminal_size(stream.fileno()).columns or 80)
    except (OSError, ValueError):
        return 200


def is_dumb() -> bool:
    """Whether the user's terminal has no colours and cannot move its cursor."""
    return os.environ.get("TERM") in (None, "", "dumb")


class Style:
    """Colours for one stream; off when it is not a terminal or the user disabled them."""

    def __init__(self, stream: TextIO) -> None:
        self._on = stream.isatty() and not os.environ.get("NO_COLOR") and not is_dumb()

    def dim(self, text: str) -> str:
        """Secondary text."""
        return f"\x1b[2m{text}\x1b[22m" if self._on else text

    def red(self, text: str) -> str:
        """Text about a failure."""
        return f"\x1b[31m{text}\x1b[39m" if self._on else text
