"""Failures as OpenAI's interfaces send them, shared by Responses and Chat Completions."""

from typing import Any

from bridle.testing.wire.base import Problem, Refusal, new_id, whole_seconds

_SHAPES: dict[str, tuple[int, str, str | None, str]] = {
    "authentication": (
        401,
        "invalid_request_error",
        "invalid_api_key",
        "Incorrect API key provided. You can find your API key at "
        "https://platform.openai.com/account/api-keys.",
    ),
    "permission": (
        403,
        "invalid_request_error",
        "permission_denied",
        "You do not have access to this resource.",
    ),
    "rate_limit": (
        429,
        "requests",
        "rate_limit_exceeded",
        "Rate limit reached for {model} on requests per min (RPM): Limit 3, Used 3, Requested 1. "
        "Please try again in {wait}s.",
    ),
    "usage_limit": (429, "usage_limit_reached", None, "The usage limit has been reached"),
    "quota": (
        429,
        "insufficient_quota",
        "insufficient_quota",
        "You exceeded your current quota, please check your plan and billing details. For more "
        "information on this error, read the docs: "
        "https://platform.openai.com/docs/guides/error-codes/api-errors.",
    ),
    "server_error": (
        500,
        "server_error",
        None,
        "The server had an error while processing your request. Sorry about that!",
    ),
    "overloaded": (
        503,
        "service_unavailable_error",
        "server_is_overloaded",
        "Our servers are currently overloaded. Please try again later.",
    ),
    "context_overflow": (
        400,
        "invalid_request_error",
        "context_length_exceeded",
        "Your input exceeds the context window of this model. Please adjust your input and try "
        "again.",
    ),
    "not_found": (
        404,
        "invalid_request_error",
        "model_not_found",
        "The model `{model}` does not exist or you do not have access to it.",
    ),
    "bad_request": (400, "invalid_request_error", None, "The request is not valid."),
    "too_large": (413, "invalid_request_error", None, "Request body is too large."),
}


def openai_refusal(problem: Problem, *, overflow_message: str | None = None) -> Refusal:
    """Return an error as OpenAI sends it."""
    status, kind, code, message = _SHAPES[problem.kind]
    if problem.kind == "context_overflow" and overflow_message:
        message = overflow_message
    wait = whole_seconds(problem.retry_after if problem.retry_after is not None else 20)
    error: dict[str, Any] = {
        "message": problem.message or message.format(model=problem.model, wait=wait),
        "type": problem.error_type or kind,
        "param": None,
        "code": code,
    }
    if problem.kind == "usage_limit":
        resets = problem.resets_at if problem.resets_at is not None else int(problem.now) + 3600
        error |= {
            "plan_type": "pro",
            "resets_at": resets,
            "resets_in_seconds": max(0, resets - int(problem.now)),
        }
    return Refusal(
        status=problem.status or status,
        headers={"x-request-id": new_id("req_"), **_limit_headers(problem), **problem.headers},
        body={"error": error} if problem.body is None else problem.body,
    )


def _limit_headers(problem: Problem) -> dict[str, str]:
    headers: dict[str, str] = {}
    if problem.retry_after is not None:
        headers["retry-after"] = whole_seconds(problem.retry_after)
    if problem.kind == "rate_limit":
        headers |= {"x-ratelimit-limit-requests": "3", "x-ratelimit-remaining-requests": "0"}
        if problem.resets_at is not None:
            left = max(0, problem.resets_at - int(problem.now))
            headers["x-ratelimit-reset-requests"] = f"{left}s"
    return headers
