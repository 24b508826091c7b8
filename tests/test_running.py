"""The library's face: runs and streams, sync and async, left at any point."""

import gc
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import pytest

from bridle import running
from bridle.core import events as ev
from bridle.core.errors import UnsupportedOption, WrongUse
from bridle.core.events import Event
from bridle.core.options import ModelServer, Provider, RunOptions
from bridle.core.results import RunResult
from bridle.drives.processes import marked_processes
from bridle.drives.spec import Question
from bridle.running import EventStream, options_from, run, run_sync, stream, stream_sync
from bridle.testing.contract import check_event_order
from tests.conftest import wait_until
from tests.drives.children import children_of_ours, open_fds
from tests.support.tiny_agent import TinyNormalizer, TinyRuntime

TINY = TinyRuntime()
ROOT = Path(__file__).parent.parent


@pytest.fixture(autouse=True)
def nothing_left(
    no_leftovers: Callable[[], str], monkeypatch: pytest.MonkeyPatch
) -> Iterator[Callable[[], str]]:
    """Every run's mark is one of `no_leftovers`; our own children, zombies too, are counted."""
    monkeypatch.setattr(running, "new_session_id", no_leftovers)
    children = set(children_of_ours())
    yield no_leftovers
    assert set(children_of_ours()) <= children


def allow(question: Question) -> tuple[bool, str, str]:
    return question.tool_name != "danger", "the test", "as told"


SCRIPT = "say I will look\ntool echo found; echo x >> made\nask danger\nsay all good ORCHESTRA"


def checked(events: list[Event], result: RunResult | None) -> RunResult:
    assert check_event_order(events) == []
    assert result is not None
    return result


# -- sync -----------------------------------------------------------------------------------------


def test_a_run_without_a_loop(tmp_path: Path) -> None:
    events = stream_sync(SCRIPT, runtime=TINY, cwd=tmp_path)
    got = list(events)
    result = checked(got, events.result)
    assert (result.status, result.exit_code, result.native_session_id) == ("completed", 0, "tiny-1")
    assert result.usage.output_tokens == 3 + 1 + 3
    assert (tmp_path / "made").read_text() == "x\n"
    [decision] = [event for event in got if isinstance(event, ev.PermissionDecision)]
    assert (decision.decision, decision.by) == ("deny", "bridle")
    assert run_sync("say hi", runtime=TINY).text == "hi "


def test_breaking_out_ends_the_agent(nothing_left: Callable[[], str]) -> None:
    events = stream_sync("child\nhang", runtime=TINY)
    for event in events:
        if isinstance(event, ev.MessageUpdate):
            break
    mark = events.result.session_id
    assert marked_processes(mark) == []
    with stream_sync("child\nhang", runtime=TINY) as kept:
        iterator = iter(kept)
        next(iterator)
    assert marked_processes(kept.result.session_id) == []


def test_many_runs_leak_no_descriptor() -> None:
    run_sync("say warm", runtime=TINY)
    before = open_fds()
    unused = []
    for number in range(20):
        events = stream_sync("say hi", runtime=TINY)
        if number % 3 == 0:
            unused.append(events)
            continue
        for _ in events:
            if number % 3 == 1:
                break
    assert open_fds() == before


async def test_many_streams_leak_no_descriptor() -> None:
    await run("say warm", runtime=TINY)
    before = open_fds()
    for number in range(12):
        async with stream("say hi\nhang", runtime=TINY) as events:
            for _ in range(number):
                await events.__anext__()
    assert open_fds() == before


def test_a_run_is_played_once() -> None:
    events = stream_sync("say hi", runtime=TINY)
    list(events)
    with pytest.raises(RuntimeError):
        list(events)


def test_an_abort_ends_in_order() -> None:
    events = stream_sync("say one\nhang", runtime=TINY)
    got = []
    for event in events:
        got.append(event)
        if isinstance(event, ev.MessageUpdate) and event.text == "hanging":
            events.abort("enough")
    result = checked(got, events.result)
    assert result.status == "aborted"
    assert result.error is not None
    assert result.error.message == "enough"


