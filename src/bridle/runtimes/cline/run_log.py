"""Cline's own log of one run: it knows what the wire leaves out.

The wire tells only a service's words. The log, which Bridle has written to a private file, holds
the failed call with its status and headers, and the process's number, by which the conversation's
folder is found.
"""

import os
from typing import Any

import msgspec

from bridle.runtimes.errors import until_in

_MOST = 16 * 1024 * 1024
"""Bytes from the log's end that are looked at: each failed call repeats its whole request."""
_MOST_SESSIONS = 50
_FAILED_CALL = b"[ai-sdk] stream error"


class FailedCall(msgspec.Struct, frozen=True, rename="camel"):
    """A model call that the service refused."""

    status_code: int | None = None
    message: str = ""
    response_headers: dict[str, Any] = {}
    response_body: str | None = None

    @property
    def until(self) -> str | None:
        """When to try again, where the service said so."""
        for name, unit in (("retry-after-ms", 0.001), ("retry-after", 1.0)):
            try:
                return until_in(float(self.response_headers[name]) * unit)
            except (KeyError, ValueError, TypeError):
                continue
        return None


class _Problem(FailedCall, frozen=True, rename="camel"):
    last_error: FailedCall | None = None


class _Entry(msgspec.Struct, frozen=True):
    pid: int = 0
    err: _Problem | None = None


class Session(msgspec.Struct, frozen=True):
    """The record of one conversation."""

    pid: int = 0
    session_id: str = ""
    status: str = ""


class RunLog(msgspec.Struct, frozen=True):
    """What the log of one run tells."""

    pid: int | None = None
    failed_call: FailedCall | None = None


_decode_entry = msgspec.json.Decoder(_Entry).decode
_decode_session = msgspec.json.Decoder(Session).decode


def read_log(path: str) -> RunLog:
    """The log at `path`, as far as it is there and can be read."""
    try:
        with open(path, "rb") as file:
            first = file.readline(4096)
            file.seek(max(0, os.fstat(file.fileno()).st_size - _MOST))
            lines = file.read(_MOST).split(b"\n")
    except OSError:
        return RunLog()
    pid = _entry(first).pid or None
    for line in reversed(lines):
        if _FAILED_CALL in line:
            problem = _entry(line).err
            if problem is not None:
                return RunLog(pid, problem.last_error or problem)
    return RunLog(pid)


def _entry(line: bytes) -> _Entry:
    try:
        return _decode_entry(line)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return _Entry()


def find_session(folder: str, pid: int) -> Session | None:
    """The conversation that the process `pid` kept in `folder`, among the newest."""
    try:
        names = sorted(os.listdir(folder), reverse=True)[:_MOST_SESSIONS]
    except OSError:
        return None
    for name in names:
        try:
            with open(os.path.join(folder, name, f"{name}.json"), "rb") as file:
                session = _decode_session(file.read())
        except (OSError, msgspec.MsgspecError):
            continue
        if session.pid == pid and session.session_id == name:
            return session
    return None
