"""The release that changed a check is found in few steps."""

from collections.abc import Sequence

import pytest

from bridle.testing.conformance import CheckStatus
from tests.drift.boundaries import Boundary, boundaries, changed_words, next_step
from tests.drift.fakes import FakeKit, line, result
from tests.drift.releases import Release
from tests.drift.survey import surveyed

RELEASES = line(64)


def _survey(
    kit: FakeKit, *numbers: int, checks: Sequence[str] = ("text", "retry")
) -> list[Boundary]:
    sample: list[Release] = [RELEASES[number] for number in numbers]
    return surveyed(RELEASES, sample, checks, kit.probe, lambda: kit.results)


@pytest.mark.parametrize("first", [1, 17, 31, 32, 62, 63])
def test_the_first_release_that_fails_is_found(first: int) -> None:
    kit = FakeKit(lambda number, check: "fail" if number >= first else "pass")
    (found,) = _survey(kit, 0, 63, checks=["text"])
    assert found == Boundary(
        check="text", before=f"1.0.{first - 1}", after=f"1.0.{first}", fails=True
    )
    assert len(kit.tried) <= 2 + 6


def test_the_first_release_that_passes_is_found_too() -> None:
    kit = FakeKit(lambda number, check: "pass" if number >= 40 else "fail")
    (found,) = _survey(kit, 0, 63, checks=["text"])
    assert (found.before, found.after, found.fails) == ("1.0.39", "1.0.40", False)


def test_what_broke_and_was_repaired_has_two_boundaries() -> None:
    kit = FakeKit(lambda number, check: "fail" if 20 <= number < 40 else "pass")
    found = _survey(kit, 0, 30, 63, checks=["text"])
    assert [(each.before, each.after, each.fails) for each in found] == [
        ("1.0.19", "1.0.20", True),
        ("1.0.39", "1.0.40", False),
    ]


def test_checks_that_change_together_are_bisected_together() -> None:
    kit = FakeKit(lambda number, check: "fail" if number >= 11 else "pass")
    found = _survey(kit, 0, 63)
    assert {(each.check, each.after) for each in found} == {("text", "1.0.11"), ("retry", "1.0.11")}
    assert len(kit.tried) <= 2 + 6


def test_a_release_that_cannot_be_installed_is_left_out() -> None:
    def says(number: int, check: str) -> CheckStatus | None:
        if 28 <= number <= 36:
            return None
        return "fail" if number >= 37 else "pass"

    (found,) = _survey(FakeKit(says), 0, 63, checks=["text"])
    assert (found.before, found.after, found.between) == ("1.0.27", "1.0.37", 0)


def test_a_neighbour_takes_the_place_of_a_release_that_cannot_be_installed() -> None:
    kit = FakeKit(lambda number, check: None if number in (30, 31) else "pass")
    assert _survey(kit, 0, 30, 63, checks=["text"]) == []
    assert kit.tried == ["1.0.63", "1.0.30", "1.0.29", "1.0.0"]


def test_other_checks_of_a_release_that_does_not_work_say_nothing() -> None:
    results = {
        "1.0.0": result("1.0.0", text="pass", retry="pass"),
        "1.0.9": result("1.0.9", text="fail"),
        "1.0.63": result("1.0.63", text="pass", retry="pass"),
    }
    assert [each.check for each in boundaries(RELEASES, results)] == ["text", "text"]


def test_what_another_dialect_does_not_support_is_no_change() -> None:
    results = {
        "1.0.0": result("1.0.0", retry="pass"),
        "1.0.5": result("1.0.5", retry="unsupported"),
    }
    assert [each.fails for each in boundaries(RELEASES, results)] == [True]
    results["1.0.5"].dialect = "older"
    assert boundaries(RELEASES, results) == []
    assert next_step(RELEASES, results) is None


def test_a_survey_goes_on_where_it_was() -> None:
    kit = FakeKit(lambda number, check: "fail" if number >= 11 else "pass")
    kit.results = {
        "1.0.10": result("1.0.10", text="pass"),
        "1.0.12": result("1.0.12", text="fail"),
    }
    step = next_step(RELEASES, kit.results)
    assert step is not None
    assert (step.version, step.checks) == ("1.0.11", ("text",))


def test_the_sample_is_tried_newest_first_and_not_bisected_on_request() -> None:
    kit = FakeKit(lambda number, check: "fail" if number >= 11 else "pass")
    found = surveyed(
        RELEASES,
        [RELEASES[0], RELEASES[63]],
        ["text"],
        kit.probe,
        lambda: kit.results,
        bisects=False,
    )
    assert kit.tried == ["1.0.63", "1.0.0"]
    assert found[0].between == 62


def test_a_trial_that_breaks_off_does_not_go_on_for_ever() -> None:
    kit = FakeKit(lambda number, check: "fail" if number >= 11 else "pass")
    probe = kit.probe

    def broken(release: Release, checks: Sequence[str]) -> object:
        inner = release.version not in ("1.0.0", "1.0.63")
        return result(release.version) if inner else probe(release, checks)

    surveyed(RELEASES, [RELEASES[0], RELEASES[63]], ["text"], broken, lambda: kit.results)  # type: ignore[arg-type]
    assert kit.tried == ["1.0.63", "1.0.0"]


def test_the_flags_and_features_that_changed_are_named() -> None:
    before = "  --old  x\n --same\nplugins   stable  true\n"
    after = (
        " --same  --new-flag, -n  a--not\n  plugins   stable  true\nretries_more   beta\nsome prose"
    )
    assert changed_words(before, after) == (["--old"], ["--new-flag", "retries_more"])
