"""Stages of the live wire of Codex: opened, at work, left; and what its counts are."""

from typing import Any

from bridle.core import events as ev
from bridle.core.usage import Usage
from bridle.process.spec import ProcessExit
from tests.runtimes.codex.appserver import Stage

CALL = Usage(input_tokens=600, output_tokens=50, cache_read_tokens=400, reasoning_tokens=10)
OTHER = "01a1e17e-e73a-7812-b961-02f676303419"


def tokens(calls: int) -> dict[str, Any]:
    """The totals that Codex tells after so many model calls."""
    counts = {"inputTokens": 1000, "cachedInputTokens": 400, "outputTokens": 50}
    counts["reasoningOutputTokens"] = 10
    return {"tokenUsage": {"total": {name: calls * value for name, value in counts.items()}}}


def times(calls: int) -> Usage:
    """The usage of so many model calls."""
    return sum([CALL] * calls, Usage())


def opened(**own: Any) -> Stage:
    """A conversation that is ready."""
    return Stage(**own).open()


def working(name: str = "p", **own: Any) -> Stage:
    """A conversation in its first turn, `t1`."""
    stage = opened(**own)
    stage.prompt(name)
    stage.answer({"turn": {"id": "t1"}})
    stage.started("t1")
    return stage


def left(stage: Stage, code: int = 0) -> list[ev.Event]:
    """All the events, once the process is gone as it was asked to."""
    stage.recorder.leaving = "done"
    stage.wire.leave()
    assert stage.recorder.input_done
    stage.wire.finish(ProcessExit(code=code))
    stage.settle()
    return stage.events
