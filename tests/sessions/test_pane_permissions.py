"""Permission dialogs of real agents in a pane: asked as in every drive, answered by keys."""

import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from bridle.core import events as ev
from bridle.core.options import ModelServer, RunOptions
from bridle.runtimes.alternatives import as_terminal
from bridle.runtimes.contract import Adapter
from bridle.sessions import verbs
from bridle.sessions.clocks import Clocks
from bridle.testing import ScriptedModel
from bridle.testing.contract import check_event_order
from bridle.turns.wire import Question
from tests.guard.sessions import DEADLINE, GuardedSession
from tests.sandbox.bench import Bench, bench
from tests.sessions.at_pane import looking_at
from tests.support.real_cli import pinned

pytestmark = [pytest.mark.real_cli, pytest.mark.timeout(300)]

AGENTS = [
    ("claude", "2.1.197"),
    ("claude", "2.1.325"),
    ("codex", "0.166.0"),
    ("pi", "1.5.0"),
    ("copilot", "1.0.102"),
]
TOOLS = {"claude": "Bash", "codex": "command_execution", "pi": "bash", "copilot": "bash"}
PATCH = "*** Begin Patch\n*** Add File: patch.txt\n+hello\n*** End Patch"
STOPS = ("claude", "codex", "copilot")
"""Agents whose turn ends when they are refused something."""


@pytest.fixture
def place() -> Iterator[Bench]:
    with bench() as made:
        yield made


@pytest.fixture(params=AGENTS, ids=lambda agent: "-".join(agent))
def runtime(request: pytest.FixtureRequest) -> Adapter:
    return pinned(*request.param)


def call(runtime: Adapter, name: str) -> dict[str, Any]:
    """A call that the agent asks about."""
    if runtime.id != "codex":
        return {"text": "I ask.", "shell": f"touch {name}"}
    # It asks only about what would leave its sandbox.
    args = {"cmd": f"touch {name}", "sandbox_permissions": "require_escalated"}
    args |= {"justification": "May I?"}
    return {"text": "I ask.", "tool_calls": [{"name": "exec_command", "args": args}]}


def asking(
    place: Bench, runtime: Adapter, model: ScriptedModel, clocks: Clocks | None = None
) -> GuardedSession:
    options = RunOptions(
        prompt="",
        cwd=str(place.worktree),
        permission_mode="ask",
        model="gpt-5.5" if runtime.id == "codex" else None,
        model_server=ModelServer(url=model.url, api_key="sk-ant-scripted-0123456789abcdefghij"),
    )
    return GuardedSession(place, runtime, options, "tmux", clocks=clocks)


def question(session: GuardedSession, besides: str = "") -> Question:
    """The question that waits."""
    until = time.monotonic() + DEADLINE
    while time.monotonic() < until:
        for request_id, each in dict(session.driver.player.questions).items():
            if request_id != besides:
                return each
        time.sleep(0.02)
    raise AssertionError("nobody was asked")


def answer(session: GuardedSession, asked: Question, allowed: bool) -> None:
    verb = verbs.Permit(
        session=session.record.session_id,
        request_id=asked.request_id,
        allowed=allowed,
        by="a test",
    )
    session.do(verb)


def of(events: list[ev.Event], kind: type) -> list[Any]:
    return [event for event in events if isinstance(event, kind)]


def decisions(events: list[ev.Event]) -> list[tuple[str, str]]:
    return [(each.decision, each.by) for each in of(events, ev.PermissionDecision)]


