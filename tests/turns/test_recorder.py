"""The Recorder: order, sums, turns, hold-back, whatever an adapter calls."""

import time
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bridle.core import events as ev
from bridle.core.errors import BudgetExceeded, Crashed, RateLimited
from bridle.core.options import RunOptions
from bridle.core.redaction import REDACTED, Redactor
from bridle.core.usage import NO_USAGE, Usage
from bridle.process.spec import ProcessExit
from bridle.testing.contract import check_event_order
from bridle.turns.recorder import Recorder
from bridle.turns.wire import Question

SECRET = "sk-secret-0123456789"


def make(prompt: str = "do it", *, secrets: list[str] | None = None, **options: Any) -> Recorder:
    return Recorder(
        runtime="test",
        session_id="s1",
        options=RunOptions(prompt=prompt, **options),
        redactor=Redactor(secrets or []),
    )


def kinds(events: list[ev.Event]) -> list[str]:
    return [
        event.kind
        if isinstance(event, ev.MessageUpdate)
        else str(type(event).__struct_config__.tag)
        for event in events
    ]


def last(events: list[ev.Event], cls: type[ev.Event]) -> Any:
    return [event for event in events if isinstance(event, cls)][-1]


ids = st.sampled_from(["a", "b", "c"])
texts = st.sampled_from(["", "x", "some text ", "s", "sk-", "sk-secret-01", "23456789", SECRET])
usages = st.none() | st.builds(
    Usage, input_tokens=st.integers(0, 9), output_tokens=st.integers(0, 9)
)

Call = Callable[[Recorder], None]
calls: st.SearchStrategy[Call] = st.one_of(
    st.builds(lambda i: lambda r: r.session_started(i), st.none() | ids),
    st.just(lambda r: r.turn_started()),
    st.builds(lambda t: lambda r: r.turn_ended(text=t), st.none() | texts),
    st.builds(lambda i: lambda r: r.message_started(i), st.none() | ids),
    st.builds(lambda t: lambda r: r.text_delta(t), texts),
    st.builds(lambda t: lambda r: r.thinking_delta(t), texts),
    st.builds(lambda k: lambda r: r.block_started(k), st.sampled_from(["text", "thinking"])),
    st.just(lambda r: r.block_ended()),
    st.builds(lambda u: lambda r: r.message_ended(usage=u), usages),
    st.builds(lambda i: lambda r: r.tool_started(i, f"tool-{i}", {"k": SECRET}), ids),
    st.builds(lambda i, t: lambda r: r.tool_updated(i, t), ids, texts),
    st.builds(
        lambda i, e: lambda r: r.tool_ended(i, is_error=e, result=[SECRET]), ids, st.booleans()
    ),
    st.builds(
        lambda i: (
            lambda r: r.permission_requested(
                Question(
                    request_id=i, tool_name="t", args={"a": SECRET}, answer=lambda ok, why: b""
                )
            )
        ),
        ids,
    ),
    st.builds(
        lambda i: lambda r: r.permission_decided(i, tool_name="t", decision="deny", by="test"), ids
    ),
    st.just(lambda r: r.compaction_started("full")),
    st.just(lambda r: r.compaction_ended("done")),
    st.just(lambda r: r.retrying(1, 100, RateLimited("slow down " + SECRET))),
    st.just(lambda r: r.unknown({"what": SECRET})),
    st.just(lambda r: r.fail(Crashed("broke " + SECRET))),
    st.just(lambda r: r.request_stop(BudgetExceeded("too much"))),
)
exits = st.sampled_from([None, 0, 1, 130, -2, -9, -15]).map(lambda code: ProcessExit(code=code))


