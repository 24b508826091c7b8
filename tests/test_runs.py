"""Runs without an event loop, left at any point; options and values that are refused."""

import gc
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from bridle.config import Config
from bridle.core import events as ev
from bridle.core.errors import UnsupportedOption, WrongUse
from bridle.core.options import ModelServer, Provider, RunOptions
from bridle.process.process_tree import marked_processes
from bridle.runs import options_from, prepare, run_sync, stream_sync
from tests.process.children import open_fds
from tests.support.tiny_agent import TinyNormalizer, TinyRuntime
from tests.support.tiny_runs import SCRIPT, TINY, checked

ROOT = Path(__file__).parent.parent
pytestmark = pytest.mark.usefixtures("nothing_left")


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


def test_a_run_says_who_its_agent_is(tmp_path: Path) -> None:
    (tmp_path / ".bridle").mkdir()
    outer = {"BRIDLE_SESSION_ID": "outer", "BRIDLE_AGENT_NAME": "outer", "GT_SESSION_ID": "outer"}
    config = Config(profiles=("gastown",))
    options = RunOptions(prompt="say hi", cwd=str(tmp_path))
    plan = prepare(TINY, options, env={**os.environ, **outer}, config=config).plan
    env = plan.spec.env
    assert env["BRIDLE_PROJECT"] == str(tmp_path)
    assert (env["GT_RIG"], env["GT_WORKDIR"]) == (tmp_path.name, str(tmp_path))
    assert env["GT_SESSION_ID"] == env["BRIDLE_SESSION_ID"] == plan.session_id
    assert "BRIDLE_AGENT_NAME" not in env


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
        list(stream_sync("say hi", runtime=TINY))
    assert not folders[0].exists()


def test_what_a_resumed_conversation_used_is_read_before_the_agent_starts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made: list[str | None] = []
    normalizer = TinyRuntime.normalizer

    def counted(self: TinyRuntime, plan: Any, recorder: Any) -> Any:
        made.append(recorder.options.resume)
        return normalizer(self, plan, recorder)

    monkeypatch.setattr(TinyRuntime, "normalizer", counted)
    resumed = stream_sync("say hi", runtime=TINY, resume="before", ignore_unsupported=True)
    assert made == ["before"]
    list(resumed)
    assert made == ["before"]
    new = stream_sync("say hi", runtime=TINY)
    assert made == ["before"]
    list(new)
    assert made == ["before", None]


HOST = """
import os, signal, sys, threading, time
sys.path[:0] = sys.argv[4:]
from bridle import runs
from tests.support.tiny_agent import TinyRuntime
runs.new_session_id = lambda: sys.argv[1]
how = sys.argv[3]
def interrupt():
    time.sleep(float(sys.argv[2]))
    os.kill(os.getpid(), signal.SIGINT)
if how != 'ends':
    threading.Thread(target=interrupt, daemon=True).start()
if how == 'async':
    import asyncio
    asyncio.run(runs.run('child\\nhang', runtime=TinyRuntime()))
elif how == 'run':
    runs.run_sync('child\\nhang', runtime=TinyRuntime())
else:
    kept = iter(runs.stream_sync('child\\nsay x\\nhang', runtime=TinyRuntime()))
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