def test_a_dialog_is_asked_about_and_answered(runtime: Adapter, place: Bench) -> None:
    script = [call(runtime, "yes.txt"), call(runtime, "no.txt"), {"text": "Done."}, {"text": "On."}]
    with ScriptedModel(script) as model, asking(place, runtime, model) as session:
        assert session.ready()
        session.send("Go")
        first = question(session)
        assert first.tool_name == TOOLS[runtime.id]
        assert "yes.txt" in str(first.args)
        assert session.driver.player.recorder.state == "waiting_permission"
        assert not (place.worktree / "yes.txt").exists()
        answer(session, first, True)
        second = question(session, first.request_id)
        assert "no.txt" in str(second.args)
        answer(session, second, False)
        session.wait()
        assert (place.worktree / "yes.txt").exists()
        assert not (place.worktree / "no.txt").exists()
        ended = of(session.events(), ev.AgentEnd)[-1]
        if runtime.id in STOPS:
            assert ended.status == "aborted"
            assert "refused" in ended.error.message
        else:
            assert (ended.status, ended.text) == ("completed", "Done.")
        session.prompt("Go on")
        assert of(session.events(), ev.AgentEnd)[-1].status == "completed"
    events = session.events()
    assert decisions(events) == [("allow", "a test"), ("deny", "a test")]
    asked = of(events, ev.PermissionRequest)
    assert [each.tool_name for each in asked] == [TOOLS[runtime.id]] * 2
    started = [each.tool_call_id for each in of(events, ev.ToolExecutionStart)]
    assert [each.tool_call_id for each in asked] == started[:2]
    assert check_event_order(events) == []


def test_codex_in_a_pane_writes_nothing_unasked(place: Bench) -> None:
    """Its file tool asks; a command that does not ask for more than the sandbox allows fails."""
    runtime = pinned("codex", "0.166.0")
    script = [
        {"text": "Quietly.", "shell": "echo bad > quiet.txt"},
        {"text": "By patch.", "shell": f"apply_patch <<'EOF'\n{PATCH}\nEOF\n"},
        {"text": "Done."},
    ]
    with ScriptedModel(script) as model, asking(place, runtime, model) as session:
        assert session.ready()
        session.send("Go")
        asked = question(session)
        assert not (place.worktree / "patch.txt").exists()
        assert "patch.txt" in str(asked.args)
        answer(session, asked, True)
        session.wait()
        assert (place.worktree / "patch.txt").exists()
        assert not (place.worktree / "quiet.txt").exists()
    assert decisions(session.events()) == [("allow", "a test")]


def test_nobody_answers_in_time(runtime: Adapter, place: Bench) -> None:
    script = [call(runtime, "no.txt"), {"text": "Done."}]
    clocks = Clocks(permission=1.0)
    with ScriptedModel(script) as model, asking(place, runtime, model, clocks) as session:
        assert session.ready()
        session.prompt("Go")
        assert not (place.worktree / "no.txt").exists()
    events = session.events()
    assert decisions(events) == [("deny", "bridle")]
    assert session.driver.record.state in ("ready", "stopped")


def test_a_person_answers_at_the_terminal(runtime: Adapter, place: Bench) -> None:
    script = [call(runtime, "yes.txt"), {"text": "Done."}]
    with ScriptedModel(script) as model, asking(place, runtime, model) as session:
        assert session.ready()
        session.send("Go")
        question(session)
        facts = as_terminal(runtime).terminal_facts()
        press(session, lambda pane: facts.permission_keys(pane, True) or ())
        session.wait()
        assert (place.worktree / "yes.txt").exists()
    events = session.events()
    assert decisions(events) == [("allow", "terminal")]
    assert of(events, ev.AgentEnd)[-1].status == "completed"
    assert check_event_order(events) == []


def test_another_driver_answers_what_was_asked_before(place: Bench) -> None:
    runtime = pinned("claude", "2.1.325")
    script = [call(runtime, "yes.txt"), {"text": "Done."}]
    with ScriptedModel(script) as model, asking(place, runtime, model) as session:
        assert session.ready()
        session.send("Go")
        asked = question(session)
        session.let_go()
        session.take_up()
        assert question(session).request_id == asked.request_id
        answer(session, asked, True)
        session.wait()
        assert (place.worktree / "yes.txt").exists()
    events = session.events()
    assert decisions(events) == [("allow", "a test")]
    assert len(of(events, ev.PermissionRequest)) == 1


def press(session: GuardedSession, keys: Callable[[str], tuple[str, ...]]) -> None:
    """Press keys as somebody who looks at the pane, by a client of their own."""
    with looking_at(session) as (server, name):
        for key in keys(server.capture(name)):
            server.send_keys(name, key)
