"""What a typed error says of the reactions that may help."""

import pytest

from bridle.core.errors import AGENT_ERRORS, error_for_status

HEALED_ELSEWHERE = {
    "not_authenticated",
    "rate_limited",
    "overloaded",
    "billing",
    "context_overflow",
    "unavailable",
}


def test_failover_is_for_what_another_service_may_do() -> None:
    assert {kind for kind, error in AGENT_ERRORS.items() if error.failover} == HEALED_ELSEWHERE


@pytest.mark.parametrize("status", [401, 402, 403, 413, 429, 500, 503, 529])
def test_every_failure_of_a_service_may_be_healed_by_another(status: int) -> None:
    assert error_for_status(status, "no").failover
