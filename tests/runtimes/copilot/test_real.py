"""The real Copilot CLI against the scripted model."""

import json
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from bridle.core import events as ev
from bridle.core.options import Provider
from bridle.core.usage import Usage
from bridle.process.process_tree import marked_processes
from bridle.runtimes import deployment
from bridle.testing import ScriptedModel
from bridle.testing.bench import AgentBench, AgentRun
from bridle.testing.request_log import key_marker
from tests.runtimes.products import ONE_PNG
from tests.runtimes.scripts import SCRIPT, SCRIPT_STEPS
from tests.support.mcp_server import MCP_SERVER
from tests.support.real_cli import newest, versions

pytestmark = pytest.mark.real_cli

SLEEPING = [
    {"text": "Waiting.", "shell": "sleep 60 & sleep 61; wait"},
    {"text": "Never said."},
]


def run(bench: AgentBench, model: ScriptedModel | None = None, /, **options: Any) -> AgentRun:
    return bench.run(newest("copilot"), model, **options)


def test_one_script(bench: AgentBench) -> None:
    with ScriptedModel(SCRIPT) as model:
        outcome = run(bench, model)
        model.assert_finished()
    result = outcome.result
    assert outcome.steps == SCRIPT_STEPS
    assert (result.status, result.exit_code, result.error) == ("completed", 0, None)
    assert result.usage == Usage(
        input_tokens=800, output_tokens=100, cache_read_tokens=100, cache_write_tokens=5
    )
    assert (result.text, result.marker_detected) == ("Done. ORCHESTRA_COMPLETE", True)
    assert (result.model, result.runtime_version) == ("scripted", versions("copilot")[-1])
    assert result.native_session_id == result.session_id
    assert (bench.work / "shell.txt").read_text() == "made by shell\n"
    assert not (bench.home / ".copilot").exists(), "the user's home stays as it is"


@pytest.mark.parametrize(
    ("fault", "kind"),
    [
        ({"status": 401}, "not_authenticated"),
        ({"status": 429, "retry_after": 1}, "rate_limited"),
        ({"status": 529}, "overloaded"),
        ({"kind": "context_overflow"}, "context_overflow"),
    ],
)
def test_faults(bench: AgentBench, fault: dict[str, Any], kind: str) -> None:
    with ScriptedModel([{"fault": fault}]) as model:
        outcome = run(bench, model, provider_options={"max_retries": 1})
    assert outcome.error_kind == kind
    if kind == "rate_limited":
        assert outcome.result.error is not None
        assert outcome.result.error.until is not None
    retries = [event for event in outcome.events if isinstance(event, ev.Retry)]
    assert len(retries) <= 1


def test_nobody_listens(bench: AgentBench) -> None:
    with ScriptedModel([{"text": "x"}]) as model:
        url = model.url
    provider = Provider(base_url=f"{url}/v1")
    outcome = run(bench, provider=provider, model="m", provider_options={"max_retries": 1})
    assert outcome.error_kind == "unavailable"


def test_an_answer_that_is_cut_again_and_again(bench: AgentBench) -> None:
    with ScriptedModel([{"text": "cut", "stop_reason": "max_tokens"}] * 4) as model:
        outcome = run(bench, model)
    assert outcome.error_kind == "context_overflow"


def test_an_abort_leaves_no_tool_behind(bench: AgentBench) -> None:
    with ScriptedModel(SLEEPING) as model:
        prepared = bench.prepare(newest("copilot"), model)
        for event in prepared.run.events():
            if isinstance(event, ev.ToolExecutionStart):
                threading.Thread(target=prepared.run.abort).start()
    assert prepared.run.result.status == "aborted"
    assert prepared.run.result.usage.output_tokens > 0
    assert marked_processes(prepared.plan.session_id) == []


def parent_of(pid: int) -> int:
    try:
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    except OSError:
        return 0


def test_killed_in_mid_tool(bench: AgentBench) -> None:
    with ScriptedModel(SLEEPING) as model:
        prepared = bench.prepare(newest("copilot"), model)
        for event in prepared.run.events():
            if isinstance(event, ev.ToolExecutionStart):
                marked = marked_processes(prepared.plan.session_id)
                (agent,) = [pid for pid in marked if parent_of(pid) == os.getpid()]
                os.kill(agent, signal.SIGKILL)
    result = prepared.run.result
    assert result.error is not None
    assert (result.error.kind, result.exit_code) == ("crashed", -signal.SIGKILL)
    assert marked_processes(prepared.plan.session_id) == []


