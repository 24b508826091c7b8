"""Conversations with processes: an agent that configuration alone declares, and bad ones."""

import os
from pathlib import Path

import pytest

from bridle.config import load_config
from bridle.core import events as ev
from bridle.core.errors import TimedOut
from bridle.core.options import RunOptions
from bridle.process.process_tree import marked_processes
from bridle.runtimes.registry import get_adapter
from bridle.turns.wire import Outgoing
from tests.runtimes.acp.test_processes import CONFIG, agent, declare
from tests.runtimes.acp.wire_bench import order_problems
from tests.support.conversation import AttachedConversation
from tests.support.live import DEADLINE, conversing, last_end, say
from tests.support.replaying import record_wires


def options(folder: Path, **more: object) -> RunOptions:
    return RunOptions(prompt="", cwd=str(folder), provider_options=dict(more))


def goodbye(talk: AttachedConversation) -> None:
    talk.leave()
    talk.wait(lambda: talk.recorder.state == "stopped", DEADLINE)
    assert order_problems(talk.events) == []
    assert marked_processes(talk.recorder.session_id) == []


def test_an_agent_by_configuration_alone(tmp_path: Path) -> None:
    declare(tmp_path, CONFIG)
    runtime = get_adapter(None, load_config(str(tmp_path)))
    logs = record_wires(runtime)
    with conversing(runtime, options(tmp_path), dict(os.environ)) as talk:
        for _ in range(100):
            assert say(talk, "go").text == talk.recorder.session_id
        assert say(talk, "x" * 1_000_000).status == "completed"
        goodbye(talk)
    assert talk.recorder.turn == 101
    assert talk.recorder.usage.total == 0
    logs.check_repeatable()


@pytest.mark.parametrize("how", ["noise", "flood", "asks", "stays"])
def test_untidy_agents(how: str, tmp_path: Path) -> None:
    with conversing(agent(how), options(tmp_path), dict(os.environ)) as talk:
        for _ in range(2):
            end = say(talk, "go")
            assert (end.status, end.text.endswith(" done")) == ("completed", True)
        goodbye(talk)


@pytest.mark.parametrize(("how", "words"), [("die", "exited 3"), ("half-line", "SIGKILL")])
def test_agents_that_die_in_a_turn(how: str, words: str, tmp_path: Path) -> None:
    with conversing(agent(how), options(tmp_path), dict(os.environ)) as talk:
        talk.prompt(Outgoing(id="m", text="go"))
        talk.wait(lambda: talk.recorder.state == "failed", DEADLINE)
    end = last_end(talk.events)
    assert end.error is not None
    assert (end.error.kind, words in end.error.message) == ("crashed", True)
    assert talk.deliveries["m"].taken == (how == "die")
    assert order_problems(talk.events) == []


def test_an_agent_that_never_answers(tmp_path: Path) -> None:
    runtime = agent("mute")
    with pytest.raises(TimedOut, match="gone"):  # noqa: SIM117 (the inner one is what fails)
        with conversing(runtime, options(tmp_path, start_timeout=1), dict(os.environ)):
            pytest.fail("it must not get ready")


def test_a_silence_that_was_forbidden(tmp_path: Path) -> None:
    with conversing(
        agent("silent"), options(tmp_path, silence_timeout=1), dict(os.environ)
    ) as talk:
        talk.prompt(Outgoing(id="m", text="go"))
        talk.wait(lambda: talk.recorder.state == "failed", DEADLINE)
    (end,) = [event for event in talk.events if isinstance(event, ev.AgentEnd)]
    assert end.error is not None
    assert (end.error.kind, "no progress for 1 s" in end.error.message) == ("unavailable", True)
