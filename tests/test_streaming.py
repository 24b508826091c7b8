"""Runs and streams in an event loop, left and cancelled at any point."""

import json
import threading
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import pytest

from bridle.core import events as ev
from bridle.core.errors import WrongUse
from bridle.core.events import Event
from bridle.core.options import RunOptions
from bridle.core.results import RunResult
from bridle.runs import EventStream, run, run_sync, stream, stream_sync
from bridle.runtime import AgentRuntime
from bridle.testing.contract import check_event_order
from bridle.turns.wire import Allow, Deny, PermissionAnswer, Question
from tests.conftest import wait_until
from tests.process.children import open_fds
from tests.support.tiny_runs import SCRIPT, TINY, allow, checked

pytestmark = pytest.mark.usefixtures("nothing_left")


async def test_a_run_with_a_loop(tmp_path: Path) -> None:
    seen: list[Event] = []

    async def later(event: Event) -> None:
        await anyio.lowlevel.checkpoint()
        seen.append(event)

    result = await run(SCRIPT, runtime=TINY, cwd=tmp_path, on_event=later)
    assert checked(seen, result).status == "completed"
    again: list[Event] = []
    await run("say hi", runtime=TINY, on_event=again.append)
    assert check_event_order(again) == []
    assert (await AgentRuntime(TINY).run_once(RunOptions(prompt="say x"))).text == "x "


async def test_the_result_is_there_after_the_last_event() -> None:
    async with stream("say one two", runtime=TINY) as events:
        with pytest.raises(WrongUse, match="no result yet"):
            _ = events.result
        got = [event async for event in events]
        assert events.result.status == "completed"
        assert [event async for event in events] == []
    assert checked(got, events.result).text == "one two "


async def test_permission_by_a_callback_of_either_kind() -> None:
    async def slowly(question: Question) -> tuple[bool, str, str]:
        await anyio.sleep(0.01)
        return allow(question)

    for permission in (allow, slowly):
        result = await run("ask shell\nask danger", runtime=TINY, permission=permission)
        assert result.text == 'answer: [false, "as told"]'
    assert run_sync("ask shell", runtime=TINY, permission=allow).text == 'answer: [true, "as told"]'


def test_the_result_of_a_sync_stream_is_there_after_the_last_event() -> None:
    events = stream_sync("say one two", runtime=TINY)
    with pytest.raises(WrongUse, match="no result yet"):
        _ = events.result
    for event in events:
        if isinstance(event, ev.AgentStart):
            with pytest.raises(WrongUse, match="no result yet"):
                _ = events.result
    assert events.result.text == "one two "
    with stream_sync("hang", runtime=TINY) as events:
        next(iter(events))
    assert events.result.status != "completed"


@pytest.mark.parametrize(
    ("answer", "heard", "decided"),
    [
        (True, [True, ""], ("allow", "caller", "")),
        (False, [False, "the caller refused it"], ("deny", "caller", "the caller refused it")),
        (Allow(), [True, ""], ("allow", "caller", "")),
        (Allow("fine", by="Ann"), [True, "fine"], ("allow", "Ann", "fine")),
        (Deny("not now"), [False, "not now"], ("deny", "caller", "not now")),
        ((False, "old", "as before"), [False, "as before"], ("deny", "old", "as before")),
    ],
)
async def test_what_a_permission_callback_may_return(
    answer: PermissionAnswer, heard: list[object], decided: tuple[str, str, str]
) -> None:
    async def later(question: Question) -> PermissionAnswer:
        await anyio.lowlevel.checkpoint()
        return answer

    seen: list[Event] = []
    result = await run("ask shell", runtime=TINY, permission=later, on_event=seen.append)
    assert json.loads(result.text.removeprefix("answer: ")) == heard
    [decision] = [event for event in seen if isinstance(event, ev.PermissionDecision)]
    assert (decision.decision, decision.by, decision.reason) == decided
    again = run_sync("ask shell", runtime=TINY, permission=lambda question: answer)
    assert again.text == result.text


@pytest.mark.parametrize("answer", [None, "yes", 1, (True, "who"), (1, "a", "b")])
async def test_what_is_no_answer_to_a_permission_request_is_never_a_yes(answer: Any) -> None:
    async def later(question: Question) -> Any:
        return answer

    for permission in (later, lambda question: answer):
        with pytest.raises(WrongUse, match="permission callback returned"):
            await run("ask shell\nhang", runtime=TINY, permission=permission)


async def test_what_a_permission_callback_raises_comes_out() -> None:
    async def broken(question: Question) -> tuple[bool, str, str]:
        raise LookupError("who is that")

    with pytest.raises(LookupError):
        await run("child\nask shell\nhang", runtime=TINY, permission=broken)


async def test_a_raising_permission_callback_is_heard_of_without_reading() -> None:
    def broken(question: Question) -> tuple[bool, str, str]:
        raised.set()
        raise LookupError("who is that")

    async def leaves_early() -> None:
        async with stream("ask shell\nhang", runtime=TINY, permission=broken) as events:
            # The request itself is never handed over: the callback is asked first.
            await events.__anext__()
            await anyio.to_thread.run_sync(raised.wait, 20)

    raised = threading.Event()
    with pytest.raises(LookupError):
        await leaves_early()


