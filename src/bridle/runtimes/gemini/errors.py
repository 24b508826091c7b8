"""From what Gemini CLI says about a failure to the typed error that calls for a reaction."""

import re
from typing import Any

import msgspec

from bridle.core.errors import (
    AGENT_ERRORS,
    AgentError,
    Crashed,
    NotAuthenticated,
    ProtocolDrift,
    RateLimited,
)
from bridle.runtimes.errors import error_of_service, short, until_in
from bridle.runtimes.gemini.dialects import GeminiDialect

LOGIN_HINT = "set GEMINI_API_KEY, or start `gemini` and choose a login"
_SKIPPED = "Security Warning: Skipping"
_NOISE = ("Warning:", _SKIPPED, "YOLO mode", "Ripgrep is not available", "[STARTUP]", "    at ")
_SKIPPED_HINT = (
    "gemini reads the system's settings only where root owns the file and every folder above it; "
    "give yours in ~/.gemini/settings.json or with --settings"
)
_DELAY = re.compile(r"retry (?:after|in) (\d+(?:\.\d+)?)s", re.IGNORECASE)


class _Body(msgspec.Struct):
    code: int | None = None
    message: str = ""
    status: str = ""
    details: list[dict[str, Any]] = []


class _Wrapped(msgspec.Struct):
    error: _Body


def error_from_text(text: str, model: str = "", status: int | None = None) -> AgentError:
    """The error behind a sentence such as `[API Error: {"error": {"code": 401, …}}]`."""
    bare = text.strip().removeprefix("[API Error:").removesuffix("]").strip()
    body = _body_in(bare)
    if body is None:
        until = _until(bare, [])
        if status is None and ("exhausted" in bare.lower() or "quota" in bare.lower()):
            return RateLimited(short(bare), until=until)
        return error_of_service(status, bare, model=model, until=until, login_hint=LOGIN_HINT)
    message = f"{body.message} ({body.status})" if body.status else body.message
    return error_of_service(
        body.code or status or 500,
        message,
        model=model,
        until=_until(text, body.details),
        login_hint=LOGIN_HINT,
    )


def _body_in(text: str) -> _Body | None:
    start, end = text.find("{"), text.rfind("}")
    if start < 0 or end < start:
        return None
    try:
        return msgspec.json.decode(text[start : end + 1], type=_Wrapped).error
    except msgspec.MsgspecError:
        return None


def _until(text: str, details: list[dict[str, Any]]) -> str | None:
    for detail in details:
        delay = str(detail.get("retryDelay", ""))
        if delay.endswith("s") and delay[:-1].replace(".", "", 1).isdigit():
            return until_in(float(delay[:-1]))
    found = _DELAY.search(text)
    return until_in(float(found[1])) if found else None


def error_from_exit(
    stderr: str, code: int | None, dialect: GeminiDialect, model: str = ""
) -> AgentError | None:
    """Why Gemini never began to work, from its exit status and standard error; None when neither
    is of help."""
    if code is None or code < 0:
        return None
    lines = [line.strip() for line in stderr.splitlines() if line.strip()]
    said = [line for line in lines if not line.startswith(_NOISE)]
    first = short(said[0]) if said else f"gemini exited {code}"
    skipped = [line for line in lines if line.startswith(_SKIPPED)]
    if skipped and code == 41:
        # The login that it misses may stand in that file.
        return Crashed(short(skipped[0]), hint=_SKIPPED_HINT)
    for number, kind in dialect.exits:
        if code == number:
            error = AGENT_ERRORS[kind](first)
            return NotAuthenticated(first, hint=LOGIN_HINT) if number == 41 else error
    if any(line.startswith(("Unknown argument", "Invalid values")) for line in said):
        return ProtocolDrift(first)
    if code == 55:
        return Crashed(first, hint="the folder is not trusted; see the option trust_project")
    if code == 52:
        return Crashed(first, hint="repair Gemini's settings, or the settings given")
    if "API Error" in stderr or "talking to Gemini API" in stderr:
        return error_from_text(first, model)
    return Crashed(first) if said and code else None
