"""Reads a file that grows, whole line by whole line, and goes on where it was."""

import os


class Tail:
    """The lines of a file that were not taken yet.

    Contract: `look` changes nothing that `taken` has not confirmed; a file that is not there has no
    lines. `rest` is for when nobody writes any more.
    """

    def __init__(self, path: str, at: int = 0) -> None:
        self.at = at
        """How many bytes were taken."""
        self._path = path
        self._read = at
        self._partial = bytearray()
        self._lines: list[bytes] = []
        self.more = False
        """Whether there was more than the last look took."""

    def look(self, most: int) -> list[bytes]:
        """The next whole lines, of about `most` bytes; the same again until they are `taken`."""
        if self._lines:
            return self._lines
        try:
            handle = os.open(self._path, os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            return []
        try:
            data = b""
            while b"\n" not in data:
                # A line may be longer than what is read at once; it is not over before the file is.
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
        """The line that was not finished, if there is one; to be taken too."""
        if not self._lines and self._partial:
            self._lines, self._partial = [bytes(self._partial)], bytearray()
        return self._lines

    @property
    def after(self) -> int:
        """How many bytes will have been taken with what `look` or `rest` gave."""
        return self._read - len(self._partial)

    def taken(self) -> None:
        """What was given stands elsewhere now."""
        self.at = self.after
        self._lines = []
