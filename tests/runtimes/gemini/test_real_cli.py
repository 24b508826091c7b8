"""The real Gemini CLI against the scripted model: what only the CLI itself can prove."""

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from bridle.core import events as ev
from bridle.core.options import Provider
from bridle.core.results import GuardReport
from bridle.runtimes.gemini.command import config_dir
from bridle.runtimes.gemini.transcript import chats_dir, parse_transcript
from bridle.testing import ScriptedModel
from tests.runtimes.gemini.support import real_runtime
from tests.support.driving import own_place
from tests.support.mcp_server import MCP_SERVER
from tests.support.real_bench import RealBench, Script, check_stored

pytestmark = pytest.mark.real_cli


@pytest.fixture
def bench() -> Iterator[RealBench]:
    with own_place("gemini") as place:
        yield RealBench(real_runtime(), place)


def test_the_common_script(bench: RealBench) -> None:
    (bench.place.repo / "GEMINI.md").write_text("PROJECT-RULE")
    outcome, model = bench.run_common_script("web_fetch")
    assert outcome.result.model == "gemini-2.5-pro"
    assert outcome.result.native_session_id == outcome.result.session_id
    asked = model.requests[0].question
    assert asked is not None
    assert asked.system == "MY-BASE"
    context = "\n".join(asked.user_texts)
    assert "MY-ADDITION" in context
    assert "PROJECT-RULE" in context
    assert not (bench.place.home / ".gemini").exists()


def test_a_long_line_is_not_lost_at_the_end(bench: RealBench) -> None:
    command = "head -c 3000000 /dev/zero | tr '\\0' x; echo; echo end"
    outcome, _ = bench.run([{"shell": command}, {"text": "Seen."}], permission_mode="bypass")
    assert outcome.result.status == "completed", outcome.result.error
    (end,) = [event for event in outcome.events if isinstance(event, ev.ToolExecutionEnd)]
    assert len(str(end.result)) > 3_000_000


def test_tools_of_every_kind_and_only_those_allowed(bench: RealBench) -> None:
    script: Script = [
        {"write_file": {"path": "a.txt", "content": "one\n"}},
        {"read_file": "a.txt"},
        {"edit_file": {"path": "a.txt", "old": "one\n", "new": "two\n"}},
        {"text": "Done."},
    ]
    names = ("write_file", "read_file", "replace")
    outcome, model = bench.run(script, permission_mode="bypass", allowed_tools=names)
    assert outcome.result.status == "completed", outcome.result.error
    assert (bench.place.repo / "a.txt").read_text() == "two\n"
    ends = [event for event in outcome.events if isinstance(event, ev.ToolExecutionEnd)]
    assert [(end.tool_name, end.is_error) for end in ends] == [(name, False) for name in names]
    asked = model.requests[0].question
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
    bench: RealBench, fault: dict[str, Any], kind: str, retries: int
) -> None:
    bench.check_fault(fault, kind, retries)


def test_a_long_wait_that_the_service_asks_for_is_not_waited_for(bench: RealBench) -> None:
    bench.check_long_wait(300)


def test_a_tool_that_runs_when_the_agent_is_stopped_is_gone_with_it(bench: RealBench) -> None:
    bench.check_stop_in_a_tool()


def test_without_permission_the_tools_are_not_offered(bench: RealBench) -> None:
    call = {"name": "write_file", "args": {"file_path": "a.txt", "content": "x"}, "unchecked": True}
    outcome, _ = bench.run([{"tool_calls": [call]}, {"text": "Then not."}])
    assert outcome.result.status == "completed"
    assert not (bench.place.repo / "a.txt").exists()
    (decision,) = [event for event in outcome.events if isinstance(event, ev.PermissionDecision)]
    assert decision.decision == "deny"


def test_the_users_own_home_resume_and_files(bench: RealBench) -> None:
    """One session in the user's home, gone on with later; the user's files stay as they are."""
    folder = bench.place.home / ".gemini"
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
        first, again = bench.check_resumed(lambda _: other, env=env, **options)
        assert first.result.model == "gemini-2.5-flash"
        asked = model.requests[0].question
        assert asked is not None
        assert "GLOBAL-RULE" in asked.system
        assert (folder / "settings.json").read_text() == mine
        assert (folder / "GEMINI.md").read_text() == "GLOBAL-RULE"
        chats = chats_dir(config_dir(bench.place.env()), str(bench.place.repo))
        assert chats is not None
        (transcript,) = Path(chats).glob("*.jsonl")
        check_stored(parse_transcript(str(transcript)), first, again)


def test_a_refused_connection_ends(bench: RealBench) -> None:
    outcome = bench.drive(
        env={"LAB_KEY": "the-users-own-key"},
        provider=Provider(base_url="http://127.0.0.1:9", auth_token_env="LAB_KEY"),
        provider_options={"max_retries": 1},
    )
    assert outcome.kind == "unavailable"


def test_what_goes_by_settings_works_in_the_users_own_home(bench: RealBench) -> None:
    """Allowed tools, MCP servers and the guard, beside what the user has in the same settings."""
    place = bench.place
    folder, marker = place.home / ".gemini", place.repo / "hooked"
    folder.mkdir()
    server = place.home / "server.py"
    server.write_text(MCP_SERVER)
    hook = {"type": "command", "command": f"touch {marker}"}
    text = f"// mine\n{json.dumps({'hooks': {'AfterTool': [{'hooks': [hook]}]}})}\n"
    (folder / "settings.json").write_text(text)
    script: Script = [
        {"shell": "echo hi > inside.txt"},
        {"shell": f"echo bad > {place.home}/outside.txt"},
        {"tool_calls": [{"name": "mcp_lab_shout", "args": {"text": "loud"}}]},
        {"text": "Done."},
    ]
    allowed = ("run_shell_command", "mcp_lab_shout")
    with ScriptedModel(script) as model:
        outcome = bench.drive(
            env={"LAB_KEY": "the-users-own-key"},
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
    assert (place.repo / "inside.txt").exists()
    assert not (place.home / "outside.txt").exists()
    assert marker.exists(), "the user's own hook ran"
    assert (folder / "settings.json").read_text() == text


def test_a_confined_agent_cannot_change_the_settings_it_runs_with(bench: RealBench) -> None:
    script: Script = [
        {"shell": 'echo "{}" > "$GEMINI_CLI_HOME/.gemini/settings.json"'},
        {"shell": 'rm "$GEMINI_CLI_HOME/.gemini/settings.json"'},
        {"text": "Tried."},
    ]
    outcome, _ = bench.run(script, permission_mode="bypass", sandbox="worktree")
    assert outcome.result.status == "completed", outcome.result.error
    ends = [event for event in outcome.events if isinstance(event, ev.ToolExecutionEnd)]
    said = [str(end.result) for end in ends]
    assert "Read-only file system" in said[0]
    assert "busy" in said[1] or "Read-only file system" in said[1]
