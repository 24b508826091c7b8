"""Starts and ends of tools, ends of sessions and errors are events, whatever drives the agent."""

from collections.abc import Iterator
from typing import Any

import pytest

from bridle.core import events as ev
from bridle.core.options import ModelServer, RunOptions
from bridle.runs import prepare
from bridle.runtimes.contract import Adapter
from bridle.testing import ScriptedModel
from bridle.testing.contract import check_event_order
from tests.guard.sessions import GuardedSession
from tests.sandbox.bench import Bench, bench
from tests.support.real_cli import pinned

pytestmark = [pytest.mark.real_cli, pytest.mark.timeout(300)]

CASES = [
    ("claude", "2.1.197", "tmux"),
    *[("claude", "2.1.325", drive) for drive in ("print", "rpc", "tmux")],
    *[("codex", "0.166.0", drive) for drive in ("print", "rpc", "tmux")],
    *[("pi", "1.5.0", drive) for drive in ("print", "rpc", "tmux")],
    *[("copilot", "1.0.102", drive) for drive in ("print", "tmux")],
]
TOOLS: list[dict[str, Any]] = [
    {"text": "First.", "shell": "echo one"},
    {"text": "Second.", "shell": "echo two; exit 3"},
    {"text": "Both have run."},
]
FAULT: dict[str, Any] = {"fault": {"status": 401}}


@pytest.fixture
def place() -> Iterator[Bench]:
    with bench() as made:
        yield made


@pytest.mark.parametrize(("name", "version", "drive"), CASES, ids=lambda word: word)
def test_what_happened_is_told(place: Bench, name: str, version: str, drive: str) -> None:
    runtime = pinned(name, version)
    with ScriptedModel([*TOOLS, FAULT]) as model:
        options = RunOptions(
            prompt="Do it.",
            cwd=str(place.worktree),
            permission_mode="bypass",
            model_server=ModelServer(url=model.url, api_key="sk-ant-scripted-0123456789abcdefghij"),
        )
        if drive == "print":
            turns = printed(place, runtime, options)
        else:
            turns = conversed(place, runtime, options, drive, "Do it.", "Once more.")
    for events in turns:
        assert check_event_order(events) == []
    told = [event for events in turns for event in events]
    starts = [event for event in told if isinstance(event, ev.ToolExecutionStart)]
    ends = [event for event in told if isinstance(event, ev.ToolExecutionEnd)]
    assert [each.tool_call_id for each in starts] == [each.tool_call_id for each in ends]
    assert len(ends) == 2
    assert ["one" in str(ends[0].result), "two" in str(ends[1].result)] == [True, True]
    first, last = [event for event in told if isinstance(event, ev.AgentEnd)]
    assert (first.status, first.text) == ("completed", "Both have run.")
    assert last.status == "failed"
    errors = [event for event in told if isinstance(event, ev.ErrorRaised)]
    assert [each.kind for each in errors] == ["not_authenticated"]
    assert isinstance(told[-1], ev.SessionEnd)


def printed(place: Bench, runtime: Adapter, options: RunOptions) -> list[list[ev.Event]]:
    """Two runs of one prompt each; the script goes on with the second."""
    first = list(prepare(runtime, options, env=place.env).run.events())
    with ScriptedModel([FAULT]) as model:
        server = ModelServer(url=model.url, api_key="sk-ant-scripted-0123456789abcdefghij")
        again = RunOptions(
            prompt="Once more.", cwd=options.cwd, permission_mode="bypass", model_server=server
        )
        return [first, list(prepare(runtime, again, env=place.env).run.events())]


def conversed(
    place: Bench, runtime: Adapter, options: RunOptions, drive: Any, *prompts: str
) -> list[list[ev.Event]]:
    """One session with some prompts."""
    with GuardedSession(place, runtime, options, drive) as session:
        assert session.ready()
        for prompt in prompts:
            session.prompt(prompt)
    return [session.events()]


@pytest.mark.parametrize("attempt", range(3))
def test_a_transcript_that_loses_lines_costs_nothing(place: Bench, attempt: int) -> None:
    """This version loses lines of its transcript in a home it has never seen, now and then."""
    runtime = pinned("claude", "2.1.197")
    account = place.home / "account"
    account.mkdir()
    (account / ".claude.json").write_text('{"hasCompletedOnboarding": true}')
    with ScriptedModel([{"text": "Look.", "shell": "echo one"}, {"text": "Hello."}]) as model:
        options = RunOptions(
            prompt="",
            cwd=str(place.worktree),
            permission_mode="bypass",
            account_dir=str(account),
            model_server=ModelServer(url=model.url, api_key="sk-ant-scripted-0123456789abcdefghij"),
        )
        (events,) = conversed(place, runtime, options, "tmux", "Hello?")
    assert check_event_order(events) == []
    (end,) = [event for event in events if isinstance(event, ev.AgentEnd)]
    assert (end.status, end.text) == ("completed", "Hello.")
    assert len([event for event in events if isinstance(event, ev.ToolExecutionEnd)]) == 1
