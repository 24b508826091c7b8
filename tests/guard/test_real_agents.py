"""Real agents, a scripted model that asks for what they may not do, and what stops them.

(a) a harmless write inside happens. (b) a write outside by file tool, (c) by shell, (d) a push and
(e) a tool forbidden to a scout are refused by the guard. (f) a write outside that no reading of the
command shows is refused by the kernel. No drive and no broken guard lets any of them through.
"""

import re
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, Literal

import msgspec
import pytest

from bridle.core import events as ev
from bridle.core.errors import GuardRefused
from bridle.core.results import GuardReport
from bridle.guard.hooks.host import HostedGuard, RunGuard, SessionGuard
from bridle.testing import ScriptedModel
from bridle.turns.guard_contract import HookNote
from tests.conftest import wait_until
from tests.guard.agents import AGENTS, DRIVES, Agent, Played, Sabotage, play, wanted_of
from tests.guard.sessions import GuardedSession
from tests.sandbox.bench import Bench, bench

pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="hooks and judge meet in /proc"),
    pytest.mark.real_cli,
]

with_hooks = pytest.mark.parametrize(
    "agent", [a for a in AGENTS if a.has_hooks and not a.older], ids=str
)


def cases(chosen: Callable[[Agent], Iterable[str]]) -> pytest.MarkDecorator:
    """Each agent in the drives that `chosen` gives for it."""
    return pytest.mark.parametrize(
        ("agent", "drive"),
        [
            pytest.param(agent, drive, id=f"{agent}-{drive}")
            for agent in AGENTS
            for drive in chosen(agent)
        ],
    )


def in_turn(agent: Agent) -> tuple[str, ...]:
    """One of its drives, another with each agent: the role reaches the judge on the same way as the
    rest of the options, in every drive."""
    return (agent.drives[AGENTS.index(agent) % len(agent.drives)],)


def confined(agent: Agent) -> tuple[str, ...]:
    """Its conversations, or its runs where it has none. The agents of tests/sandbox are confined in
    runs, by code that all of them share."""
    sessions = tuple(each for each in agent.drives if each in ("rpc", "tmux"))
    return (sessions[:1] if agent.older else sessions) or ("print",)


def hosts(agent: Agent) -> tuple[str, ...]:
    """Its runs, by each way to ask, and one conversation. Conversations share the guard's host, and
    agents over ACP share the way that the driver answers them, in runs too."""
    runs = tuple(each for each in agent.drives if each.startswith("print"))
    sessions = tuple(each for each in agent.drives if each in ("rpc", "tmux"))[:1]
    if agent.older:
        return runs
    return sessions if agent.cli and agent.has_hooks else (*runs, *sessions)


@pytest.fixture
def place() -> Iterator[Bench]:
    with bench() as made:
        bare = made.root / "remote.git"
        made.git("init", "-q", "--bare", str(bare))
        made.git("remote", "add", "origin", str(bare))
        yield made


def pushed(place: Bench) -> str:
    return place.git("ls-remote", str(place.root / "remote.git"))


def forbidden(place: Bench) -> list[dict[str, Any]]:
    """(b), (c) and (d)."""
    return [
        {"write_file": {"path": f"{place.outside}/tool.txt", "content": "bad"}},
        {"shell": f"echo bad > {place.outside}/shell.txt"},
        {"shell": "git push -q origin task"},
    ]


def hidden(place: Bench) -> dict[str, Any]:
    """(f): the path is put together by the program."""
    up = Path("..") / place.outside.name
    letters = ",".join(str(ord(letter)) for letter in str(up / "hidden.txt"))
    return {"shell": f"python3 -c \"open(''.join(map(chr,[{letters}])),'w').write('bad')\""}


