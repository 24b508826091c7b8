"""The real Gemini CLI against the scripted model: what only the CLI itself can prove."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from bridle.core import events as ev
from bridle.core.options import Provider
from bridle.core.results import GuardReport
from bridle.runtimes.gemini.command import config_dir
from bridle.runtimes.gemini.transcript import chats_dir, parse_transcript
from bridle.testing import ScriptedModel
from bridle.testing.bench import AgentBench
from tests.support.mcp_server import MCP_SERVER
from tests.support.real_agent import RealAgent, Script, check_stored
from tests.support.real_cli import newest

pytestmark = pytest.mark.real_cli


@pytest.fixture
def agent(bench: AgentBench) -> RealAgent:
    return RealAgent(newest("gemini"), bench)


def test_the_common_script(agent: RealAgent) -> None:
    (agent.bench.work / "GEMINI.md").write_text("PROJECT-RULE")
    outcome = agent.run_common_script("web_fetch")
    assert outcome.result.model == "gemini-2.5-pro"
    assert outcome.result.native_session_id == outcome.result.session_id
    asked = outcome.requests[0].question
    assert asked is not None
    assert asked.system == "MY-BASE"
    context = "\n".join(asked.user_texts)
    assert "MY-ADDITION" in context
    assert "PROJECT-RULE" in context
    assert not (agent.bench.home / ".gemini").exists()


def test_a_long_line_is_not_lost_at_the_end(agent: RealAgent) -> None:
    command = "head -c 3000000 /dev/zero | tr '\\0' x; echo; echo end"
    outcome = agent.run([{"shell": command}, {"text": "Seen."}], permission_mode="bypass")
    assert outcome.result.status == "completed", outcome.result.error
    (end,) = [event for event in outcome.events if isinstance(event, ev.ToolExecutionEnd)]
    assert len(str(end.result)) > 3_000_000


def test_tools_of_every_kind_and_only_those_allowed(agent: RealAgent) -> None:
    script: Script = [
        {"write_file": {"path": "a.txt", "content": "one\n"}},
        {"read_file": "a.txt"},
        {"edit_file": {"path": "a.txt", "old": "one\n", "new": "two\n"}},
        {"text": "Done."},
    ]
    names = ("write_file", "read_file", "replace")
    outcome = agent.run(script, permission_mode="bypass", allowed_tools=names)
    model = outcome.model
    assert model is not None
    assert outcome.result.status == "completed", outcome.result.error
    assert (agent.bench.work / "a.txt").read_text() == "two\n"
    ends = [event for event in outcome.events if isinstance(event, ev.ToolExecutionEnd)]
    assert [(end.tool_name, end.is_error) for end in ends] == [(name, False) for name in names]
    asked = outcome.requests[0].question
    assert asked is not None
    assert {tool.name for tool in asked.tools} == set(names)
    model.assert_finished()


@pytest.mark.parametrize(
    ("fault", "kind", "retries"),
    [
        ({"status": 401}, "not_authenticated", 0),
        ({"kind": "authentication"}, "not_authenticated", 0),
        ({"kind": "context_overflow"}, "context_overflow", 0),
        ({"status": 500}, "unavailable", 1),
        ({"kind": "overloaded"}, "overloaded", 1),
        ({"cut": True}, "unavailable", 0),
    ],
)
def test_a_failing_service_ends_the_run_with_its_reason(
    agent: RealAgent, fault: dict[str, Any], kind: str, retries: int
) -> None:
    agent.check_fault(fault, kind, retries)


def test_a_long_wait_that_the_service_asks_for_is_not_waited_for(agent: RealAgent) -> None:
    agent.check_long_wait(300)


def test_a_tool_that_runs_when_the_agent_is_stopped_is_gone_with_it(agent: RealAgent) -> None:
    agent.check_stop_in_a_tool()


def test_without_permission_the_tools_are_not_offered(agent: RealAgent) -> None:
    call = {"name": "write_file", "args": {"file_path": "a.txt", "content": "x"}, "unchecked": True}
    outcome = agent.run([{"tool_calls": [call]}, {"text": "Then not."}])
    assert outcome.result.status == "completed"
    assert not (agent.bench.work / "a.txt").exists()
    (decision,) = [event for event in outcome.events if isinstance(event, ev.PermissionDecision)]
    assert decision.decision == "deny"


def test_the_users_own_home_resume_and_files(agent: RealAgent) -> None:
    """One session in the user's home, gone on with later; the user's files stay as they are."""
    folder = agent.bench.home / ".gemini"
    folder.mkdir()
    mine = json.dumps({"model": {"name": "gemini-2.5-flash"}, "ui": {"hideTips": True}})
    (folder / "settings.json").write_text(mine)
    (folder / "GEMINI.md").write_text("GLOBAL-RULE")
    with ScriptedModel([{"text": "One."}, {"text": "Two."}]) as model:
        options: dict[str, Any] = {
            "provider": Provider(base_url=model.url, auth_token_env="LAB_KEY"),
        }
        env = {"LAB_KEY": "the-users-own-key"}
        other = "0b5ad6d2-3c1f-4f0e-9a52-2f6f0d2f7a11"
        first, again = agent.check_resumed(lambda _: other, environ=env, **options)
        assert first.result.model == "gemini-2.5-flash"
        asked = model.requests[0].question
        assert asked is not None
        assert "GLOBAL-RULE" in asked.system
        assert (folder / "settings.json").read_text() == mine
        assert (folder / "GEMINI.md").read_text() == "GLOBAL-RULE"
        chats = chats_dir(config_dir(agent.bench.env), str(agent.bench.work))
        assert chats is not None
        (transcript,) = Path(chats).glob("*.jsonl")
        check_stored(parse_transcript(str(transcript)), first, again)


def test_a_refused_connection_ends(agent: RealAgent) -> None:
    outcome = agent.run(
        environ={"LAB_KEY": "the-users-own-key"},
        provider=Provider(base_url="http://127.0.0.1:9", auth_token_env="LAB_KEY"),
        provider_options={"max_retries": 1},
    )
    assert outcome.error_kind == "unavailable"


def test_what_goes_by_settings_works_in_the_users_own_home(agent: RealAgent) -> None:
    """Allowed tools, MCP servers and the guard, beside what the user has in the same settings."""
    folder, marker = agent.bench.home / ".gemini", agent.bench.work / "hooked"
    folder.mkdir()
    server = agent.bench.home / "server.py"
    server.write_text(MCP_SERVER)
    hook = {"type": "command", "command": f"touch {marker}"}
    text = f"// mine\n{json.dumps({'hooks': {'AfterTool': [{'hooks': [hook]}]}})}\n"
    (folder / "settings.json").write_text(text)
    script: Script = [
        {"shell": "echo hi > inside.txt"},
        {"shell": f"echo bad > {agent.bench.home}/outside.txt"},
        {"tool_calls": [{"name": "mcp_lab_shout", "args": {"text": "loud"}}]},
        {"text": "Done."},
    ]
    allowed = ("run_shell_command", "mcp_lab_shout")
    with ScriptedModel(script) as model:
        outcome = agent.run(
            environ={"LAB_KEY": "the-users-own-key"},
            provider=Provider(base_url=model.url, auth_token_env="LAB_KEY"),
            permission_mode="bypass",
            guard="builder",
            allowed_tools=allowed,
            mcp_config=json.dumps(
                {"mcpServers": {"lab": {"command": sys.executable, "args": [str(server)]}}}
            ),
        )
        assert outcome.result.status == "completed", outcome.result.error
        asked = model.requests[0].question
        assert asked is not None
        assert {tool.name for tool in asked.tools} == set(allowed)
    ends = [event for event in outcome.events if isinstance(event, ev.ToolExecutionEnd)]
    assert [end.is_error for end in ends] == [False, True, False]
    assert "LOUD" in str(ends[2].result)
    report = outcome.result.guard
    assert isinstance(report, GuardReport)
    assert (report.state, report.blocked) == ("live", 1)
    assert (agent.bench.work / "inside.txt").exists()
    assert not (agent.bench.home / "outside.txt").exists()
    assert marker.exists(), "the user's own hook ran"
    assert (folder / "settings.json").read_text() == text


def test_a_confined_agent_cannot_change_the_settings_it_runs_with(agent: RealAgent) -> None:
    script: Script = [
        {"shell": 'echo "{}" > "$GEMINI_CLI_HOME/.gemini/settings.json"'},
        {"shell": 'rm "$GEMINI_CLI_HOME/.gemini/settings.json"'},
        {"text": "Tried."},
    ]
    outcome = agent.run(script, permission_mode="bypass", sandbox="worktree")
    assert outcome.result.status == "completed", outcome.result.error
    ends = [event for event in outcome.events if isinstance(event, ev.ToolExecutionEnd)]
    said = [str(end.result) for end in ends]
    assert "Read-only file system" in said[0]
    assert "busy" in said[1] or "Read-only file system" in said[1]
