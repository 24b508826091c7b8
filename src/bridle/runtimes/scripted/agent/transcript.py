"""The conversation on disk: JSON lines, from which it can be resumed."""

from __future__ import annotations

import json
import os
import time

from .replies import Failure, utc

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_ID = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_")


class Transcript:
    """One conversation's file. Private to the user; every record is written at once."""

    def __init__(self, folder: str, session_id: str, *, resume: bool) -> None:
        self.records: list[dict[str, Any]] = []
        self._path = os.path.join(folder, f"{session_id}.jsonl")
        if resume:
            if not session_id or not set(session_id) <= _ID:
                raise Failure(f"no conversation has the id {session_id!r}", kind="resume_refused")
            self.records = _read(self._path, session_id)
        else:
            os.makedirs(folder, mode=0o700, exist_ok=True)
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | (0 if resume else os.O_EXCL)
        self._fd = os.open(self._path, flags, 0o600)
        if resume and not _ends_whole(self._path):
            # A process that was killed may have left half a line; the next must not join it.
            os.write(self._fd, b"\n")

    def add(self, kind: str, **fields: Any) -> None:
        """Append one record."""
        record = {"type": kind, "ts": utc(time.time()), **fields}
        self.records.append(record)
        os.write(self._fd, json.dumps(record).encode() + b"\n")

    def script(self) -> dict[str, Any] | None:
        """The script this conversation last played, None when it played none."""
        scripts = [record for record in self.records if record["type"] == "script"]
        return scripts[-1] if scripts else None

    def next_step(self, digest: str) -> int:
        """The first step of the script with this digest that was not played."""
        done = [
            record["step"] + 1
            for record in self.records
            if record["type"] in ("assistant", "aborted")
            and record.get("digest") == digest
            and record.get("step") is not None
        ]
        return max(done, default=0)


def _ends_whole(path: str) -> bool:
    with open(path, "rb") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(0, size - 1))
        return file.read(1) in (b"", b"\n")


def _read(path: str, session_id: str) -> list[dict[str, Any]]:
    try:
        with open(path, "rb") as file:
            lines = file.read().splitlines()
    except FileNotFoundError:
        raise Failure(f"no conversation has the id {session_id!r}", kind="resume_refused") from None
    except OSError as problem:
        raise Failure(f"cannot read {path}: {problem.strerror}", kind="resume_refused") from None
    records = []
    for line in lines:
        try:
            record = json.loads(line)
        except ValueError:
            # The last line of a process that was killed may be half.
            continue
        if isinstance(record, dict) and "type" in record:
            records.append(record)
    return records
