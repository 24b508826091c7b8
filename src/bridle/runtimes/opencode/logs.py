"""The lines of OpenCode's log that a run needs: model calls that failed, and permissions refused.

The log is `key=value` pairs, values in quotes as JSON where they hold spaces. It is not promised
anywhere, so a line that is not recognised says nothing, and nothing depends on one that is missing
except that a call which is tried for ever is then left to the caller's timeout.
"""

import re

import msgspec

_PAIR = re.compile(r'([\w.]+)=("(?:[^"\\]|\\.)*"|\S*)')
_REFUSED = re.compile(r"permission requested: (\S+) \((.*)\); auto-rejecting")


class LogLine(msgspec.Struct, frozen=True, kw_only=True):
    """What a line of the log says, as far as it matters."""

    kind: str
    """`retry` (a model call failed and may be made again), `fatal` (it will not be), `cause` (why
    an error without a reason came) or `refused` (a permission question was)."""
    text: str
    session_id: str = ""


def read_log_line(line: bytes) -> LogLine | None:
    """What a line of standard error says; None when it is of no concern."""
    text = line.decode(errors="replace")
    refused = _REFUSED.search(text)
    if refused:
        return LogLine(kind="refused", text=f"{refused[1]} ({refused[2]})")
    if "level=ERROR" not in text:
        return None
    pairs = {name: _unquoted(value) for name, value in _PAIR.findall(text)}
    session_id = pairs.get("session.id", "")
    message = pairs.get("message")
    if message == "stream error" and pairs.get("agent") != "title":
        said = pairs.get("error.error") or pairs.get("error") or ""
        return LogLine(kind="retry", text=said, session_id=session_id)
    if message == "process":
        return LogLine(kind="fatal", text=pairs.get("error", ""), session_id=session_id)
    if message == "failed":
        return LogLine(kind="cause", text=pairs.get("error", ""))
    return None


def _unquoted(value: str) -> str:
    if not value.startswith('"'):
        return value
    try:
        return msgspec.json.decode(value, type=str)
    except msgspec.MsgspecError:
        return value.strip('"')
