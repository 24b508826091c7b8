"""Lines of an agent's output that no wire module knows."""

from typing import Any

import msgspec

from bridle.drives.recorder import Recorder

_RAW_LIMIT = 2000
"""Characters that are kept of a line nobody can read."""


def record_unknown(recorder: Recorder, line: bytes) -> None:
    """Keep a line as an `unknown` event: its data where it is JSON, else the beginning of it."""
    raw: Any
    try:
        raw = msgspec.json.decode(line)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        raw = line[:_RAW_LIMIT].decode(errors="replace")
    recorder.unknown(raw)
