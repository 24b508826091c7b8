"""From what Pi says about a failure to the typed error that calls for the right reaction."""

import msgspec

from bridle.core.errors import (
    AgentError,
    ContextOverflow,
    Crashed,
    NotAuthenticated,
    Overloaded,
    ProtocolDrift,
    RateLimited,
    ResumeRefused,
    Unavailable,
    error_for_status,
)

_LOGIN_HINT = (
    "set the provider's key variable (such as ANTHROPIC_API_KEY), or start `pi` and use /login"
)
_LONGEST = 400
"""Characters of a message that are kept."""


class _Problem(msgspec.Struct):
    message: str = ""
    type: str = ""
    code: str | int | None = None


class _Body(msgspec.Struct):
    error: _Problem | str | None = None
    message: str = ""


def error_from_message(text: str, model: str = "") -> AgentError:
    """The error behind an assistant message that ended in `error`; `text` is its errorMessage.

    Pi writes `STATUS BODY` for an answer of the service and a plain sentence for the rest.
    """
    status, rest = _split(text)
    message = _short(_message_in(rest) or text or "the model call failed")
    if status is None:
        return _from_words(text, message)
    error = error_for_status(status, message, until=_until(text))
    if status == 404 and isinstance(error, Unavailable):
        error.hint = f"the service does not know the model {model}; choose another with --model"
    elif isinstance(error, Unavailable) and 400 <= status < 500:
        error.hint = "the service refused the request; the same request will fail again"
    return error


def _split(text: str) -> tuple[int | None, str]:
    """The HTTP status that `text` begins with, if it does, and what follows."""
    words = text.removeprefix("Error: ")
    if words[:3].isdigit() and not words[3:4].isdigit() and 400 <= int(words[:3]) <= 599:
        return int(words[:3]), words[3:].lstrip(" :")
    return None, words


def _message_in(text: str) -> str:
    """The sentence inside an error body with its type; `text` itself when it is no such body."""
    try:
        body = msgspec.json.decode(text, type=_Body)
    except msgspec.MsgspecError:
        return text
    inner = body.error
    if isinstance(inner, _Problem):
        kinds = [str(kind) for kind in (inner.type, inner.code) if kind]
        return f"{inner.message} ({', '.join(kinds)})" if kinds else inner.message
    return inner or body.message or text


def _from_words(text: str, message: str) -> AgentError:
    lowered = text.lower()
    if "overloaded" in lowered:
        return Overloaded(message)
    if "rate limit" in lowered or "rate_limit" in lowered or "too many requests" in lowered:
        return RateLimited(message, until=_until(text))
    if "retry delay" in lowered:
        return RateLimited(message, until=_until(text))
    if "api key" in lowered or "unauthorized" in lowered or "authentication" in lowered:
        return NotAuthenticated(message, hint=_LOGIN_HINT)
    if "credit balance" in lowered or "insufficient_quota" in lowered:
        return error_for_status(402, message)
    if "prompt is too long" in lowered or "context window" in lowered:
        return ContextOverflow(message)
    if "refused to complete" in lowered:
        return Unavailable(message, hint="the model declined; say it differently")
    return Unavailable(message)


def _until(text: str) -> str | None:
    """When to try again, where the text names a delay in seconds."""
    words = text.replace("(", " ").split()
    for position, word in enumerate(words):
        seconds = word.rstrip("s.,")
        if (
            word.endswith("s")
            and seconds.isdigit()
            and words[position + 1 : position + 3] == ["retry", "delay"]
        ):
            return _seconds_from_now(int(seconds))
    return None


def _seconds_from_now(seconds: int) -> str:
    import time

    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() + seconds))


def _short(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _LONGEST else f"{line[:_LONGEST]}…"


def error_from_stderr(stderr: str, code: int | None, model: str = "") -> AgentError | None:
    """Why Pi never began to work, from what it wrote to standard error; None when that is no help.

    Only for a process that exited by itself without a model call.
    """
    if code is None or code < 0 or code > 128:
        return None
    said = [line.strip() for line in stderr.splitlines() if line.strip()]
    said = [line for line in said if not line.startswith("Warning:")]
    if not said:
        return None
    text = "\n".join(said)
    lowered = text.lower()
    first = _short(said[0].removeprefix("Error: "))
    if "no api key found" in lowered or "no models available" in lowered or "/login" in lowered:
        return NotAuthenticated(first, hint=_LOGIN_HINT)
    if "no session found" in lowered or "session working directory does not exist" in lowered:
        return ResumeRefused(first)
    if "unknown option" in lowered or "unknown flag" in lowered or "requires --" in lowered:
        return ProtocolDrift(first)
    if "not found" in lowered and ("model" in lowered or "provider" in lowered):
        return Unavailable(first, hint=f"Pi knows no model {model}; see `pi --list-models`")
    if "failed to load extension" in lowered:
        return Crashed(first, hint="repair or remove that extension")
    if "err_unknown_builtin_module" in lowered or "syntaxerror" in lowered:
        return Crashed(first, hint="Pi 1.5 needs Node 22.19 or newer, Pi 0.74 Node 20.6 or newer")
    return Crashed(first)
