"""From what agents say about a failure to typed errors.

The protocol defines codes for its own failures and none for the model service's. Agents put the
service's status into the code (Gemini), into a text (Codex, Copilot), into data of their own
(Claude), or leave only the service's words (OpenCode).
"""

import re
from typing import Any

from bridle.core.errors import (
    AgentError,
    Billing,
    ContextOverflow,
    Crashed,
    NotAuthenticated,
    NotInstalled,
    Overloaded,
    ProtocolDrift,
    RateLimited,
    ResumeRefused,
    Unavailable,
)
from bridle.process.spec import ProcessExit
from bridle.runtimes.acp import wire
from bridle.runtimes.errors import error_of_service, short
from bridle.runtimes.limits import reset_time

_STATUS = re.compile(
    r"(?:\bstatus(?: code)?|\bHTTP|\bcode|\berror)\W{0,4}([45]\d\d)\b|^\W*([45]\d\d)\b",
    re.IGNORECASE,
)
_KINDS: dict[str, type[AgentError]] = {
    "authentication_failed": NotAuthenticated,
    "billing_error": Billing,
    "max_output_tokens": ContextOverflow,
    "overloaded": Overloaded,
    "rate_limit": RateLimited,
}
"""Claude's own words for a failure, in `data.errorKind`."""


def error_of_call(error: wire.RpcError, *, model: str | None = None) -> AgentError:
    """The error behind a JSON-RPC error of any call."""
    text = message_of(error)
    if error.code == wire.AUTH_REQUIRED:
        return NotAuthenticated(text or "the agent wants a login first")
    tag = error.data.get("errorKind") if isinstance(error.data, dict) else None
    if isinstance(tag, str):
        cls = _KINDS.get(tag)
        if cls is not None:
            return cls(text, until=reset_time(text) if cls is RateLimited else None)
    if 400 <= error.code < 600:
        return _of_status(error.code, text, model)
    return error_of_text(text, model=model)


def error_of_load(error: wire.RpcError, session_id: str) -> AgentError:
    """Why a session was not taken up again."""
    if error.code == wire.AUTH_REQUIRED:
        return error_of_call(error)
    return ResumeRefused(
        f"the agent did not take up session {session_id}: {message_of(error)}",
        hint="start a new session; this one is gone, or belongs to another folder",
    )


def error_of_text(text: str, *, model: str | None = None) -> AgentError:
    """The error that an agent's words tell."""
    found = _STATUS.search(text)
    status = int(found[1] or found[2]) if found else None
    return _of_status(status, text, model)


def error_of_stop(reason: str) -> AgentError | None:
    """The failure that a stop reason tells; None for the one that tells success."""
    from bridle.core.errors import Aborted, BudgetExceeded

    if reason == "end_turn":
        return None
    if reason == "max_tokens":
        return ContextOverflow("the answer was cut at the model's output limit")
    if reason == "max_turn_requests":
        return BudgetExceeded("the agent reached its own limit of model calls")
    if reason == "refusal":
        return Unavailable("the model refused", hint="rephrase, or use another model")
    if reason == "cancelled":
        return Aborted("the turn was cancelled")
    return ProtocolDrift(
        f"the agent stopped for a reason that Bridle does not know: {reason or 'none'}"
    )


SILENCE: dict[str, tuple[type[AgentError], str]] = {
    "": (Unavailable, "the agent ended its turn without doing anything"),
    "not_authenticated": (
        NotAuthenticated,
        "the agent ended its turn without doing anything, as it does when its key is refused",
    ),
}
"""What a turn that ended with nothing at all was, by the row's `silent_error`."""


def error_of_silence(meaning: str) -> AgentError:
    """The failure of a turn that ended like a success and brought nothing."""
    cls, message = SILENCE[meaning]
    return cls(message, hint="check the agent's login and model; its log may tell more")


def error_of_exit(exit: ProcessExit) -> AgentError | None:
    """Why a process that answered nothing ended, as far as its standard error tells; else None."""
    if exit.code is None or exit.code < 0:
        return None
    text = _complaint(exit.last_words)
    lowered = text.lower()
    if any(word in lowered for word in ("unknown option", "unknown argument", "unexpected arg")):
        return ProtocolDrift(text, hint="this version does not know the flag; see its --help")
    if "cannot find module" in lowered or "could not find" in lowered:
        return NotInstalled(text, hint="install the agent again; a part of it is missing")
    if text and isinstance(error_of_text(text), NotAuthenticated):
        return NotAuthenticated(text)
    if exit.code == 0:
        return ProtocolDrift(
            "the agent ended without answering `initialize`",
            hint="check that this command and its flags start an ACP agent",
        )
    return Crashed(f"the agent did not start: {text}") if text else None


def message_of(error: wire.RpcError) -> str:
    """What a JSON-RPC error says, the agent's own data included."""
    inner = _text_in(error.data)
    text = error.message
    if text.startswith("{"):
        text = _text_in(_json(text)) or text
    if inner and inner not in text:
        text = inner if text in ("", "Internal error") else f"{text}: {inner}"
    return short(text or f"error {error.code}")


def _text_in(data: Any) -> str:
    """The sentence inside an error's data, however deep it lies."""
    if isinstance(data, str):
        return data
    if isinstance(data, dict):
        for key in ("message", "details", "error", "errorMessage"):
            text = _text_in(data.get(key))
            if text:
                return text
    return ""


def _json(text: str) -> Any:
    import msgspec

    try:
        return msgspec.json.decode(text)
    except msgspec.MsgspecError:
        return None


def _of_status(status: int | None, text: str, model: str | None) -> AgentError:
    until = reset_time(text)
    if status == 400:
        # Google refuses a wrong key with it, others an overflow or an empty purse.
        meant = error_of_service(None, text, until=until)
        if not isinstance(meant, Unavailable):
            return meant
    return error_of_service(status, text, until=until, model=model)


def _complaint(stderr: str) -> str:
    """The line of standard error that says what is wrong."""
    lines = [line.strip() for line in stderr.splitlines() if line.strip()]
    for line in lines:
        if "error" in line.lower():
            return short(line)
    return short(lines[-1]) if lines else ""
