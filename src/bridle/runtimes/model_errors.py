"""What agents say in words about a failed model call, and the typed error behind it."""

from bridle.core.errors import (
    AgentError,
    ContextOverflow,
    NotAuthenticated,
    Overloaded,
    RateLimited,
    Unavailable,
    error_for_status,
)

_LONGEST = 400
"""Characters of a message that are kept."""


def short_line(text: str) -> str:
    """`text` on one line, cut where it gets long."""
    line = " ".join(text.split())
    return line if len(line) <= _LONGEST else f"{line[:_LONGEST]}…"


def time_after(seconds: float) -> str:
    """The moment so many seconds from now, as RFC 3339 in UTC."""
    import time

    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() + seconds))


def error_from_status(
    status: int, message: str, *, model: str = "", until: str | None = None
) -> AgentError:
    """`error_for_status` with hints for a model nobody knows and a request that stays wrong."""
    error = error_for_status(status, message, until=until)
    if status == 404 and isinstance(error, Unavailable):
        error.hint = f"the service does not know the model {model}; choose another with --model"
    elif isinstance(error, Unavailable) and 400 <= status < 500:
        error.hint = "the service refused the request; the same request will fail again"
    return error


def error_from_words(
    text: str, message: str, *, login_hint: str = "", until: str | None = None
) -> AgentError:
    """The error that a sentence without a status speaks of; `message` is what is shown of it."""
    lowered = text.lower()
    if "overloaded" in lowered:
        return Overloaded(message)
    if any(
        words in lowered
        for words in ("rate limit", "rate_limit", "too many requests", "retry delay")
    ):
        return RateLimited(message, until=until)
    if any(
        words in lowered
        for words in ("api key", "unauthorized", "authentication", "forbidden", "api_key")
    ):
        return NotAuthenticated(message, hint=login_hint)
    if "credit balance" in lowered or "insufficient_quota" in lowered or "current quota" in lowered:
        return error_for_status(402, message)
    if any(
        words in lowered
        for words in ("prompt is too long", "context window", "maximum context length")
    ):
        return ContextOverflow(message)
    if "refused to complete" in lowered:
        return Unavailable(message, hint="the model declined; say it differently")
    return Unavailable(message)