async def test_leaving_while_a_permission_is_asked_for() -> None:
    asked = anyio.Event()

    async def never(question: Question) -> tuple[bool, str, str]:
        asked.set()
        await anyio.sleep(999)
        raise AssertionError("nobody waits that long")

    async with stream("child\nask shell", runtime=TINY, permission=never) as events:
        await events.__anext__()
        while not asked.is_set():
            with anyio.move_on_after(0.05):
                await events.__anext__()
    assert events.result is not None
    assert events.result.status == "aborted"


async def test_breaking_out_of_the_loop() -> None:
    async with stream("child\nsay x\nhang", runtime=TINY) as events:
        async for event in events:
            if isinstance(event, ev.MessageUpdate):
                break
    assert events.result is not None
    assert events.result.status == "aborted"


async def test_leaving_without_reading() -> None:
    async with stream("count 100000", runtime=TINY) as events:
        pass
    assert events.result is not None
    assert events.result.status == "aborted"


async def test_an_exception_of_the_consumer_comes_out_as_it_is() -> None:
    async def consume() -> None:
        async with stream("child\nhang", runtime=TINY) as events:
            async for _ in events:
                raise ZeroDivisionError

    def handle(event: Event) -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await consume()
    with pytest.raises(ZeroDivisionError):
        await run("child\nhang", runtime=TINY, on_event=handle)


@pytest.mark.parametrize("delay", [0.0, 0.001, 0.01, 0.03, 0.1, 0.4])
async def test_cancelled_at_any_point(delay: float) -> None:
    with pytest.raises(TimeoutError), anyio.fail_after(delay):
        await run("say x\nchild\nhang", runtime=TINY)
    with anyio.move_on_after(delay) as scope:
        async with stream("count 1000000", runtime=TINY) as events:
            async for _ in events:
                await anyio.lowlevel.checkpoint()
    assert scope.cancelled_caught


async def test_cancelled_by_the_loop_itself_twice() -> None:
    import asyncio

    task = asyncio.create_task(run("child\nhang", runtime=TINY))
    await anyio.sleep(0.3)
    task.cancel()
    await anyio.sleep(0.01)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_inside_and_around_task_groups() -> None:
    results: list[RunResult] = []

    async def one(name: str) -> None:
        async with (
            stream(f"say {name}", runtime=TINY) as events,
            anyio.create_task_group() as group,
        ):
            async for event in events:
                group.start_soon(anyio.sleep, 0)
                assert event.runtime == "tiny"
        assert events.result is not None
        results.append(events.result)

    async with anyio.create_task_group() as group:
        for name in "abc":
            group.start_soon(one, name)
    assert sorted(result.text for result in results) == ["a ", "b ", "c "]

    async def fails() -> None:
        await anyio.sleep(0.2)
        raise ZeroDivisionError

    async def both() -> None:
        async with anyio.create_task_group() as group:
            group.start_soon(run_hanging)
            group.start_soon(fails)

    with pytest.raises(ExceptionGroup) as caught:
        await both()
    assert caught.group_contains(ZeroDivisionError)


async def run_hanging() -> None:
    await run("child\nhang", runtime=TINY)


async def test_a_hundred_at_once() -> None:
    results: list[RunResult] = []
    waiting = 0
    everyone = anyio.Event()

    async def together(question: Question) -> tuple[bool, str, str]:
        # Nobody is answered until all hundred agents ask: none may wait for another's end.
        nonlocal waiting
        waiting += 1
        if waiting == 100:
            everyone.set()
        await everyone.wait()
        return True, "the test", ""

    async def one(number: int) -> None:
        script = f"ask x\nsay {number}"
        results.append(await run(script, runtime=TINY, permission=together))

    with anyio.fail_after(100):
        async with anyio.create_task_group() as group:
            for number in range(100):
                group.start_soon(one, number)
    assert sorted(int(result.text) for result in results) == list(range(100))


async def test_a_consumer_that_takes_its_time_slows_the_agent(tmp_path: Path) -> None:
    taken = 0
    async with stream("count 20000", runtime=TINY) as events:
        async for _ in events:
            taken += 1
            if taken % 20000 == 0:
                await anyio.sleep(0.05)
    assert events.result is not None
    assert events.result.usage.output_tokens == 20000
    assert taken == 20000 * 5 + 7


async def test_wrong_use_of_a_stream() -> None:
    unopened = stream("say hi", runtime=TINY)
    with pytest.raises(WrongUse):
        async for _ in unopened:
            pass
    async with unopened:
        with pytest.raises(WrongUse):
            await unopened.__aenter__()


def test_no_thread_is_left_when_the_loop_ends() -> None:
    async def main() -> None:
        with anyio.move_on_after(0.2):
            await run("child\nhang", runtime=TINY)

    before = set(threading.enumerate())
    anyio.run(main)
    # The loop tells its idle worker threads to end; they do so a moment later.
    wait_until(lambda: set(threading.enumerate()) <= before)


def test_streams_keep_their_names() -> None:
    assert isinstance(stream("say x", runtime=TINY), EventStream)


async def test_many_streams_leak_no_descriptor() -> None:
    await run("say warm", runtime=TINY)
    before = open_fds()
    for number in range(12):
        async with stream("say hi\nhang", runtime=TINY) as events:
            for _ in range(number):
                await events.__anext__()
    assert open_fds() == before
