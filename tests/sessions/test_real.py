"""Sessions of the real agents on the scripted model: drivers come and go, conversations stay."""

import os
import signal
import subprocess
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from bridle.core import events as ev
from bridle.core.options import ModelServer, RunOptions
from bridle.drives.processes import kill_marked, marked_processes
from bridle.runtimes.base import AgentRuntime
from bridle.runtimes.registry import get_runtime
from bridle.sessions.lifecycle import resume_session, start_session
from bridle.sessions.replay import replayed
from bridle.sessions.store import SessionRecord, SessionStore
from bridle.testing import ScriptedModel
from bridle.testing.contract import check_event_order
from tests.sessions.place import Host, Place, wait
from tests.support.clis import PINS
from tests.support.real_cli import real_cli

pytestmark = [pytest.mark.real_cli, pytest.mark.timeout(400)]

SCRATCH = Path(__file__).parents[2] / ".tmp" / "sessions"
AGENTS = [
    *(("claude", "rpc"), ("codex", "rpc"), ("pi", "rpc"), ("opencode-acp", "rpc")),
    *(("claude", "tmux"), ("codex", "tmux"), ("pi", "tmux"), ("copilot", "tmux")),
]
TURNS = [
    {"text": "I run a tool.", "shell": "touch began; sleep 2; echo one"},
    {"text": "The tool has run."},
    {"text": "The next one."},
    {"text": "Back again."},
]
LONG = 150.0


@pytest.fixture
def place() -> Iterator[Place]:
    # Codex refuses to keep its files below the system's folder for temporary ones.
    folder = SCRATCH / uuid.uuid4().hex[:8]
    folder.mkdir(parents=True)
    here = Place(folder)
    (folder / "home").mkdir()
    here.env["TERM"] = "xterm-256color"
    subprocess.run(["git", "init", "-q"], cwd=here.work, env=here.env, check=True)
    try:
        yield here
    finally:
        here.close()


def newest(name: str) -> AgentRuntime:
    """A runtime with the newest of its pinned CLIs."""
    runtime = get_runtime(name)
    pins = {pin.name: pin.version for pin in PINS}
    pin = name if name in pins else runtime.binary
    runtime.use_binary(str(real_cli(pin, pins[pin])))
    return runtime


def begin(place: Place, runtime: AgentRuntime, drive: str, model: ScriptedModel) -> SessionRecord:
    """Start a session."""
    options = RunOptions(
        prompt="",
        cwd=str(place.work),
        permission_mode="bypass",
        model_server=ModelServer(url=model.url, api_key="bridle-scripted-key"),
    )
    store = SessionStore(place.home)
    try:
        record = start_session(
            place.home,
            store,
            runtime,
            options,
            env=place.env,
            drive="tmux" if drive == "tmux" else "rpc",
        )
    finally:
        store.close()
    place.sessions.append(record.session_id)
    return record


def go_on(place: Place, runtime: AgentRuntime, record: SessionRecord) -> SessionRecord:
    """Start the session's next process."""
    env = {**place.env, "BRIDLE_MODEL_SERVER_KEY": "bridle-scripted-key"}
    store = SessionStore(place.home)
    try:
        known = store.get(record.session_id)
        return resume_session(place.home, store, runtime, known, env=env)
    finally:
        store.close()


def rest(host: Host, record: SessionRecord) -> str:
    """Wait until the agent is idle; returns the last text."""
    report = host.call(lambda: host.service.wait_idle(record.session_id, LONG)).result(LONG + 10)
    assert report is not None, "it never came to rest"
    assert (report.state, report.status) == ("ready", "completed"), report
    return report.text


@pytest.mark.parametrize(("name", "drive"), AGENTS)
def test_driver_and_agent_are_killed(place: Place, name: str, drive: str) -> None:
    runtime = newest(name)
    with ScriptedModel(TURNS) as model:
        record = begin(place, runtime, drive, model)
        first = place.host()
        assert first.send(record, "Please begin.") is not None
        wait((place.work / "began").exists, LONG)
        first.send(record, "And then this.", "follow_up")
        # The driver goes in the middle of a turn, with a message that waits.
        first.close()
        second = place.host()
        assert rest(second, record) == "The next one."
        pid = second.driver(record).record.pid
        assert pid is not None
        os.kill(pid, signal.SIGKILL)
        wait(lambda: place.record(record).is_over, LONG)
        assert second.idle(record).state in ("failed", "lost")
        assert marked_processes(record.session_id) == []
        resumed = go_on(place, runtime, record)
        second.send(resumed, "Do you remember?")
        assert rest(second, resumed) == "Back again."
        assert place.record(resumed).native_session_id == place.record(record).native_session_id
        asked = str(model.requests[-1].body)
        for text in ("Please begin.", "And then this.", "Do you remember?"):
            assert asked.count(text) == 1, f"{text} reached the model {asked.count(text)} times"
        second.stop(resumed)
        wait(lambda: not marked_processes(record.session_id))
    events = place.events(record)
    assert check_event_order(events) == []
    ends = [event.turn for event in events if isinstance(event, ev.AgentEnd)]
    assert ends == list(range(1, len(ends) + 1))
    again = replayed(place.home, place.record(record), runtime)
    assert [type(event) for event in again] == [type(event) for event in events]
    kill_marked(record.session_id)
