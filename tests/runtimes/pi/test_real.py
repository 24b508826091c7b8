"""The real Pi, in each pinned version, against the scripted model."""

import json
import os
import signal
import sys
import threading
from typing import Any

import pytest

from bridle.core import events as ev
from bridle.core.errors import UnsupportedOption
from bridle.core.options import Provider
from bridle.core.usage import Usage
from bridle.process.process_tree import marked_processes
from bridle.testing import ScriptedModel
from bridle.testing.bench import AgentBench
from bridle.testing.contract import kinds
from bridle.testing.request_log import key_marker
from tests.process.children import children_of_ours
from tests.runtimes.pi.real import agent_dir, login, prepare_real, run_real
from tests.runtimes.products import ONE_PNG
from tests.runtimes.scripts import SCRIPT, SCRIPT_STEPS
from tests.support.mcp_server import MCP_SERVER
from tests.support.real_cli import versions

pytestmark = [
    pytest.mark.real_cli,
    pytest.mark.timeout(600),
    pytest.mark.parametrize("version", versions("pi")),
]


def sleeping(seconds: int = 60) -> list[dict[str, Any]]:
    """A script whose tool sleeps, with a child of its own."""
    command = f"sleep {seconds} & sleep {seconds}; wait"
    call = {"name": "bash", "args": {"command": command, "timeout": 120}}
    return [{"text": "Waiting.", "tool_calls": [call]}, {"text": "Never said."}]


def test_one_script(version: str, bench: AgentBench) -> None:
    with ScriptedModel(SCRIPT) as model:
        outcome = run_real(version, bench, model)
        model.assert_finished()
    result = outcome.result
    assert outcome.steps == SCRIPT_STEPS
    assert (result.status, result.exit_code, result.error) == ("completed", 0, None)
    assert result.usage == Usage(
        input_tokens=800, output_tokens=100, cache_read_tokens=100, cache_write_tokens=5
    )
    assert result.text == "Done. ORCHESTRA_COMPLETE"
    assert result.marker_detected
    assert result.model == "anthropic/claude-sonnet-4-6"
    assert (result.cost_source, result.runtime_version) == ("provider", version)
    expected = (800 * 3 + 100 * 15 + 100 * 0.3 + 5 * 3.75) / 1e6
    assert result.cost_usd == pytest.approx(expected)
    assert (bench.work / "shell.txt").read_text() == "made by shell\n"
    assert not agent_dir(bench).exists()
    if outcome.plan.native_session_id is not None:
        assert result.native_session_id == result.session_id


def test_other_providers_are_served_too(version: str, bench: AgentBench) -> None:
    for name in ("openai/gpt-5", "somebody/model-1", "claude-never-heard-of"):
        with ScriptedModel(SCRIPT) as model:
            outcome = run_real(version, bench, model, model=name)
        assert outcome.result.status == "completed", name
        assert outcome.result.model == (name if "/" in name else f"anthropic/{name}")
        assert outcome.result.usage.input_tokens >= 800


@pytest.mark.parametrize(
    "prompt",
    ["-p --help", "--version", "@/etc/hostname", "@nothing", "/unknown word", "ünï\u2028cödé\n\nx"],
)
def test_any_prompt_passes_unchanged(version: str, bench: AgentBench, prompt: str) -> None:
    with ScriptedModel([{"text": "ok"}]) as model:
        outcome = run_real(version, bench, model, prompt=prompt)
        assert model.prompts() == [prompt]
    assert outcome.result.status == "completed"


def test_a_prompt_of_a_megabyte(version: str, bench: AgentBench) -> None:
    prompt = "-" + "0123456789abcde\n" * 65536 + "end"
    with ScriptedModel([{"text": "ok"}]) as model:
        outcome = run_real(version, bench, model, prompt=prompt)
        assert model.prompts() == [prompt]
    assert outcome.result.status == "completed"
    assert all(len(word) < 1000 for word in outcome.plan.spec.argv)


def system_of(model: ScriptedModel) -> str:
    return json.dumps([request.body for request in model.requests if request.body])


def test_system_prompts(version: str, bench: AgentBench) -> None:
    extra = bench.home / "extra.md"
    extra.write_text("marker-from-file")
    with ScriptedModel([{"text": "ok"}]) as model:
        run_real(
            version,
            bench,
            model,
            append_system_prompt="marker-appended",
            append_system_prompt_file=str(extra),
        )
        said = system_of(model)
    assert "marker-appended" in said
    assert "marker-from-file" in said
    assert "coding" in said
    with ScriptedModel([{"text": "ok"}]) as model:
        run_real(version, bench, model, system_prompt="You are marker-replaced.")
        replaced = system_of(model)
    assert "marker-replaced" in replaced
    assert len(replaced) < len(said)


