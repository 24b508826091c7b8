"""What the wires of several products share: reading a line, keeping what cannot be read, counts."""

from collections.abc import Callable
from typing import Any, TypeVar

import msgspec

from bridle.core.usage import Usage
from bridle.turns.recorder import Recorder

T = TypeVar("T")

LONGEST_RAW = 4096
"""Characters that are kept of a line that is not JSON."""


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
    """A line as JSON if it is JSON, otherwise as text, cut after `LONGEST_RAW` characters."""
    try:
        return msgspec.json.decode(line)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return line[:LONGEST_RAW].decode(errors="replace")


class InclusiveCounts(msgspec.Struct, frozen=True, rename="camel"):
    """Token counts as Copilot and Cline write them: `inputTokens` includes the cached tokens,
    `outputTokens` includes reasoning."""

    input_tokens: int | None = 0
    output_tokens: int | None = 0
    cache_read_tokens: int | None = 0
    cache_write_tokens: int | None = 0
    reasoning_tokens: int | None = 0

    def usage(self) -> Usage:
        """The same counts in Bridle's meaning."""
        read, write = self.cache_read_tokens or 0, self.cache_write_tokens or 0
        return Usage(
            # Never negative: a provider may count its cache separately after all.
            input_tokens=max(0, (self.input_tokens or 0) - read - write),
            output_tokens=self.output_tokens or 0,
            cache_read_tokens=read,
            cache_write_tokens=write,
            reasoning_tokens=self.reasoning_tokens or 0,
        )
