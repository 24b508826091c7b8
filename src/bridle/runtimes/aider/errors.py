"""From what Aider prints about a failure to the typed error that calls for the right reaction."""

from bridle.core.errors import (
    AgentError,
    ContextOverflow,
    Crashed,
    NotAuthenticated,
    Overloaded,
    ProtocolDrift,
)
from bridle.runtimes.errors import error_of_service, short
from bridle.runtimes.limits import reset_time

PREFIX = "litellm."
_LOGIN_HINT = "set the key variable of the model's provider, such as OPENAI_API_KEY"

_STATUS = {
    "AuthenticationError": 401,
    "PermissionDeniedError": 403,
    "NotFoundError": 404,
    "UnprocessableEntityError": 422,
    "BadRequestError": 400,
    "InvalidRequestError": 400,
    "UnsupportedParamsError": 400,
    "ContentPolicyViolationError": 400,
    "RateLimitError": 429,
    "RouterRateLimitError": 429,
    "InternalServerError": 500,
    "BadGatewayError": 502,
    "ServiceUnavailableError": 503,
    "APIConnectionError": 500,
    "APIError": 500,
    "Timeout": 500,
}
"""Classes of the library that Aider calls models with, and the status each stands for."""


def error_of_line(line: str, model: str = "") -> AgentError:
    """The error behind a line such as `litellm.RateLimitError: RateLimitError: … - words`.

    The class decides; the words only where the class hides the status.
    """
    name, _, rest = line.removeprefix(PREFIX).partition(":")
    words = rest.strip().removeprefix(f"{name}: ").strip()
    _, dash, told = words.partition("Exception - ")
    message = short(told if dash and told else words) or f"the model call failed ({name})"
    lowered = message.lower()
    if name == "ContextWindowExceededError":
        return ContextOverflow(message)
    status = _STATUS.get(name, 500)
    if status == 400 and ("not have access" in lowered or "forbidden" in lowered):
        # A refusal with status 403 arrives under the name of a bad request.
        status = 403
    if status >= 500 and "overloaded" in lowered:
        return Overloaded(message)
    if status == 429 and "exceeded your current quota" in lowered:
        status = 402
    return error_of_service(
        status, message, until=reset_time(message), model=model, login_hint=_LOGIN_HINT
    )


def error_of_death(code: int | None, stderr: str, last: list[str]) -> AgentError | None:
    """Why Aider ended before it worked, from its last words; None when they are no help."""
    if code is None or code < 0:
        return None
    lines = [line.strip() for line in stderr.splitlines() if line.strip()]
    lowered = stderr.lower()
    if "unrecognized arguments" in lowered or "invalid choice" in lowered:
        return ProtocolDrift(short(lines[-1]))
    said = short(lines[-1] if lines else (last[-1] if last else ""))
    joined = " ".join(last).lower()
    if "no llm model was specified" in joined or "api key" in joined or "_api_key" in joined:
        return NotAuthenticated(said or "no model and no key", hint=_LOGIN_HINT)
    if code == 0:
        return None
    return Crashed(f"aider exited {code}: {said}" if said else f"aider exited {code}")


def drift(lines: list[str]) -> AgentError:
    """The error of a run whose output has none of the marks a known version prints."""
    for line in lines:
        if line.startswith(PREFIX):
            return error_of_line(line)
    return ProtocolDrift("aider ended without any line of its log")
