"""The contract of a product's usage reader, and what readers share.

A reader knows where a product keeps its session files and what they say was used, model request by
model request. It is `READER` in the module `usage` beside the adapter, which imports nothing of the
adapter: a report over all products loads no adapter. Readers write nothing.

A request has an id that is the same in every file that contains it, so that a copy (a fork, a
repeated line) counts once. What a file copied from another is `inherited`: it counts for the other
file if that exists.
"""

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple, Protocol

import msgspec

BLOCK = 1 << 17
LONGEST_LINE = 64 << 20
"""Bytes; a longer line is left out with a note."""
CUT = "the last line is cut off"
_CHECKED = 64
"""Bytes before the end of what was read that must be unchanged when a file has grown."""


class Request(msgspec.Struct, array_like=True, gc=False, omit_defaults=True):
    """One request to a model. The counts have the meaning of `core.usage.Usage`."""

    id: str
    """The same in every file that contains the request; empty if it can be in one file only."""
    at: float = 0.0
    """Seconds since 1970; 0 if unknown."""
    model: str = ""
    input_tokens: int = 0
    output_tokens: int = 0
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0
    reasoning_tokens: int = 0
    cache_write_1h_tokens: int = 0
    """The part of `cache_write_tokens` that the cache keeps for an hour."""
    cost_usd: float | None = None
    """What the product says that it cost; None if it says nothing, or says 0 for lack of a
    price."""
    inherited: bool = False
    """Whether the file copied it from another."""


class Part(msgspec.Struct, array_like=True, omit_defaults=True):
    """Requests of one session, or of one sub-agent of it."""

    session: str
    """The product's own id of the session; a sub-agent's requests belong to its root session."""
    project: str = ""
    """The folder in which it worked."""
    agent: str = ""
    """The sub-agent's name or id; empty for the session itself."""
    parent: str = ""
    """The session that it was forked from."""
    requests: list[Request] = []


class Tail(msgspec.Struct, array_like=True):
    """Where a file was read to, and what a reader must know to continue there."""

    offset: int
    check: bytes
    """The last bytes before `offset`."""
    state: bytes = b""
    """The reader's own."""


class Reading(msgspec.Struct, array_like=True):
    """What a file, or the part of it after a tail, says."""

    parts: list[Part]
    tail: Tail | None = None
    """None: a changed file must be read again from its beginning."""
    notes: tuple[str, ...] = ()
    """What was left out."""
    loose: int = 0
    """How many requests at the end of the last part come from a line that has not ended. They are
    read again with the rest of it."""


class Place(NamedTuple):
    """Files of one product: `pattern` is relative to `root`, and `*` stands for any text within one
    name. A file is changed if it or one of its companions (its path with a suffix) is."""

    root: str
    pattern: str
    companions: tuple[str, ...] = ()


class UsageReader(Protocol):
    """Reads what the session files of one product say was used."""

    version: int
    """Changes when the reader finds something else in the same file."""

    def places(self, env: Mapping[str, str]) -> Sequence[Place]:
        """Where the product keeps its session files under `env`."""

    def depends(self, env: Mapping[str, str]) -> Sequence[str]:
        """Files that decide `places`, such as settings."""

    def read(self, path: str, tail: Tail | None) -> Reading:
        """What `path` says after `tail`, or all of it. Raises `OSError` if it cannot be read, and
        `NotUsage` if it is something else. Broken lines are skipped, with a note."""


class NotUsage(Exception):
    """The file is not what its name promises; the text says what it is."""


def reader_of(target: str) -> UsageReader | None:
    """The usage reader beside the adapter at `target` (`module:attribute`); None without one."""
    from importlib import import_module
    from importlib.util import find_spec

    package = target.partition(":")[0]
    try:
        # Looked for first: to import a module that is no package would load the adapter.
        places = (found := find_spec(package)) and found.submodule_search_locations
        if not any(os.path.exists(os.path.join(place, "usage.py")) for place in places or ()):
            return None
        reader: UsageReader = import_module(f"{package}.usage").READER
    except (ImportError, AttributeError):
        return None
    return reader


