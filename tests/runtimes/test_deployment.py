"""Instructions and guard are deployed into a worktree together, and undone to the byte."""

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from bridle.core.errors import ConfigError, WrongUse
from bridle.core.options import HooksDef, OverlayContent, QualityGate
from bridle.guard.deploy import status
from bridle.runtimes import deployment
from bridle.runtimes.contract import Adapter
from bridle.runtimes.registry import available_runtimes, get_adapter
from tests.runtimes.test_instructions import files, git, project, worktree

BY_FILE = {
    "claude": ".claude/settings.local.json",
    "cline": ".cline/plugins/bridle-guard.js",
    "opencode": ".opencode/plugins/bridle-guard.js",
}
"""The runtimes that take a guard from any worktree, and the file."""
OTHERS = sorted(set(available_runtimes()) - set(BY_FILE))


def who(tree: Path, **more: Any) -> HooksDef:
    fields: dict[str, Any] = {
        "agent_name": "ivy",
        "capability": "builder",
        "worktree_path": str(tree),
    }
    return HooksDef(**{**fields, **more})


def put(runtime: Adapter, tree: Path, text: str | None = "Go.", **more: Any) -> list[str]:
    overlay = OverlayContent(content=text) if text is not None else None
    return deployment.deploy(runtime, str(tree), overlay, who(tree, **more))


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    return worktree(project(tmp_path / "root"))


@pytest.mark.parametrize("name", BY_FILE)
@pytest.mark.parametrize("text", ["Build it.", None])
def test_instructions_and_guard_come_and_go_together(
    name: str, text: str | None, tree: Path
) -> None:
    runtime = get_adapter(name)
    exclude = tree.parent / "root/.git/info/exclude"
    before, excluded = files(tree), exclude.read_bytes()
    done = deployment.deploy(
        runtime, str(tree), OverlayContent(content=text) if text else None, who(tree)
    )
    assert done.guard == str(tree / BY_FILE[name])
    assert (done.unguarded, done[-1]) == ("", done.guard)
    wanted = str(tree / runtime.instruction_path) if text else None
    assert done.instructions == wanted
    assert list(done) == [path for path in (wanted, done.guard) if path]
    assert [each.fires for each in status(str(tree)).guards] == [True]
    assert git(tree, "status", "--porcelain", "--untracked-files=all") == ""
    git(tree, "add", "-A")
    assert git(tree, "diff", "--cached", "--name-only") == ""
    put(runtime, tree, text)
    assert sorted(deployment.withdraw(runtime, str(tree))) == sorted(done)
    assert (files(tree), exclude.read_bytes()) == (before, excluded)
    assert status(str(tree)).guards == []
    assert deployment.withdraw(runtime, str(tree)) == []


@pytest.mark.parametrize("name", OTHERS)
def test_a_runtime_that_takes_no_guard_from_a_file_says_so(name: str, tree: Path) -> None:
    runtime = get_adapter(name)
    state = Path(os.environ["XDG_STATE_HOME"], "bridle", "guard")
    done = deployment.deploy(runtime, str(tree), None, who(tree))
    assert (list(done), done.guard) == ([], None)
    assert done.unguarded
    assert not list(state.glob("*")), "the guard's own files stay behind"
    assert put(runtime, tree) == [str(tree / runtime.instruction_path)]
    assert deployment.withdraw(runtime, str(tree)) == [str(tree / runtime.instruction_path)]


def test_a_trusted_folder_of_pi_takes_the_guard(tree: Path, private_home: Path) -> None:
    runtime = get_adapter("pi")
    assert "trusted" in deployment.deploy(runtime, str(tree), None, who(tree)).unguarded
    folder = private_home / ".pi" / "agent"
    folder.mkdir(parents=True)
    (folder / "trust.json").write_text(json.dumps({str(tree): True}))
    before = files(tree)
    done = deployment.deploy(runtime, str(tree), None, who(tree))
    assert list(done) == [str(tree / ".pi/extensions/bridle-guard.ts")]
    deployment.withdraw(runtime, str(tree))
    assert files(tree) == before


def test_the_policy_is_the_agents_own(tree: Path) -> None:
    gates = (QualityGate(name="tests", command="tox -e py"),)
    put(get_adapter("claude"), tree, capability="scout", quality_gates=gates)
    (file,) = Path(os.environ["XDG_STATE_HOME"]).glob("bridle/guard/*/fallback.json")
    policy = json.loads(file.read_text())["policy"]
    assert (policy["agent"], policy["capability"]) == ("ivy", "scout")
    assert policy["worktree"] == str(tree)
    assert policy["quality_gates"] == ["tox -e py"]


