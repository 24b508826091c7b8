"""Hook events: one schema, told in order, and nothing that a hook does holds a session up."""

import json
import os
import stat
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from bridle.config.schema import HooksSection
from bridle.core.errors import RateLimited
from bridle.core.events import Event
from bridle.process.process_tree import look, marked_processes
from bridle.process.spec import SESSION_MARK, ProcessExit
from bridle.sessions import hooks as hooks_module
from bridle.sessions.home import StateHome
from bridle.sessions.hooks import HookEvent, HookRunner, hook_events
from bridle.sessions.store import SessionRecord
from tests.conftest import wait_until
from tests.support.sessions import MadeSession, live_session

FIELDS = [
    "event",
    "runtime",
    "session_id",
    "workdir",
    "project",
    "role",
    "task",
    "actor",
    "timestamp",
    "data",
]
ENV = {"PATH": "/usr/bin:/bin", "HOME": "/", "LANG": "C.UTF-8"}


def a_session(tmp_path: Path) -> tuple[SessionRecord, list[Event]]:
    """A session with a message, an empty one, a failure and an end that was asked for."""
    made = MadeSession(
        tmp_path, project="greenplace", capability="builder", task="gp-1", actor="greenplace/ivy"
    )
    recorder = made.recorder
    made.do(lambda: recorder.session_started("native", model="big"))
    made.ask("m1", "Go.")
    made.say("")
    made.say("Gone.")
    recorder.fail(RateLimited("slow down"))
    made.end_turn()
    recorder.leaving = "done"
    made.do(lambda: recorder.finish(ProcessExit(code=0)))
    return made.record, list(made.log.read())


class Told:
    """Collects hook events."""

    def __init__(self) -> None:
        self.events: list[HookEvent] = []
        self.go = threading.Event()
        self.go.set()

    def __call__(self, event: HookEvent) -> None:
        assert self.go.wait(30)
        self.events.append(event)

    @property
    def names(self) -> list[str]:
        return [event.event for event in self.events]


@pytest.fixture
def home(tmp_path: Path) -> StateHome:
    home = StateHome(str(tmp_path / "home-state"))
    home.make()
    return home


@pytest.fixture
def runners() -> Iterator[list[HookRunner]]:
    made: list[HookRunner] = []
    yield made
    for runner in made:
        runner.close(1.0)


def runner_of(
    runners: list[HookRunner], home: StateHome, env: dict[str, str] | None = None, **fields: Any
) -> HookRunner:
    runners.append(HookRunner(HooksSection(**fields), home, env=env or ENV))
    return runners[-1]


def logged(runner: HookRunner) -> list[dict[str, Any]]:
    try:
        lines = Path(runner.log_path).read_text().splitlines()
    except FileNotFoundError:
        return []
    return [json.loads(line) for line in lines]


def test_hook_events_have_the_one_schema(tmp_path: Path) -> None:
    record, events = a_session(tmp_path)
    found = hook_events(record, events)
    assert [each.event for each in found] == ["SessionStart", "OnMessage", "OnError", "SessionStop"]
    for each in found:
        told = json.loads(msgspec.json.encode(each))
        assert list(told) == FIELDS
        assert told["project"] == "greenplace"
        assert told["role"] == "builder"
        assert told["task"] == "gp-1"
        assert told["actor"] == "greenplace/ivy"
        assert told["timestamp"].endswith("Z")
    assert found[0].data["native_session_id"] == "native"
    assert found[1].data["message"] == "Gone."
    assert found[2].data["kind"] == "rate_limited"
    assert found[3].data["exit_code"] == 0
    assert found[3].data["state"] == "stopped"


def test_commands_get_the_event_on_stdin_in_order(
    tmp_path: Path, home: StateHome, runners: list[HookRunner]
) -> None:
    record, events = a_session(tmp_path)
    out = tmp_path / "told"
    keep = f"cat >> {out}"
    runner = runner_of(
        runners, home, session_start=(keep,), on_message=(keep, keep), session_stop=(keep,)
    )
    for event in events:
        runner.published(record, [event])
    runner.close(30)
    told = [json.loads(line) for line in out.read_text().splitlines()]
    names = [each["event"] for each in told]
    assert names == ["SessionStart", "OnMessage", "OnMessage", "SessionStop"]
    assert list(told[0]) == FIELDS
    assert logged(runner) == []


def test_a_subscriber_that_raises_does_not_spoil_it_for_others(
    tmp_path: Path, home: StateHome, runners: list[HookRunner]
) -> None:
    record, events = a_session(tmp_path)
    runner = runner_of(runners, home)
    told = Told()

    def broken(event: HookEvent) -> None:
        raise ValueError("broken")

    runner.subscribe(broken)
    stop = runner.subscribe(told)
    runner.published(record, events)
    wait_until(lambda: len(told.events) == 4)
    stop()
    runner.published(record, events)
    runner.close(30)
    assert len(told.events) == 4
    assert [entry["problem"] for entry in logged(runner)] == ["ValueError('broken')"] * 8


