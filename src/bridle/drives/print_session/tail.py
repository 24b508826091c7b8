"""Reads a growing file line by line, from a known position."""

import os


class Tail:
    """The lines of a file that were not taken yet.

    Contract: `look` returns the same lines until `taken` confirms them; a missing file has no
    lines. `rest` is for a file that no longer grows.
    """

    def __init__(self, path: str, at: int = 0) -> None:
        self.at = at
        """How many bytes were taken."""
        self._path = path
        self._read = at
        self._partial = bytearray()
        self._lines: list[bytes] = []
        self.more = False
        """Whether the file had more than the last look returned."""

    def look(self, most: int) -> list[bytes]:
        """The next complete lines, about `most` bytes; the same until they are `taken`."""
        if self._lines:
            return self._lines
        try:
            handle = os.open(self._path, os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            return []
        try:
            data = b""
            while b"\n" not in data:
                # A line may be longer than one read.
                self._partial += data
                data = os.pread(handle, most, self._read)
                self._read += len(data)
                self.more = len(data) == most
                if not data:
                    return []
        finally:
            os.close(handle)
        first, *more = data.split(b"\n")
        lines = [bytes(self._partial) + first, *more]
        self._partial = bytearray(lines.pop())
        self._lines = lines
        return lines

    def rest(self) -> list[bytes]:
        """The incomplete last line, if there is one; also confirmed by `taken`."""
        if not self._lines and self._partial:
            self._lines, self._partial = [bytes(self._partial)], bytearray()
        return self._lines

    @property
    def after(self) -> int:
        """The position after the lines that `look` or `rest` returned."""
        return self._read - len(self._partial)

    def taken(self) -> None:
        """The returned lines are recorded elsewhere now."""
        self.at = self.after
        self._lines = []
