"""From what OpenCode says about a failure to the typed error that calls for the right reaction."""

import re

from bridle.core.errors import (
    Aborted,
    AgentError,
    ContextOverflow,
    Crashed,
    NotAuthenticated,
    ProtocolDrift,
    ResumeRefused,
    Unavailable,
)
from bridle.runtimes.errors import error_of_service, short, until_in
from bridle.runtimes.limits import reset_time
from bridle.runtimes.opencode.wire import Problem

LOGIN_HINT = "run `opencode auth login`, or set the provider's key variable"
_COLOURS = re.compile(r"\x1b\[[0-9;]*m")


def error_from_event(problem: Problem, model: str = "") -> AgentError:
    """The error behind a line of type `error`."""
    data = problem.data
    message = short(data.message or problem.name or "the model call failed")
    if problem.name in ("ContextOverflowError", "MessageOutputLengthError"):
        return ContextOverflow(message)
    if problem.name == "ProviderAuthError":
        return NotAuthenticated(message, hint=LOGIN_HINT)
    if problem.name == "MessageAbortedError":
        return Aborted(message)
    if data.status_code is not None:
        return error_of_service(
            data.status_code,
            f"{message} {_code_in(data.response_body)}",
            model=model,
            until=_until(data.message, data.response_headers),
            login_hint=LOGIN_HINT,
        )
    return error_from_sentence(data.message or message)


def _code_in(body: str) -> str:
    """The word by which a body tells an empty purse and an overflow from their neighbours."""
    for code in ("insufficient_quota", "context_length_exceeded"):
        if code in body:
            return f"({code})"
    return ""


def error_from_sentence(text: str) -> AgentError:
    """The error that a sentence of the log speaks of; it names no status."""
    bare = text.removeprefix("AI_APICallError: ")
    return error_of_service(None, bare, login_hint=LOGIN_HINT, until=_until(bare, {}))


def _until(text: str, headers: dict[str, str]) -> str | None:
    given = headers.get("retry-after", "")
    return until_in(int(given)) if given.isdigit() else reset_time(text)


def error_from_stderr(stderr: str, code: int | None, model: str = "") -> AgentError | None:
    """Why OpenCode never began to work, from its standard error; None when that is no help."""
    if code is None or code < 0:
        return None
    lines = [line.strip() for line in _COLOURS.sub("", stderr).splitlines() if line.strip()]
    if not lines:
        return None
    text = "\n".join(lines)
    first = next((line for line in lines if line.startswith("Error:")), lines[-1])
    first = short(first.removeprefix("Error:"))
    if "Session not found" in text:
        return ResumeRefused("opencode has no such session")
    if lines[0].startswith("opencode run ["):
        # It answers an argument it does not know with the whole help, and not a word about which.
        return ProtocolDrift("opencode does not know one of the arguments it was given")
    if "ModelNotFoundError" in text or "Model not found" in text:
        return unknown_model(model)
    if "Configuration is invalid" in text or "ConfigInvalidError" in text:
        return Crashed(first, hint="repair opencode's configuration, or the settings given")
    return Crashed(first)


def unknown_model(model: str) -> AgentError:
    """The error for a model that OpenCode has not heard of."""
    return Unavailable(
        f"opencode knows no model {model}".rstrip(),
        hint="see `opencode models` for those of the providers you are logged in to",
    )
