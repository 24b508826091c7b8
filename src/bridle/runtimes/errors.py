"""Turns what an agent says about a failure into the typed error that calls for the right reaction.

Each product declares an `ErrorTable`: rows for failed model calls and rows for a process that ended
before it worked. What all services say alike is in `SERVICE`.
"""

import time
from typing import Literal

import msgspec

from bridle.core.errors import (
    AgentError,
    Billing,
    ContextOverflow,
    Crashed,
    NotAuthenticated,
    Overloaded,
    RateLimited,
    Unavailable,
    error_for_status,
)
from bridle.process.spec import ProcessExit

_LONGEST = 500
_REFUSED = "the service refused the request itself; the same request will be refused again"


class ErrorRow(msgspec.Struct, frozen=True):
    """One failure and its marks. Every kind of mark that a row names must be found."""

    error: type[AgentError]
    words: tuple[str | tuple[str, ...], ...] = ()
    """Lower-case texts: the message contains one of them, or all of a group."""
    tags: tuple[str, ...] = ()
    """The product's own names of the failure."""
    statuses: tuple[int, ...] = ()
    """HTTP statuses of a model call; exit statuses of a process. 0 in a call: it has none."""
    hint: str = ""
    """What to do; empty for the error's own hint. `{model}` is the model's name."""
    message: str = "{text}"
    """The message; `{text}` is what the agent said, `{code}` the status, `{model}` the model."""

    def holds(self, lowered: str, tag: str, status: int) -> bool:
        """Whether the marks are those of this row."""
        if self.tags and tag not in self.tags:
            return False
        if self.statuses and status not in self.statuses:
            return False
        return not self.words or any(
            each in lowered if isinstance(each, str) else all(part in lowered for part in each)
            for each in self.words
        )

    def made(
        self, text: str, status: int, *, until: str | None = None, model: str | None = None
    ) -> AgentError:
        """The error of this row."""
        name = model or "that was asked for"
        message = self.message.format(text=text, code=status, model=name)
        hint = self.hint.format(model=name)
        return self.error(message, hint=hint, until=until if self.error is RateLimited else None)


SERVICE: tuple[ErrorRow, ...] = (
    # A 404 without its number; services use the same sentence for missing rights.
    ErrorRow(
        Unavailable,
        (("model", "does not exist"),),
        hint="the service does not know the model {model}",
    ),
    ErrorRow(
        Billing, ("credit balance", "insufficient_quota", "exceeded your current quota", "billing")
    ),
    ErrorRow(
        ContextOverflow,
        (
            *("context window", "context_length", "prompt is too long", "prompt budget"),
            *("maximum context", "exceeds model limit", "maximum output token"),
        ),
    ),
    ErrorRow(RateLimited, ("rate limit", "rate_limit", "too many requests", "usage limit")),
    ErrorRow(Overloaded, ("overloaded", "at capacity")),
    ErrorRow(
        NotAuthenticated,
        (
            *("unauthorized", "authentication", "api key", "api-key"),
            *("not logged in", "not have access"),
        ),
    ),
)
"""What model services say, where an agent passes on their words without a status."""


