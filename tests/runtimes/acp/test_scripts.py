"""A bridge that passes no arguments on gets a script in place of its product, which adds them."""

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from bridle.core.errors import GuardRefused, WrongUse
from bridle.core.options import ModelServer, RunOptions
from bridle.process.private_folders import remove_folders
from bridle.runtimes.acp.declared import CodexAcp
from bridle.runtimes.acp.plan import AcpPlan
from bridle.runtimes.contract import AdapterSettings
from tests.runtimes.acp.test_guarding import Hook

SERVER = ModelServer(url="http://127.0.0.1:1", api_key="server-key-123")


class Npm:
    """An installation of the bridge as npm makes it; its Codex prints its arguments."""

    def __init__(self, root: Path, version: str) -> None:
        self.root = root
        modules = root / "node_modules"
        bridge = modules / "@agentclientprotocol/codex-acp"
        self.codex = modules / "@openai/codex/bin/codex.js"
        for path in (bridge / "dist/index.js", self.codex):
            path.parent.mkdir(parents=True)
            path.write_text('#!/bin/sh\nfor word; do echo "$word"; done\n')
            path.chmod(0o755)
        manifest = {"name": "@agentclientprotocol/codex-acp", "version": version}
        (bridge / "package.json").write_text(json.dumps(manifest))
        manifest = {"name": "@openai/codex", "version": "0.166.0"}
        (modules / "@openai/codex/package.json").write_text(json.dumps(manifest))
        self.runtime = CodexAcp(AdapterSettings(binary=str(bridge / "dist/index.js")))

    def plan(self, env: dict[str, str] | None = None, **options: Any) -> AcpPlan:
        given = {"prompt": "go", "cwd": str(self.root), "model_server": SERVER, **options}
        around = {"HOME": str(self.root), "PATH": os.environ["PATH"], **(env or {})}
        plan = self.runtime.plan_run(RunOptions(**given), around, "sid")
        assert isinstance(plan, AcpPlan)
        return plan


@pytest.fixture
def npm(tmp_path: Path) -> Npm:
    return Npm(tmp_path, "2.6.0")


def started(plan: AcpPlan) -> list[str]:
    """The arguments of Codex when the bridge starts the program that a variable names."""
    env = plan.spec.env
    done = subprocess.run(
        [env["CODEX_PATH"], "app-server"], env=env, capture_output=True, text=True, check=True
    )
    return done.stdout.splitlines()


def test_codex_gets_the_arguments_that_the_bridge_would_drop(npm: Npm) -> None:
    plan = npm.plan(model="o'clock $HOME", raw_args=("-c", "a=b c"))
    assert plan.spec.argv == plan.installation.command
    words = started(plan)
    assert words[0] == "app-server"
    assert words[-2:] == ["-c", "a=b c"]
    assert 'model="o\'clock $HOME"' in words
    assert any(word.startswith("model_providers.bridle=") for word in words)
    assert plan.spec.env["MODEL_PROVIDER"] == "bridle"
    assert "server-key-123" not in " ".join([*words, plan.spec.env["BRIDLE_PRODUCT_ARGUMENTS"]])
    remove_folders(plan.private_dirs)
    assert not os.path.exists(plan.spec.env["CODEX_PATH"])


def test_features_are_repeated_where_the_bridge_does_not_replace_them(npm: Npm) -> None:
    own = json.dumps({"features": {"apps": False}, "personality": "none"})
    plan = npm.plan(env={"CODEX_CONFIG": own}, denied_tools=("shell",))
    assert json.loads(plan.spec.env["CODEX_CONFIG"]) == {
        "personality": "none",
        "features": {
            "apps": False,
            "unbounded_connection_retries": False,
            "plugins": False,
            "shell_tool": False,
        },
    }
    with pytest.raises(WrongUse, match="not a JSON object"):
        npm.plan(env={"CODEX_CONFIG": "[]"})


def test_a_guard_adds_its_hooks(npm: Npm) -> None:
    (npm.root / "guard").mkdir()
    plan = npm.runtime.guard_plan(npm.plan(), Hook(npm.root / "guard"))
    assert isinstance(plan, AcpPlan)
    words = started(plan)
    assert any("ask-the-judge" in word for word in words)
    features = json.loads(plan.spec.env["CODEX_CONFIG"])["features"]
    assert (features["hooks"], features["unified_exec"]) == (True, False)
    with pytest.raises(GuardRefused, match="hooks disabled"):
        npm.runtime.guard_plan(
            npm.plan(raw_args=("-c", "features.hooks=false")), Hook(npm.root / "guard")
        )


def test_the_users_own_codex_is_started(npm: Npm, tmp_path: Path) -> None:
    assert npm.plan().spec.env["BRIDLE_PRODUCT"] == str(npm.codex)
    own = npm.plan(env={"CODEX_PATH": "/opt/codex"})
    assert own.spec.env["BRIDLE_PRODUCT"] == "/opt/codex"


@pytest.mark.parametrize(
    ("version", "sandbox", "mode"),
    [
        ("1.0.0", None, "agent"),
        ("1.6.2", "worktree", "agent"),
        ("1.13.1", None, "agent"),
        ("1.13.1", "read-only", "read-only"),
        ("2.0.0", "worktree", "workspace-write"),
        ("2.6.0", None, "workspace-write"),
        ("2.6.0", "off", "agent-full-access"),
    ],
)
def test_the_mode_is_chosen_at_the_start(
    tmp_path: Path, version: str, sandbox: str | None, mode: str
) -> None:
    plan = Npm(tmp_path, version).plan(sandbox=sandbox)
    assert plan.spec.env["INITIAL_AGENT_MODE"] == mode
    assert plan.session.mode is None


def test_a_sandbox_that_another_model_opens_is_refused(tmp_path: Path) -> None:
    with pytest.raises(GuardRefused, match="another model"):
        Npm(tmp_path, "1.7.0").plan(sandbox="worktree")