def test_an_abort_before_the_start_starts_nothing() -> None:
    events = stream_sync("hang", runtime=TINY)
    events.abort()
    result = checked(list(events), events.result)
    assert (result.status, result.native_session_id) == ("aborted", None)


def test_a_timeout_keeps_what_was_said() -> None:
    events = stream_sync("say something\nchild\nhang", runtime=TINY, timeout=0.7)
    result = checked(list(events), events.result)
    assert result.status == "timed_out"
    assert result.text == "hanging"


def test_a_death_tells_its_status_and_the_redacted_end_of_stderr() -> None:
    key = "tiny-key-0123456789"
    result = run_sync("say hello\ndie", runtime=TINY, env={"TINY_API_KEY": key})
    assert (result.status, result.exit_code, result.text) == ("failed", 3, "hello ")
    assert result.error is not None
    assert result.error.kind == "crashed"
    assert result.error.stderr_tail == "dying with key [redacted]\n"


def test_garbage_never_ends_a_run() -> None:
    events = stream_sync("garbage\nsay still here", runtime=TINY)
    got = list(events)
    assert checked(got, events.result).status == "completed"
    assert sum(isinstance(event, ev.Unknown) for event in got) == 2


def test_an_adapter_that_raises_costs_one_message(monkeypatch: pytest.MonkeyPatch) -> None:
    feed, finish = TinyNormalizer.feed, TinyNormalizer.finish

    def broken(self: TinyNormalizer, line: bytes) -> None:
        if b"bad" in line:
            raise KeyError("what is this")
        feed(self, line)

    monkeypatch.setattr(TinyNormalizer, "feed", broken)
    events = stream_sync("say bad\nsay good", runtime=TINY)
    got = list(events)
    assert checked(got, events.result).text == "good "
    assert any(isinstance(event, ev.Unknown) and "KeyError" in str(event.raw) for event in got)

    def broken_end(self: TinyNormalizer, exit: Any) -> None:
        raise ValueError("no end")

    monkeypatch.setattr(TinyNormalizer, "finish", broken_end)
    again = stream_sync("say fine\ndie", runtime=TINY)
    result = checked(list(again), again.result)
    assert result.error is not None
    assert result.error.kind == "protocol_drift"
    monkeypatch.setattr(TinyNormalizer, "finish", finish)


def test_private_folders_go_with_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from msgspec.structs import replace

    folders = [tmp_path / "a", tmp_path / "b", tmp_path / "c"]
    plan_run = TinyRuntime.plan_run

    def with_folder(self: TinyRuntime, *args: Any) -> Any:
        folder = next(each for each in folders if not each.exists())
        folder.mkdir()
        return replace(plan_run(self, *args), private_dirs=(str(folder),))

    monkeypatch.setattr(TinyRuntime, "plan_run", with_folder)
    run_sync("say hi", runtime=TINY)
    assert not folders[0].exists()
    unused = stream_sync("say hi", runtime=TINY)
    assert folders[0].exists()
    del unused
    gc.collect()
    assert not folders[0].exists()

    def no_normalizer(self: TinyRuntime, *args: Any) -> Any:
        raise RuntimeError("broken adapter")

    monkeypatch.setattr(TinyRuntime, "normalizer", no_normalizer)
    with pytest.raises(RuntimeError):
        stream_sync("say hi", runtime=TINY)
    assert not folders[0].exists()


