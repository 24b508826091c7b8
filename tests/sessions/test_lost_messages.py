"""Messages that an agent took and, killed at once, did not write down."""

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from bridle.sessions.store import SessionRecord
from bridle.testing import ScriptedModel
from tests.sessions.place import Host, Place, wait
from tests.sessions.real import LONG, begin, go_on, real_place, rest
from tests.support.real_cli import newest

pytestmark = [pytest.mark.real_cli, pytest.mark.timeout(400)]

TURNS = [
    {"text": "Ready."},
    {"text": "I begin.", "shell": "touch began; sleep 60"},
    {"text": "Taken up."},
    {"text": "The last."},
]


@pytest.fixture
def place() -> Iterator[Place]:
    with real_place() as here:
        yield here


def killed_in_second_turn(place: Place, host: Host, record: SessionRecord) -> Path:
    """Kill the agent while it works at its second prompt; returns its transcript."""
    host.send(record, "The first words.")
    assert rest(host, record) == "Ready."
    host.send(record, "The second words.")
    wait((place.work / "began").exists, LONG)
    pid = host.driver(record).record.pid
    assert pid is not None
    os.kill(pid, signal.SIGKILL)
    wait(lambda: place.record(record).is_over, LONG)
    host.idle(record)
    account = Path(place.home.folder(record.session_id)) / "account"
    (transcript,) = account.rglob(f"{place.record(record).native_session_id}.jsonl")
    return transcript


@pytest.mark.parametrize("kept", [True, False], ids=["written", "not-written"])
def test_a_message_is_given_again_only_when_the_agent_forgot_it(place: Place, kept: bool) -> None:
    runtime = newest("claude")
    with ScriptedModel(TURNS) as model:
        record = begin(place, runtime, "rpc", model)
        host = place.host()
        transcript = killed_in_second_turn(place, host, record)
        whole = transcript.read_bytes()
        lines = whole.splitlines(keepends=True)
        first = next(at for at, line in enumerate(lines) if b"The second words." in line)
        if not kept:
            # As when the kill comes a moment earlier.
            transcript.write_bytes(b"".join(lines[:first]))
        resumed = go_on(place, runtime, record)
        if not kept:
            assert rest(host, resumed) == "Taken up."
        host.send(resumed, "The last words.")
        assert rest(host, resumed) == ("Taken up." if kept else "The last.")
        asked = str(model.requests[-1].body)
        for text in ("The first words.", "The second words.", "The last words."):
            assert asked.count(text) == 1, f"{text} reached the model {asked.count(text)} times"
        host.stop(resumed)
