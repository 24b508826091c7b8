"""From what Pi says about a failure to the typed error that calls for the right reaction."""

import msgspec

from bridle.core.errors import (
    AgentError,
    Crashed,
    NotAuthenticated,
    ProtocolDrift,
    ResumeRefused,
    Unavailable,
)
from bridle.runtimes.model_errors import (
    error_from_status,
    error_from_words,
    short_line,
    time_after,
)

_LOGIN_HINT = (
    "set the provider's key variable (such as ANTHROPIC_API_KEY), or start `pi` and use /login"
)


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
    message = short_line(_message_in(rest) or text or "the model call failed")
    if status is None:
        return error_from_words(text, message, login_hint=_LOGIN_HINT, until=_until(text))
    return error_from_status(status, message, model=model, until=_until(text))


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
            return time_after(int(seconds))
    return None


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
    first = short_line(said[0].removeprefix("Error: "))
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
