"""The exit status of a run is that of its error's kind, for the library and the command alike."""

import pytest

from bridle.core.errors import AGENT_ERRORS, ErrorInfo, exit_code_of
from bridle.core.results import STATUS_OF_KIND, RunResult

STATUS = {
    "billing": 1,
    "context_overflow": 1,
    "crashed": 1,
    "protocol_drift": 1,
    "resume_refused": 1,
    "schema_mismatch": 1,
    "unavailable": 1,
    "wrong_use": 2,
    "not_installed": 3,
    "not_supported": 3,
    "unsupported_option": 4,
    "not_authenticated": 5,
    "overloaded": 6,
    "rate_limited": 6,
    "timeout": 7,
    "budget_exceeded": 8,
    "guard_refused": 9,
    "aborted": 130,
}


def test_every_kind_has_a_status() -> None:
    assert {*AGENT_ERRORS, "wrong_use", "unsupported_option"} == set(STATUS)


@pytest.mark.parametrize("kind", STATUS)
def test_a_failed_run_exits_with_the_status_of_its_kind(kind: str) -> None:
    result = RunResult(
        runtime="r",
        status=STATUS_OF_KIND.get(kind, "failed"),
        error=ErrorInfo(kind=kind, message="m"),
    )
    assert result.exit_status == exit_code_of(kind) == STATUS[kind]


def test_only_a_completed_run_exits_0() -> None:
    assert RunResult(runtime="r", status="completed").exit_status == 0
    assert RunResult(runtime="r", status="failed").exit_status == 1