def tools_of(model: ScriptedModel) -> set[str]:
    return {tool["name"] for tool in model.requests[-1].body.get("tools", [])}


def test_tools(version: str, bench: AgentBench) -> None:
    for options, expected in (
        ({}, {"read", "bash", "edit", "write"}),
        ({"allowed_tools": ("read", "grep")}, {"read", "grep"}),
        ({"denied_tools": ("bash",)}, {"read", "edit", "write"}),
        ({"allowed_tools": ("read", "bash"), "denied_tools": ("bash",)}, {"read"}),
    ):
        with ScriptedModel([{"text": "ok"}]) as model:
            run_real(version, bench, model, **options)
            assert tools_of(model) == expected


def test_an_image(version: str, bench: AgentBench) -> None:
    picture = bench.work / "p.png"
    picture.write_bytes(ONE_PNG)
    with ScriptedModel([{"text": "ok"}]) as model:
        outcome = run_real(version, bench, model, images=(str(picture),), prompt="Look.")
        content = model.requests[0].body["messages"][-1]["content"]
    assert outcome.result.status == "completed"
    assert [block["type"] for block in content] == ["text", "image"]
    assert content[0]["text"].startswith("Look.")
    assert content[1]["source"]["media_type"] == "image/png"


def test_the_users_files_are_as_they_were(version: str, bench: AgentBench) -> None:
    with ScriptedModel([{"text": "ok"}]) as model:
        login(
            bench,
            model,
            settings={"defaultThinkingLevel": "low", "theme": "light", "retry": {"maxRetries": 1}},
            auth={"anthropic": {"type": "api_key", "key": "users-anthropic-key"}},
        )
        (agent_dir(bench) / "AGENTS.md").write_text("Be polite.\n")
        before = bench.files()
        for options in (
            {},
            {"provider_options": {"thinking": "high", "max_retries": 0}},
            {"settings": '{"theme": "dark"}', "system_prompt": "x"},
        ):
            outcome = run_real(version, bench, model="lab/scripted", **options)
            assert outcome.result.status == "completed"
            assert outcome.result.model == "lab/scripted"
        assert len(model.requests) == 3
    after = {name: text for name, text in bench.files().items() if "/sessions/" not in name}
    assert {name: after.get(name) for name in before} == before
    # The newer version keeps a catalogue of models of its own there.
    assert set(after) - set(before) <= {".pi/agent/models-store.json"}


def test_a_conversation_goes_on(version: str, bench: AgentBench) -> None:
    with ScriptedModel([{"text": "The word is plum."}, {"text": "It was plum."}]) as model:
        login(bench, model)
        first = run_real(version, bench, prompt="Choose a word.", model="lab/scripted")
        native = first.result.native_session_id
        assert native
        second = run_real(
            version,
            bench,
            prompt="Which word?",
            model="lab/scripted",
            resume=native,
            provider_options={"max_retries": 1},
        )
        said = json.dumps(model.requests[-1].body)
    assert second.result.native_session_id == native
    assert second.result.text == "It was plum."
    assert "Choose a word." in said
    assert "The word is plum." in said


def test_a_copy_of_a_conversation(version: str, bench: AgentBench) -> None:
    with ScriptedModel([{"text": "The word is plum."}, {"text": "Plum."}]) as model:
        login(bench, model)
        first = run_real(version, bench, prompt="Choose a word.", model="lab/scripted")
        native = first.result.native_session_id
        [record] = agent_dir(bench).rglob(f"*_{native}.jsonl")
        written = record.read_bytes()
        copy = run_real(
            version,
            bench,
            prompt="Which word?",
            model="lab/scripted",
            resume=native,
            provider_options={"fork": True},
        )
        assert "Choose a word." in json.dumps(model.requests[-1].body)
    assert (copy.result.status, copy.result.text) == ("completed", "Plum.")
    assert copy.result.native_session_id not in (None, native)
    assert copy.result.usage == first.result.usage
    assert record.read_bytes() == written


def test_a_provider_gets_its_own_key_only(version: str, bench: AgentBench) -> None:
    with ScriptedModel([{"text": "ok"}, {"text": "ok"}]) as model:
        agent_dir(bench).mkdir(parents=True)
        auth = {"anthropic": {"type": "api_key", "key": "users-saved-key"}}
        (agent_dir(bench) / "auth.json").write_text(json.dumps(auth))
        env = {"GATEWAY": "the-gateway-key", "ANTHROPIC_API_KEY": "users-variable-key"}
        provider = Provider(base_url=model.url, auth_token_env="GATEWAY")
        for name in ("sonnet", "gate/some-model"):
            outcome = run_real(version, bench, model=name, provider=provider, environ=env)
            assert outcome.result.status == "completed"
        keys = {request.headers["x-api-key"] for request in model.requests}
    assert keys == {key_marker("the-gateway-key")}


