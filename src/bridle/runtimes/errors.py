"""What a model service's answer means, for CLIs that pass on its status or only its words."""

from bridle.core.errors import (
    AgentError,
    Billing,
    ContextOverflow,
    NotAuthenticated,
    Overloaded,
    RateLimited,
    Unavailable,
    error_for_status,
)

_LONGEST = 500
_REFUSED = "the service refused the request itself; the same request will be refused again"
_WORDS: tuple[tuple[type[AgentError], tuple[str, ...]], ...] = (
    (Billing, ("credit balance", "insufficient_quota", "exceeded your current quota", "billing")),
    (
        ContextOverflow,
        (
            "context window",
            "context_length",
            "prompt is too long",
            "prompt budget",
            "maximum context",
            "exceeds model limit",
            "maximum output token",
        ),
    ),
    (RateLimited, ("rate limit", "rate_limit", "too many requests", "usage limit")),
    (Overloaded, ("overloaded", "at capacity")),
    (
        NotAuthenticated,
        (
            "unauthorized",
            "authentication",
            "api key",
            "api-key",
            "not logged in",
            "not have access",
        ),
    ),
)


def error_of_service(
    status: int | None,
    message: str,
    *,
    until: str | None = None,
    model: str | None = None,
    login_hint: str = "",
) -> AgentError:
    """The error that a failed model call calls for: by its status, without one by its words."""
    text = short(message) or "the model call failed"
    if status is None:
        error = _of_words(text, until)
    else:
        error = error_for_status(status, text, until=until)
    if isinstance(error, NotAuthenticated) and login_hint:
        error.hint = login_hint
    elif isinstance(error, Unavailable) and status == 404:
        error.hint = f"the service does not know the model {model or 'that was asked for'}"
    elif isinstance(error, Unavailable) and status is not None and 400 <= status < 500:
        error.hint = _REFUSED
    return error


def _of_words(text: str, until: str | None) -> AgentError:
    lowered = text.lower()
    for kind, words in _WORDS:
        if any(word in lowered for word in words):
            return kind(text, until=until if kind is RateLimited else None)
    return Unavailable(text)


def until_in(seconds: float) -> str:
    """The moment `seconds` from now, as RFC 3339 in UTC."""
    import time

    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() + seconds))


def short(text: str) -> str:
    """A message on one line, cut where nobody reads on."""
    line = " ".join(text.split())
    return line if len(line) <= _LONGEST else f"{line[:_LONGEST]}…"
