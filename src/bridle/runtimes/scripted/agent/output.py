"""The agent's output: JSON lines for a program, a chat for a person, plain text for a pipe.

On request it misbehaves, for tests of the program that drives it.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from _thread import allocate_lock

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any, Protocol

    class Face(Protocol):
        """The reader of the agent's messages, who also answers permission requests."""

        def emit(self, message: dict[str, Any]) -> None:
            """Report one thing that happened."""

        def answer(self, request: dict[str, Any]) -> tuple[bool, str]:
            """Ask whether a tool may run; returns the answer and its reason."""


READY = "scripted> "
"""Printed when the agent waits for a person's prompt."""


class JsonFace:
    """One JSON object a line on stdout; permission answers come as lines on stdin."""

    def __init__(self, misbehaviour: Misbehaviour) -> None:
        self._misbehaviour = misbehaviour
        self._lock = allocate_lock()

    def emit(self, message: dict[str, Any]) -> None:
        """Write one line, whole even when several tools end at once."""
        line = json.dumps(message, ensure_ascii=False, separators=(",", ":")).encode(
            "utf-8", "replace"
        )
        with self._lock:
            self._misbehaviour.write_line(message["type"], line)

    def answer(self, request: dict[str, Any]) -> tuple[bool, str]:
        """Ask, and wait for the line that answers this request."""
        self.emit(request)
        while line := sys.stdin.buffer.readline():
            try:
                said = json.loads(line)
            except ValueError:
                continue
            if isinstance(said, dict) and said.get("request_id") == request["request_id"]:
                return said.get("allow") is True, str(said.get("reason", ""))
        return False, "nobody answered"


class TextFace:
    """The final text of each message on stdout, errors on stderr; nobody can be asked."""

    def emit(self, message: dict[str, Any]) -> None:
        """Print the text of a reply, and errors on stderr."""
        kind = message["type"]
        if kind == "text":
            _print(message["text"])
        elif kind == "message_end" and message["text"]:
            _print("\n")
        elif kind == "error":
            sys.stderr.write(f"scripted: {message['message']}\n")

    def answer(self, request: dict[str, Any]) -> tuple[bool, str]:
        """Refuse: nobody can be asked."""
        return False, "nobody is there to give permission"


class ChatFace(TextFace):
    """A person at a terminal: text as it comes, one line for each tool."""

    def emit(self, message: dict[str, Any]) -> None:
        """Print one thing that happened, for a person."""
        kind = message["type"]
        if kind == "session":
            _print(f"scripted agent {message['version']}: it plays a script, there is no model.\n")
        elif kind == "tool_start":
            _print(f"  [{message['name']}] {json.dumps(message['args'])[:200]}\n")
        elif kind == "tool_end" and message["is_error"]:
            _print(f"  [failed] {message['result'][:200]}\n")
        elif kind == "retry":
            _print(f"  [retry {message['attempt']}] {message['error']['message']}\n")
        else:
            super().emit(message)

    def answer(self, request: dict[str, Any]) -> tuple[bool, str]:
        """Ask the person."""
        _print(f"  allow {request['name']}? [y/N] ")
        said = sys.stdin.readline().strip().lower()
        return said in ("y", "yes"), "answered at the terminal"

    def prompt(self) -> str | None:
        """The person's next prompt; None at the end."""
        _print(READY)
        line = sys.stdin.readline()
        return line.strip() if line else None


def _print(text: str) -> None:
    write_all(text.encode("utf-8", "replace"))


def write_all(data: bytes) -> None:
    """Write all of `data` to stdout, also to a full pipe."""
    while data:
        data = data[os.write(1, data) :]


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


class Misbehaviour:
    """How one run misbehaves, by name; a number may follow after a colon."""

    def __init__(self, wanted: list[str]) -> None:
        self._wanted: dict[str, int | None] = {}
        for each in wanted:
            name, _, number = each.partition(":")
            self._wanted[name] = int(number) if number else None
        self._lines = 0

    def begin(self) -> None:
        """Do what comes before the first output."""
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
        """Write one line of the wire to stdout, spoiled as requested."""
        if "die-mid-line" in self._wanted and kind == "message_end":
            write_all(line[: len(line) // 2])
            os.kill(os.getpid(), signal.SIGKILL)
        if "stamp" in self._wanted and _STAMP in line:
            line = line.replace(_STAMP, str(time.monotonic_ns()).encode())
        line += b"\n"
        if "half-lines" in self._wanted:
            for start in range(0, len(line), max(1, len(line) // 3)):
                write_all(line[start : start + max(1, len(line) // 3)])
                time.sleep(0.002)
        else:
            write_all(line)
        if "garbage" in self._wanted:
            write_all(_GARBAGE[self._lines % len(_GARBAGE)] + b"\n")
        self._lines += 1

    def padding(self) -> Iterator[str]:
        """A text that makes one very long line, once, when requested."""
        if "long-line" in self._wanted:
            size = self._wanted.pop("long-line") or _LONG_LINE
            yield "x" * size + "\n"

    def ends_silently(self) -> bool:
        """Whether the agent ends without a result."""
        return "no-result" in self._wanted

    def exit_status(self, usual: int) -> int:
        """The status to exit with."""
        wanted = self._wanted.get("exit")
        return usual if wanted is None else wanted
