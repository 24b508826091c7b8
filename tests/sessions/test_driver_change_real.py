"""Sessions of the real agents on the scripted model: drivers come and go, conversations stay."""

import os
import signal
from collections.abc import Iterator

import pytest

from bridle.core import events as ev
from bridle.core.events import Drive
from bridle.process.process_tree import kill_marked, marked_processes
from bridle.sessions.replay import replayed
from bridle.testing import ScriptedModel
from bridle.testing.contract import check_event_order
from tests.sessions.place import Place, wait
from tests.sessions.real import LONG, begin, go_on, real_place, rest
from tests.support.real_cli import newest

pytestmark = [pytest.mark.real_cli, pytest.mark.timeout(400)]

AGENTS: list[tuple[str, Drive]] = [
    *(("claude", "rpc"), ("codex", "rpc"), ("pi", "rpc"), ("opencode-acp", "rpc")),
    *(("cline", "rpc"), ("copilot", "rpc"), ("opencode", "rpc")),
    *(("claude", "tmux"), ("codex", "tmux"), ("pi", "tmux"), ("copilot", "tmux")),
]
TURNS = [
    {"text": "I run a tool.", "shell": "touch began; sleep 2; echo one"},
    {"text": "The tool has run."},
    {"text": "The next one."},
    {"text": "Back again."},
]


@pytest.fixture
def place() -> Iterator[Place]:
    with real_place() as made:
        yield made


@pytest.mark.parametrize(("name", "drive"), AGENTS)
def test_driver_and_agent_are_killed(place: Place, name: str, drive: Drive) -> None:
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
