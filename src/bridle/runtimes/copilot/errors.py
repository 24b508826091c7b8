"""From what Copilot says about a failure to the typed error that calls for the right reaction."""

import msgspec

from bridle.core.errors import (
    AgentError,
    Billing,
    ContextOverflow,
    Crashed,
    NotAuthenticated,
    NotInstalled,
    ProtocolDrift,
    RateLimited,
    ResumeRefused,
    Unavailable,
)
from bridle.process.spec import ProcessExit
from bridle.runtimes.copilot.wire import CallFailure, Failure
from bridle.runtimes.errors import error_of_service, short
from bridle.runtimes.limits import reset_time

LOGIN_HINT = (
    "start `copilot` and use /login, or set COPILOT_GITHUB_TOKEN; with a provider of your own,"
    " check its key"
)


class _Body(msgspec.Struct, frozen=True):
    message: str = ""
    type: str | None = None
    code: str | int | None = None


def error_of_call(failure: CallFailure) -> AgentError:
    """The error behind one failed model call; its message may be the service's own JSON."""
    text = failure.error_message
    try:
        body = msgspec.json.decode(text, type=_Body)
    except msgspec.MsgspecError:
        body = _Body(message=text)
    words = " ".join(str(part) for part in (body.message, body.code, body.type) if part)
    error = _of_status(failure.status_code, words, failure.model)
    error.message = short(body.message) or error.message
    return error


def error_of_session(failure: Failure, last: CallFailure | None) -> AgentError:
    """The error that ended the turn. The last failed call tells what the summary leaves out."""
    status = failure.status_code or (last.status_code if last else None)
    kind = failure.error_type
    if kind in ("quota", "billing"):
        return Billing(short(failure.message))
    if kind == "rate_limit" and status in (None, 429):
        status = 429
    words = " ".join((failure.message, last.error_message if last else ""))
    error = _of_status(status, words, last.model if last else None)
    error.message = short(failure.message) or error.message
    if status is None and kind in ("authentication", "authorization"):
        return NotAuthenticated(error.message, hint=LOGIN_HINT)
    if status is None and "context" in kind:
        return ContextOverflow(error.message)
    return error


def _of_status(status: int | None, words: str, model: str | None) -> AgentError:
    until = reset_time(words)
    error = error_of_service(status, words, until=until, model=model, login_hint=LOGIN_HINT)
    if status is None and isinstance(error, NotAuthenticated):
        # Without a status its words name keys only to say what might be checked.
        return Unavailable(error.message)
    return error


def error_of_exit(exit: ProcessExit) -> AgentError | None:
    """Why a process that printed no line ended, as its standard error tells; None: ask its exit."""
    if exit.code is None or exit.code < 0 or exit.code > 128:
        return None
    said = [line.strip() for line in exit.last_words.splitlines() if line.strip()]
    if not said:
        return None
    first = short(said[0].removeprefix("Error: "))
    lowered = " ".join(said).lower()
    if "no authentication information" in lowered or "/login" in lowered:
        return NotAuthenticated(first, hint=LOGIN_HINT)
    if "no session, task, or name matched" in lowered or (
        "session" in lowered and ("not found" in lowered or "already in use" in lowered)
    ):
        return ResumeRefused(first)
    if "no platform package found" in lowered:
        return NotInstalled(first, hint="install it with `npm install -g @github/copilot`")
    if "require an explicit model" in lowered:
        return Unavailable(first, hint="name the model with --model")
    if "unexpected argument" in lowered or "unknown option" in lowered or "usage:" in lowered:
        return ProtocolDrift(first, hint="this version does not know the flag; see its --help")
    if "model" in lowered and ("not available" in lowered or "not found" in lowered):
        return Unavailable(first, hint="choose another model with --model")
    if "rate limit" in lowered:
        return RateLimited(first)
    return Crashed(first)
