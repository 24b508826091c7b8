"""One table for each product turns what it says about a failure into a typed error."""

import pytest

from bridle.core.errors import (
    AgentError,
    Billing,
    ContextOverflow,
    Crashed,
    NotAuthenticated,
    Overloaded,
    ProtocolDrift,
    RateLimited,
    ResumeRefused,
    Unavailable,
)
from bridle.process.spec import ProcessExit
from bridle.runtimes.errors import ErrorRow, ErrorTable

TABLE = ErrorTable(
    login_hint="log in",
    calls=(
        ErrorRow(ContextOverflow, tags=("too_long",)),
        ErrorRow(Unavailable, ("declined",), hint="choose another than {model}"),
        ErrorRow(Overloaded, statuses=(500,), message="busy ({code}): {text}"),
    ),
    exits=(
        ErrorRow(ResumeRefused, (("session", "not found"),)),
        ErrorRow(NotAuthenticated, ("/login",)),
        ErrorRow(ProtocolDrift, statuses=(2,), message="it refused its arguments: {text}"),
    ),
    noise=("Warning:",),
    crash="it exited {code}: {text}",
)


@pytest.mark.parametrize(
    ("text", "status", "error"),
    [
        ("Too Many Requests", None, RateLimited),
        ("your credit balance is too low", None, Billing),
        ("prompt is too long", 400, ContextOverflow),
        ("Overloaded", None, Overloaded),
        ("The model m does not exist or you do not have access to it.", None, Unavailable),
        ("no", 429, RateLimited),
        ("no", 401, NotAuthenticated),
        ("no", 529, Overloaded),
        ("no", None, Unavailable),
        ("", None, Unavailable),
    ],
)
def test_what_every_service_says_needs_no_row(
    text: str, status: int | None, error: type[AgentError]
) -> None:
    assert type(TABLE.of_call(text, status=status)) is error


def test_a_row_of_the_product_comes_before_status_and_words() -> None:
    assert type(TABLE.of_call("rate limit", tag="too_long", status=429)) is ContextOverflow
    error = TABLE.of_call("broken", status=500)
    assert (type(error), error.message) == (Overloaded, "busy (500): broken")
    assert TABLE.of_call("it declined", model="m").hint == "choose another than m"


def test_details_decide_and_are_not_shown() -> None:
    error = TABLE.of_call("refused", status=429, details='{"code": "insufficient_quota"}')
    assert (type(error), error.message) == (Billing, "refused")


def test_hints_name_the_login_the_model_and_a_repeated_refusal() -> None:
    assert TABLE.of_call("no", status=403).hint == "log in"
    assert "model m" in TABLE.of_call("no", status=404, model="m").hint
    assert "refused again" in TABLE.of_call("no", status=422).hint


def test_only_a_rate_limit_has_a_moment() -> None:
    moment = "2030-01-01T00:00:00Z"
    assert TABLE.of_call("no", status=429, until=moment).until == moment
    assert TABLE.of_call("declined", until=moment).until is None


@pytest.mark.parametrize(
    ("code", "stderr", "error", "message"),
    [
        (1, "Warning: old\nError: session x not found\nat y", ResumeRefused, "session x not found"),
        (1, "use /login", NotAuthenticated, "use /login"),
        (2, "what?", ProtocolDrift, "it refused its arguments: what?"),
        (1, "boom\nlater", Crashed, "it exited 1: boom"),
    ],
)
def test_an_exit_is_told_by_its_last_words(
    code: int, stderr: str, error: type[AgentError], message: str
) -> None:
    found = TABLE.of_exit(ProcessExit(code=code, stderr_tail=stderr))
    assert found is not None
    assert (type(found), found.message) == (error, message)


@pytest.mark.parametrize("code", [None, -9, 130, 0])
def test_an_exit_by_a_signal_or_in_order_is_left_to_the_recorder(code: int | None) -> None:
    assert TABLE.of_exit(ProcessExit(code=code, stderr_tail="boom")) is None


def test_noise_alone_says_nothing() -> None:
    assert TABLE.of_exit(ProcessExit(code=1, stderr_tail="Warning: old")) is None
