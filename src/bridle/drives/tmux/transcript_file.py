"""Reads a transcript that an agent appends to, line by line."""

import os
import zlib

import msgspec

_CHUNK = 1 << 20


class _KnownLine(msgspec.Struct, frozen=True):
    end: int
    check: int


class TranscriptFollower:
    """The new lines of a file that another program appends to, and sometimes rewrites.

    Contract: `read` never blocks and never raises; a missing file has no lines. Only complete lines
    are returned, each once, also if the file was rewritten with other lines before them. If lines
    that were returned are no longer in the file, `rewound` is true after the call.
    """

    def __init__(self, path: str, *, skip: int = 0) -> None:
        """The first `skip` lines are skipped: those before the conversation was resumed
        (`lines_in`)."""
        self.path = path
        self.count = 0
        """Lines returned or skipped so far."""
        self._skip = skip
        self.rewound = False
        self._seen: list[_KnownLine] = []
        self._offset = 0
        self._unstable: tuple[int, int] | None = None

    def read(self) -> list[bytes]:
        """The lines since the last call, without their newlines."""
        self.rewound = False
        try:
            with open(self.path, "rb") as file:
                fd = file.fileno()
                if self._is_unchanged(fd):
                    self._unstable = None
                    return self._appended(fd)
                about = os.fstat(fd)
                previous, self._unstable = self._unstable, (about.st_size, about.st_mtime_ns)
                # A half-written file would look as if lines were removed: wait until it is stable.
                return self._rewritten(fd) if previous == self._unstable else []
        except OSError:
            return []

    def _is_unchanged(self, fd: int) -> bool:
        """Whether the last known line is still at its place."""
        if not self._seen:
            return True
        start = self._seen[-2].end if len(self._seen) > 1 else 0
        data = os.pread(fd, self._offset - start, start)
        return data[-1:] == b"\n" and zlib.crc32(data[:-1]) == self._seen[-1].check

    def _appended(self, fd: int) -> list[bytes]:
        lines = _whole_lines(fd, self._offset)
        self._note(lines)
        passed = max(0, min(len(lines), self._skip - self.count))
        self.count += len(lines)
        return lines[passed:]

    def _rewritten(self, fd: int) -> list[bytes]:
        """Agents insert lines at the front and cut lines off at the end: known lines are identified
        by their content, not by their position."""
        left: dict[int, int] = {}
        for seen in self._seen:
            left[seen.check] = left.get(seen.check, 0) + 1
        self._seen, self._offset = [], 0
        lines = _whole_lines(fd, 0)
        self._note(lines)
        fresh = []
        for line in lines:
            check = zlib.crc32(line)
            if left.get(check, 0):
                left[check] -= 1
            else:
                fresh.append(line)
        self.rewound = any(left.values())
        self.count = len(lines)
        return fresh

    def _note(self, lines: list[bytes]) -> None:
        for line in lines:
            self._offset += len(line) + 1
            self._seen.append(_KnownLine(self._offset, zlib.crc32(line)))


def _whole_lines(fd: int, start: int) -> list[bytes]:
    """The complete lines from `start` on."""
    lines: list[bytes] = []
    rest, at = b"", start
    while data := os.pread(fd, _CHUNK, at):
        at += len(data)
        *whole, rest = (rest + data).split(b"\n")
        lines += whole
    return lines


def lines_in(path: str) -> int:
    """How many complete lines a transcript has now; 0 if there is none."""
    follower = TranscriptFollower(path)
    follower.read()
    return follower.count
