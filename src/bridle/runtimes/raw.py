"""Keeping what an adapter could not read."""

from typing import Any

import msgspec

LONGEST_RAW = 4096
"""Characters that are kept of a line that is no JSON."""


def raw_of(line: bytes) -> Any:
    """A line as JSON where it is, else as text, bounded."""
    try:
        return msgspec.json.decode(line)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return line[:LONGEST_RAW].decode(errors="replace")