@settings(max_examples=400, deadline=None)
@given(sequence=st.lists(calls, max_size=30), exit=exits)
def test_any_sequence_of_calls_keeps_the_contract(sequence: list[Call], exit: ProcessExit) -> None:
    recorder = make(secrets=[SECRET])
    events: list[ev.Event] = []
    for call in sequence:
        call(recorder)
        events += recorder.drain()
    recorder.finish(exit)
    events += recorder.drain()

    assert check_event_order(events) == []
    counts = kinds(events)
    assert counts.count("agent_start") == counts.count("agent_end") >= 1
    assert counts.count("tool_execution_start") == counts.count("tool_execution_end")
    summed = NO_USAGE
    for event in events:
        if isinstance(event, ev.MessageEnd) and event.usage is not None:
            summed += event.usage
    result = recorder.result()
    assert result.usage == summed
    turns = [event for event in events if isinstance(event, ev.AgentEnd)]
    by_turn = NO_USAGE
    for turn in turns:
        assert turn.usage is not None
        by_turn += turn.usage
    assert by_turn == summed
    assert result.status == turns[-1].status
    assert (result.error is None) == (result.status == "completed")
    assert result.text == next((turn.text for turn in reversed(turns) if turn.text), "")
    for event in events:
        assert SECRET not in ev.encode_event(event).decode()
    assert SECRET not in repr(result)

    # After the end nothing is recorded any more, and nothing raises.
    for call in sequence:
        call(recorder)
    recorder.finish(exit)
    assert recorder.drain() == []


@given(st.lists(texts, max_size=30))
def test_deltas_joined_are_the_text_and_hold_no_secret(pieces: list[str]) -> None:
    recorder = make(secrets=[SECRET])
    for piece in pieces:
        recorder.text_delta(piece)
    recorder.turn_ended()
    events = recorder.drain()
    shown = "".join(
        event.text
        for event in events
        if isinstance(event, ev.MessageUpdate) and event.kind == "text_delta"
    )
    assert shown == Redactor([SECRET]).text("".join(pieces))


def test_the_checker_finds_what_is_wrong() -> None:
    recorder = make()
    recorder.text_delta("hello")
    recorder.tool_started("t1", "shell", {})
    recorder.tool_ended("t1", is_error=False, result="")
    recorder.turn_ended()
    recorder.finish(ProcessExit(code=0))
    events = recorder.drain()
    assert check_event_order(events) == []
    for missing in range(len(events)):
        kept = events[:missing] + events[missing + 1 :]
        assert check_event_order(kept), kinds(events)[missing]
    for first in range(len(events) - 1):
        swapped = [*events]
        swapped[first : first + 2] = reversed(swapped[first : first + 2])
        assert check_event_order(swapped), kinds(events)[first]
    assert check_event_order([])


def test_the_trace_of_a_turn_with_a_tool() -> None:
    recorder = make()
    recorder.session_started("native", model="m")
    recorder.turn_started()
    recorder.message_started("m1")
    recorder.thinking_delta("hm")
    recorder.text_delta("I will look")
    recorder.message_ended(usage=Usage(input_tokens=3, output_tokens=2))
    recorder.tool_started("t1", "shell", {"command": "ls"})
    recorder.tool_updated("t1", "a\n")
    recorder.tool_ended("t1", is_error=False, result="a")
    recorder.text_delta("Done")
    recorder.turn_ended()
    recorder.finish(ProcessExit(code=0))
    assert kinds(recorder.drain()) == [
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
        "tool_execution_update",
        "tool_execution_end",
        "message_start",
        "text_start",
        "text_delta",
        "text_end",
        "message_end",
        "usage",
        "agent_end",
        "state",
        "session_end",
    ]


def test_garbage_before_the_session_is_named_comes_right_after() -> None:
    recorder = make()
    recorder.unknown("warning: something")
    assert recorder.drain() == []
    recorder.session_started("native")
    assert kinds(recorder.drain()) == ["session_start", "unknown"]


def test_garbage_alone_is_not_lost() -> None:
    recorder = make()
    recorder.unknown("nothing but this")
    recorder.finish(ProcessExit(code=1))
    events = recorder.drain()
    assert check_event_order(events) == []
    assert last(events, ev.Unknown).raw == "nothing but this"


def test_a_second_turn_starts_clean() -> None:
    recorder = make()
    recorder.text_delta("all good\nORCHESTRA_COMPLETE")
    recorder.message_ended(usage=Usage(input_tokens=5), cost_usd=0.5)
    recorder.turn_ended()
    first = last(recorder.drain(), ev.AgentEnd)
    assert (first.status, first.marker_detected, first.cost_usd) == ("completed", True, 0.5)
    recorder.turn_started()
    recorder.message_started()
    recorder.message_ended(usage=Usage(input_tokens=2), cost_usd=0.25)
    recorder.fail(RateLimited("slow down"))
    recorder.turn_ended()
    second = last(recorder.drain(), ev.AgentEnd)
    assert (second.turn, second.text, second.marker_detected) == (2, "", False)
    assert (second.usage, second.cost_usd) == (Usage(input_tokens=2), 0.25)
    recorder.finish(ProcessExit(code=1, stderr_tail="oh"))
    result = recorder.result()
    assert result.status == "failed"
    assert result.error is not None
    assert (result.error.kind, result.error.exit_status) == ("rate_limited", 1)
    assert (result.text, result.marker_detected) == ("all good\nORCHESTRA_COMPLETE", True)
    assert (result.usage, result.cost_usd) == (Usage(input_tokens=7), 0.75)


