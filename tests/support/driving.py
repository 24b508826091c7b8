"""A script that every runtime plays alike, and the order of events."""

from typing import Any

from bridle.core import events as ev
from bridle.core.usage import Usage
from bridle.testing.bench import AgentBench, AgentRun
from bridle.testing.contract import check_event_order, kinds

__all__ = ["COMMON_SCRIPT", "check_common", "check_order", "kinds"]


def check_order(events: list[ev.Event]) -> None:
    """Fail unless the events keep the order that the contract promises."""
    assert check_event_order(events) == []


COMMON_SCRIPT: list[dict[str, Any]] = [
    {
        "text": "I will write.",
        "shell": "echo hello > hello.txt",
        "usage": {
            "input_tokens": 100,
            "output_tokens": 30,
            "cache_read_tokens": 40,
            "reasoning_tokens": 5,
        },
    },
    {"text": "Done.\n\nORCHESTRA_COMPLETE", "chunks": 3},
]
_STEP = ("message_start", "text_start", "text_end", "message_end")
_TOOL = ("tool_execution_start", "tool_execution_end")


def check_common(run: AgentRun, bench: AgentBench, prompt: str) -> None:
    """Fail unless a run of `COMMON_SCRIPT` went as it must for every runtime."""
    result = run.result
    assert result.status == "completed", result.error
    assert result.marker_detected
    assert result.usage == Usage(
        input_tokens=200, output_tokens=50, cache_read_tokens=40, reasoning_tokens=5
    )
    assert (bench.work / "hello.txt").read_text() == "hello\n"
    assert [each for each in run.kinds if each != "text_delta"] == [
        *("session_start", "state", "agent_start"),
        *(*_STEP, *_TOOL, *_STEP),
        *("usage", "agent_end", "state", "session_end"),
    ]
    assert run.model is not None
    run.model.assert_finished()
    assert run.model.prompts() == [prompt]
    assert [request.outcome for request in run.model.requests] == ["turn", "turn"]