EXTENSION = """
import { writeFileSync } from "node:fs";
export default function (pi) { writeFileSync(process.env.WITNESS, "loaded"); }
"""


def test_a_projects_extension_runs_only_when_trusted(version: str, bench: AgentBench) -> None:
    (bench.work / ".pi" / "extensions").mkdir(parents=True)
    (bench.work / ".pi" / "extensions" / "witness.ts").write_text(EXTENSION)
    witness = bench.home / "witness"
    for trusted in (False, True):
        with ScriptedModel([{"text": "ok"}]) as model:
            outcome = run_real(
                version,
                bench,
                model,
                environ={"WITNESS": str(witness)},
                provider_options={"trust_project": trusted},
            )
        assert outcome.result.status == "completed"
        assert witness.exists() is trusted


def test_the_limit_of_turns(version: str, bench: AgentBench) -> None:
    turns = [{"text": f"Step {n}.", "shell": f"echo {n} >> steps"} for n in range(3)]
    late = {"text": "Late.", "shell": "echo late >> steps", "fault": {"delay": 30}}
    with ScriptedModel([*turns[:2], late, {"text": "done"}]) as model:
        outcome = run_real(version, bench, model, max_turns=2)
    assert outcome.error_kind == "budget_exceeded"
    assert outcome.result.status == "budget_exceeded"
    assert len((bench.work / "steps").read_text().splitlines()) == 2
    with ScriptedModel([turns[0], {"text": "done"}]) as model:
        assert run_real(version, bench, model, max_turns=2).result.status == "completed"


def test_the_budget(version: str, bench: AgentBench) -> None:
    used = {"input_tokens": 100000, "output_tokens": 10}
    turn = {"text": "Spending.", "shell": "sleep 5", "usage": used}
    with ScriptedModel([turn] * 5) as model:
        outcome = run_real(version, bench, model, budget_usd=0.2)
    assert outcome.error_kind == "budget_exceeded"
    assert outcome.result.cost_usd == pytest.approx(0.30015)
    # Also when it is the last call that is too much.
    with ScriptedModel([{"text": "Done.", "usage": used}]) as model:
        outcome = run_real(version, bench, model, budget_usd=0.001)
    assert (outcome.result.status, outcome.result.exit_status) == ("budget_exceeded", 8)
    assert outcome.result.text == "Done."


def test_no_price_no_budget(version: str, bench: AgentBench) -> None:
    with ScriptedModel([{"text": "one", "shell": "true"}, {"text": "ok"}]) as model:
        outcome = run_real(version, bench, model, model="somebody/free", budget_usd=1.0)
    assert outcome.error_kind == "budget_exceeded"
    assert outcome.result.cost_usd is None


def test_a_timeout_leaves_no_tool_behind(version: str, bench: AgentBench) -> None:
    # How long the agent takes to reach its tool depends on the machine; give it more if need be.
    for timeout in (6.0, 20.0, 60.0):
        with ScriptedModel(sleeping()) as model:
            outcome = run_real(version, bench, model, timeout=timeout)
        assert (outcome.error_kind, outcome.result.status) == ("timeout", "timed_out")
        starts = [event for event in outcome.events if isinstance(event, ev.ToolExecutionStart)]
        ends = [event for event in outcome.events if isinstance(event, ev.ToolExecutionEnd)]
        assert len(starts) == len(ends)
        if starts:
            return
    pytest.fail("the tool was never reached")


def test_a_model_that_falls_silent(version: str, bench: AgentBench) -> None:
    fault = {"stall": 60}
    with ScriptedModel([{"text": "a text that never ends", "fault": fault}]) as model:
        outcome = run_real(version, bench, model, timeout=6.0)
    assert outcome.error_kind == "timeout", outcome.result


def test_killed_in_mid_tool(version: str, bench: AgentBench) -> None:
    with ScriptedModel(sleeping()) as model:
        prepared = prepare_real(version, bench, model)
        events = []
        for event in prepared.run.events():
            events.append(event)
            if isinstance(event, ev.ToolExecutionStart):
                # A tool's process looks like the agent until it has its own program.
                ours = set(children_of_ours())
                (agent,) = ours.intersection(marked_processes(prepared.plan.session_id))
                os.kill(agent, signal.SIGKILL)
    result = prepared.run.result
    assert result.error is not None
    assert result.error.kind == "crashed"
    assert result.exit_code == -signal.SIGKILL
    assert marked_processes(prepared.plan.session_id) == []
    assert kinds(events)[-1] == "session_end"


