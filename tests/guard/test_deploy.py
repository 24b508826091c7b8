"""A guard in a worktree: put in, repeated, taken out, and honoured by the real CLI."""

import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from bridle.config import load_config
from bridle.core.errors import GuardRefused, WrongUse
from bridle.core.options import ModelServer, RunOptions
from bridle.drives.print_drive import PrintRun
from bridle.running import new_session_id, recorder_for
from bridle.runtimes.claude import ClaudeRuntime
from bridle.runtimes.deployed_guard import deploy, status, undo
from bridle.runtimes.registry import get_runtime
from bridle.testing import ScriptedModel
from tests.sandbox.bench import Bench, bench
from tests.support.real_cli import real_cli, versions

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="hooks need a Linux shell")

THEIRS = {
    "model": "sonnet",
    "hooks": {
        "PreToolUse": [{"matcher": "Bash", "hooks": [{"type": "command", "command": "true"}]}]
    },
}


@pytest.fixture
def place() -> Iterator[Bench]:
    with bench() as made:
        yield made


def settings(place: Bench) -> Path:
    return place.worktree / ".claude/settings.local.json"


def put(place: Bench) -> None:
    config = load_config(str(place.worktree))
    deploy(
        ClaudeRuntime(), config, str(place.worktree), capability="builder", agent="alice",
        env=place.env,
    )  # fmt: skip


def write(path: Path, content: Any) -> None:
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(content))


def test_the_users_own_hooks_stay_and_it_can_be_undone(place: Bench) -> None:
    write(settings(place), THEIRS)
    put(place)
    once = settings(place).read_bytes()
    put(place)
    assert settings(place).read_bytes() == once
    now = json.loads(once)
    assert now["model"] == "sonnet"
    assert now["hooks"]["PreToolUse"][0] == THEIRS["hooks"]["PreToolUse"][0]  # type: ignore[index]
    assert len(now["hooks"]["PreToolUse"]) == 2
    assert [each.fires for each in status(str(place.worktree), place.env).guards] == [True]
    undo(ClaudeRuntime(), str(place.worktree), place.env)
    assert json.loads(settings(place).read_text()) == THEIRS
    assert status(str(place.worktree), place.env).guards == []
    undo(ClaudeRuntime(), str(place.worktree), place.env)
    assert json.loads(settings(place).read_text()) == THEIRS


def test_a_file_that_held_nothing_else_is_removed(place: Bench) -> None:
    put(place)
    assert place.git("status", "--short", cwd=place.worktree) == "", "no commit takes it along"
    undo(ClaudeRuntime(), str(place.worktree), place.env)
    assert list(place.worktree.iterdir()) == [place.worktree / ".git"]
    assert "settings.local" not in (place.repo / ".git/info/exclude").read_text()


@pytest.mark.parametrize("content", ["{", "[]", '{"hooks": 3}', '{"hooks": {"PreToolUse": 1}}'])
def test_settings_that_cannot_be_read_are_left_alone(place: Bench, content: str) -> None:
    settings(place).parent.mkdir()
    settings(place).write_text(content)
    with pytest.raises((GuardRefused, WrongUse)):
        put(place)
    assert settings(place).read_text() == content


def test_hooks_that_are_switched_off_are_no_guard(place: Bench) -> None:
    write(settings(place), {"disableAllHooks": True})
    with pytest.raises(GuardRefused):
        put(place)


def test_a_link_out_of_the_worktree_is_not_followed(place: Bench) -> None:
    settings(place).parent.mkdir()
    settings(place).symlink_to(place.outside / "settings.json")
    with pytest.raises(WrongUse):
        put(place)
    assert place.written_outside() == []


def test_status_notices_what_was_taken_away(place: Bench) -> None:
    put(place)
    write(settings(place), THEIRS)
    found = status(str(place.worktree), place.env).guards
    assert [each.fires for each in found] == [False]
    put(place)
    script = next((place.home / ".local/state/bridle/guard").glob("*/hook.sh"))
    script.write_text("exit 0\n")
    found = status(str(place.worktree), place.env).guards
    assert [each.fires for each in found] == [False]


@pytest.mark.parametrize("name", ["codex", "aider"])
def test_runtimes_that_take_none_say_so(place: Bench, name: str) -> None:
    with pytest.raises(GuardRefused, match="takes no guard from a worktree"):
        deploy(
            get_runtime(name), load_config(str(place.worktree)), str(place.worktree),
            capability="builder", env=place.env,
        )  # fmt: skip


@pytest.mark.real_cli
@pytest.mark.parametrize("agent", ["alice", ""], ids=["agent", "person"])
@pytest.mark.parametrize("version", versions("claude"))
def test_the_real_claude_honours_it_for_agents_alone(
    place: Bench, version: str, agent: str
) -> None:
    put(place)
    runtime = ClaudeRuntime()
    runtime.use_binary(str(real_cli("claude", version)))
    script = [{"shell": f"echo x > {place.outside}/shell.txt"}, {"text": "Finished."}]
    with ScriptedModel(script) as model:
        options = RunOptions(
            prompt="Do it.",
            cwd=str(place.worktree),
            permission_mode="bypass",
            timeout=100.0,
            model_server=ModelServer(url=model.url, api_key=model.api_key),
            env={"BRIDLE_AGENT_NAME": agent} if agent else {},
        )
        # Planned and started as by hand: no guard of Bridle's own is around it.
        plan = runtime.plan_run(options, place.env, new_session_id())
        recorder = recorder_for(runtime, options, plan)
        run = PrintRun(
            plan.spec, runtime.normalizer(plan, recorder), recorder, private_dirs=plan.private_dirs
        )
        for _ in run.events():
            pass
    assert run.result.status == "completed", run.result.error
    assert place.written_outside() == ([] if agent else ["shell.txt"])
    assert os.path.exists(settings(place))
