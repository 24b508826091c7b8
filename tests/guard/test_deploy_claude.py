"""A guard in a worktree: put in, repeated, taken out, and honoured by the real CLI."""

import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from bridle.config import load_config
from bridle.core.errors import GuardRefused, WrongUse
from bridle.guard.deploy import deploy, status, undo
from bridle.runtimes.claude import ClaudeRuntime
from tests.guard.agents import by_hand
from tests.sandbox.bench import Bench, bench
from tests.support.real_cli import pinned, versions

THEIRS: dict[str, Any] = {
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
    assert now["hooks"]["PreToolUse"][0] == THEIRS["hooks"]["PreToolUse"][0]
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


@pytest.mark.parametrize(("agent", "status"), [("", 0), ("alice", 2)], ids=["person", "agent"])
def test_a_guard_whose_files_are_gone_holds_agents_alone(
    place: Bench, agent: str, status: int
) -> None:
    put(place)
    shutil.rmtree(place.home / ".local/state/bridle/guard")
    hooks = json.loads(settings(place).read_text())["hooks"]["PreToolUse"]
    done = subprocess.run(
        ["/bin/sh", "-c", hooks[-1]["hooks"][0]["command"]],
        input=b'{"hook_event_name":"PreToolUse","tool_name":"Write","tool_input":{}}',
        env={"PATH": os.defpath, "BRIDLE_AGENT_NAME": agent},
        cwd=place.worktree,
        capture_output=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == status, done.stderr


@pytest.mark.real_cli
@pytest.mark.parametrize("agent", ["alice", ""], ids=["agent", "person"])
@pytest.mark.parametrize("version", versions("claude"))
def test_the_real_claude_honours_it_for_agents_alone(
    place: Bench, version: str, agent: str
) -> None:
    put(place)
    script = [{"shell": f"echo x > {place.outside}/shell.txt"}, {"text": "Finished."}]
    result = by_hand(place, pinned("claude", version), script, agent)
    assert result.status == "completed", result.error
    assert place.written_outside() == ([] if agent else ["shell.txt"])
    assert os.path.exists(settings(place))
