"""The real Cline CLI against the scripted model."""

import json
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from bridle.core import events as ev
from bridle.core.options import Provider
from bridle.core.usage import Usage
from bridle.process.process_tree import marked_processes
from bridle.runtimes.cline import ClineRuntime
from bridle.testing import ScriptedModel
from bridle.testing.bench import AgentBench, AgentRun
from bridle.testing.request_log import key_marker
from tests.runtimes.products import ONE_PNG
from tests.runtimes.scripts import SCRIPT, SCRIPT_STEPS
from tests.support.mcp_server import MCP_SERVER
from tests.support.real_cli import pinned_as, versions

pytestmark = pytest.mark.real_cli

SLEEPING = [
    {"text": "Waiting.", "shell": "sleep 60 & sleep 61; wait"},
    {"text": "Never said."},
]


def run(bench: AgentBench, model: ScriptedModel | None = None, /, **options: Any) -> AgentRun:
    return bench.run(pinned_as(ClineRuntime), model, **options)


def daemons() -> set[int]:
    """Processes of Cline's daemon, whoever started them."""
    found = set()
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if b"--cline-hub-daemon" in path.read_bytes():
                found.add(int(path.parent.name))
        except OSError:
            continue
    return found


def test_one_script(bench: AgentBench) -> None:
    before = daemons()
    with ScriptedModel(SCRIPT) as model:
        outcome = run(bench, model, prompt="hi")
        model.assert_finished()
    result = outcome.result
    assert outcome.steps == SCRIPT_STEPS
    assert (result.status, result.exit_code, result.error) == ("completed", 0, None)
    assert result.usage == Usage(
        input_tokens=800, output_tokens=100, cache_read_tokens=100, cache_write_tokens=5
    )
    assert (result.text, result.marker_detected) == ("Done. ORCHESTRA_COMPLETE", True)
    assert (result.model, result.runtime_version) == ("scripted", versions("cline")[-1])
    assert result.native_session_id is not None
    assert (bench.work / "shell.txt").read_text() == "made by shell\n"
    assert not (bench.home / ".cline").exists(), "the user's home stays as it is"
    assert daemons() <= before, "no daemon was started"


@pytest.mark.parametrize(
    ("fault", "kind"),
    [
        ({"status": 401}, "not_authenticated"),
        # Cline keeps to the service's own delay; without one it tries for a minute.
        ({"status": 429, "retry_after": 1}, "rate_limited"),
        ({"status": 529, "retry_after": 0}, "overloaded"),
        ({"kind": "context_overflow"}, "context_overflow"),
    ],
)
def test_faults(bench: AgentBench, fault: dict[str, Any], kind: str) -> None:
    with ScriptedModel([{"fault": fault}]) as model:
        outcome = run(bench, model)
    assert outcome.error_kind == kind
    if kind == "rate_limited":
        assert outcome.result.error is not None
        assert outcome.result.error.until is not None


def test_an_abort_leaves_no_tool_behind(bench: AgentBench) -> None:
    with ScriptedModel(SLEEPING) as model:
        prepared = bench.prepare(pinned_as(ClineRuntime), model)
        for event in prepared.run.events():
            if isinstance(event, ev.ToolExecutionStart):
                threading.Thread(target=prepared.run.abort).start()
    assert prepared.run.result.status == "aborted"
    assert prepared.run.result.usage.output_tokens > 0
    assert marked_processes(prepared.plan.session_id) == []


