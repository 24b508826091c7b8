"""Failures of OpenCode become typed errors."""

import pytest

from bridle.process.spec import ProcessExit
from bridle.runtimes.opencode.stream import error_from_event, error_from_exit
from bridle.runtimes.opencode.wire import ErrorData, Problem


@pytest.mark.parametrize(
    ("name", "status", "body", "kind"),
    [
        ("APIError", 401, "", "not_authenticated"),
        ("APIError", 403, "", "not_authenticated"),
        ("APIError", 404, "", "unavailable"),
        ("APIError", 429, "", "rate_limited"),
        ("APIError", 429, '{"error":{"code":"insufficient_quota"}}', "billing"),
        ("APIError", 413, "", "context_overflow"),
        ("APIError", 500, "", "unavailable"),
        ("APIError", 503, "", "overloaded"),
        ("APIError", 529, "", "overloaded"),
        ("ContextOverflowError", None, "", "context_overflow"),
        ("MessageOutputLengthError", None, "", "context_overflow"),
        ("ProviderAuthError", None, "", "not_authenticated"),
        ("MessageAbortedError", None, "", "aborted"),
        ("UnknownError", None, "", "unavailable"),
    ],
)
def test_errors_are_typed(name: str, status: int | None, body: str, kind: str) -> None:
    data = ErrorData(message="it failed", status_code=status, response_body=body)
    assert error_from_event(Problem(name=name, data=data), "p/m").kind == kind


def test_a_reset_time_is_told() -> None:
    data = ErrorData(message="slow", status_code=429, response_headers={"retry-after": "30"})
    assert error_from_event(Problem(name="APIError", data=data)).until is not None


@pytest.mark.parametrize(
    ("stderr", "kind"),
    [
        ("\x1b[91m\x1b[1mError: \x1b[0mSession not found", "resume_refused"),
        ("opencode run [message..]\n\nrun opencode with a message\n", "protocol_drift"),
        ("Error: Model not found: foo/bar", "unavailable"),
        ("Error: Configuration is invalid at x", "crashed"),
        ("segmentation fault", "crashed"),
    ],
)
def test_a_run_that_never_began_is_explained(stderr: str, kind: str) -> None:
    error = error_from_exit(ProcessExit(code=1, stderr_tail=stderr), "foo/bar")
    assert error is not None
    assert error.kind == kind
    assert "\x1b" not in error.message


def test_silence_is_left_to_the_exit() -> None:
    assert error_from_exit(ProcessExit(code=1)) is None
    assert error_from_exit(ProcessExit(code=-9, stderr_tail="text")) is None
