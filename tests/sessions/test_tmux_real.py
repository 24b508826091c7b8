"""Terminal sessions of real agents on the scripted model: what a pane takes, tells and loses."""

import json
import os
import re
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from bridle.core import events as ev
from bridle.core.options import ModelServer, RunOptions
from bridle.core.usage import Usage
from bridle.process.process_tree import marked_processes
from bridle.runs import prepare
from bridle.runtimes.contract import Adapter
from bridle.sessions.store import SessionRecord
from bridle.sessions.user_messages import user_messages
from bridle.testing import ScriptedModel
from tests.conftest import wait_until
from tests.guard.sessions import DEADLINE, GuardedSession
from tests.sandbox.bench import Bench, bench
from tests.sessions.at_pane import kill_server, type_in
from tests.support.driving import COMMON_SCRIPT, check_order, kinds
from tests.support.live import last_end
from tests.support.real_cli import pinned

pytestmark = [pytest.mark.real_cli, pytest.mark.timeout(400)]

AGENTS = [
    ("claude", "2.1.197"),
    ("claude", "2.1.325"),
    ("codex", "0.166.0"),
    ("codex", "0.120.0"),
    ("pi", "1.5.0"),
    ("copilot", "1.0.102"),
]
KEY = "sk-ant-scripted-0123456789abcdefghij"


@pytest.fixture(params=AGENTS, ids=lambda agent: "-".join(agent))
def runtime(request: pytest.FixtureRequest) -> Adapter:
    return pinned(*request.param)


@pytest.fixture
def place() -> Iterator[Bench]:
    with bench() as made:
        yield made


def options(place: Bench, model: ScriptedModel, **more: Any) -> RunOptions:
    wanted = {"prompt": "Do it.", "cwd": str(place.worktree), "permission_mode": "bypass"}
    server = ModelServer(url=model.url, api_key=KEY)
    return RunOptions(**{"model_server": server, **wanted, **more})


def in_pane(place: Bench, runtime: Adapter, wanted: RunOptions) -> GuardedSession:
    return GuardedSession(place, runtime, wanted, "tmux")


def say(session: GuardedSession, text: str) -> ev.AgentEnd:
    """Prompt, wait until the turn is over, and return its end."""
    turn = session.driver.record.turn
    receipt = session.prompt(text)
    assert (receipt.delivered, receipt.turn) == (True, turn + 1)
    assert session.driver.record.state == "ready"
    return last_end(session.events())


def test_the_same_events_as_in_a_run_and_a_person_may_type(runtime: Adapter, place: Bench) -> None:
    hello = place.worktree / "hello.txt"
    with ScriptedModel(COMMON_SCRIPT) as model:
        printing = prepare(runtime, options(place, model), env=place.env).run
        printed = list(printing.events())
    hello.unlink()
    script = [*COMMON_SCRIPT, {"text": "Two."}, {"text": "Three."}]
    with (
        ScriptedModel(script) as model,
        in_pane(place, runtime, options(place, model)) as session,
    ):
        assert session.ready()
        first = say(session, "Do it.")
        assert (first.status, first.marker_detected) == ("completed", True)
        # One version's transcript does not tell reasoning apart.
        assert without_reasoning(first.usage) == without_reasoning(printing.result.usage)
        assert turn_kinds(session.events()) == turn_kinds(printed)
        assert hello.read_text() == "hello\n"
        lines = 'Line one, it\'s "quoted" $HOME\n\tline two: äöü 漢字 🙂\n\nlast'
        assert say(session, lines).text == "Two."
        type_in(session, "typed by a person")
        wait_until(lambda: session.driver.record.turn == 3, seconds=DEADLINE)
        session.wait()
        typed = last_end(session.events())
        assert (typed.turn, typed.text) == (3, "Three.")
        prompts = [" ".join(prompt.split()) for prompt in given(model)]
        assert prompts == ["Do it.", " ".join(lines.split()), "typed by a person"]
        told = user_messages(session.home, session.driver.record)
        assert [(each.turn, each.typed) for each in told] == [(1, False), (2, False), (3, True)]
        assert told[-1].text == "typed by a person"
        kill_server(session)
        assert over(session).state == "lost"
    check_order(session.events())