def test_a_provider_and_instructions(bench: AgentBench) -> None:
    """On the user's own home: nothing of the user's configuration is changed or sent."""
    settings = bench.home / ".cline" / "data" / "settings"
    settings.mkdir(parents=True)
    own = {"provider": "anthropic", "apiKey": "the-users-own-key", "model": "own-model"}
    (settings / "providers.json").write_text(
        json.dumps(
            {
                "version": 1,
                "lastUsedProvider": "anthropic",
                "modes": {},
                "providers": {"anthropic": {"settings": own, "tokenSource": "manual"}},
            }
        )
    )
    before = bench.files(".cline/data/settings")
    with ScriptedModel([{"text": "one"}]) as model:
        outcome = run(
            bench,
            provider=Provider(base_url=f"{model.url}/v1", auth_token_env="GATEWAY"),
            model="m-1",
            environ={"GATEWAY": "the-gateway-key"},
            prompt="-x /help\nünï",
            system_prompt="Only say KIWI.",
            append_system_prompt="Say MANGO.",
            denied_tools=("run_commands",),
        )
        (request,) = model.requests
    body = json.dumps(request.body, ensure_ascii=False)
    assert outcome.result.text == "one"
    assert request.path == "/v1/chat/completions"
    assert request.headers["authorization"] in (
        key_marker("the-gateway-key"),
        key_marker("Bearer the-gateway-key"),
    )
    assert "Only say KIWI." in body
    assert "Say MANGO." in body
    assert "-x /help\\nünï" in body
    assert "run_commands" not in {tool["function"]["name"] for tool in request.body["tools"]}
    assert bench.files(".cline/data/settings") == before
    folder = pinned_as(ClineRuntime).transcript_dir(str(bench.work))
    native = outcome.result.native_session_id
    kept = bench.home / ".cline" / "data" / "sessions" / str(native)
    assert folder is not None
    found = pinned_as(ClineRuntime).parse_transcript(str(kept))
    assert found is not None
    assert found.output_tokens == outcome.result.usage.output_tokens


def test_the_users_own_login(bench: AgentBench) -> None:
    with ScriptedModel([{"text": "one"}]) as model:
        settings = bench.home / ".cline" / "data" / "settings"
        settings.mkdir(parents=True)
        own = {"provider": "anthropic", "apiKey": "the-users-own-key", "model": "own-model"}
        own["baseUrl"] = f"{model.url}/v1"
        entry = {"settings": own, "updatedAt": "2026-01-01T00:00:00.000Z", "tokenSource": "manual"}
        (settings / "providers.json").write_text(
            json.dumps(
                {"version": 1, "lastUsedProvider": "anthropic", "modes": {}}
                | {"providers": {"anthropic": entry}}
            )
        )
        before = bench.files(".cline/data/settings")
        outcome = run(bench, model="another-model")
        (request,) = model.requests
    assert outcome.result.text == "one"
    assert request.body["model"] == "another-model"
    assert bench.files(".cline/data/settings") == before


def test_nobody_to_ask(bench: AgentBench) -> None:
    turns = [
        {"text": "Writing.", "write_file": {"path": "out.txt", "content": "x"}},
        {"text": "I may not."},
    ]
    with ScriptedModel(turns) as model:
        outcome = run(bench, model, permission_mode="ask")
    assert outcome.result.status == "completed"
    assert not (bench.work / "out.txt").exists()
    (decision,) = [event for event in outcome.events if isinstance(event, ev.PermissionDecision)]
    assert decision.decision == "deny"


def test_an_image_and_an_mcp_server(bench: AgentBench) -> None:
    server = bench.home / "server.py"
    server.write_text(MCP_SERVER)
    config = {"mcpServers": {"lab": {"command": sys.executable, "args": [str(server)]}}}
    image = bench.home / "a picture.png"
    image.write_bytes(ONE_PNG)
    call = {"name": "lab__shout", "args": {"text": "hi"}}
    with ScriptedModel([{"text": "Now.", "tool_calls": [call]}, {"text": "ok"}]) as model:
        outcome = run(bench, model, mcp_config=json.dumps(config), images=(str(image),))
        body = json.dumps(model.requests[0].body)
    (end,) = [event for event in outcome.events if isinstance(event, ev.ToolExecutionEnd)]
    assert (end.is_error, "HI" in str(end.result)) == (False, True)
    assert '"type": "image"' in body


def test_a_budget_without_a_price_ends_at_the_first_call(bench: AgentBench) -> None:
    calls = [{"text": f"Call {n}.", "shell": f"echo x > {n}.txt"} for n in range(4)]
    with ScriptedModel([*calls, {"text": "Done."}]) as model:
        outcome = run(bench, model, budget_usd=1.0)
        assert len(model.requests) <= 2, "at most one call beyond the first that has no price"
    assert (outcome.result.status, outcome.error_kind) == ("budget_exceeded", "budget_exceeded")
    assert outcome.result.error is not None
    assert "not known" in outcome.result.error.message
