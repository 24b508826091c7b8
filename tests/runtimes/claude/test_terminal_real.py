"""Claude Code's terminal interface in tmux, led from its first start to a prompt by pane alone."""

import json

import msgspec
import pytest

from bridle.runtimes.contract import Adapter
from bridle.testing import RecordedRequest, ScriptedModel
from bridle.testing.bench import AgentBench
from tests.support.real_cli import pinned

pytestmark = pytest.mark.real_cli

DEADLINE = 60.0


@pytest.fixture(params=("2.1.197", "2.1.325"))
def runtime(request: pytest.FixtureRequest) -> Adapter:
    return pinned("claude", request.param)


@pytest.fixture
def model(bench: AgentBench) -> ScriptedModel:
    """A model that the user's variables lead to."""
    model = bench.model([{"text": "Hello from the script."}])
    (bench.home / ".claude.json").write_text(json.dumps({"hasCompletedOnboarding": True}))
    bench.env |= {"ANTHROPIC_BASE_URL": model.url, "ANTHROPIC_API_KEY": model.api_key}
    bench.env |= {"DISABLE_AUTOUPDATER": "1", "DISABLE_TELEMETRY": "1", "IS_SANDBOX": "1"}
    bench.env["CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC"] = "1"
    return model


@pytest.mark.parametrize("mode", ["bypass", "ask"])
def test_dialogs_are_answered_until_the_prompt_is_there(
    runtime: Adapter, bench: AgentBench, model: ScriptedModel, mode: str
) -> None:
    terminal = bench.terminal(runtime, model="claude-sonnet-4-5", permission_mode=mode)
    answered = set(terminal.wait_ready(DEADLINE))
    assert {"trust", "api_key"} <= answered
    assert ("bypass_warning" in answered) is (mode == "bypass")
    assert ("bypass permissions on" in terminal.screen) is (mode == "bypass")


def test_a_first_prompt_is_submitted_by_the_command_itself(
    runtime: Adapter, bench: AgentBench, model: ScriptedModel
) -> None:
    terminal = bench.terminal(
        runtime,
        model="claude-sonnet-4-5",
        append_system_prompt="it's $HOME",
        initial_prompt="-say hello",
    )
    terminal.wait_ready(DEADLINE)

    # The first request that carries the prompt may be the one that finds a title for it.
    def fits(request: RecordedRequest) -> bool:
        body = request.body if isinstance(request.body, dict) else {}
        asked, told = _json(body.get("messages")), _json(body.get("system"))
        return "-say hello" in asked and "it's $HOME" in told

    model.wait_for_request(fits, DEADLINE)


def _json(data: object) -> str:
    return msgspec.json.encode(data).decode()