def test_an_interrupted_turn_a_long_text_and_a_good_end(runtime: Adapter, place: Bench) -> None:
    script = [
        {"text": "Hello."},
        # Nothing is said for as long as it takes to interrupt; who asks again is answered.
        {"fault": {"delay": 15, "status": 500, "times": 1}},
        {"text": "After."},
        {"text": "Long."},
    ]
    with (
        ScriptedModel(script) as model,
        in_pane(place, runtime, options(place, model)) as session,
    ):
        assert session.ready()
        say(session, "Hello.")
        assert session.send("take your time").delivered
        model.wait_for_request(lambda request: "take your time" in str(request.body), DEADLINE)
        session.abort("seen enough")
        session.wait()
        ended = last_end(session.events())
        assert (ended.turn, ended.status) == (2, "aborted")
        assert ended.error is not None
        assert ended.error.message == "seen enough"
        # That version draws for minutes after a hundred kilobytes, and takes no key meanwhile.
        lines = 500 if runtime.installation().version == "0.120.0" else 40_000
        long = "".join(f"line {number} of a long text\n" for number in range(lines)) + "the end"
        assert len(long) > lines * 20
        assert say(session, long).status == "completed"
        assert whole(given(model)[-1]) == long
        assert session.leave().state == "stopped"
        over(session)
        end = session.events()[-1]
        assert isinstance(end, ev.SessionEnd)
        # It left by itself: it was not killed, nor was its pane.
        assert (end.exit_code, end.signal) == (0, None)
    check_order(session.events())


@pytest.mark.parametrize("version", ["2.1.197", "2.1.325"])
def test_the_dialogs_of_a_first_start_are_answered(place: Bench, version: str) -> None:
    account = place.home / "account"
    account.mkdir()
    (account / ".claude.json").write_text(json.dumps({"hasCompletedOnboarding": True}))
    (account / "settings.json").write_text("{}")
    # Trust in a linked worktree is asked for, and kept, as trust in its repository.
    where = str(place.repo)
    with ScriptedModel([{"text": "Hello."}]) as model:
        wanted = options(place, model, cwd=where, account_dir=str(account))
        with in_pane(place, pinned("claude", version), wanted) as session:
            assert session.ready()
            answer = say(session, "Hello?")
            assert (answer.text, answer.error) == ("Hello.", None)
    state = json.loads((account / ".claude.json").read_text())
    assert state["projects"][where]["hasTrustDialogAccepted"]
    assert state["customApiKeyResponses"]["approved"] == [KEY[-20:]]


def test_an_agent_that_dies_is_seen_dead(place: Bench) -> None:
    with (
        ScriptedModel([{"text": "Never.", "fault": {"delay": 60}}]) as model,
        in_pane(place, pinned("codex", "0.166.0"), options(place, model)) as session,
    ):
        assert session.ready()
        session.send("work")
        wait_until(lambda: session.driver.record.state == "working", seconds=DEADLINE)
        pid = session.driver.record.pid
        assert pid is not None
        os.kill(pid, signal.SIGKILL)
        assert over(session).state == "failed"
    ended = last_end(session.events())
    assert (ended.status, ended.error and ended.error.kind) == ("failed", "crashed")
    end = session.events()[-1]
    assert isinstance(end, ev.SessionEnd)
    assert end.signal == "SIGKILL"


def over(session: GuardedSession) -> SessionRecord:
    """Wait until a session is over and nothing of it is left; returns its record."""
    session.wait()
    wait_until(lambda: session.driver.is_over, seconds=DEADLINE)
    assert isinstance(session.events()[-1], ev.SessionEnd)
    assert marked_processes(session.record.session_id) == [], "a process was left"
    return session.driver.record


def turn_kinds(events: list[ev.Event]) -> list[str]:
    """What happened in the first turn; pieces of text left out, they are as long as they are."""
    told = [kind for kind in kinds(events) if kind != "text_delta"]
    return told[told.index("agent_start") : told.index("agent_end") + 1]


def without_reasoning(usage: Usage | None) -> Usage:
    assert usage is not None
    return msgspec.structs.replace(usage, reasoning_tokens=0)


def given(model: ScriptedModel) -> list[str]:
    """What the model was prompted with; one agent tells it the time before each."""
    clock = re.compile(r"^<current_datetime>[^<]*</current_datetime>\s*")
    return [clock.sub("", prompt) for prompt in model.prompts()]


def whole(prompt: str) -> str:
    """A long text as it was given; one agent keeps it as a file and names that."""
    if prompt.startswith("<pasted_content file="):
        prompt = Path(prompt.split('"')[1]).read_text()
    return prompt.strip()
