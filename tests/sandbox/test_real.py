"""Real agents in the sandbox: what they may do they do, the rest the kernel refuses.

A scripted model asks for six things, one a turn: (a) a write inside by shell, (b) a write outside
by file tool, (c) by shell, (d) hidden in a program, (e) a commit in the linked worktree, (f) a file
that the user's own sessions would obey.
"""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.sandbox.bench import Bench, bench, claude_user, errors, pi_user, said
from tests.support.real_cli import real_cli, versions

from bridle.core.options import ModelServer
from bridle.runtimes.claude import ClaudeRuntime
from bridle.runtimes.codex import CodexRuntime
from bridle.runtimes.contract import Adapter, AdapterSettings
from bridle.runtimes.pi import PiRuntime
from bridle.runtimes.scripted import ScriptedRuntime
from bridle.testing import ScriptedModel
from bridle.testing.bench import AgentRun

pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="the sandbox is Linux's"),
    pytest.mark.real_cli,
]

MODES = ("worktree", "read-only")


@pytest.fixture
def place() -> Iterator[Bench]:
    with bench() as made:
        yield made


def settings(name: str, version: str) -> AdapterSettings:
    return AdapterSettings(binary=str(real_cli(name, version)))


def check(place: Bench, outcome: AgentRun, mode: str, *, omits: bool = False) -> None:
    """What must hold after the script was played, whichever agent played it."""
    place.check_held(outcome, mode)
    held = mode != "worktree"
    if omits:
        assert errors(outcome).count(False) == (0 if held else 2), said(outcome)
    else:
        assert errors(outcome) == [held, True, True, True, held, True], said(outcome)
    for words, failed in zip(said(outcome), errors(outcome), strict=True):
        # The kernel's words, about what was asked for; or the scripted agent's own boundary.
        known = "read-only file system" in words.lower() or "boundary" in words
        assert known or not failed, words
        assert "session-env" not in words or not failed


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("version", versions("claude"))
def test_claude_with_the_users_own_login(place: Bench, version: str, mode: str) -> None:
    runtime: Adapter = ClaudeRuntime(settings("claude", version))
    plant = place.home / ".claude/settings.json"
    with ScriptedModel(place.script(str(plant))) as model:
        kept = claude_user(place, model)
        outcome = place.run(runtime, sandbox=mode)
    check(place, outcome, mode)
    assert {path: path.read_bytes() for path in kept} == kept
    written = list((place.home / ".claude/projects").rglob("*.jsonl"))
    assert len(written) == 1, "the conversation can be resumed"


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("version", versions("pi"))
def test_pi_with_the_users_own_login(place: Bench, version: str, mode: str) -> None:
    runtime: Adapter = PiRuntime(settings("pi", version))
    plant = place.home / ".pi/agent/extensions/planted.ts"
    with ScriptedModel(place.script(str(plant))) as model:
        kept = pi_user(place, model)
        outcome = place.run(runtime, sandbox=mode, model="lab/scripted")
    check(place, outcome, mode)
    assert {path: path.read_bytes() for path in kept} == kept
    assert not plant.exists()
    assert len(list((place.home / ".pi/agent/sessions").rglob("*.jsonl"))) == 1


def test_codex_moves_no_other_branch_and_plants_nothing(place: Bench) -> None:
    place.git("branch", "-m", "task", "bridle/ann/task")
    proof = place.outside / "planted"
    git_dir = place.repo / ".git/worktrees/worktree"
    evil = f"printf '[core]\\n\\tfsmonitor = touch {proof}\\n' > {git_dir}/config.worktree"
    place.git("config", "extensions.worktreeConfig", "true")
    calls = [
        {"shell": "git commit -q --allow-empty -m done"},
        {"shell": "git update-ref refs/heads/main HEAD"},
        {"shell": evil},
        {"shell": f"echo /nowhere > {git_dir}/commondir"},
        {"text": "Finished."},
    ]
    runtime: Adapter = CodexRuntime(settings("codex", "0.166.0"))
    with ScriptedModel(calls) as model:
        server = ModelServer(url=model.url, api_key=model.api_key)
        outcome = place.run(runtime, sandbox="worktree", model_server=server, model="gpt-5.5")
    assert outcome.result.status == "completed", outcome.result.error
    assert place.git("log", "--format=%s", "bridle/ann/task").split() == ["done", "first"]
    assert place.git("log", "--format=%s", "main").split() == ["first"], said(outcome)
    place.git("status", cwd=place.worktree)
    assert not proof.exists()


@pytest.mark.parametrize("mode", MODES)
def test_codex_in_its_own_sandbox(place: Bench, mode: str) -> None:
    runtime: Adapter = CodexRuntime(settings("codex", "0.166.0"))
    with ScriptedModel(place.script(str(place.repo / ".git/hooks/post-commit"))) as model:
        server = ModelServer(url=model.url, api_key=model.api_key)
        outcome = place.run(runtime, sandbox=mode, model_server=server, model="gpt-5.5")
    # A command that is refused at once may be missing from what Codex prints.
    check(place, outcome, mode, omits=True)
    assert not (place.repo / ".git/hooks/post-commit").exists()


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("served", [True, False], ids=["server", "script"])
def test_the_scripted_agent(place: Bench, mode: str, served: bool) -> None:
    runtime: Adapter = ScriptedRuntime()
    plant = place.repo / ".git/config"
    before = plant.read_bytes()
    script = place.script(str(plant))
    if served:
        with ScriptedModel(script) as model:
            server = ModelServer(url=model.url, api_key=model.api_key)
            outcome = place.run(runtime, sandbox=mode, model_server=server)
    else:
        outcome = place.run(runtime, sandbox=mode, provider_options={"script": script})
    check(place, outcome, mode)
    assert plant.read_bytes() == before


@pytest.mark.parametrize("version", versions("claude"))
def test_a_timeout_inside_the_sandbox_leaves_no_process(place: Bench, version: str) -> None:
    mark = Path(place.worktree / "began")
    with ScriptedModel([{"shell": "touch began; setsid sleep 60"}, {"text": "no"}]) as model:
        claude_user(place, model)
        runtime = ClaudeRuntime(settings("claude", version))
        outcome = place.run(runtime, sandbox="worktree", timeout=15.0)
    assert outcome.result.status == "timed_out"
    assert mark.exists()