@pytest.mark.parametrize(
    ("command", "passes"), [("tox -e py", True), ("tox -e other", False), ("touch x", False)]
)
def test_the_deployed_guard_lets_a_gate_of_a_reader_pass(
    tree: Path, command: str, passes: bool
) -> None:
    gates = (QualityGate(name="tests", command="tox -e py"),)
    put(get_adapter("claude"), tree, None, capability="scout", quality_gates=gates)
    (script,) = Path(os.environ["XDG_STATE_HOME"]).glob("bridle/guard/*/hook.sh")
    asked = {
        "hook_event_name": "PreToolUse",
        "tool_name": "Bash",
        "tool_input": {"command": command},
        "cwd": str(tree),
    }
    done = subprocess.run(
        ["/bin/sh", str(script)],
        input=json.dumps(asked).encode(),
        env={"PATH": os.environ["PATH"], "BRIDLE_AGENT_NAME": "ivy"},
        cwd=tree,
        capture_output=True,
        timeout=60,
        check=False,
    )
    refused = b"deny" in done.stdout or done.returncode != 0
    assert refused != passes, (done.stdout, done.stderr)


@pytest.mark.parametrize(
    "more",
    [
        {"capability": "bilder"},
        {"quality_gates": (QualityGate(name="all", command="bash"),)},
        {"agent_name": "a b"},
    ],
)
@pytest.mark.parametrize("name", ["claude", "codex"])
def test_who_cannot_be_meant_is_refused_before_anything_is_written(
    name: str, more: dict[str, Any], tree: Path
) -> None:
    before = files(tree)
    with pytest.raises(WrongUse):
        put(get_adapter(name), tree, **more)
    assert files(tree) == before


def test_a_broken_configuration_is_an_error(tree: Path) -> None:
    (tree / ".bridle").mkdir()
    (tree / ".bridle/config.yaml").write_text("nope: 1\n")
    with pytest.raises(ConfigError):
        put(get_adapter("claude"), tree)


def test_settings_of_the_user_come_back_to_the_byte(tree: Path) -> None:
    settings = tree / ".claude/settings.local.json"
    settings.parent.mkdir()
    odd = b'{"model":   "sonnet",\r\n "hooks": {"PreToolUse": []}}'
    settings.write_bytes(odd)
    settings.chmod(0o640)
    runtime = get_adapter("claude")
    before = files(tree)
    for _ in range(2):
        put(runtime, tree)
    assert json.loads(settings.read_text())["model"] == "sonnet"
    deployment.withdraw(runtime, str(tree))
    assert files(tree) == before
    assert settings.stat().st_mode & 0o777 == 0o640


def test_what_was_changed_meanwhile_stays(tree: Path) -> None:
    settings = tree / ".claude/settings.local.json"
    settings.parent.mkdir()
    settings.write_text('{"model": "sonnet"}')
    runtime = get_adapter("claude")
    put(runtime, tree)
    settings.write_text(json.dumps({**json.loads(settings.read_text()), "model": "opus"}))
    deployment.withdraw(runtime, str(tree))
    assert json.loads(settings.read_text()) == {"model": "opus"}


@pytest.mark.parametrize("old", [None, b"", b"*.log\n", b"# mine\n*.log"])
def test_the_list_of_ignored_files_comes_back_to_the_byte(
    old: bytes | None, tree: Path, tmp_path: Path
) -> None:
    other = worktree(tmp_path / "root", "other")
    exclude = tmp_path / "root/.git/info/exclude"
    if old is None:
        exclude.unlink()
    else:
        exclude.write_bytes(old)
    runtime = get_adapter("codex")
    for each in (tree, other):
        put(runtime, each)
        assert git(each, "status", "--porcelain") == ""
    text = exclude.read_bytes()
    assert text.startswith(old or b"")
    assert text.count(b"\n/AGENTS.md\n") == 2
    deployment.withdraw(runtime, str(tree))
    assert git(other, "status", "--porcelain") == ""
    deployment.withdraw(runtime, str(other))
    assert (exclude.read_bytes() if exclude.exists() else None) == old


def test_a_worktree_that_is_gone_leaves_no_line_for_long(tree: Path, tmp_path: Path) -> None:
    other = worktree(tmp_path / "root", "other")
    exclude = tmp_path / "root/.git/info/exclude"
    old = exclude.read_bytes()
    runtime = get_adapter("codex")
    put(runtime, tree)
    git(tmp_path / "root", "worktree", "remove", "--force", str(tree))
    put(runtime, other)
    deployment.withdraw(runtime, str(other))
    assert exclude.read_bytes() == old


def test_a_folder_of_the_worktree_hides_its_own_file(tmp_path: Path) -> None:
    root = project(tmp_path / "root")
    (root / "sub [1]").mkdir()
    put(get_adapter("codex"), root / "sub [1]")
    assert git(root, "status", "--porcelain") == ""
    (root / "AGENTS.md").write_text("mine")
    assert "AGENTS.md" in git(root, "status", "--porcelain")
