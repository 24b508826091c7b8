"""Failures of Gemini become typed errors."""

import json

import pytest

from bridle.process.spec import ProcessExit
from bridle.runtimes.gemini.stream import error_from_exit, error_from_text
from tests.runtimes.gemini.captures import TESTDATA


@pytest.mark.parametrize(
    ("code", "message", "kind"),
    [
        (401, "no", "not_authenticated"),
        (403, "no", "not_authenticated"),
        (400, "API key not valid. Please pass a valid API key.", "not_authenticated"),
        (
            400,
            "The input token count (1250000) exceeds the maximum number of tokens allowed (1).",
            "context_overflow",
        ),
        (400, "Request contains an invalid argument.", "unavailable"),
        (404, "models/x is not found", "unavailable"),
        (429, "Resource has been exhausted", "rate_limited"),
        (500, "An internal error has occurred.", "unavailable"),
        (503, "The model is overloaded.", "overloaded"),
    ],
)
def test_errors_are_typed(code: int, message: str, kind: str) -> None:
    body = json.dumps({"error": {"code": code, "message": message, "status": "X"}})
    assert error_from_text(f"[API Error: {body}]", "m").kind == kind


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("[API Error: exception TypeError: fetch failed sending request]", "unavailable"),
        ("[API Error: terminated]", "unavailable"),
        ("[API Error: Resource has been exhausted]", "rate_limited"),
        ("", "unavailable"),
    ],
)
def test_errors_without_a_status_are_typed_by_their_words(text: str, kind: str) -> None:
    assert error_from_text(text).kind == kind


def test_a_reset_time_is_told() -> None:
    details = [{"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "30s"}]
    body = {"error": {"code": 429, "message": "slow", "details": details}}
    assert error_from_text(f"[API Error: {json.dumps(body)}]").until is not None


@pytest.mark.parametrize(
    ("code", "stderr", "kind"),
    [
        (41, "Warning: x\nInvalid auth method selected.", "not_authenticated"),
        (42, 'Error resuming session: Invalid session identifier "x".', "resume_refused"),
        (53, "Reached max session turns", "budget_exceeded"),
        (55, "Gemini CLI is not running in a trusted directory.", "crashed"),
        (52, "Invalid settings", "crashed"),
        (1, "Unknown argument: nonsense\nUsage: gemini [options]", "protocol_drift"),
        (1, "SyntaxError: something", "crashed"),
    ],
)
def test_a_run_that_never_began_is_explained(code: int, stderr: str, kind: str) -> None:
    error = error_from_exit(ProcessExit(code=code, stderr_tail=stderr))
    assert error is not None
    assert error.kind == kind
    assert not error.message.startswith("Warning")


def test_settings_that_gemini_skipped_are_the_reason_for_a_missing_login() -> None:
    said = (TESTDATA / "headless-skipped-settings.stderr").read_text()
    error = error_from_exit(ProcessExit(code=41, stderr_tail=said))
    assert error is not None
    assert error.kind == "crashed"
    assert "Skipping system settings file '/home/user/settings/settings.json'" in error.message
    assert "--settings" in error.hint
    # With a login it may fail for something else.
    said = said.replace("Invalid auth", "Unknown argument")
    other = error_from_exit(ProcessExit(code=1, stderr_tail=said))
    assert other is not None
    assert (other.kind, "Skipping" in other.message) == ("protocol_drift", False)


def test_silence_is_left_to_the_exit() -> None:
    assert error_from_exit(ProcessExit(code=0)) is None
    assert error_from_exit(ProcessExit(code=-9, stderr_tail="text")) is None


def test_an_exit_status_without_words_is_still_explained() -> None:
    error = error_from_exit(ProcessExit(code=41))
    assert error is not None
    assert (error.kind, error.message) == ("not_authenticated", "the process exited 41")
