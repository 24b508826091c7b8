"""What the command line writes: JSON lines, errors, and text that is safe for a terminal."""

import os
import sys
from typing import Any, TextIO

import msgspec

from bridle.core.errors import BridleError

_UNSAFE = {code: None for code in (*range(0x20), *range(0x7F, 0xA0)) if chr(code) not in "\n\t"}
"""Control characters: an agent's text must not move the cursor or write to the clipboard."""


READER_GONE = 130
"""Exit status of a command whose reader went away."""


def write_line(data: bytes) -> None:
    """Write one line to stdout and hand it over at once."""
    out = sys.stdout.buffer
    out.write(data + b"\n")
    out.flush()


def write_json(value: Any) -> None:
    """Write one value as one line of JSON."""
    write_line(msgspec.json.encode(value))


def end_with_reader() -> None:
    """End this process when nobody reads its stdout any more, also while it has nothing to write.

    For views that go on until something happens: `bridle … | head` must end with `head`.
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
    """An error as the JSON that commands print when they could not do their work."""
    return msgspec.json.encode({"error": problem.info()})


def say_error(problem: BridleError) -> None:
    """One line for the error, or one for each mistake in a file; one for the hint."""
    lines = problem.message.split("\n") if problem.exit_code == 2 else [problem.message]
    for line in lines:
        sys.stderr.write(f"bridle: error: {one_line(line)}\n")
    if problem.hint:
        sys.stderr.write(f"hint: {one_line(problem.hint)}\n")


def warn(text: str) -> None:
    """One line of warning."""
    sys.stderr.write(f"bridle: warning: {one_line(text)}\n")


def safe(text: str) -> str:
    """`text` without what a terminal would take for a command."""
    return text.translate(_UNSAFE)


def one_line(text: str, longest: int = 2000) -> str:
    """`text` as one line of bounded length, safe for a terminal."""
    line = " ".join(safe(text).split())
    return line if len(line) <= longest else line[: longest - 1] + "…"


def terminal_width(stream: TextIO) -> int:
    """Columns of the terminal behind a stream; 200 when there is none."""
    try:
        return max(20, os.get_terminal_size(stream.fileno()).columns or 80)
    except (OSError, ValueError):
        return 200


class Style:
    """Colours for one stream; none when it is not a terminal or the user wants none."""

    def __init__(self, stream: TextIO) -> None:
        plain = os.environ.get("NO_COLOR") or os.environ.get("TERM") in (None, "", "dumb")
        self._on = stream.isatty() and not plain

    def dim(self, text: str) -> str:
        """Text that may be overlooked."""
        return f"\x1b[2m{text}\x1b[22m" if self._on else text

    def red(self, text: str) -> str:
        """Text that says that something failed."""
        return f"\x1b[31m{text}\x1b[39m" if self._on else text