def test_the_last_turn_decides() -> None:
    recorder = make()
    recorder.turn_started()
    recorder.fail(RateLimited("slow down"))
    recorder.turn_ended()
    recorder.turn_started()
    recorder.text_delta("made it after all")
    recorder.turn_ended()
    recorder.finish(ProcessExit(code=0))
    events = recorder.drain()
    assert check_event_order(events) == []
    assert [event.status for event in events if isinstance(event, ev.AgentEnd)] == [
        "failed",
        "completed",
    ]
    result = recorder.result()
    assert (result.status, result.error, result.text) == ("completed", None, "made it after all")


def test_a_failure_after_the_turn_ended_does_not_change_it() -> None:
    recorder = make()
    recorder.text_delta("done")
    recorder.turn_ended()
    recorder.fail(Crashed("killed on its way out"))
    recorder.finish(ProcessExit(code=-15))
    assert recorder.result().status == "completed"
    assert recorder.result().error is None


def test_a_stop_for_a_limit_reaches_into_the_next_turn() -> None:
    recorder = make(max_turns=1)
    recorder.message_started()
    recorder.message_ended()
    recorder.turn_ended()
    assert recorder.stop_requested is None
    recorder.message_started()
    assert isinstance(recorder.stop_requested, BudgetExceeded)
    recorder.finish(ProcessExit(code=-15))
    assert recorder.result().status == "budget_exceeded"


def test_how_the_process_ended_is_told_only_when_known() -> None:
    recorder = make()
    recorder.turn_started()
    recorder.fail(RateLimited("slow down"))
    recorder.turn_ended()
    early = last(recorder.drain(), ev.AgentEnd).error
    assert (early.exit_status, early.stderr_tail) == (None, "")
    recorder.finish(ProcessExit(code=3, stderr_tail="tail"))
    late = recorder.result().error
    assert late is not None
    assert (late.exit_status, late.stderr_tail) == (3, "tail")


@pytest.mark.parametrize(
    ("code", "status", "words"),
    [(-9, "failed", "SIGKILL"), (-2, "aborted", "interrupted"), (1, "failed", "exited 1")],
)
def test_a_death_without_a_word(code: int, status: str, words: str) -> None:
    recorder = make()
    recorder.text_delta("half a sen")
    recorder.tool_started("t1", "shell", {})
    recorder.finish(ProcessExit(code=code))
    events = recorder.drain()
    assert check_event_order(events) == []
    assert last(events, ev.ToolExecutionEnd).synthetic
    result = recorder.result()
    assert result.status == status
    assert result.error is not None
    assert words in result.error.message
    assert result.text == "half a sen"


def test_the_marker_is_found_across_deltas_and_in_the_final_text() -> None:
    recorder = make()
    for char in "done\nORCHESTRA_COMPLETE":
        recorder.text_delta(char)
    recorder.turn_ended()
    assert recorder.marker_detected
    recorder = make()
    recorder.text_delta("done")
    recorder.turn_ended(text="ORCHESTRA_COMPLETE")
    assert recorder.marker_detected


def test_the_marker_in_tools_or_thinking_says_nothing() -> None:
    recorder = make()
    recorder.thinking_delta("ORCHESTRA_COMPLETE")
    recorder.tool_started("t", "shell", {"command": "echo ORCHESTRA_COMPLETE"})
    recorder.tool_updated("t", "ORCHESTRA_COMPLETE")
    recorder.tool_ended("t", is_error=False, result="ORCHESTRA_COMPLETE")
    recorder.turn_ended()
    assert not recorder.marker_detected


def test_the_text_of_a_secret_in_pieces_is_shown_redacted() -> None:
    recorder = make(secrets=[SECRET])
    for char in f"key {SECRET}.":
        recorder.text_delta(char)
    recorder.tool_started("t", "shell", None)
    for char in f"out {SECRET}":
        recorder.tool_updated("t", char)
    recorder.tool_ended("t", is_error=False, result=None)
    events = recorder.drain()
    shown = "".join(e.text for e in events if isinstance(e, ev.ToolExecutionUpdate))
    assert shown == f"out {REDACTED}"
    assert last(events, ev.MessageEnd).text == f"key {REDACTED}."


