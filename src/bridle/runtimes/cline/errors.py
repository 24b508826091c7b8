"""From what Cline says about a failure to the typed error that calls for the right reaction."""

import msgspec

from bridle.core.errors import (
    Aborted,
    AgentError,
    BudgetExceeded,
    ContextOverflow,
    Crashed,
    GuardRefused,
    NotAuthenticated,
    NotInstalled,
    ProtocolDrift,
)
from bridle.process.spec import ProcessExit
from bridle.runtimes.cline.run_log import FailedCall
from bridle.runtimes.cline.wire import ErrorLine
from bridle.runtimes.errors import error_of_service, short

LOGIN_HINT = "log in with `cline auth`, or give a provider and its key"


def error_of_run(
    text: str, error_class: str, call: FailedCall | None, model: str | None
) -> AgentError:
    """The error of a run that ended in one. The failed call of the log knows best; without it the
    class that Cline gave it, then its words."""
    message = text or (call.message if call else "")
    if error_class == "context_window_exceeded":
        return ContextOverflow(short(message))
    if call is not None:
        words = f"{message} {call.response_body or ''}"
        error = error_of_service(
            call.status_code, words, until=call.until, model=model, login_hint=LOGIN_HINT
        )
        error.message = short(message) or error.message
        return error
    if error_class == "auth":
        return NotAuthenticated(short(message), hint=LOGIN_HINT)
    return error_of_service(None, message, model=model, login_hint=LOGIN_HINT)


def error_of_reason(reason: str, text: str) -> AgentError | None:
    """The failure that a finish reason tells; None for success and for an error told elsewhere."""
    if reason in ("completed", "error"):
        return None
    if reason == "aborted":
        return Aborted("the agent's work was aborted")
    if reason in ("max_iterations", "max_turns"):
        return BudgetExceeded("cline reached its own limit of model calls")
    if reason in ("max_tokens", "length"):
        return ContextOverflow("the answer was cut at the model's output limit")
    return Crashed(short(f"cline ended its work for {reason or 'no reason'}: {text}"))


def error_of_abort(reason: str, message: str) -> AgentError:
    """Why a run was aborted."""
    if reason == "external_abort":
        # The only other client of a run in its own process is one of the project's or user's hooks.
        return GuardRefused(
            f"a hook ended the run: {message}", hint="look at the hooks in .clinerules/hooks"
        )
    return Aborted("the agent's work was aborted")


def error_of_exit(exit: ProcessExit) -> AgentError | None:
    """Why a process that began no run ended, as its standard error tells; None: ask its exit."""
    if exit.code is None or exit.code < 0 or exit.code > 128:
        return None
    said = _said(exit.last_words)
    if not said:
        return None
    lowered = said.lower()
    if "unknown option" in lowered or "invalid " in lowered or "json output mode" in lowered:
        return ProtocolDrift(said, hint="this version does not know the flag; see its --help")
    if "could not find the cline cli binary" in lowered:
        return NotInstalled(said, hint="install it with `npm install -g cline`")
    if "api key" in lowered or "cline auth" in lowered or "log in" in lowered:
        return NotAuthenticated(said, hint=LOGIN_HINT)
    return Crashed(said)


def _said(stderr: str) -> str:
    """The last JSON error of stderr, else its first line that is none of the warnings'."""
    lines = [line.strip() for line in stderr.splitlines() if line.strip()]
    for line in reversed(lines):
        if line.startswith("{"):
            try:
                return short(msgspec.json.decode(line, type=ErrorLine).message)
            except msgspec.MsgspecError:
                continue
    plain = [line for line in lines if "Warning" not in line and not line.startswith("at ")]
    return short(plain[0]) if plain else ""
