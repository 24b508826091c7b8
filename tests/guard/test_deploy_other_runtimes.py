"""A guard in a worktree for agents other than Claude: put in, repeated, taken out, honoured."""

import json
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from bridle.config import load_config
from bridle.core.errors import GuardRefused, WrongUse
from bridle.guard.deploy import deploy, status, undo
from bridle.runtimes.contract import Adapter, as_guarded
from bridle.runtimes.guards import as_deployable
from bridle.runtimes.registry import get_adapter
from tests.guard.agents import AGENTS, DRIVES, by_hand, play
from tests.sandbox.bench import Bench, bench
from tests.support.real_cli import pinned

FILES = {
    "opencode": ".opencode/plugins/bridle-guard.js",
    "cline": ".cline/plugins/bridle-guard.js",
    "gemini": ".gemini/settings.json",
    "pi": ".pi/extensions/bridle-guard.ts",
}
every_runtime = pytest.mark.parametrize("name", FILES)


@pytest.fixture
def place(monkeypatch: pytest.MonkeyPatch) -> Iterator[Bench]:
    """A worktree that its user has trusted, whichever agent is asked."""
    with bench() as made:
        for variable in ("PI_CODING_AGENT_DIR", "GEMINI_CLI_HOME", "GEMINI_CLI_TRUST_WORKSPACE"):
            monkeypatch.delenv(variable, raising=False)
        monkeypatch.setenv("HOME", str(made.home))
        trust(made, "TRUST_FOLDER", True)
        yield made


def trust(place: Bench, gemini: str, pi: bool) -> None:
    for name, level in ((".gemini/trustedFolders.json", gemini), (".pi/agent/trust.json", pi)):
        path = place.home / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps({str(place.worktree): level}))


def put(place: Bench, name: str, runtime: Adapter | None = None) -> Path:
    config = load_config(str(place.worktree))
    deploy(
        as_deployable(runtime or get_adapter(name)), config, str(place.worktree),
        capability="builder", agent="alice", env=place.env,
    )  # fmt: skip
    return place.worktree / FILES[name]


def take_out(place: Bench, name: str) -> None:
    undo(as_deployable(get_adapter(name)), str(place.worktree), place.env)


def holds(place: Bench) -> list[bool]:
    return [each.fires for each in status(str(place.worktree), place.env).guards]


@every_runtime
def test_it_can_be_repeated_and_undone(place: Bench, name: str) -> None:
    path = put(place, name)
    once = path.read_bytes()
    put(place, name)
    assert path.read_bytes() == once
    assert holds(place) == [True]
    assert place.git("status", "--short", cwd=place.worktree) == "", "no commit takes it along"
    take_out(place, name)
    assert list(place.worktree.iterdir()) == [place.worktree / ".git"]
    assert holds(place) == []
    assert "bridle" not in (place.repo / ".git/info/exclude").read_text()
    take_out(place, name)


@every_runtime
def test_status_notices_what_was_taken_away(place: Bench, name: str) -> None:
    path = put(place, name)
    path.write_text("{}")
    assert holds(place) == [False]
    path.unlink()
    put(place, name)
    script = next((place.home / ".local/state/bridle/guard").glob("*/hook.sh"))
    allowed = as_guarded(get_adapter(name)).guard_shape().allowed().decode()
    script.write_text(f"echo '{allowed}'\n")
    assert holds(place) == [False]


def test_geminis_own_hooks_and_settings_stay(place: Bench) -> None:
    theirs: dict[str, Any] = {
        "ui": {"hideTips": True},
        "hooks": {"BeforeTool": [{"hooks": [{"type": "command", "command": "true"}]}]},
    }
    path = place.worktree / FILES["gemini"]
    path.parent.mkdir()
    path.write_text(json.dumps(theirs))
    put(place, "gemini")
    put(place, "gemini")
    now = json.loads(path.read_text())
    assert now["ui"] == theirs["ui"]
    assert now["hooks"]["BeforeTool"][0] == theirs["hooks"]["BeforeTool"][0]
    assert len(now["hooks"]["BeforeTool"]) == 2
    take_out(place, "gemini")
    assert json.loads(path.read_text()) == theirs


@pytest.mark.parametrize("who", ["BRIDLE_AGENT_NAME", "BRIDLE_CAPABILITY", ""])
def test_gemini_may_put_variables_into_its_settings(place: Bench, who: str) -> None:
    """It does so for `$NAME` and `${NAME}` before it runs a hook; unknown ones stay."""
    told = json.loads(put(place, "gemini").read_text())
    command = told["hooks"]["BeforeTool"][0]["hooks"][0]["command"]
    known = {who: "builder"} if who else {}
    put_in = re.sub(r"\$(?:(\w+)|{(\w+)})", lambda m: known.get(m[1] or m[2], m[0]), command)
    call = {"tool_name": "run_shell_command", "tool_input": {"command": "git push"}}
    env = {**place.env, **known}
    for name in {"BRIDLE_AGENT_NAME", "BRIDLE_CAPABILITY"} - known.keys():
        env.pop(name, None)
    ran = subprocess.run(
        ["sh", "-c", put_in], input=json.dumps(call), cwd=place.worktree, env=env, text=True,
        capture_output=True, timeout=60, check=False,
    )  # fmt: skip
    assert ('"deny"' in ran.stdout) is bool(who), ran