def test_a_provider_and_a_conversation_that_goes_on(bench: AgentBench) -> None:
    """On the user's own home: routed by variables alone, configuration untouched."""
    home = bench.home / ".copilot"
    home.mkdir()
    (home / "settings.json").write_text('{"theme": "dark"}\n')
    before = bench.files(".copilot")
    env = {"GATEWAY": "the-gateway-key", "COPILOT_PROVIDER_BEARER_TOKEN": "another-service"}
    with ScriptedModel([{"text": "one"}, {"text": "two"}]) as model:
        provider = Provider(base_url=f"{model.url}/v1", auth_token_env="GATEWAY")
        first = run(
            bench,
            provider=provider,
            model="m-1",
            environ=env,
            prompt="-x @nothing /help\nünï",
            append_system_prompt="Say MANGO.",
        )
        native = first.result.native_session_id
        second = run(bench, provider=provider, model="m-1", environ=env, resume=native)
        bodies = [request.body for request in model.requests]
        keys = {request.headers["authorization"] for request in model.requests}
    assert (first.result.text, second.result.text) == ("one", "two")
    assert second.result.native_session_id == native
    assert keys == {key_marker("Bearer the-gateway-key")} or keys == {key_marker("the-gateway-key")}
    assert "Say MANGO." in json.dumps(bodies[0])
    assert "-x @nothing /help\\nünï" in json.dumps(bodies[0], ensure_ascii=False)
    assert len(bodies[1]["messages"]) > len(bodies[0]["messages"])
    assert second.result.usage.output_tokens == 20, "only what this run used"
    after = bench.files(".copilot")
    assert {name: after[name] for name in before} == before


def test_nobody_to_ask_and_tools_that_are_refused(bench: AgentBench) -> None:
    turns = [
        {"text": "Writing.", "write_file": {"path": "out.txt", "content": "x"}},
        {"text": "I may not."},
    ]
    with ScriptedModel(turns) as model:
        outcome = run(
            bench,
            model,
            permission_mode="ask",
            environ={"COPILOT_ALLOW_ALL": "true"},
            denied_tools=("grep", "shell(git push)"),
        )
        offered = {tool["function"]["name"] for tool in model.requests[0].body["tools"]}
    assert outcome.result.status == "completed"
    assert not (bench.work / "out.txt").exists()
    (decision,) = [event for event in outcome.events if isinstance(event, ev.PermissionDecision)]
    assert decision.decision == "deny"
    assert "grep" not in offered
    assert "bash" in offered


def test_an_image_and_an_mcp_server(bench: AgentBench) -> None:
    server = bench.home / "server.py"
    server.write_text(MCP_SERVER)
    config = {"mcpServers": {"lab": {"command": sys.executable, "args": [str(server)]}}}
    image = bench.home / "a picture.png"
    image.write_bytes(ONE_PNG)
    call = {"name": "lab-shout", "args": {"text": "hi"}}
    with ScriptedModel([{"text": "Now.", "tool_calls": [call]}, {"text": "ok"}]) as model:
        outcome = run(
            bench,
            model,
            mcp_config=json.dumps(config),
            images=(str(image),),
            allowed_tools=("lab-shout",),
        )
        body = json.dumps(model.requests[0].body)
    (end,) = [event for event in outcome.events if isinstance(event, ev.ToolExecutionEnd)]
    assert (end.is_error, "HI" in str(end.result)) == (False, True)
    assert "image_url" in body


def test_no_login_and_an_unknown_flag(bench: AgentBench) -> None:
    assert run(bench, environ={"COPILOT_OFFLINE": ""}).error_kind == "not_authenticated"
    assert run(bench, raw_args=("--zz",)).error_kind == "protocol_drift"


def test_instructions_that_were_deployed_are_read(bench: AgentBench) -> None:
    from bridle.core.options import HooksDef, OverlayContent

    hooks = HooksDef(agent_name="a", capability="builder", worktree_path=str(bench.work))
    runtime = newest("copilot")
    for text, name in (("PEAR", "copilot-instructions.md"), ("PLUM", "bridle.instructions.md")):
        overlay = OverlayContent(content=f"Say {text}.")
        (path,) = deployment.deploy(runtime, str(bench.work), overlay, hooks)
        assert Path(path).name == name
        subprocess.run(["git", "add", "-f", "."], cwd=bench.work, check=True)
    with ScriptedModel([{"text": "ok"}]) as model:
        bench.run(runtime, model)
        body = json.dumps(model.requests[0].body)
    assert "Say PEAR." in body
    assert "Say PLUM." in body
