"""Every check can fail: it finds the adapter that is broken in its way, and only it does."""

import pytest

from bridle.testing.conformance import NAMES, check
from bridle.testing.conformance.checks import CHECKS
from tests.conformance.mutants import MUTANTS


def on_the_same_runs(name: str) -> list[str]:
    """The checks that need no other scenarios than the one called `name`, itself included."""
    (target,) = [each for each in CHECKS if each.name == name]
    return [each.name for each in CHECKS if set(each.needs) <= set(target.needs)]


def test_there_is_a_mutant_for_every_check() -> None:
    assert set(MUTANTS) == set(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_a_check_finds_its_mutant_and_no_other_does(name: str) -> None:
    report = check(MUTANTS[name](), on_the_same_runs(name), run_seconds=60)
    assert [each.name for each in report.failures] == [name], report.failures
