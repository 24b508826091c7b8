"""Guard and sandbox mean the same scratch folder, also where each turn is a process of its own."""

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from bridle.core import events as ev
from bridle.testing import ScriptedModel
from tests.guard.agents import AGENTS, Agent, Played, wanted_of
from tests.guard.sessions import GuardedSession
from tests.sandbox.bench import Bench, bench

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the sandbox is Linux's")

SCRIPTED = next(agent for agent in AGENTS if agent.name == "scripted")
REAL = [agent for agent in AGENTS if str(agent) in ("claude-2.1.325", "opencode-1.18.33")]
every_agent = pytest.mark.parametrize(
    "agent",
    [SCRIPTED, *(pytest.param(each, marks=pytest.mark.real_cli) for each in REAL)],
    ids=str,
)

SCRIPT = [
    {"shell": 'echo kept > "$TMPDIR/a.txt" && printf %s "$TMPDIR" > first.txt'},
    {"text": "Once."},
    {"shell": 'cp "$TMPDIR/a.txt" seen.txt && printf %s "$TMPDIR" > second.txt'},
    {"shell": "echo bad > ../outside/b.txt"},
    {"text": "Twice."},
]


@pytest.fixture
def place() -> Iterator[Bench]:
    with bench() as made:
        yield made


def scratch_folders(place: Bench) -> list[Path]:
    return list((place.home / ".local/state/bridle/run").glob("scratch-*"))


@every_agent
@pytest.mark.parametrize("own", [False, True], ids=["none", "of the user's"])
def test_a_print_session_has_one_that_its_guard_knows(
    place: Bench, agent: Agent, own: bool
) -> None:
    if own:
        place.env["TMPDIR"] = str(place.outside)
    with ScriptedModel(SCRIPT) as model:
        wanted = wanted_of(place, agent, "builder", model, sandbox="worktree")
        with GuardedSession(place, agent.runtime(), wanted, "print") as session:
            assert session.ready()
            (scratch,) = scratch_folders(place)
            assert session.driver.guard_folder is not None
            with open(f"{session.driver.guard_folder}/fallback.json", "rb") as file:
                assert json.load(file)["policy"]["scratch"] == str(scratch)
            session.prompt("Once.")
            session.prompt("Twice.")
            played = Played(events=session.events(), result=session.result())
    assert [each[0] for each in played.verdicts] == ["allow", "allow", "deny"]
    ended = [each.is_error for each in played.events if isinstance(each, ev.ToolExecutionEnd)]
    assert ended == [False, False, True]
    told = [(place.worktree / name).read_text() for name in ("first.txt", "second.txt")]
    assert told == [str(scratch), str(scratch)]
    assert (place.worktree / "seen.txt").read_text() == "kept\n"
    assert place.written_outside() == []
    assert scratch_folders(place) == []


@pytest.mark.real_cli
def test_a_print_session_of_cline_is_guarded(place: Bench) -> None:
    """Its plugin is in a home that is made for each process."""
    agent = next(agent for agent in AGENTS if agent.name == "cline")
    script = [{"shell": "echo bad > ../outside/b.txt"}, {"shell": "echo hi > a.txt"}]
    with ScriptedModel([*script, {"text": "Done."}]) as model:
        wanted = wanted_of(place, agent, "builder", model, sandbox="worktree")
        with GuardedSession(place, agent.runtime(), wanted, "print") as session:
            assert session.ready()
            session.prompt("Do it.")
            played = Played(events=session.events(), result=session.result())
    assert [each[0] for each in played.verdicts] == ["deny", "allow"]
    assert (place.worktree / "a.txt").read_text() == "hi\n"
    assert place.written_outside() == []
