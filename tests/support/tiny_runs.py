"""Runs of the tiny agent, and what is checked of each."""

from collections.abc import Sequence

from bridle.core.events import Event
from bridle.core.results import RunResult
from bridle.testing.contract import check_event_order
from bridle.turns.wire import Question
from tests.support.tiny_agent import TinyRuntime

TINY = TinyRuntime()
SCRIPT = "say I will look\ntool echo found; echo x >> made\nask danger\nsay all good ORCHESTRA"


def allow(question: Question) -> tuple[bool, str, str]:
    """Let the agent do whatever is not called danger."""
    return question.tool_name != "danger", "the test", "as told"


def checked(events: Sequence[Event], result: RunResult | None) -> RunResult:
    """The result, which must be there, of events that must be in order."""
    assert check_event_order(events) == []
    assert result is not None
    return result
