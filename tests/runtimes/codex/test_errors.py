"""Codex's words become typed errors."""

import time
from pathlib import Path

import pytest

from bridle.process.spec import ProcessExit
from bridle.runtimes.codex.stream import start_error, turn_error
from bridle.runtimes.errors import reset_time
from tests.runtimes.codex.captures import TESTDATA, play, play_file

KINDS = {
    "0.166.0/err_401": "not_authenticated",
    "0.166.0/err_429_insufficient_quota": "billing",
    "0.166.0/err_429_retry": "rate_limited",
    "0.166.0/err_429_usage_limit": "rate_limited",
    "0.166.0/err_500": "unavailable",
    "0.166.0/err_context_overflow": "context_overflow",
    "0.166.0/err_context_overflow_http400": "context_overflow",
    "0.166.0/err_incomplete": "context_overflow",
    "0.166.0/err_rate_limit_event": "rate_limited",
    "0.166.0/err_stream_cut": "unavailable",
    "0.120.0/err_400_context_length_exceeded": "context_overflow",
    "0.120.0/err_401": "not_authenticated",
    "0.120.0/err_403": "not_authenticated",
    "0.120.0/err_429": "rate_limited",
    "0.120.0/err_429_usage_limit_reached": "rate_limited",
    "0.120.0/err_500": "unavailable",
    "0.120.0/err_529": "overloaded",
    "0.120.0/err_context_overflow": "context_overflow",
    "0.120.0/err_incomplete": "context_overflow",
    "0.120.0/err_overloaded": "overloaded",
    "0.120.0/err_stream_cut": "unavailable",
}


def test_every_captured_failure_is_judged() -> None:
    captures = {f"{path.parts[-3]}/{path.stem}" for path in TESTDATA.glob("*/exec/err_*.jsonl")}
    assert captures == set(KINDS)


@pytest.mark.parametrize("name", KINDS)
def test_a_captured_failure(name: str, tmp_path: Path) -> None:
    version, _, stem = name.partition("/")
    _, result = play_file(TESTDATA / version / "exec" / f"{stem}.jsonl", tmp_path)
    assert result.error is not None
    assert result.error.kind == KINDS[name]
    assert result.error.hint
    assert result.exit_code == 1
    assert (result.error.until is not None) == ("usage_limit" in name or "rate_limit" in name)


def test_the_body_of_a_refused_request_is_told_in_words() -> None:
    error = turn_error('{"error": {"message": "no such thing", "type": "invalid_request_error"}}')
    assert (error.kind, error.message) == ("unavailable", "no such thing")
    assert "will be refused again" in error.hint
    assert turn_error("{half").kind == "unavailable"


def test_an_unknown_model_is_named() -> None:
    for text in (
        "unexpected status 404 Not Found: no model, url: http://x",
        "The model `gpt-77` does not exist or you do not have access to it.",
    ):
        error = turn_error(text, "gpt-77")
        assert error.kind == "unavailable"
        assert "gpt-77" in error.hint


@pytest.mark.parametrize(
    "text",
    [
        "Missing environment variable: `LAB_KEY`.",
        "Your access token could not be refreshed. Please sign in again.",
    ],
)
def test_a_missing_login(text: str) -> None:
    assert turn_error(text).kind == "not_authenticated"


def test_when_a_limit_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "Europe/Berlin")
    time.tzset()
    try:
        told = "try again at Mar 17th, 2030 5:46 PM."
        assert reset_time(told) == "2030-03-17T16:46:00Z"
        noon = 1_894_618_800.0  # 2030-01-14 12:00 in Berlin
        assert reset_time("Try again at 5:46 PM.", noon) == "2030-01-14T16:46:00Z"
        assert reset_time("Try again at 9:00 AM.", noon) == "2030-01-15T08:00:00Z"
        assert reset_time("Please try again in 1.5s.", 0.0) == "1970-01-01T00:00:01Z"
        assert reset_time("Please try again in 20ms", 0.0) == "1970-01-01T00:00:00Z"
        for text in ("", "try again at", "try again in", "try again in a while", "try again later"):
            assert reset_time(text) is None
    finally:
        monkeypatch.undo()
        time.tzset()


@pytest.mark.parametrize(
    ("code", "stderr", "kind"),
    [
        (
            1,
            "Error: thread/resume: no rollout found for thread id x (code -32600)",
            "resume_refused",
        ),
        (2, "error: unexpected argument '--bogus' found\n\nUsage: codex exec", "protocol_drift"),
        (1, "Error: Model provider `zz` not found", "crashed"),
        (1, "Reading prompt from stdin...\n", "crashed"),
        (0, "", "protocol_drift"),
    ],
)
def test_a_process_that_says_nothing(code: int, stderr: str, kind: str, tmp_path: Path) -> None:
    exit = ProcessExit(code=code, stderr_tail=stderr)
    _, result = play([], home=tmp_path, exit=exit)
    assert result.error is not None
    assert result.error.kind == kind
    assert result.status == "failed"


def test_a_killed_process_is_left_to_the_recorder() -> None:
    assert start_error(ProcessExit(code=-9), raw_args=False) is None
    assert start_error(ProcessExit(code=None), raw_args=False) is None


def test_a_failure_told_just_before_death_is_kept(tmp_path: Path) -> None:
    lines = [
        b'{"type":"thread.started","thread_id":"t"}',
        b'{"type":"error","message":"Quota exceeded. Check your plan."}',
    ]
    _, result = play(lines, home=tmp_path, exit=ProcessExit(code=1))
    assert result.error is not None
    assert result.error.kind == "billing"
