"""Reading the lines of a wire, and keeping what could not be read."""

from collections.abc import Callable
from typing import Any, TypeVar

import msgspec

from bridle.turns.recorder import Recorder

T = TypeVar("T")

LONGEST_RAW = 4096
"""Characters that are kept of a line that is no JSON."""


def read_line(recorder: Recorder, line: bytes, decode: Callable[[bytes], T]) -> T | None:
    """The message in a line, named as the source of the events that follow; None for an empty line
    and for one that cannot be read, which is then kept as `unknown`."""
    if not line.strip():
        return None
    try:
        message = decode(line)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        recorder.unknown(raw_of(line))
        return None
    if recorder.options.include_raw:
        recorder.source(raw_of(line))
    return message


def raw_of(line: bytes) -> Any:
    """A line as JSON where it is, else as text, bounded."""
    try:
        return msgspec.json.decode(line)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return line[:LONGEST_RAW].decode(errors="replace")
