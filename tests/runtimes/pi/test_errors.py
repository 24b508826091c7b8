"""Typed errors from what Pi says about failures."""

import time

import pytest

from bridle.core.errors import AgentError
from bridle.process.spec import ProcessExit
from bridle.runtimes.pi.product import ERRORS
from bridle.runtimes.pi.stream import error_of_message
from tests.runtimes.pi.captures import play

BODY = '{{"type":"error","error":{{"type":"{}","message":"{}"}}}}'


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("401 " + BODY.format("authentication_error", "invalid x-api-key"), "not_authenticated"),
        ("403 " + BODY.format("permission_error", "no"), "not_authenticated"),
        ("429 " + BODY.format("rate_limit_error", "slow down"), "rate_limited"),
        ("429 " + BODY.format("insufficient_quota", "insufficient_quota"), "billing"),
        ("400 " + BODY.format("x", "Your credit balance is too low"), "billing"),
        ("400 " + BODY.format("x", "prompt is too long: 9 > 8"), "context_overflow"),
        ("413 " + BODY.format("request_too_large", "too big"), "context_overflow"),
        ("404 " + BODY.format("not_found_error", "model: m"), "unavailable"),
        ("400 " + BODY.format("invalid_request_error", "bad"), "unavailable"),
        ("500 " + BODY.format("api_error", "Internal"), "unavailable"),
        ("503 status code (no body)", "overloaded"),
        ("529 " + BODY.format("overloaded_error", "Overloaded"), "overloaded"),
        ('{"type":"error","error":{"type":"overloaded_error","message":"Busy"}}', "overloaded"),
        ("Connection error.", "unavailable"),
        ("terminated", "unavailable"),
        ("Anthropic stream ended before message_stop", "unavailable"),
        ("No API key found for lab.", "not_authenticated"),
        ("", "unavailable"),
        ("4011 is not a status", "unavailable"),
    ],
)
def test_a_failed_message(text: str, kind: str) -> None:
    error = error_of_message(text, "p/m")
    assert error.kind == kind
    assert error.message
    assert "{" not in error.message
    assert error.hint


def test_the_hint_names_a_model_nobody_serves() -> None:
    assert "p/m" in error_of_message("404 " + BODY.format("not_found_error", "x"), "p/m").hint


def test_a_delay_that_is_told_becomes_a_moment() -> None:
    error = error_of_message("Server requested 90s retry delay (max: 60s). 429 x")
    assert error.kind == "rate_limited"
    assert error.until is not None
    moment = time.mktime(time.strptime(error.until, "%Y-%m-%dT%H:%M:%SZ")) - time.timezone
    assert 0 < moment - time.time() <= 91


def test_a_long_message_is_cut() -> None:
    assert len(error_of_message("500 " + "x" * 9000).message) <= 501


@pytest.mark.parametrize(
    ("stderr", "kind"),
    [
        ("No API key found for anthropic.\n\nUse /login", "not_authenticated"),
        ("No models available. Use /login to log in", "not_authenticated"),
        ("No session found matching 'abc'", "resume_refused"),
        ("Error: Unknown option: -zz", "protocol_drift"),
        ('Error: Model "x/y" not found. Use --list-models', "unavailable"),
        ('Error: Unknown provider "x". Provider not found', "unavailable"),
        ('Error: Failed to load extension "/e.ts": boom', "crashed"),
        ("SyntaxError: Unexpected token", "crashed"),
        ("something else", "crashed"),
    ],
)
def test_a_process_that_never_began(stderr: str, kind: str) -> None:
    words = f"Warning: first\n{stderr}\n"
    error = ERRORS.of_exit(ProcessExit(code=1, stderr_tail=words), model="p/m")
    assert isinstance(error, AgentError)
    assert error.kind == kind
    assert "Warning" not in error.message


def test_nothing_on_stderr_leaves_it_to_the_exit() -> None:
    assert ERRORS.of_exit(ProcessExit(code=0, stderr_tail="Warning: only this\n")) is None
    assert ERRORS.of_exit(ProcessExit(code=-9, stderr_tail="whatever")) is None
    _, result = play([], code=0)
    assert result.error is not None
    assert result.error.kind == "crashed"


def test_a_dead_process_tells_its_signal() -> None:
    _, result = play([b'{"type":"session","id":"n"}', b'{"type":"agent_start"}'], code=-9)
    assert result.error is not None
    assert result.error.kind == "crashed"
    assert "SIGKILL" in result.error.message
