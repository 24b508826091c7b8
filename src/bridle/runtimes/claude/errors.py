"""What a failure of Claude Code means, as one of Bridle's typed errors.

A failed model call ends in a result whose `subtype` is "success"; `is_error`, the HTTP status and
the word in the CLI's own error message are what tells the failure, in that order of trust.
"""

import re

from bridle.core.errors import (
    Aborted,
    AgentError,
    Billing,
    BudgetExceeded,
    ContextOverflow,
    Crashed,
    GuardRefused,
    NotAuthenticated,
    Overloaded,
    ProtocolDrift,
    RateLimited,
    ResumeRefused,
    Unavailable,
    error_for_status,
)
from bridle.process.spec import ProcessExit
from bridle.runtimes.claude.wire import Result

LOGIN_HINT = "log in with `claude` (then /login), or set ANTHROPIC_API_KEY"
_LIMITS = ("error_max_turns", "error_max_budget_usd")
_NOT_RETRYABLE = "the service refused the request itself; the same request will be refused again"
_LONGEST = 500

_RESET = re.compile(r"\breset[s]?(?: at)?\W{1,3}(\d{10})\b|\|(\d{10})\b")
"""A reset time inside a message, in Unix seconds."""


def error_of_result(
    result: Result, tag: str | None, *, resets_at: float | None = None, model: str | None = None
) -> AgentError | None:
    """The failure that a result tells, None when it tells success.

    `tag` is the error word of the CLI's own message before the result, `resets_at` the end of an
    account's limit (Unix seconds) where the CLI told one.
    """
    stopped = _STOPPED.get(result.terminal_reason or "")
    if not result.is_error:
        return Aborted(stopped) if stopped and not result.result else None
    text = _short(result.result or "; ".join(str(part) for part in result.errors))
    if result.subtype in _LIMITS or result.terminal_reason == "max_turns":
        return BudgetExceeded(text or "a limit was reached")
    if "No conversation found" in text or "already in use" in text:
        return ResumeRefused(text)
    if stopped:
        return Aborted(stopped)
    if result.terminal_reason == "prompt_too_long":
        return ContextOverflow(text)
    if result.stop_reason == "refusal":
        return Unavailable(text, hint="the model refused; rephrase, or use another model")
    if tag is None and result.api_error_status is None and result.subtype != "success":
        return Crashed(text or "the agent gave up without saying why")
    return error_of_tag(
        tag, result.api_error_status, text, until=_until(text, resets_at), model=model
    )


_STOPPED = {
    "aborted_streaming": "the agent was interrupted while the model answered",
    "aborted_tools": "the agent was interrupted while a tool ran",
    "hook_stopped": "a hook of the user's settings stopped the agent",
    "tool_deferred": "a hook of the user's settings put off a tool call and so ended the turn",
}


def error_of_tag(
    tag: str | None,
    status: int | None,
    text: str,
    *,
    until: str | None = None,
    model: str | None = None,
) -> AgentError:
    """The error that Claude's own word for it and the HTTP status call for."""
    if status == 404 or tag == "model_not_found":
        return Unavailable(text, hint=f"check the model name: {model or 'none given'}")
    if tag == "authentication_failed" or status in (401, 403):
        return NotAuthenticated(text, hint=LOGIN_HINT)
    if tag == "billing_error":
        return Billing(text)
    if tag == "max_output_tokens":
        return ContextOverflow(text, hint="ask for less at once, or raise the output limit")
    if tag == "rate_limit" or status == 429:
        # Not by the shared mapping: Claude puts words of its own around the service's message.
        return RateLimited(text, until=until)
    if tag == "overloaded":
        return Overloaded(text)
    error = error_for_status(status or 0, text, until=until)
    if status == 400 and isinstance(error, Unavailable):
        return Unavailable(text, hint=_NOT_RETRYABLE)
    return error


def error_of_prompt_block(text: str) -> AgentError:
    """The user's own hook refused the prompt: nothing was asked of the model."""
    return GuardRefused(_short(text), hint="look at the UserPromptSubmit hooks in your settings")


def error_of_exit(exit: ProcessExit) -> AgentError | None:
    """Why a process that gave no result ended, as far as its last words tell; else None."""
    text = _short(exit.last_words.strip())
    if exit.code is None or exit.code < 0 or exit.code > 128:
        return Aborted("the agent was interrupted") if exit.code == 130 else None
    lowered = text.lower()
    if "no conversation found" in lowered or "already in use" in lowered:
        return ResumeRefused(text)
    if "not logged in" in lowered or "/login" in lowered or "invalid api key" in lowered:
        return NotAuthenticated(text, hint=LOGIN_HINT)
    if "unknown option" in lowered:
        return ProtocolDrift(text, hint="this version does not know the flag; see its --help")
    if exit.code != 0 and exit.stderr_tail.strip():
        return ProtocolDrift(text, hint="the CLI refused to start; its own message says why")
    return None


def _until(text: str, resets_at: float | None) -> str | None:
    found = _RESET.search(text)
    seconds = float(found[1] or found[2]) if found else resets_at
    return None if seconds is None else utc(seconds)


def utc(seconds: float) -> str:
    """A moment in Unix seconds as RFC 3339 in UTC."""
    import time

    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(seconds))


def _short(text: str) -> str:
    return text if len(text) <= _LONGEST else text[:_LONGEST] + "…"