class ErrorTable(msgspec.Struct, frozen=True, kw_only=True):
    """What one product says when it fails."""

    login_hint: str = ""
    """How a user gives it a login or a key."""
    calls: tuple[ErrorRow, ...] = ()
    """Failed model calls that the product names in its own way; they come before `SERVICE` and
    before the meaning of the HTTP status."""
    exits: tuple[ErrorRow, ...] = ()
    """Ends of a process that did no work, by its standard error and its exit status."""
    noise: tuple[str, ...] = ()
    """Beginnings of lines on standard error that say nothing about a failure."""
    complaint: Literal["first", "last"] = "first"
    """Which line of standard error says what is wrong, where none begins with `error`."""
    crash: str = "{text}"
    """The message of an end that no row names; `{text}` and `{code}` as in a row."""
    crash_hint: str = ""
    """What to do then."""

    def of_call(
        self,
        text: str,
        *,
        status: int | None = None,
        tag: str = "",
        details: str = "",
        until: str | None = None,
        model: str | None = None,
    ) -> AgentError:
        """The error behind a failed model call: by the product's rows, then by the HTTP status,
        without one by the service's words. `details` count too but are not shown."""
        shown = short(text) or "the model call failed"
        whole = f"{text} {details}".strip() or shown
        lowered = whole.lower()
        row = _row(self.calls, lowered, tag, status or 0)
        if row is None and status is None:
            row = _row(SERVICE, lowered, tag, 0)
        if row is not None:
            error = row.made(shown, status or 0, until=until, model=model)
        else:
            error = self._of_status(status, whole, until, model)
            error.message = shown
        if isinstance(error, NotAuthenticated) and self.login_hint and not (row and row.hint):
            error.hint = self.login_hint
        return error

    def _of_status(
        self, status: int | None, text: str, until: str | None, model: str | None
    ) -> AgentError:
        if status is None:
            return Unavailable(text)
        error = error_for_status(status, text, until=until)
        if isinstance(error, Unavailable) and status == 404:
            error.hint = f"the service does not know the model {model or 'that was asked for'}"
        elif isinstance(error, Unavailable) and 400 <= status < 500:
            error.hint = _REFUSED
        return error

    def of_exit(self, exit: ProcessExit, *, model: str | None = None) -> AgentError | None:
        """Why a process ended before it worked, by its last output and its exit status; None when
        they do not say, and for a process that a signal ended: the recorder knows who sent it."""
        code = exit.code
        if code is None or code < 0 or code > 128:
            return None
        said = self.complaints(exit.last_words)
        text = short(self.complaint_in(said))
        row = _row(self.exits, "\n".join(said).lower(), "", code)
        if row is not None:
            error = row.made(text or f"the process exited {code}", code, model=model)
            if isinstance(error, NotAuthenticated) and self.login_hint and not row.hint:
                error.hint = self.login_hint
            return error
        if not text or code == 0:
            return None
        return Crashed(self.crash.format(text=text, code=code), hint=self.crash_hint)

    def complaints(self, stderr: str) -> list[str]:
        """The lines of standard error that may say what is wrong."""
        lines = (line.strip() for line in stderr.splitlines())
        return [line for line in lines if line and not line.startswith(self.noise)]

    def complaint_in(self, lines: list[str]) -> str:
        """The line that says what is wrong, without the word `Error:` before it."""
        if not lines:
            return ""
        other = lines[0 if self.complaint == "first" else -1]
        found = next((line for line in lines if line.lower().startswith("error")), other)
        return found.removeprefix("Error:").strip() or found


def _row(rows: tuple[ErrorRow, ...], lowered: str, tag: str, status: int) -> ErrorRow | None:
    return next((row for row in rows if row.holds(lowered, tag, status)), None)


def until_in(seconds: float) -> str:
    """The moment `seconds` from now, as RFC 3339 in UTC."""
    return _utc(time.time() + seconds)


def reset_time(text: str, now: float | None = None) -> str | None:
    """When a limit ends, as RFC 3339 in UTC, if the text says so.

    Known: `try again in 1.5s`, and a moment in local time, `try again at 5:46 PM` (today or
    tomorrow) or `try again at Mar 17th, 2030 5:46 PM`.
    """
    now = time.time() if now is None else now
    lowered = text.lower()
    _, found, rest = lowered.partition("try again in ")
    if found:
        seconds = _seconds(rest.split()[0].rstrip(".,")) if rest.split() else None
        return None if seconds is None else _utc(now + seconds)
    _, found, rest = lowered.partition("try again at ")
    return _moment(rest.strip().rstrip("."), now) if found else None


def _seconds(word: str) -> float | None:
    for unit, factor in (("ms", 0.001), ("s", 1.0), ("m", 60.0), ("h", 3600.0), ("d", 86400.0)):
        number = word.removesuffix(unit)
        if number != word and number.replace(".", "", 1).isdigit():
            return float(number) * factor
    return None


def _moment(words: str, now: float) -> str | None:
    parts = words.replace(",", " ").split()
    try:
        if len(parts) >= 5:
            day = parts[1].rstrip("stndrh")
            given = time.strptime(" ".join((parts[0], day, *parts[2:5])), "%b %d %Y %I:%M %p")
            return _utc(time.mktime((*given[:8], -1)))
        clock = time.strptime(" ".join(parts[:2]), "%I:%M %p")
    except (ValueError, OverflowError, IndexError):
        return None
    today = time.localtime(now)
    at = time.mktime((*today[:3], clock.tm_hour, clock.tm_min, 0, 0, 0, -1))
    return _utc(at if at >= now else at + 86400)


def _utc(moment: float) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(moment))


def short(text: str) -> str:
    """A message on one line, cut to a readable length."""
    line = " ".join(text.split())
    return line if len(line) <= _LONGEST else f"{line[:_LONGEST]}…"
