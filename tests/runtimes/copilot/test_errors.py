"""Failed calls, failed turns and early exits become typed errors."""

import pytest

from bridle.process.spec import ProcessExit
from bridle.runtimes.copilot.product import PRODUCT
from bridle.runtimes.copilot.stream import error_of_call, error_of_session
from bridle.runtimes.copilot.wire import CallFailure, Failure
from tests.runtimes.copilot.captures import TESTDATA


@pytest.mark.parametrize(
    ("status", "message", "kind"),
    [
        (401, "no", "not_authenticated"),
        (403, "no", "not_authenticated"),
        (429, '{"message":"slow down","code":"rate_limit_exceeded"}', "rate_limited"),
        (429, '{"message":"no","code":"insufficient_quota"}', "billing"),
        (402, "pay", "billing"),
        (500, "oops", "unavailable"),
        (503, "busy", "overloaded"),
        (529, "busy", "overloaded"),
        (400, '{"message":"too long","code":"context_length_exceeded"}', "context_overflow"),
        (413, "too big", "context_overflow"),
        (404, "no such model", "unavailable"),
        (None, "Failed native model HTTP request: connection refused", "unavailable"),
        (None, "Check your COPILOT_PROVIDER_API_KEY and api key", "unavailable"),
    ],
)
def test_failed_calls(status: int | None, message: str, kind: str) -> None:
    call = CallFailure(status_code=status, error_message=message, model="m-1")
    error = error_of_call(call)
    assert error.kind == kind
    whole = error_of_session(Failure(error_type="query", message="It failed."), call)
    assert (whole.kind, whole.message) == (kind, "It failed.")
    if status == 404:
        assert "m-1" in error.hint


def test_when_to_try_again() -> None:
    error = error_of_call(CallFailure(status_code=429, error_message="Please try again in 3s."))
    assert error.until is not None
    assert error.until.endswith("Z")


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("quota", "billing"),
        ("rate_limit", "rate_limited"),
        ("authentication", "not_authenticated"),
        ("authorization", "not_authenticated"),
        ("context_limit", "context_overflow"),
        ("query", "unavailable"),
    ],
)
def test_errors_without_a_status(kind: str, expected: str) -> None:
    error = error_of_session(Failure(error_type=kind, message="It failed."), None)
    assert error.kind == expected


@pytest.mark.parametrize(
    ("stderr", "kind"),
    [
        ((TESTDATA / "no-auth.stderr").read_text(), "not_authenticated"),
        ((TESTDATA / "bad-resume.stderr").read_text(), "resume_refused"),
        ("error: unexpected argument '--zz' found\n\nUsage: copilot", "protocol_drift"),
        ("GitHub Copilot CLI: no platform package found. Reinstall", "not_installed"),
        ("BYOK providers require an explicit model.", "unavailable"),
        ("Something else", "crashed"),
    ],
)
def test_a_process_that_said_nothing(stderr: str, kind: str) -> None:
    error = PRODUCT.errors.of_exit(ProcessExit(code=1, stderr_tail=stderr))
    assert error is not None
    assert error.kind == kind


def test_only_the_exit_tells() -> None:
    assert PRODUCT.errors.of_exit(ProcessExit(code=-9, stderr_tail="words")) is None
    assert PRODUCT.errors.of_exit(ProcessExit(code=1, stderr_tail="")) is None