HOST = """
import os, signal, sys, threading, time
sys.path[:0] = sys.argv[4:]
from bridle import running
from tests.support.tiny_agent import TinyRuntime
running.new_session_id = lambda: sys.argv[1]
how = sys.argv[3]
def interrupt():
    time.sleep(float(sys.argv[2]))
    os.kill(os.getpid(), signal.SIGINT)
if how != 'ends':
    threading.Thread(target=interrupt, daemon=True).start()
if how == 'async':
    import asyncio
    asyncio.run(running.run('child\\nhang', runtime=TinyRuntime()))
elif how == 'run':
    running.run_sync('child\\nhang', runtime=TinyRuntime())
else:
    kept = iter(running.stream_sync('child\\nsay x\\nhang', runtime=TinyRuntime()))
    for event in kept:
        if how == 'ends' and getattr(event, 'text', ''): break
"""


@pytest.mark.parametrize("delay", [0.0, 0.02, 0.04, 0.08, 0.5])
@pytest.mark.parametrize("how", ["run", "kept", "async", "ends"])
def test_a_program_that_is_interrupted_or_ends_leaves_nothing(
    how: str, delay: float, no_leftovers: Callable[[], str]
) -> None:
    mark = no_leftovers()
    done = subprocess.run(
        [sys.executable, "-I", "-c", HOST, mark, str(delay), how, *sys.path, str(ROOT)],
        capture_output=True,
        timeout=60,
        check=False,
    )
    assert marked_processes(mark) == []
    assert done.returncode == (0 if how == "ends" else -signal.SIGINT), done.stderr
    assert b"ResourceWarning" not in done.stderr


# -- options --------------------------------------------------------------------------------------


def test_options_are_checked_by_name_and_type() -> None:
    with pytest.raises(WrongUse, match="unknown option: max_turn") as caught:
        options_from("x", {"max_turn": 3})
    assert "max_turns" in caught.value.hint
    with pytest.raises(WrongUse, match="unknown option: qqq"):
        options_from("x", {"qqq": 3})
    with pytest.raises(WrongUse, match="max_turns: Expected `int"):
        options_from("x", {"max_turns": "three"})
    with pytest.raises(WrongUse, match="permission_mode: Invalid enum value"):
        options_from("x", {"permission_mode": "yolo"})
    with pytest.raises(WrongUse, match=r"env\[\.\.\.\]"):
        options_from("x", {"env": {"A": 1}})
    with pytest.raises(WrongUse, match="prompt"):
        options_from(5, {})  # type: ignore[arg-type]  # what a caller without a checker does


def test_options_take_what_is_meant() -> None:
    server = ModelServer(url="http://127.0.0.1:1", api_key="k")
    options = options_from(
        "x",
        {
            "cwd": Path("/tmp"),
            "allowed_tools": ["a", "b"],
            "timeout": 3,
            "model_server": server,
            "provider": {"base_url": "http://x"},
        },
    )
    assert options == RunOptions(
        prompt="x",
        cwd="/tmp",
        allowed_tools=("a", "b"),
        timeout=3.0,
        model_server=server,
        provider=Provider(base_url="http://x"),
    )


@pytest.mark.parametrize(
    "options",
    [{"timeout": 0}, {"timeout": -1.0}, {"timeout": float("nan")}, {"max_turns": 0}],
)
def test_values_that_make_no_sense_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(WrongUse):
        stream_sync("say hi", runtime=TINY, **options)


def test_prompts_that_make_no_sense_are_refused() -> None:
    for prompt in ("", "  \n", "\ud800"):
        with pytest.raises(WrongUse, match="prompt"):
            stream_sync(prompt, runtime=TINY)


def test_what_the_runtime_cannot_do_is_refused_or_reported() -> None:
    with pytest.raises(UnsupportedOption, match="images"):
        stream_sync("say hi", runtime=TINY, images=["x.png"])
    result = run_sync("say hi", runtime=TINY, images=["x.png"], ignore_unsupported=True)
    assert result.ignored_options == ("images",)


# -- async ----------------------------------------------------------------------------------------


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
    assert (await TINY.run_once(RunOptions(prompt="say x"))).text == "x "


async def test_the_result_is_there_after_the_last_event() -> None:
    async with stream("say one two", runtime=TINY) as events:
        got = [event async for event in events]
        assert events.result is not None
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
