"""The other real agents in the sandbox, each in its user's own home.

The same six calls as in `test_real`, judged by what became of them: these agents tell of a command
that failed in their own ways, and some have a boundary of their own before the kernel's.
"""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.sandbox.bench import Bench, bench, said
from tests.support.real_cli import pinned

from bridle.core.options import Provider
from bridle.testing import ScriptedModel
from bridle.testing.bench import AgentRun

pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="the sandbox is Linux's"),
    pytest.mark.real_cli,
]


class Agent(msgspec.Struct, frozen=True, kw_only=True):
    """One runtime, and a file in its user's home that later sessions obey."""

    name: str
    version: str
    model: str
    obeyed: str
    path: str = "/v1"

    def __str__(self) -> str:
        return self.name


AGENTS = (
    Agent(name="copilot", version="1.0.102", model="m-1", obeyed=".copilot/settings.json"),
    Agent(
        name="cline",
        version="3.0.65",
        model="m-1",
        obeyed=".cline/data/settings/cline_mcp_settings.json",
    ),
    Agent(
        name="opencode",
        version="1.18.33",
        model="lab/scripted",
        obeyed=".cache/opencode/packages/plugin.js",
    ),
    Agent(
        name="gemini",
        version="0.61.0",
        model="gemini-2.5-flash",
        obeyed=".gemini/settings.json",
        path="",
    ),
)


@pytest.fixture
def place() -> Iterator[Bench]:
    with bench() as made:
        yield made


def run(place: Bench, agent: Agent, script_plant: Path, **options: Any) -> AgentRun:
    runtime = pinned(agent.name, agent.version)
    place.env |= {"NPM_CONFIG_OFFLINE": "true", "OPENCODE_DISABLE_MODELS_FETCH": "1"}
    with ScriptedModel(place.script(str(script_plant))) as model:
        place.env["LAB_KEY"] = model.api_key
        provider = Provider(base_url=f"{model.url}{agent.path}", auth_token_env="LAB_KEY")
        return place.run(runtime, model=agent.model, provider=provider, **options)


@pytest.mark.parametrize("mode", ["worktree", "read-only"])
@pytest.mark.parametrize("agent", AGENTS, ids=str)
def test_the_kernel_holds_it(place: Bench, agent: Agent, mode: str) -> None:
    obeyed = place.home / agent.obeyed
    obeyed.parent.mkdir(parents=True)
    obeyed.write_text("{}\n")
    outcome = run(place, agent, obeyed, sandbox=mode)
    place.check_held(outcome, mode)
    assert obeyed.read_text() == "{}\n"
    # The program that hid its path ran, and the kernel refused it.
    assert "read-only file system" in said(outcome)[3].lower(), said(outcome)


@pytest.mark.parametrize("agent", AGENTS, ids=str)
def test_without_a_sandbox_the_hidden_write_happens(place: Bench, agent: Agent) -> None:
    outcome = run(place, agent, place.worktree / "harmless.txt")
    assert outcome.result.status == "completed", outcome.result.error
    assert "hidden.txt" in place.written_outside()