def test_aborted_by_the_caller(version: str, bench: AgentBench) -> None:
    with ScriptedModel(sleeping()) as model:
        prepared = prepare_real(version, bench, model)
        for event in prepared.run.events():
            if isinstance(event, ev.ToolExecutionStart):
                threading.Thread(target=prepared.run.abort).start()
    assert prepared.run.result.status == "aborted"
    assert marked_processes(prepared.plan.session_id) == []


def test_nobody_to_ask_is_a_refusal(version: str, bench: AgentBench) -> None:
    (bench.work / "seed.txt").write_text("seed\n")
    turns = [
        {"text": "Reading.", "read_file": "seed.txt"},
        {"text": "Writing.", "write_file": {"path": "out.txt", "content": "x"}},
        {"text": "Running.", "shell": "touch ran"},
        {"text": "I may not."},
    ]
    with ScriptedModel(turns) as model:
        outcome = run_real(version, bench, model, permission_mode="ask")
        told = [result.text for result in model.tool_results()]
    assert outcome.result.status == "completed"
    assert sorted(path.name for path in bench.work.iterdir()) == [".git", "seed.txt"]
    ends = [event for event in outcome.events if isinstance(event, ev.ToolExecutionEnd)]
    assert [end.is_error for end in ends] == [False, True, True]
    decisions = [event for event in outcome.events if isinstance(event, ev.PermissionDecision)]
    assert [(one.tool_name, one.decision) for one in decisions] == [
        ("write", "deny"),
        ("bash", "deny"),
    ]
    assert "seed" in told[0]
    assert all("Nobody is there" in text for text in told[1:])


NEVER = """
export default function (pi) { pi.on("tool_call", () => new Promise(() => {})); }
"""


def test_a_handler_that_never_answers(version: str, bench: AgentBench) -> None:
    extension = bench.home / "never.ts"
    extension.write_text(NEVER)
    with ScriptedModel([{"text": "Now.", "shell": "echo hi"}, {"text": "ok"}]) as model:
        outcome = run_real(version, bench, model, raw_args=("-e", str(extension)))
    assert outcome.error_kind == "crashed"
    assert outcome.result.exit_code == 0


def test_no_login(version: str, bench: AgentBench) -> None:
    outcome = run_real(version, bench, model="sonnet")
    assert outcome.error_kind == "not_authenticated"
    outcome = run_real(version, bench)
    assert outcome.error_kind == "not_authenticated"


def test_an_unknown_provider_and_an_unknown_flag(version: str, bench: AgentBench) -> None:
    with ScriptedModel([{"text": "ok"}]) as model:
        login(bench, model)
        outcome = run_real(version, bench, model="nobody/x")
        assert outcome.error_kind == "unavailable"
        assert "nobody/x" in outcome.result.error.hint if outcome.result.error else False
        outcome = run_real(version, bench, model="lab/scripted", raw_args=("-zz",))
        assert outcome.error_kind == "protocol_drift"
        assert model.requests == []


def test_an_mcp_server_of_the_run(version: str, bench: AgentBench) -> None:
    server = bench.home / "server.py"
    server.write_text(MCP_SERVER)
    config = {"mcpServers": {"lab": {"command": sys.executable, "args": [str(server)]}}}
    call = {"name": "mcp__lab__shout", "args": {"text": "hi"}}
    with ScriptedModel([{"text": "Now.", "tool_calls": [call]}, {"text": "ok"}]) as model:
        if version == "0.74.2":
            with pytest.raises(UnsupportedOption, match="mcp_config"):
                run_real(version, bench, model, mcp_config=json.dumps(config))
            return
        outcome = run_real(version, bench, model, mcp_config=json.dumps(config))
    (end,) = [event for event in outcome.events if isinstance(event, ev.ToolExecutionEnd)]
    assert end.result == "HI"
    assert outcome.result.status == "completed"


def test_a_structured_answer_that_is_repaired(version: str, bench: AgentBench) -> None:
    """Pi has no schema of its own: the prompt asks, and the conversation is resumed once."""
    schema = {"type": "object", "required": ["files"], "properties": {"files": {"type": "array"}}}
    with ScriptedModel([{"text": "It is a.py."}, {"text": '{"files": ["a.py"]}'}]) as model:
        outcome = run_real(version, bench, model, output_schema=schema)
        model.assert_finished()
        asked = [str(request.body) for request in model.requests]
    assert outcome.result.status == "completed"
    assert outcome.result.structured == {"files": ["a.py"]}
    assert "fits this JSON Schema" in asked[0]
    assert "It is a.py." in asked[1], "the conversation goes on"
    assert "the answer is not JSON" in asked[1]