def test_a_question_is_decided_once() -> None:
    recorder = make()
    recorder.turn_started()
    for by in ("agent", "person"):
        recorder.permission_decided("q", tool_name="shell", decision="deny", by=by)
    recorder.turn_ended()
    recorder.permission_decided("q", tool_name="shell", decision="allow", by="person")
    events = recorder.drain()
    assert [e.by for e in events if isinstance(e, ev.PermissionDecision)] == ["agent"]
    assert not recorder.turn_open


def test_refused_calls_are_counted_each_once() -> None:
    """A call may be refused by two, and asked about twice; every question gets its answer."""
    recorder = make()
    recorder.turn_started()
    for request, call in (("q1", "t1"), ("q2", "t1"), ("q3", "t2")):
        asked = Question(
            request_id=request,
            tool_name="shell",
            args={},
            answer=lambda allowed, reason: b"",
            tool_call_id=call,
        )
        recorder.permission_requested(asked)
        recorder.permission_decided(
            request, tool_call_id=call, tool_name="shell", decision="deny", by="person"
        )
    recorder.permission_decided(
        "own", tool_call_id="t2", tool_name="shell", decision="deny", by="agent"
    )
    recorder.permission_decided(
        "q4", tool_call_id="t3", tool_name="shell", decision="allow", by="person"
    )
    recorder.turn_ended()
    told = [e.request_id for e in recorder.drain() if isinstance(e, ev.PermissionDecision)]
    assert told == ["q1", "q2", "q3", "q4"]
    assert recorder.result().refusals == 2


def test_replies_wait_for_the_driver() -> None:
    recorder = make()
    recorder.reply(b"one\n")
    recorder.reply(b"two\n")
    assert recorder.replies == [b"one\n", b"two\n"]


def test_the_cost_of_a_long_stream_grows_with_its_length_alone() -> None:
    def stream(count: int) -> float:
        recorder = make(secrets=[SECRET, "another-secret-value"])
        begun = time.process_time()
        for _ in range(count):
            recorder.text_delta("words and more words s")
        recorder.turn_ended()
        return time.process_time() - begun

    stream(500)
    short = min(stream(2000) for _ in range(3))
    assert min(stream(16000) for _ in range(3)) < short * 8 * 3


def live() -> Recorder:
    made = Recorder(runtime="test", session_id="s", options=RunOptions(prompt=""), drive="rpc")
    made.session_started("native")
    made.ready("there")
    return made


def errors_of(recorder: Recorder) -> list[tuple[str, str]]:
    return [(e.kind, e.message) for e in recorder.drain() if isinstance(e, ev.ErrorRaised)]


def test_a_conversation_that_fails_between_turns_says_why_once() -> None:
    refused, aborted = live(), live()
    refused.request_stop(Crashed("no more"))
    refused.finish(ProcessExit(code=1))
    aborted.turn_started()
    aborted.fail(Crashed("no more"))
    aborted.finish(ProcessExit(code=1))
    for made in (refused, aborted):
        assert errors_of(made) == [("crashed", "no more")]


@pytest.mark.parametrize("failed_before", [False, True])
def test_a_crash_between_turns_is_told_whatever_became_of_the_turn_before(
    failed_before: bool,
) -> None:
    recorder = live()
    recorder.turn_started()
    if failed_before:
        recorder.fail(RateLimited("slow down"))
    recorder.turn_ended()
    recorder.drain()
    recorder.finish(ProcessExit(code=3))
    assert errors_of(recorder) == [
        ("crashed", "the agent's process exited 3 while no turn was open")
    ]


@pytest.mark.parametrize("after", ["a limit", "a wish"])
def test_an_end_that_was_asked_for_is_no_crash(after: str) -> None:
    recorder = live()
    recorder.turn_started()
    if after == "a limit":
        recorder.request_stop(BudgetExceeded("too much"))
    recorder.turn_ended()
    recorder.drain()
    if after == "a wish":
        recorder.leaving = "enough"
    recorder.finish(ProcessExit(code=-15))
    assert errors_of(recorder) == []
