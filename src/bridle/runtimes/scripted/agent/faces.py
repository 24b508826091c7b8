"""Who the agent talks to: a program (JSON lines), a person (a terminal), or a pipe (plain text)."""

from __future__ import annotations

import json
import os
import sys
from _thread import allocate_lock

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .aids import Aids

READY = "scripted> "
"""What a person sees when the agent waits for a prompt."""


class JsonFace:
    """One JSON object a line on stdout; permission answers come as lines on stdin."""

    def __init__(self, aids: Aids) -> None:
        self._aids = aids
        self._lock = allocate_lock()

    def emit(self, message: dict[str, Any]) -> None:
        """Write one line, whole even when several tools end at once."""
        line = json.dumps(message, ensure_ascii=False, separators=(",", ":")).encode(
            "utf-8", "replace"
        )
        with self._lock:
            self._aids.write_line(message["type"], line)

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
        """Print what a reader of plain text wants."""
        kind = message["type"]
        if kind == "text":
            _print(message["text"])
        elif kind == "message_end" and message["text"]:
            _print("\n")
        elif kind == "error":
            sys.stderr.write(f"scripted: {message['message']}\n")

    def answer(self, request: dict[str, Any]) -> tuple[bool, str]:
        """Refuse: this face has no way to ask."""
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
    data = text.encode("utf-8", "replace")
    while data:
        data = data[os.write(1, data) :]