def test_a_worktree_whose_gemini_runs_no_hooks_is_refused(place: Bench) -> None:
    path = place.worktree / FILES["gemini"]
    path.parent.mkdir()
    path.write_text('{"hooksConfig": {"enabled": false}}')
    with pytest.raises(GuardRefused, match="switches all hooks off"):
        put(place, "gemini")
    assert path.read_text() == '{"hooksConfig": {"enabled": false}}'


@pytest.mark.parametrize("content", ["{", "[]", '{"hooks": 3}', '{"hooks": {"BeforeTool": 1}}'])
def test_settings_that_cannot_be_read_are_left_alone(place: Bench, content: str) -> None:
    path = place.worktree / FILES["gemini"]
    path.parent.mkdir()
    path.write_text(content)
    with pytest.raises(WrongUse):
        put(place, "gemini")
    assert path.read_text() == content


@pytest.mark.parametrize("name", ["opencode", "cline", "pi"])
def test_a_file_of_somebody_else_is_left_alone(place: Bench, name: str) -> None:
    path = place.worktree / FILES[name]
    path.parent.mkdir(parents=True)
    path.write_text("export default 1;\n")
    with pytest.raises(WrongUse):
        put(place, name)
    with pytest.raises(WrongUse):
        take_out(place, name)
    assert path.read_text() == "export default 1;\n"


@every_runtime
def test_a_link_is_not_followed(place: Bench, name: str) -> None:
    folder = (place.worktree / FILES[name]).parent
    folder.parent.mkdir(exist_ok=True)
    folder.symlink_to(place.outside)
    with pytest.raises(WrongUse):
        put(place, name)
    assert place.written_outside() == []


@every_runtime
def test_a_file_under_version_control_is_left_alone(place: Bench, name: str) -> None:
    path = place.worktree / FILES[name]
    path.parent.mkdir(parents=True)
    path.write_text("{}")
    place.git("add", "-A", cwd=place.worktree)
    with pytest.raises(WrongUse):
        put(place, name)
    assert path.read_text() == "{}"


@pytest.mark.parametrize("name", ["gemini", "pi"])
def test_a_worktree_that_is_not_trusted_is_refused(place: Bench, name: str) -> None:
    trust(place, "DO_NOT_TRUST", False)
    with pytest.raises(GuardRefused, match="have not trusted"):
        put(place, name)
    assert list(place.worktree.iterdir()) == [place.worktree / ".git"]


@pytest.mark.parametrize("name", ["codex", "copilot", "aider"])
def test_runtimes_that_take_none_say_why(place: Bench, name: str) -> None:
    with pytest.raises(GuardRefused, match="takes no guard from a worktree: it "):
        deploy(
            as_deployable(get_adapter(name)), load_config(str(place.worktree)), str(place.worktree),
            capability="builder", env=place.env,
        )  # fmt: skip


# -- the real agents ------------------------------------------------------------------------------


@pytest.mark.real_cli
@pytest.mark.parametrize("who", ["agent", "person"])
@pytest.mark.parametrize(
    ("name", "version", "own"),
    [
        ("opencode", "1.18.33", {}),
        ("cline", "3.0.65", {}),
        ("gemini", "0.61.0", {"trust_project": True}),
        ("pi", "1.5.0", {"trust_project": True}),
        ("pi", "0.74.2", {"trust_project": True}),
    ],
)
def test_the_real_agent_honours_it_for_agents_alone(
    place: Bench, name: str, version: str, own: dict[str, Any], who: str
) -> None:
    runtime = pinned(name, version)
    put(place, name, runtime)
    script = [
        {"shell": f"echo x > {place.outside}/shell.txt"},
        {"shell": "echo hi > inside.txt"},
        {"text": "Finished."},
    ]
    result = by_hand(place, runtime, script, "alice" if who == "agent" else "", **own)
    assert result.status == "completed", result.error
    assert (place.worktree / "inside.txt").exists()
    assert place.written_outside() == ([] if who == "agent" else ["shell.txt"])


@pytest.mark.real_cli
@pytest.mark.parametrize("name", ["opencode", "cline"])
def test_a_guarded_run_works_beside_a_deployed_guard_but_not_a_changed_one(
    place: Bench, name: str
) -> None:
    agent = next(each for each in AGENTS if each.name == name)
    path = put(place, name)
    script = [{"shell": f"echo x > {place.outside}/x"}, {"shell": "echo hi > inside.txt"}]
    played = play(place, agent, DRIVES["print"], "builder", script)
    assert played.result.status == "completed", played.result.error
    assert [decision for decision, _ in played.verdicts] == ["deny", "allow"]
    path.write_text(path.read_text() + "\n")
    with pytest.raises(GuardRefused, match="plugins beside the guard's"):
        play(place, agent, DRIVES["print"], "builder", script)