def test_failures_are_in_a_private_log_without_secrets(
    tmp_path: Path, home: StateHome, runners: list[HookRunner]
) -> None:
    record, events = a_session(tmp_path)
    env = {**ENV, "MY_API_KEY": "tr0ub4dor-and-3"}
    runner = runner_of(
        runners,
        home,
        env,
        on_error=("echo no $MY_API_KEY here >&2; exit 3", "no-such-program-anywhere"),
    )
    runner.published(record, events)
    runner.close(30)
    first, second = logged(runner)
    assert first["level"] == "warning"
    assert first["event"] == "OnError"
    assert first["session_id"] == record.session_id
    assert first["problem"] == "exited 3"
    assert first["stderr"] == "no [redacted] here\n"
    assert second["problem"] == "exited 127"
    assert stat.S_IMODE(os.stat(runner.log_path).st_mode) == 0o600


def test_a_hook_that_hangs_is_ended_and_the_next_goes_on(
    tmp_path: Path, home: StateHome, runners: list[HookRunner]
) -> None:
    record, events = a_session(tmp_path)
    out = tmp_path / "after"
    pid = tmp_path / "pid"
    runner = runner_of(
        runners,
        home,
        session_start=(f"sleep 600 & echo $! > {pid}; wait", f"touch {out}"),
        timeout_seconds=1.0,
    )
    runner.published(record, events)
    wait_until(out.exists)
    runner.close(30)
    [entry] = logged(runner)
    assert entry["problem"] == "took longer than 1 s"
    wait_until(lambda: not _runs(int(pid.read_text())))


def test_a_command_that_reads_nothing_and_leaves_a_child_holds_nothing_up(
    tmp_path: Path, home: StateHome, runners: list[HookRunner]
) -> None:
    record, events = a_session(tmp_path)
    pid = tmp_path / "pid"
    told = Told()
    runner = runner_of(runners, home, on_message=(f"sleep 600 & echo $! > {pid}",))
    runner.subscribe(told)
    runner.published(record, events)
    try:
        wait_until(lambda: len(told.events) == 4)
    finally:
        wait_until(pid.exists)
        os.kill(int(pid.read_text()), 9)
    assert logged(runner) == []


def test_publishing_never_waits_and_what_is_lost_is_told(
    tmp_path: Path, home: StateHome, runners: list[HookRunner], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hooks_module, "_WAITING", 4)
    record, events = a_session(tmp_path)
    runner = runner_of(runners, home)
    told = Told()
    told.go.clear()
    runner.subscribe(told)
    runner.published(record, events[:1])
    wait_until(lambda: runner._waiting.empty())
    for _ in range(3):
        runner.published(record, events)
    told.go.set()
    wait_until(lambda: len(told.events) == 5)
    runner.close(30)
    [entry] = logged(runner)
    assert entry["problem"] == "8 hook events were lost: too many waited"


def test_closing_is_bounded_and_says_what_was_not_told(
    tmp_path: Path, home: StateHome, runners: list[HookRunner]
) -> None:
    record, events = a_session(tmp_path)
    begun = tmp_path / "begun"
    hang = f"touch {begun}; sleep 600"
    runner = runner_of(runners, home, session_start=(hang,), session_stop=("true",))
    runner.published(record, events)
    wait_until(begun.exists)
    started = time.monotonic()
    runner.close(0.2)
    assert time.monotonic() - started < 60
    problems = {entry["event"]: entry["problem"] for entry in logged(runner)}
    assert problems == {
        "SessionStop": "not sent: Bridle ended first",
        "SessionStart": "exited -9",
    }
    runner.published(record, events)
    assert len(logged(runner)) == 2


def test_a_hook_is_no_process_of_the_session(
    tmp_path: Path, home: StateHome, runners: list[HookRunner]
) -> None:
    record, events = a_session(tmp_path)
    out = tmp_path / "mark"
    runner = runner_of(
        runners,
        home,
        {**ENV, SESSION_MARK: record.session_id},
        session_stop=(f"echo mark=${SESSION_MARK} > {out}",),
    )
    runner.published(record, events)
    runner.close(30)
    assert out.read_text() == "mark=\n"
    assert marked_processes(record.session_id) == []


def test_hooks_of_a_real_session(
    tmp_path: Path, home: StateHome, runners: list[HookRunner]
) -> None:
    runner = runner_of(runners, home)
    told = Told()
    runner.subscribe(told)
    script = [{"text": "Hello."}, {"text": "Oh.", "fault": {"status": 401}}]
    with live_session(tmp_path, script) as live:
        seen = 0

        def publish() -> None:
            nonlocal seen
            batch, seen = live.events[seen:], len(live.events)
            runner.published(live.record, batch)

        live.send("Hi.")
        live.wait_idle()
        publish()
        live.send("Again.")
        live.wait_idle()
        live.leave()
        publish()
    runner.close(30)
    assert told.names == ["SessionStart", "OnMessage", "OnError", "SessionStop"]
    assert told.events[-1].data["state"] == "stopped"


def _runs(pid: int) -> bool:
    return look(pid) is not None
