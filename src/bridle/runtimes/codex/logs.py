"""The lines of Codex's log that tell of model calls which are made again.

They stand on standard error when the dialect's `log_filter` asks for them. None of them holds a
header, a key or a text of the conversation; they are kept out of errors all the same, since they
are of no use to a reader.
"""

import re

from bridle.core.errors import AgentError, Unavailable, error_for_status
from bridle.runtimes.retries import Retry

LOG_VARIABLE = "RUST_LOG"
QUIET = "error"
"""What Codex logs when nothing is said."""
_TARGET = b"codex_otel.trace_safe: "
_REQUEST = b'event.name="codex.api_request"'
_RETRY = b'event.name="codex.retry"'
_FIELD = re.compile(rb'([\w.]+)=("(?:[^"\\]|\\.)*"|\S+)')


class CodexLog:
    """Puts a failed request and the announcement of the next one together."""

    def __init__(self) -> None:
        self._error: AgentError = Unavailable("a model call failed")
        self.answered = False
        """Whether the last request was answered well."""

    def feed(self, line: bytes) -> Retry | None:
        """Take one line; returns a retry when Codex announces one."""
        if _TARGET not in line:
            return None
        if _REQUEST in line:
            self._request(_fields(line))
        elif _RETRY in line:
            told = _fields(line)
            return Retry(
                attempt=_number(told.get("retry.attempt")) or 1,
                error=self._error,
                delay_ms=_number(told.get("retry.delay_ms")),
                # A broken stream is also told on the wire.
                told=told.get("retry.layer") == "stream",
            )
        return None

    def _request(self, told: dict[str, str]) -> None:
        status = _number(told.get("http.response.status_code"))
        self.answered = status is not None and status < 400
        if self.answered:
            return
        if status is None:
            self._error = Unavailable(told.get("error.message") or "a model call failed")
        else:
            self._error = error_for_status(status, f"the model service answered {status}")


def without_log(text: str) -> str:
    """Standard error without these lines."""
    target = _TARGET.decode()
    lines = text.splitlines(keepends=True)
    return "".join(line for line in lines if target not in line and " slug=" not in line)


def _fields(line: bytes) -> dict[str, str]:
    return {
        name.decode(): value.decode(errors="replace").strip('"')
        for name, value in _FIELD.findall(line)
    }


def _number(text: str | None) -> int | None:
    return int(text) if text is not None and text.isdigit() else None
