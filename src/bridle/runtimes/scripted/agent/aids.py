"""Bad manners on request, for tests of whatever drives an agent. None is on by itself."""

from __future__ import annotations

import os
import signal
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

_GARBAGE = (
    b"\x00\xff\xfe\x80 not text \xc3\x28",
    b"plain words that are no JSON",
    b'{"type":"text","text":"half an obj',
    b'{"type":"a_kind_nobody_knows","payload":[1,2,3]}',
    b"[1, 2, 3]",
    b"",
    b'{"type":"text"}',
)
_LONG_LINE = 10 * 1024 * 1024
_FLOOD = 4 * 1024 * 1024
_STAMP = b"{stamp}"


class Aids:
    """The manners one run was asked for, by name; a number may follow after a colon."""

    def __init__(self, wanted: list[str]) -> None:
        self._wanted: dict[str, int | None] = {}
        for each in wanted:
            name, _, number = each.partition(":")
            self._wanted[name] = int(number) if number else None
        self._lines = 0

    def begin(self) -> None:
        """What happens before the agent says its first word."""
        if "ignore-sigterm" in self._wanted:
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            signal.signal(signal.SIGINT, signal.SIG_IGN)
        if "flood-stderr" in self._wanted:
            block = b"scripted noise on standard error\n" * 1024
            for _ in range((self._wanted["flood-stderr"] or _FLOOD) // len(block) + 1):
                os.write(2, block)
            os.write(2, b"end of the scripted noise\n")
        if "never-answer" in self._wanted:
            while True:
                time.sleep(3600)

    def write_line(self, kind: str, line: bytes) -> None:
        """Write one line of the wire to stdout, in the manner asked for."""
        if "die-mid-line" in self._wanted and kind == "message_end":
            _write(line[: len(line) // 2])
            os.kill(os.getpid(), signal.SIGKILL)
        if "stamp" in self._wanted and _STAMP in line:
            line = line.replace(_STAMP, str(time.monotonic_ns()).encode())
        line += b"\n"
        if "half-lines" in self._wanted:
            for start in range(0, len(line), max(1, len(line) // 3)):
                _write(line[start : start + max(1, len(line) // 3)])
                time.sleep(0.002)
        else:
            _write(line)
        if "garbage" in self._wanted:
            _write(_GARBAGE[self._lines % len(_GARBAGE)] + b"\n")
        self._lines += 1

    def padding(self) -> Iterator[str]:
        """A text that makes one very long line, once, when asked for."""
        if "long-line" in self._wanted:
            size = self._wanted.pop("long-line") or _LONG_LINE
            yield "x" * size + "\n"

    def ends_silently(self) -> bool:
        """Whether the agent leaves without saying how its work went."""
        return "no-result" in self._wanted

    def exit_status(self, usual: int) -> int:
        """The status to exit with."""
        wanted = self._wanted.get("exit")
        return usual if wanted is None else wanted


def _write(data: bytes) -> None:
    while data:
        data = data[os.write(1, data) :]
