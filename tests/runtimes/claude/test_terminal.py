"""Claude Code's terminal interface in tmux, led from its first start to a prompt by pane alone."""

import json
import os
import shutil
import subprocess
import time
import uuid
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from bridle.core.options import SpawnOptions
from bridle.core.results import Dialog, Ready, ReadyState
from bridle.runtimes.claude import ClaudeRuntime
from bridle.runtimes.claude.tui import SETTLED
from bridle.runtimes.contract import AdapterSettings
from bridle.testing import RecordedRequest, ScriptedModel
from tests.support.real_cli import real_cli

pytestmark = pytest.mark.real_cli

SCRATCH = Path(__file__).parents[3] / ".tmp" / "claude"
KEY = "sk-ant-scripted-0123456789abcdefghij"
DEADLINE = 60.0


class Terminal:
    """One tmux server of our own with one session in it."""

    def __init__(self, root: Path, env: dict[str, str]) -> None:
        self.root, self.env = root, env
        self.socket = root / "tmux"

    def tmux(self, *words: str) -> str:
        done = subprocess.run(
            ["tmux", "-S", str(self.socket), "-f", "/dev/null", *words],
            env=self.env,
            capture_output=True,
            text=True,
            timeout=20,
            check=False,
        )
        return done.stdout

    def start(self, command: str) -> None:
        self.tmux(
            *["new-session", "-d", "-s", "claude", "-x", "180", "-y", "50"],
            *["-c", str(self.root / "repo"), command],
        )

    def pane(self) -> str:
        return self.tmux("capture-pane", "-p", "-t", "claude")

    def close(self) -> None:
        self.tmux("kill-server")


@pytest.fixture(params=("2.1.197", "2.1.325"))
def runtime(request: pytest.FixtureRequest) -> ClaudeRuntime:
    return ClaudeRuntime(AdapterSettings(binary=str(real_cli("claude", request.param))))


@pytest.fixture
def model() -> Iterator[ScriptedModel]:
    with ScriptedModel([{"text": "Hello from the script."}]) as server:
        yield server


@pytest.fixture
def terminal(model: ScriptedModel) -> Iterator[Terminal]:
    root = SCRATCH / uuid.uuid4().hex[:8]
    (root / "home").mkdir(parents=True)
    (root / "repo").mkdir()
    state = {"hasCompletedOnboarding": True}
    (root / "home" / ".claude.json").write_text(json.dumps(state))
    env = {"PATH": os.environ["PATH"], "HOME": str(root / "home"), "TERM": "xterm-256color"}
    env |= {"LANG": "C.UTF-8", "ANTHROPIC_BASE_URL": model.url, "ANTHROPIC_API_KEY": KEY}
    env |= {"DISABLE_AUTOUPDATER": "1", "DISABLE_TELEMETRY": "1", "IS_SANDBOX": "1"}
    env["CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC"] = "1"
    made = Terminal(root, env)
    yield made
    made.close()
    shutil.rmtree(root, ignore_errors=True)


def lead_to_prompt(runtime: ClaudeRuntime, terminal: Terminal) -> set[str]:
    """Answer each dialog as the classifier says until the prompt is there; names them."""
    answered: set[str] = set()
    now = time.monotonic()
    until, since = now + DEADLINE, now
    last: ReadyState | None = None
    while (now := time.monotonic()) < until:
        state = runtime.detect_ready(terminal.pane())
        if isinstance(state, Ready):
            return answered
        if state != last:
            last, since = state, now
        elif isinstance(state, Dialog) and now - since > SETTLED:
            assert state.action is not None, terminal.pane()
            answered.add(state.name)
            terminal.tmux("send-keys", "-t", "claude", state.action)
            # A key that answers may be sent again only after a good while: see `panes`.
            since = now if state.action in ("Home", "End") else now + 5 * SETTLED
        time.sleep(0.1)
    raise AssertionError(f"no prompt, last {last}: {terminal.pane()}")


@pytest.mark.parametrize("mode", ["bypass", "ask"])
def test_dialogs_are_answered_until_the_prompt_is_there(
    runtime: ClaudeRuntime, terminal: Terminal, mode: str
) -> None:
    options = SpawnOptions(
        model="claude-sonnet-4-5",
        permission_mode="bypass" if mode == "bypass" else "ask",
        env=terminal.env,
    )
    terminal.start(runtime.build_spawn_command(options))
    answered = lead_to_prompt(runtime, terminal)
    assert {"trust", "api_key"} <= answered
    assert ("bypass_warning" in answered) is (mode == "bypass")
    assert ("bypass permissions on" in terminal.pane()) is (mode == "bypass")


def test_a_first_prompt_is_submitted_by_the_command_itself(
    runtime: ClaudeRuntime, terminal: Terminal, model: ScriptedModel
) -> None:
    options = SpawnOptions(
        model="claude-sonnet-4-5", append_system_prompt="it's $HOME", initial_prompt="-say hello"
    )
    terminal.start(runtime.build_spawn_command(options))
    lead_to_prompt(runtime, terminal)

    # The first request that carries the prompt may be the one that finds a title for it.
    def fits(request: RecordedRequest) -> bool:
        body = request.body if isinstance(request.body, dict) else {}
        asked, told = _json(body.get("messages")), _json(body.get("system"))
        return "-say hello" in asked and "it's $HOME" in told

    model.wait_for_request(fits, DEADLINE)


def _json(data: object) -> str:
    return msgspec.json.encode(data).decode()