@cases(lambda agent: agent.drives)
def test_the_guard_alone_holds_a_builder(place: Bench, agent: Agent, drive: str) -> None:
    """But not from what no judge can see; the test of the sandbox is about that."""
    script = [
        {"shell": "echo hi > inside.txt"},
        *forbidden(place),
        {"write_file": {"path": "tool.txt", "content": "fine"}},
        hidden(place),
    ]
    played = play(place, agent, DRIVES[drive], "builder", script)
    assert played.result.status == "completed", played.result.error
    assert (place.worktree / "inside.txt").read_text() == "hi\n"
    assert (place.worktree / "tool.txt").read_text().rstrip() == "fine"
    assert place.written_outside() == ["hidden.txt"]
    assert pushed(place) == ""
    by_tool = [] if agent.own_boundary else [("deny", "path-outside")]
    assert played.verdicts == [
        ("allow", "allowed"),
        *by_tool,
        ("deny", "path-outside"),
        ("deny", "git-push"),
        ("allow", "allowed"),
        ("allow", "allowed"),
    ]
    ended = [end.is_error for end in played.ended]
    if drive == "tmux":
        # Codex writes the end of a command into its transcript when it comes to it, so those that
        # ran may stand behind those that were refused after them.
        assert sorted(ended) == [False, False, False, True, True, True]
    else:
        assert ended == [False, True, True, True, False, False]
    report = played.result.guard
    assert isinstance(report, GuardReport)
    assert (report.state, report.allowed, report.blocked) == ("live", 3, 2 + len(by_tool))
    if agent.cli and agent.has_hooks:
        check_that_the_model_heard_why(played)


def check_that_the_model_heard_why(played: Played) -> None:
    """Over the protocol too, the model gets the guard's words."""
    (denied,) = (
        each
        for each in played.events
        if isinstance(each, ev.PermissionDecision) and each.reason.startswith("git-push: ")
    )
    why = denied.reason.removeprefix("git-push: ")
    assert len(why) > 40, "it also says what to do instead"
    # However often quotation marks were escaped on the way.
    assert re.sub(r"\W+", " ", why) in re.sub(r"\W+", " ", played.heard)


@cases(in_turn)
def test_a_scout_writes_nothing(place: Bench, agent: Agent, drive: str) -> None:
    script: list[dict[str, Any]] = [
        {"write_file": {"path": "tool.txt", "content": "bad"}},
        {"shell": "ls"},
    ]
    played = play(place, agent, DRIVES[drive], "scout", script)
    assert played.result.status == "completed", played.result.error
    assert not (place.worktree / "tool.txt").exists()
    assert played.verdicts == [("deny", "write-role"), ("allow", "allowed")]


@cases(confined)
def test_what_no_judge_can_see_the_kernel_refuses(place: Bench, agent: Agent, drive: str) -> None:
    """By the sandbox that the guard brings."""
    script = [hidden(place), {"shell": "echo hi > inside.txt"}]
    played = play(place, agent, DRIVES[drive], "builder", script, sandbox=None)
    assert played.result.status == "completed", played.result.error
    assert isinstance(played.result.guard, GuardReport)
    assert played.result.guard.sandbox == "worktree"
    assert played.verdicts == [("allow", "allowed"), ("allow", "allowed")]
    assert place.written_outside() == []
    assert (place.worktree / "inside.txt").exists()


@cases(lambda agent: agent.drives[:1] if agent.name in ("claude", "codex", "gemini", "pi") else ())
def test_what_a_reader_runs_changes_nothing(place: Bench, agent: Agent, drive: str) -> None:
    """A quality gate may be run by every capability, and may do whatever it is written to do."""
    gate = place.worktree / "gate.sh"
    commit = "git commit -q --allow-empty -m bad"
    gate.write_text(f"#!/bin/sh\necho bad > inside.txt\n{commit}\nexit 0\n")
    gate.chmod(0o755)
    (place.worktree / ".bridle").mkdir()
    rules = "guards:\n  qualityGates: [./gate.sh]\n"
    (place.worktree / ".bridle/config.yaml").write_text(rules)
    script = [{"shell": "./gate.sh"}]
    played = play(place, agent, DRIVES[drive], "reviewer", script, sandbox=None)
    assert played.result.status == "completed", played.result.error
    assert played.verdicts == [("allow", "allowed")]
    assert isinstance(played.result.guard, GuardReport)
    assert played.result.guard.sandbox == "read-only"
    assert not (place.worktree / "inside.txt").exists()
    assert place.commits() == ["first"]


