"""From Codex's words to typed errors: its stream has no codes, only texts.

The texts are those of the captures. A 500 is the one status whose number is replaced ("high
demand"); every other one stands in the text.
"""

from typing import Any

import msgspec

from bridle.core.errors import (
    AgentError,
    Billing,
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
from bridle.process.spec import ProcessExit
from bridle.runtimes.limits import reset_time

_STATUS_MARKS = ("unexpected status ", "last status: ")
_LOGIN_MARKS = (
    "missing environment variable",
    "not logged in",
    "log in again",
    "sign in again",
    "access token could not be refreshed",
    "codex login",
)
_REFUSED_HINT = "the service refused the request itself; the same call will fail again"


def turn_error(text: str, model: str | None = None) -> AgentError:
    """The error behind the text of a failed turn or a retry notice."""
    status = _status_in(text)
    if status is not None:
        return _status_error(status, text, model)
    if text.startswith("{"):
        return _status_error(400, _body_message(text), model, whole=text)
    lowered = text.lower().replace("\u2019", "'")
    if any(mark in lowered for mark in _LOGIN_MARKS):
        return NotAuthenticated(text)
    if "quota exceeded" in lowered:
        return Billing(text)
    if "usage limit" in lowered or "rate limit" in lowered:
        return RateLimited(text, until=reset_time(text))
    if "context window" in lowered or "reason: max_output_tokens" in lowered:
        return ContextOverflow(text)
    if "at capacity" in lowered or "overloaded" in lowered:
        return Overloaded(text)
    if "high demand" in lowered:
        return Unavailable(f"the model service failed (500): {text}", hint="try again later")
    return Unavailable(text or "the turn failed without a reason")


def _status_error(
    status: int, message: str, model: str | None, *, whole: str | None = None
) -> AgentError:
    error = error_for_status(status, whole or message, until=reset_time(message))
    hint = error.hint
    if status == 404:
        hint = f"check the service's address and whether it serves the model {model or '(default)'}"
    elif isinstance(error, Unavailable) and 400 <= status < 500:
        hint = _REFUSED_HINT
    return type(error)(message, hint=hint, until=error.until)


def _status_in(text: str) -> int | None:
    for mark in _STATUS_MARKS:
        _, found, rest = text.partition(mark)
        if found and rest[:3].isdigit():
            return int(rest[:3])
    return None


_INFO_KINDS: dict[str, type[AgentError]] = {
    "contextWindowExceeded": ContextOverflow,
    "usageLimitExceeded": RateLimited,
    "rateLimitExceeded": RateLimited,
    "serverOverloaded": Overloaded,
    "flexUnavailable": Overloaded,
    "policyCapacityUnavailable": Overloaded,
    "unauthorized": NotAuthenticated,
}


def app_server_error(text: str, info: Any, model: str | None = None) -> AgentError:
    """The error of a turn of the app-server: its words first, which are those of `exec` and tell
    more; where they tell nothing, what Codex itself calls it (`codexErrorInfo`)."""
    error = turn_error(text, model)
    if type(error) is not Unavailable or error.hint != Unavailable.default_hint:
        return error
    if isinstance(info, str) and info in _INFO_KINDS:
        return _INFO_KINDS[info](text)
    for detail in info.values() if isinstance(info, dict) else ():
        status = detail.get("httpStatusCode") if isinstance(detail, dict) else None
        if isinstance(status, int):
            return _status_error(status, text, model)
    return error


class _Inner(msgspec.Struct):
    message: str = ""


class _Body(msgspec.Struct):
    error: _Inner | None = None


def _body_message(text: str) -> str:
    """What the JSON body of an HTTP 400 says; Codex passes it on as it came."""
    try:
        body = msgspec.json.decode(text, type=_Body)
    except msgspec.MsgspecError:
        return text
    return body.error.message if body.error and body.error.message else text


# -- runs that never began ------------------------------------------------------------------------


def start_error(exit: ProcessExit, *, raw_args: bool) -> AgentError | None:
    """Why a process that told nothing on its stdout ended; None when it does not say.

    A process that a signal killed is left to the recorder, which knows who sent it.
    """
    if exit.code is None or exit.code < 0:
        return None
    words = _complaint(exit.last_words)
    lowered = words.lower()
    if "no rollout found" in lowered or "thread/resume" in lowered:
        return ResumeRefused(words)
    if any(mark in lowered for mark in _LOGIN_MARKS):
        return NotAuthenticated(words)
    if exit.code == 2:
        hint = "look at the raw arguments first" if raw_args else ""
        return ProtocolDrift(f"codex refused its arguments: {words}", hint=hint)
    if exit.code == 0:
        return ProtocolDrift("codex ended well but printed nothing that Bridle knows")
    return Crashed(
        f"codex did not start: {words}" if words else f"codex exited {exit.code} and said nothing",
        hint="mend what it names; its configuration is config.toml in CODEX_HOME",
    )


def _complaint(stderr: str) -> str:
    """The line of standard error that says what is wrong."""
    lines = [line.strip() for line in stderr.splitlines() if line.strip()]
    for line in lines:
        if line.lower().startswith("error"):
            return line[:500]
    told = [line for line in lines if not line.startswith("Reading ")]
    return told[-1][:500] if told else ""
