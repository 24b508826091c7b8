"""What is kept about a release, and the sentence about it."""

from pathlib import Path

from bridle.testing.conformance import NAMES, CheckResult
from tests.drift import tables
from tests.drift.fakes import result
from tests.drift.results import ALL, GUARD, Result, Store, judged

TESTED = dict.fromkeys(ALL, "pass") | {"retry": "unsupported"}


def _whole(**changes: str) -> Result:
    statuses = {**TESTED, **changes}
    found = Result(name="claude", version="1.0.0", package="p")
    found.add([CheckResult(name=name, status=status) for name, status in statuses.items()])  # type: ignore[arg-type]
    return found


def test_a_release_that_does_what_the_tested_one_does_works_as_tested() -> None:
    assert judged(_whole(), TESTED).sentence == "works as tested"


def test_a_word_that_the_help_lacks_is_no_difference() -> None:
    found = _whole()
    found.add([CheckResult(name="flag:--new", status="fail")])
    assert judged(found, TESTED).verdict == "as_tested"


def test_every_difference_is_named() -> None:
    found = _whole(error_529="fail", thinking="unsupported", retry="pass")
    found.add([CheckResult(name="error_529", status="fail", detail="ended as crashed")])
    found.unknown = ["system/new_thing"]
    said = judged(found, TESTED)
    assert said.verdict == "differences"
    assert said.sentence.startswith("works with these differences: error_529: ended as crashed; ")
    assert [each.check for each in said.differences] == ["error_529", "thinking", "retry", "wire"]


def test_a_release_that_does_not_answer_does_not_work_for_the_agents_own_reason() -> None:
    found = result("1.0.0")
    found.add([CheckResult(name="text", status="fail", detail="crashed: unknown option --x")])
    assert judged(found, TESTED).sentence == "does not work, because crashed: unknown option --x"
    assert found.missing() == [], "nothing else is worth running"
    assert found.missing(["usage", "flag:--x"]) == ["flag:--x"]


def test_a_guard_that_lets_something_through_is_not_a_difference() -> None:
    found = _whole()
    found.add([CheckResult(name="guard:c", status="fail", detail="done")])
    assert judged(found, TESTED).sentence == "does not work, because the guard did not stop guard:c"
    found.add([CheckResult(name="guard:c", status="fail", detail="FAILED: timed out")])
    assert judged(found, TESTED).verdict == "differences", "nothing was let through"


def test_a_release_that_was_not_installed_or_not_tried_says_so() -> None:
    found = result("1.0.0")
    assert judged(found, TESTED).verdict == "unfinished"
    found.refused = "the registry refused: E404"
    assert judged(found, TESTED).sentence == "was not tried, because the registry refused: E404"
    partly = result("1.0.0", text="pass")
    assert judged(partly, TESTED).verdict == "unfinished"


def test_results_are_kept_and_completed(tmp_path: Path) -> None:
    store = Store(tmp_path)
    assert store.read("claude", "1.0.0") is None
    store.keep(result("1.0.0", text="pass"))
    known = store.read("claude", "1.0.0")
    assert known is not None
    assert known.missing(["text", "usage"]) == ["usage"]
    known.add([CheckResult(name="guard:a", status="pass"), CheckResult(name="text", status="fail")])
    store.keep(known)
    (again,) = store.all("claude").values()
    assert [(each.name, each.status) for each in again.checks] == [
        ("text", "fail"),
        ("guard:a", "pass"),
    ]
    assert [path.name for path in (tmp_path / "claude").iterdir()] == ["1.0.0.json"]


def test_the_terminal_table_counts_each_part() -> None:
    found = _whole()
    text = tables.terminal_table([found], {"1.0.0": judged(found, TESTED)})
    (_, line) = text.splitlines()
    kit = f"{len(NAMES) - 1}/{len(NAMES)}"
    assert line.split() == [
        "1.0.0",
        "-",
        kit,
        f"{len(GUARD)}/{len(GUARD)}",
        "pass",
        "works",
        "as",
        "tested",
    ]


def test_the_documentations_table_has_the_reason_or_the_checks() -> None:
    broken = result("1.0.1")
    broken.add([CheckResult(name="text", status="fail", detail="a | b")])
    differing = _whole(usage="fail")
    rows = [tables.row(each, judged(each, TESTED)) for each in (differing, broken)]
    lines = tables.version_table(rows).splitlines()
    assert lines[2] == "| claude | 1.0.0 | 1 |  | works with differences | `usage` |"
    assert lines[3] == "| claude | 1.0.1 | 1 |  | does not work | a \\| b |"


def test_releases_that_do_the_same_share_a_line() -> None:
    some = [_whole(), _whole(), _whole(usage="fail"), _whole()]
    for number, each in enumerate(some):
        each.version = f"1.0.{number}"
    rows = [tables.row(each, judged(each, TESTED)) for each in some]
    lines = tables.version_table(rows).splitlines()[2:]
    assert [line.split(" | ")[1:3] for line in lines] == [
        ["1.0.0 to 1.0.1", "2"],
        ["1.0.2", "1"],
        ["1.0.3", "1"],
    ]


def test_a_release_that_is_refused_for_its_age_is_neither_tried_nor_broken() -> None:
    found = result("1.0.0")
    found.too_old = "claude 1.0.0 is too old: the oldest version that works is 2.0.0"
    assert found.missing() == []
    assert judged(found, TESTED).verdict == "too_old"
    assert judged(found, TESTED).sentence == f"is refused: {found.too_old}"


def test_the_table_keeps_what_is_only_in_its_file() -> None:
    old = [tables.Row(name="pi", version=each, date=None, verdict="broken") for each in ("2", "10")]
    new = tables.Row(name="pi", version="10", date=None, verdict="as_tested")
    other = tables.Row(name="aider", version="3", date=None, verdict="as_tested")
    assert tables.merged([*old, new, other]) == [other, old[0], new]


def test_a_release_that_is_refused_now_is_listed_as_such() -> None:
    said = "pi {} is too old: the oldest version that works is 0.49.0"
    tried = [
        tables.Row(name="pi", version=each, date=None, verdict="broken", differences=(each,))
        for each in ("0.7.6", "0.13.2")
    ]
    rows = [tables.aged(each, said.format(each.version)) for each in tried]
    assert tables.aged(tried[0], "") == tried[0]
    (line,) = tables.version_table(rows).splitlines()[2:]
    assert (
        line
        == "| pi | 0.7.6 to 0.13.2 | 2 |  | refused | the oldest version that works is 0.49.0 |"
    )


def test_a_look_at_the_help_is_no_trial() -> None:
    asked = result("1.0.0")
    asked.add([CheckResult(name="flag:--verbose", status="pass")])
    assert not asked.tried
    assert _whole().tried