@cases(lambda agent: () if agent.older else sorted({"rpc", "tmux"}.intersection(agent.drives)))
def test_an_agent_is_held_while_nobody_drives_it(
    place: Bench, agent: Agent, drive: Literal["rpc", "tmux"]
) -> None:
    go = place.root / "go"
    script = [
        # Some agents show that they took a prompt only by what they do for it.
        {"shell": "ls"},
        {"shell": "echo hi > inside.txt", "fault": {"until": str(go)}},
        *forbidden(place),
        {"write_file": {"path": "tool.txt", "content": "fine"}},
        {"text": "Finished."},
    ]
    with ScriptedModel(script) as model:
        wanted = wanted_of(place, agent, "builder", model)
        with GuardedSession(place, agent.runtime(), wanted, drive) as session:
            assert session.ready()
            session.send("Do it.")
            session.let_go()
            assert not (place.worktree / "inside.txt").exists()
            go.touch()
            if agent.asks_driver:
                wait_until(lambda: b"session/request_permission" in session.journal(), seconds=60)
                assert not (place.worktree / "inside.txt").exists()
            else:
                wait_until(lambda: (place.worktree / "tool.txt").exists(), seconds=60)
            session.take_up()
            session.wait()
            played = Played(events=session.events(), result=session.result())
    assert played.result.status == "completed", played.result.error
    assert (place.worktree / "inside.txt").exists()
    assert place.written_outside() == []
    assert pushed(place) == ""
    assert sorted(played.verdicts) == [
        *[("allow", "allowed")] * 3,
        ("deny", "git-push"),
        *([] if agent.own_boundary else [("deny", "path-outside")]),
        ("deny", "path-outside"),
    ]


@pytest.mark.parametrize("agent", [a for a in AGENTS if a.name == "codex"], ids=str)
@pytest.mark.parametrize("drive", ["rpc", "tmux"])
def test_codex_with_its_hooks_off_is_not_started(
    place: Bench, agent: Agent, drive: Literal["rpc", "tmux"]
) -> None:
    with ScriptedModel([{"text": "no"}]) as model:
        off = '{"features": {"hooks": false}}'
        wanted = wanted_of(place, agent, "builder", model, settings=off)
        with pytest.raises(GuardRefused, match="with its hooks disabled"):
            GuardedSession(place, agent.runtime(), wanted, drive)
        assert model.requests == []
    assert not list((place.home / ".local/state/bridle/run").glob("guard-*"))


COPILOT = next(agent for agent in AGENTS if agent.name == "copilot")


@pytest.mark.parametrize("drive", ["print", "tmux"])
def test_copilot_with_its_hooks_off_is_not_started(place: Bench, drive: str) -> None:
    switch = place.worktree / ".github/copilot/settings.json"
    switch.parent.mkdir(parents=True)
    switch.write_text('{"disableAllHooks": true}')
    with pytest.raises(GuardRefused, match="switches all hooks off"):
        play(place, COPILOT, DRIVES[drive], "builder", [{"shell": "echo bad > inside.txt"}])
    assert not (place.worktree / "inside.txt").exists()
    assert not list((place.home / ".local/state/bridle/run").glob("*"))


