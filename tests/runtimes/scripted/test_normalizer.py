"""Captures of the agent's wire in, events out; no process runs here."""

from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from bridle.core import events as ev
from bridle.core.options import RunOptions
from bridle.process.spec import ProcessExit
from bridle.runtimes.scripted import stream as module
from bridle.runtimes.scripted.stream import ScriptedNormalizer
from bridle.turns.recorder import Recorder
from tests.support.driving import check_order

CAPTURES = Path(module.__file__).parent / "testdata"


def _feed(lines: list[bytes], exit_code: int = 0) -> tuple[list[ev.Event], Recorder]:
    recorder = Recorder(runtime="scripted", session_id="s", options=RunOptions(prompt="x"))
    normalizer = ScriptedNormalizer(recorder)
    for line in lines:
        normalizer.feed(line)
    normalizer.finish(ProcessExit(code=exit_code))
    events = recorder.drain()
    check_order(events)
    return events, recorder


def _capture(name: str, exit_code: int = 0) -> tuple[list[str], Recorder]:
    lines = (CAPTURES / f"{name}.jsonl").read_bytes().splitlines()
    events, recorder = _feed(lines, exit_code)
    return [_word(each) for each in events], recorder


def _word(event: ev.Event) -> str:
    match event:
        case ev.MessageUpdate(kind=kind):
            return kind
        case ev.ToolExecutionEnd(is_error=True):
            return "tool_execution_end!"
        case _:
            return str(type(event).__struct_config__.tag)


def test_tools() -> None:
    words, recorder = _capture("tools")
    assert words == [
        "session_start",
        "state",
        "agent_start",
        "message_start",
        "thinking_start",
        "thinking_delta",
        "thinking_end",
        "text_start",
        "text_delta",
        "text_end",
        "message_end",
        "tool_execution_start",
        "tool_execution_end",
        "message_start",
        "message_end",
        "tool_execution_start",
        "tool_execution_start",
        "permission_decision",
        "tool_execution_end!",
        "tool_execution_end",
        "message_start",
        "text_start",
        "text_delta",
        "text_delta",
        "text_end",
        "message_end",
        "usage",
        "agent_end",
        "state",
        "session_end",
    ]
    result = recorder.result()
    assert result.status == "completed"
    assert (result.usage.input_tokens, result.usage.output_tokens) == (210, 45)
    assert result.native_session_id == "scripted-0123456789abcdef"


def test_retry() -> None:
    words, recorder = _capture("retry")
    assert words[2:6] == ["agent_start", "retry", "retry", "message_start"]
    assert recorder.result().status == "completed"


def test_cut() -> None:
    words, recorder = _capture("cut", 1)
    message = ["message_start", "text_start", "text_delta", "text_end", "message_end"]
    assert words[3:] == [
        *message,
        "retry",
        *message,
        "error",
        "usage",
        "agent_end",
        "state",
        "session_end",
    ]
    error = recorder.result().error
    assert error is not None
    assert (error.kind, error.exit_status) == ("unavailable", 1)


def test_limit() -> None:
    _, recorder = _capture("limit", 1)
    error = recorder.result().error
    assert error is not None
    assert (error.kind, error.until) == ("rate_limited", "2030-03-17T17:46:40Z")


def test_a_permission_request_can_be_answered() -> None:
    _, recorder = _capture("ask")
    (question,) = recorder.questions
    assert question.tool_name == "shell"
    assert question.answer(False, "no") == (
        b'{"request_id":"' + question.request_id.encode() + b'","allow":false,"reason":"no"}\n'
    )


@given(st.lists(st.binary(max_size=60)))
def test_garbage_never_raises(lines: list[bytes]) -> None:
    _feed(lines, 0)


def test_an_enormous_unknown_line_is_kept_short() -> None:
    events, _ = _feed([b"x" * 10_000_000])
    (unknown,) = [each for each in events if isinstance(each, ev.Unknown)]
    assert len(unknown.raw) == 4096
