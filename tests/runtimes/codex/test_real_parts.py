"""The real Codex: MCP servers, a machine without sandbox, the terminal interface."""

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from bridle.core import events as ev
from bridle.core.options import SpawnOptions
from bridle.core.results import Dialog, Ready, ReadyState
from tests.runtimes.codex.bench import KEY, VERSIONS, Bench, model_of

pytestmark = pytest.mark.real_cli


@pytest.fixture(params=VERSIONS)
def bench(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Bench]:
    made = Bench(request.param)
    monkeypatch.setenv("XDG_CACHE_HOME", str(made.root / "cache"))
    yield made
    made.close()


def toy_server() -> str:
    server = {
        "command": sys.executable,
        "args": [str(Path(__file__).with_name("toy_mcp.py"))],
        "env": {"TOY_SECRET": "s3cret-for-the-toy"},
    }
    return json.dumps({"mcpServers": {"toy": server}})


@pytest.mark.parametrize(
    ("permission", "sandbox"), [("bypass", None), ("bypass", "off"), ("ask", None)]
)
def test_an_mcp_server_is_called(bench: Bench, permission: str, sandbox: str | None) -> None:
    newer = bench.version == "0.166.0"
    # The newer line offers the tool in a namespace, and to catalogue models only on a search.
    name = "tell" if newer else "mcp__toy__tell"
    with model_of([{"tool_calls": [{"name": name}]}, {"text": "ok"}]) as model:
        result = bench.run(
            model,
            model="scripted",
            mcp_config=toy_server(),
            permission_mode=permission,
            sandbox=sandbox,
        )
    assert result.error is None
    end = next(event for event in bench.events if isinstance(event, ev.ToolExecutionEnd))
    assert end.tool_name == "mcp_tool_call"
    assert bench.prepared is not None
    plan = bench.prepared.plan
    if sandbox == "off" or (newer and permission == "bypass"):
        assert not end.is_error
        assert "told 18" in json.dumps(end.result)
        assert plan.warnings == ()
    else:
        assert end.is_error
        assert "MCP" in plan.warnings[0]
    assert "s3cret" not in " ".join(plan.spec.argv)


def test_raw_configuration_does_not_drop_ours(bench: Bench) -> None:
    with model_of([{"text": "ok"}]) as model:
        result = bench.run(model, raw_args=("-c", "foo=1"))
        assert len(model.prompts()) == 1
    assert result.error is None


WITHOUT_NAMESPACES = """
import os, sys
from bridle.core.errors import GuardRefused
from bridle.core.options import RunOptions
from bridle.runtimes.contract import AdapterSettings
from bridle.runtimes.codex import CodexRuntime

with open("/proc/sys/user/max_user_namespaces", "w") as file:
    file.write("0")
runtime = CodexRuntime(AdapterSettings(binary=sys.argv[1]))
for attempt in range(2):
    try:
        runtime.plan_run(RunOptions(prompt="x"), dict(os.environ), "s")
    except GuardRefused as refused:
        sys.stdout.write(f"refused: {refused.message}\\n")
open_run = RunOptions(prompt="x", permission_mode="bypass", sandbox="off")
runtime.plan_run(open_run, dict(os.environ), "s")
sys.stdout.write("open run planned\\n")
"""


def test_a_machine_without_the_sandbox_is_told_before_the_start(bench: Bench) -> None:
    binary = bench.runtime.installation().binary
    done = subprocess.run(
        ["unshare", "--user", "--map-root-user", sys.executable, "-c", WITHOUT_NAMESPACES, binary],
        env={**bench.env, "XDG_CACHE_HOME": str(bench.root / "cache")},
        cwd=bench.repo,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    lines = done.stdout.splitlines()
    assert [line.partition(":")[0] for line in lines] == [
        "refused",
        "refused",
        "open run planned",
    ], done.stderr
    assert "namespace" in lines[0].lower() or "bwrap" in lines[0].lower()
    assert not (bench.config_home / "tmp").exists()


class Terminal:
    """A private tmux server with one pane."""

    def __init__(self, bench: Bench, command: str, env: dict[str, str]) -> None:
        self._socket = str(bench.root / "tmux.sock")
        self._env = bench.env
        words = ["new-session", "-d", "-x", "200", "-y", "50", "-c", str(bench.repo)]
        for name, value in env.items():
            words += ["-e", f"{name}={value}"]
        self.tmux("-f", "/dev/null", *words, command)

    def tmux(self, *words: str) -> str:
        done = subprocess.run(
            ["tmux", "-S", self._socket, *words],
            env=self._env,
            capture_output=True,
            text=True,
            timeout=20,
            check=False,
        )
        return done.stdout

    def close(self) -> None:
        self.tmux("kill-server")


@pytest.mark.skipif(shutil.which("tmux") is None, reason="tmux is not installed")
def test_the_terminal_comes_up_without_a_question(bench: Bench) -> None:
    os.makedirs(bench.root, exist_ok=True)
    with model_of([{"text": "The answer is here."}, {"text": "A title"}]) as model:
        env = {"OPENAI_BASE_URL": f"{model.url}/v1", "OPENAI_API_KEY": KEY}
        options = SpawnOptions(
            model="gpt-5.5",
            cwd=str(bench.repo),
            env={**bench.env, **env},
            initial_prompt="Say - it.",
        )
        command = bench.runtime.build_spawn_command(options)
        assert KEY not in command
        terminal = Terminal(bench, command, env)
        seen: list[ReadyState] = []
        pane = ""
        try:
            deadline = time.monotonic() + 40
            while time.monotonic() < deadline:
                pane = terminal.tmux("capture-pane", "-p")
                seen.append(bench.runtime.detect_ready(pane))
                if seen[-1] == Ready() and "The answer is here." in pane:
                    break
                model.wait_for_request(lambda _: True, timeout=40)
        finally:
            terminal.close()
        assert seen[-1] == Ready(), pane
        assert "The answer is here." in pane
        assert not any(isinstance(state, Dialog) for state in seen)
        assert model.prompts()[0] == "Say - it."