def test_copilot_that_runs_no_hooks_is_found_out_on_trial(
    place: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bridle.runtimes.copilot.hooks._refuse_switched_off", lambda plan: None)
    switch = place.worktree / ".github/copilot/settings.json"
    switch.parent.mkdir(parents=True)
    switch.write_text('{"disableAllHooks": true}')
    with ScriptedModel([{"text": "no"}]) as model:
        wanted = wanted_of(place, COPILOT, "builder", model)
        with pytest.raises(GuardRefused, match="does not run the guard's hooks"):
            GuardedSession(place, COPILOT.runtime(), wanted, "tmux")
        assert model.requests == []
    assert not list((place.home / ".local/state/bridle/run").glob("*"))


def test_settings_against_hooks_let_nothing_through(place: Bench) -> None:
    """Claude over the protocol is told otherwise by flag, which outranks them."""
    agent = next(agent for agent in AGENTS if agent.name == "claude-acp")
    (place.worktree / ".claude").mkdir()
    (place.worktree / ".claude/settings.json").write_text('{"disableAllHooks": true}')
    script = [{"shell": f"echo bad > {place.outside}/shell.txt"}]
    played = play(place, agent, DRIVES["print"], "builder", script)
    assert place.written_outside() == []
    assert played.verdicts == [("deny", "path-outside")]


@pytest.mark.parametrize("name", ["codex", "codex-acp"])
@pytest.mark.parametrize(
    "off",
    [
        ("-c", "features.hooks=false"),
        ("--config=features.hooks = false",),
        ('-c"features".hooks=false',),
        ("-c", "features={hooks=false}"),
        ("--disable", "hooks"),
        ("--disable=hooks",),
        ("-c", "hooks.PreToolUse=[]"),
    ],
    ids=" ".join,
)
def test_flags_against_hooks_are_refused(place: Bench, name: str, off: tuple[str, ...]) -> None:
    agent = next(agent for agent in AGENTS if agent.name == name)
    with pytest.raises(GuardRefused, match=r"hooks"):
        play(place, agent, DRIVES["print"], "builder", [], raw_args=off)


# -- a guard that breaks --------------------------------------------------------------------------


def crash() -> Any:
    """It raises on a tool call, after it was seen to be live."""
    raise RuntimeError("broken on purpose")


def hang() -> Any:
    """It answers a tool call long after its time."""
    time.sleep(5)
    raise RuntimeError("broken on purpose")


def babble() -> Any:
    """Its answer is nonsense."""
    return "yes, why not"


BREAKS = {"crash": crash, "hang": hang, "garbage": babble}
_ASKED = re.compile(rf"({'|'.join(BREAKS)})-(?:shell|tool)")


def breaking(met: set[str]) -> Sabotage:
    """A judge that breaks over each call in the way that the call's file is named for; `met` gets
    the names of those that it was asked about."""

    def broken(*arguments: Any) -> Any:
        named = _ASKED.search(str(arguments))
        if named is None:
            return crash()
        met.add(named[0])
        return BREAKS[named[1]]()

    return partial(_replace, broken=broken)


def _replace(session: RunGuard, broken: Any) -> None:
    """Break the judge for tool calls alone, so that nothing at the start gives it away."""
    if isinstance(session, RunGuard) and session.guard is not None:
        session.guard._judge = broken

    def in_place_of(whole: Callable[[bytes], HookNote]) -> Callable[[bytes], HookNote]:
        def answer(payload: bytes) -> HookNote:
            # The events that prove life go through; a call gets what the broken judge makes of it.
            event = msgspec.json.decode(payload).get(session.shape.event)
            if event is not None and event not in session.shape.asks:
                return whole(payload)
            made: HookNote = broken(payload)
            return made

        return answer

    setattr(session, "answer", in_place_of(session.answer))  # noqa: B010 (mypy forbids the other)
    if isinstance(session, SessionGuard):
        # What judges calls that wait on the agent's wire.
        setattr(session, "judged", in_place_of(session.judged))  # noqa: B010 (as above)


@cases(hosts)
def test_a_broken_guard_lets_nothing_through(place: Bench, agent: Agent, drive: str) -> None:
    kinds = ("shell",) if agent.own_boundary else ("shell", "tool")
    script: list[dict[str, Any]] = []
    for way in BREAKS:
        script.append({"shell": f"echo bad > {way}-shell.txt"})
        path = f"{place.outside}/{way}-tool.txt"
        script.append({"write_file": {"path": path, "content": "bad"}})
    met: set[str] = set()
    played = play(place, agent, DRIVES[drive], "builder", script, breaking(met))
    assert place.written_outside() == []
    assert list(place.worktree.glob("*.txt")) == []
    assert all(end.is_error for end in played.ended), played.ended
    assert not any(decision == "allow" for decision, _ in played.verdicts)
    # Each of them was really broken over.
    assert met == {f"{way}-{kind}" for way in BREAKS for kind in kinds}


@with_hooks
def test_a_guard_that_never_fires_stops_the_run(place: Bench, agent: Agent) -> None:
    def deaf(session: HostedGuard) -> None:
        session.answer = lambda payload: HookNote(kind="event")  # type: ignore[method-assign]
        assert isinstance(session, RunGuard)
        assert session.guard is not None
        session.guard.proved = lambda evidence: None  # type: ignore[method-assign]

    script = [{"shell": "sleep 60; echo bad > inside.txt"}]
    played = play(place, agent, DRIVES["print-hooks"], "builder", script, deaf)
    # Long before the call was through.
    assert played.result.exit_status == 9
    assert played.result.error is not None
    assert "does not fire" in played.result.error.message
    assert not (place.worktree / "inside.txt").exists()


@cases(lambda agent: agent.drives if agent.name == "claude" else ())
def test_a_worktree_that_switches_hooks_off_is_not_worked_in(
    place: Bench, agent: Agent, drive: str
) -> None:
    (place.worktree / ".claude").mkdir()
    (place.worktree / ".claude/settings.json").write_text('{"disableAllHooks": true}')
    script = [{"shell": "echo bad > inside.txt"}]
    played = play(place, agent, DRIVES[drive], "builder", script)
    if played.result.status == "completed":
        # Where settings by flag have the last word the guard simply holds.
        assert played.verdicts == [("allow", "allowed")]
    else:
        assert played.result.exit_status == 9
        assert not (place.worktree / "inside.txt").exists()
