"""From what Aider prints about a failure to the typed error that calls for the right reaction."""

from bridle.core.errors import (
    AgentError,
    ContextOverflow,
    Crashed,
    NotAuthenticated,
    Overloaded,
    ProtocolDrift,
    Unavailable,
    error_for_status,
)

PREFIX = "litellm."
_LONGEST = 400
_LOGIN_HINT = "set the key variable of the model's provider, such as OPENAI_API_KEY"
_REFUSED_HINT = "the service refused the request; the same request will fail again"

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
        return error_for_status(402, message)
    error = error_for_status(status, message, until=_until(message))
    if isinstance(error, NotAuthenticated):
        error.hint = _LOGIN_HINT
    elif status == 404:
        error.hint = f"the service does not know the model {model}; choose another with --model"
    elif isinstance(error, Unavailable) and 400 <= status < 500:
        error.hint = _REFUSED_HINT
    return error


def _until(message: str) -> str | None:
    """When to try again, where the words name a delay: `try again in 20s`."""
    _, found, rest = message.lower().partition("try again in ")
    word = rest.split()[0].rstrip(".,") if found and rest.split() else ""
    number = word.removesuffix("s")
    if number == word or not number.replace(".", "", 1).isdigit():
        return None
    import time

    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() + float(number)))


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


def short(text: str) -> str:
    """A message on one line, cut where nobody reads on."""
    line = " ".join(text.split())
    return line if len(line) <= _LONGEST else f"{line[:_LONGEST]}…"
