"""What an agent cannot do is decided by its features, never by what happened to be missing."""

from collections.abc import Callable
from typing import Any

import pytest

from bridle.core.errors import ContextOverflow
from bridle.core.features import Features
from bridle.runtimes.dialects import Dialect
from bridle.testing import conformance
from bridle.turns.recorder import Recorder
from tests.conformance.mutants import Line, Mutant, mutant, replace


def telling(spoil: Callable[[], Mutant], **facts: Any) -> Mutant:
    """A mutant that says of itself what `facts` say."""
    made = spoil()

    class Telling(Mutant):
        def features_of(self, dialect: Dialect) -> Features:
            return replace(super().features_of(dialect), **facts)

    told = Telling()
    vars(told).update(vars(made))
    return told


def _lines(kind: str, change: Callable[[Line], Line | None]) -> Callable[[], Mutant]:
    return mutant(change_line=lambda line: change(line) if line.get("type") == kind else line)


def _no_model(line: Line, recorder: Recorder) -> None:
    recorder.model = None


def _other_cause(line: Line) -> Line:
    return {**line, "error": {"message": "it failed", "status": 500}}


def _no_white_space(line: Line) -> Line:
    return {**line, "text": line["text"].replace(" ", "")} if "text" in line else line


def _no_end(line: Line) -> Line:
    return {name: value for name, value in line.items() if name != "until"}


def _too_long(line: Line, recorder: Recorder) -> None:
    if line.get("type") == "tool_end":
        recorder.fail(ContextOverflow("too long for the model"))


GAPS: dict[str, tuple[str, Callable[[], Mutant], dict[str, Any]]] = {
    "how a call failed": ("retry", _lines("retry", _other_cause), {"retry_cause": False}),
    "that a call is made again": ("retry", _lines("retry", lambda line: None), {"retries": False}),
    "the end of a limit": ("error_429_reset", _lines("error", _no_end), {"limit_end": False}),
    "the model": ("model", mutant(after_line=_no_model), {"reports_model": False}),
    "white space": (
        "thinking",
        _lines("thinking", _no_white_space),
        {"exact_thinking": False},
    ),
    "long output": (
        "huge_tool_output",
        mutant(after_line=_too_long),
        {"largest_input": 1_000_000},
    ),
}


@pytest.mark.parametrize("gap", GAPS)
def test_a_gap_is_a_failure_unless_the_features_name_it(gap: str) -> None:
    check, spoil, facts = GAPS[gap]
    (silent,) = conformance.check(spoil(), [check]).checks
    assert silent.status == "fail", silent
    (honest,) = conformance.check(telling(spoil, **facts), [check]).checks
    assert honest.status == "unsupported", honest
    assert honest.detail


def test_a_gap_that_is_named_excuses_no_other_fault() -> None:
    def garbled(line: Line) -> Line:
        return {**line, "text": line["text"].upper()} if "text" in line else line

    runtime = telling(_lines("thinking", garbled), exact_thinking=False)
    (result,) = conformance.check(runtime, ["thinking"]).checks
    assert result.status == "fail"