def tail_fits(path: str, tail: Tail) -> bool:
    """Whether `path` still begins with what was read up to `tail`."""
    try:
        with open(path, "rb", buffering=0) as file:
            return os.pread(file.fileno(), len(tail.check), tail.offset - len(tail.check)) == (
                tail.check
            )
    except OSError:
        return False


class Blocks:
    """The whole lines of a file from an offset on, in blocks.

    Contract: each block begins with a line. What follows its last newline is not part of it, and
    begins the next block. `offset` is where the last block ended, and `rest` what follows in the
    file without a newline, because it is still being written or was cut. A line of more than
    `LONGEST_LINE` bytes is left out and counted in `too_long`.
    """

    def __init__(self, path: str, offset: int = 0, check: bytes = b"") -> None:
        self._path = path
        self.offset = offset
        self.rest = b""
        self.too_long = 0
        self._last = check

    def __iter__(self) -> Iterator[bytes]:
        handle = os.open(self._path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        try:
            size = BLOCK
            while True:
                data = os.pread(handle, size, self.offset)
                end = data.rfind(b"\n") + 1
                if end:
                    self._last = data[max(0, end - _CHECKED) : end]
                    self.offset += end
                    size = BLOCK
                    yield data
                elif len(data) < size:
                    self.rest = data
                    return
                elif size < LONGEST_LINE:
                    size *= 2
                else:
                    self.too_long += 1
                    if not self._skip_line(handle, size):
                        return
                    size = BLOCK
        finally:
            os.close(handle)

    def _skip_line(self, handle: int, known: int) -> bool:
        """Go past the line at `offset`, of which `known` bytes hold no newline; false at the end of
        the file."""
        position = self.offset + known
        while data := os.pread(handle, BLOCK, position):
            end = data.find(b"\n") + 1
            if end:
                self.offset = position + end
                self._last = data[:end][-_CHECKED:]
                return True
            position += len(data)
        return False

    def tail(self, state: bytes = b"") -> Tail:
        """The tail at `offset`."""
        return Tail(self.offset, self._last, state)

    def notes(self, broken: int = 0, *, cut: bool = False) -> tuple[str, ...]:
        """What was left out, in words; `broken` lines could not be read, `cut` is the last one."""
        found = []
        if broken:
            found.append(f"{broken} line{'s' if broken > 1 else ''} could not be read")
        if cut:
            found.append(CUT)
        if self.too_long:
            found.append(f"{self.too_long} line(s) over {LONGEST_LINE >> 20} MB were left out")
        return tuple(found)


class Lines:
    """The lines of a file that may matter, one by one, with the bookkeeping of a tail.

    `wanted` says of a line whether it is worth decoding. The last line is given too if it has no
    newline, but is not part of the tail.
    """

    def __init__(
        self, path: str, tail: Tail | None, wanted: Callable[[bytes], bool] | None = None
    ) -> None:
        self.blocks = Blocks(path, tail.offset if tail else 0, tail.check if tail else b"")
        self._wanted = wanted
        self.broken = 0
        self.is_loose = False
        """Whether the current line is the last one and has no newline."""
        self.cut = False

    def __iter__(self) -> Iterator[bytes]:
        wanted = self._wanted
        for block in self.blocks:
            for line in block.split(b"\n")[:-1]:
                if line and (wanted is None or wanted(line)):
                    yield line
        rest = self.blocks.rest.strip(b"\0 \r\t")
        if rest and (wanted is None or wanted(rest)):
            self.is_loose = True
            yield rest

    def skip(self) -> None:
        """The current line cannot be read."""
        if self.is_loose:
            self.cut = True
        else:
            self.broken += 1

    def notes(self) -> tuple[str, ...]:
        """What was left out."""
        return self.blocks.notes(self.broken, cut=self.cut)


def home_of(env: Mapping[str, str], variable: str, default: str) -> str:
    """A product's home: the folder in `variable`, else `default` below the user's home."""
    home = env.get("HOME") or os.path.expanduser("~")
    return env.get(variable) or os.path.join(home, default)
