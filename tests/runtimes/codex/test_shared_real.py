"""A real Codex that is shared on its socket: the driver's conversation, and a person's terminal."""

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from bridle.core import events as ev
from bridle.drives.tmux.server import TmuxServer
from bridle.process.process_tree import marked_processes
from bridle.testing.bench import AgentBench
from bridle.turns.wire import LiveFacts, Outgoing
from tests.conftest import wait_until
from tests.runtimes.codex.real import RealCodex, model_of
from tests.runtimes.codex.test_live_real import body, of, turn, until_told
from tests.support.conversation import AttachedConversation
from tests.support.live import DEADLINE, last_end, say
from tests.support.panes import private_server

pytestmark = [pytest.mark.real_cli, pytest.mark.timeout(300)]

SHARED: dict[str, Any] = {"sandbox": "off", "provider_options": {"shared_socket": True}}


@pytest.fixture
def codex(bench: AgentBench) -> RealCodex:
    return RealCodex(bench, "0.166.0")


@pytest.fixture
def tmux() -> Iterator[TmuxServer]:
    with private_server() as server:
        yield server


def facts_of(talk: AttachedConversation) -> LiveFacts:
    facts = talk.wire._facts  # type: ignore[attr-defined]  # the wire keeps what it was made of
    assert isinstance(facts, LiveFacts)
    return facts


def test_prompts_steer_and_abort(codex: RealCodex) -> None:
    go = codex.work / "go"
    wait = "echo begun; while [ ! -e go ]; do sleep 0.05; done; echo gone"
    huge = "é" * 1_000_000 + " end"
    script = [
        turn(text="Hello."),
        turn(text="Waiting.", shell=wait),
        turn(text="Read."),
        turn(text="Waiting.", shell="sleep 61 & sleep 60; echo woke"),
        turn(text="Much to read."),
    ]
    with model_of(script) as model, codex.talk(model, **SHARED) as talk:
        socket = Path(facts_of(talk).own["socket"])
        assert socket.parent.stat().st_mode & 0o777 == 0o700
        assert say(talk, "First.").text == "Hello."

        talk.prompt(Outgoing(id="p", text="Begin."))
        until_told(talk, ev.ToolExecutionStart)
        talk.steer(Outgoing(id="s", text="Mind the gap."))
        go.touch()
        talk.wait_ready(DEADLINE)
        assert (talk.deliveries["s"].taken, talk.deliveries["s"].turn) == (True, 2)
        assert last_end(talk.events).text == "Read."
        assert body(model).count("Mind the gap.") == 1

        talk.prompt(Outgoing(id="a", text="Wait."))
        until_told(talk, ev.ToolExecutionStart, 2)
        talk.abort("enough of it")
        talk.wait_ready(DEADLINE)
        assert last_end(talk.events).status == "aborted"
        # The relay and the app-server; nothing of the command.
        wait_until(lambda: len(marked_processes(talk.recorder.session_id)) == 2)

        assert say(talk, huge).text == "Much to read."
        assert huge in body(model)
        talk.leave()
        talk.wait(lambda: talk.recorder.state == "stopped", DEADLINE)
    assert talk.process.exit is not None
    assert talk.process.exit.code == 0
    assert not socket.parent.exists()
    assert of(talk, ev.Unknown) == []


def test_stopped_in_the_middle_of_a_command(codex: RealCodex) -> None:
    script = [turn(text="Waiting.", shell="sleep 61 & sleep 60; echo woke")]
    with model_of(script) as model, codex.talk(model, **SHARED) as talk:
        talk.prompt(Outgoing(id="p", text="Begin."))
        until_told(talk, ev.ToolExecutionStart)
        real = os.path.realpath(facts_of(talk).own["socket"])
        assert os.path.exists(real)
        assert talk.process.pid is not None
        os.kill(talk.process.pid, signal.SIGTERM)
        talk.wait(lambda: talk.recorder.state in ("stopped", "failed"), DEADLINE)
        wait_until(lambda: marked_processes(talk.recorder.session_id) == [])
        assert not os.path.exists(real)


class Person:
    """Somebody at a terminal with Codex's own interface."""

    def __init__(self, tmux: TmuxServer, codex: RealCodex, talk: AttachedConversation) -> None:
        thread = talk.recorder.native_session_id
        assert thread is not None
        spec = codex.runtime.remote_terminal(facts_of(talk), thread, codex.env)
        assert spec is not None
        self._tmux = tmux
        tmux.new_session("person", spec.argv, cwd=spec.cwd, env=spec.env)

    def sees(self, text: str) -> None:
        wait_until(lambda: text in self._tmux.capture("person", history=True), seconds=DEADLINE)

    def types(self, text: str) -> None:
        self._tmux.paste("person", text)
        self.sees(text)
        self._tmux.send_keys("person", "Enter")

    def presses(self, key: str) -> None:
        self._tmux.send_keys("person", key)

    def is_gone(self) -> bool:
        return self._tmux.pane("person").dead


def test_a_person_joins(codex: RealCodex, tmux: TmuxServer) -> None:
    script = [turn(text=f"Answer number {n}.") for n in range(1, 5)]
    with model_of(script) as model, codex.talk(model, **SHARED) as talk:
        assert say(talk, "From the driver.").text == "Answer number 1."
        person = Person(tmux, codex, talk)
        person.sees("Answer number 1.")
        person.sees("Ask Codex to do anything")

        person.types("Typed by a person.")
        until_told(talk, ev.AgentEnd, 2)
        end = last_end(talk.events)
        assert (end.turn, end.status, end.text) == (2, "completed", "Answer number 2.")
        assert any("Typed by a person." in str(each.body) for each in model.requests)
        person.sees("Answer number 2.")

        assert say(talk, "Again the driver.").text == "Answer number 3."
        person.sees("Again the driver.")
        person.sees("Answer number 3.")

        person.types("/quit")
        wait_until(person.is_gone, seconds=DEADLINE)
        assert say(talk, "Are you there?").text == "Answer number 4."
        assert of(talk, ev.Unknown) == []
