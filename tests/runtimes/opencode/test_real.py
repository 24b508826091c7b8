"""The real OpenCode against the scripted model: what only the CLI itself can prove."""

import json
from typing import Any

import pytest

from bridle.core.options import ModelServer, Provider
from bridle.runtimes.opencode.transcript import database_path, parse_transcript
from bridle.testing import ScriptedModel
from bridle.testing.bench import AgentBench
from tests.support.real_agent import RealAgent, Script, check_stored
from tests.support.real_cli import newest

pytestmark = pytest.mark.real_cli


@pytest.fixture
def agent(bench: AgentBench) -> RealAgent:
    return RealAgent(newest("opencode"), bench)


def test_the_common_script(agent: RealAgent) -> None:
    outcome = agent.run_common_script("webfetch")
    assert outcome.result.model == "scripted/model"
    asked = outcome.requests[0]
    assert asked.question is not None
    assert "MY-BASE" in asked.question.system
    assert "MY-ADDITION" in asked.question.system
    assert not (agent.bench.home / ".local" / "share" / "opencode").exists()


def test_a_title_takes_no_turn_and_without_permission_tools_only_look(agent: RealAgent) -> None:
    outcome = agent.run([{"text": "Hi."}], provider_options={"title_call": True})
    model = outcome.model
    assert model is not None
    assert outcome.result.status == "completed"
    assert sorted(str(request.side) for request in model.requests) == ["None", "title"]
    model.assert_finished()
    (asked,) = [each.question for each in model.requests if each.outcome == "turn"]
    assert asked is not None
    offered = {tool.name for tool in asked.tools}
    assert "read" in offered
    assert not offered & {"bash", "write", "edit", "webfetch", "task"}


@pytest.mark.parametrize(
    ("fault", "kind", "retries"),
    [
        ({"status": 401}, "not_authenticated", 0),
        ({"kind": "context_overflow"}, "context_overflow", 0),
        ({"status": 529}, "overloaded", 1),
        ({"cut": True}, "unavailable", 1),
    ],
)
def test_a_failing_service_ends_the_run_with_its_reason(
    agent: RealAgent, fault: dict[str, Any], kind: str, retries: int
) -> None:
    agent.check_fault(fault, kind, retries)


def test_a_long_wait_that_the_service_asks_for_is_not_waited_for(agent: RealAgent) -> None:
    agent.check_long_wait(600, provider_options={"retry_seconds": 3})


def test_a_tool_that_runs_when_the_agent_is_stopped_is_gone_with_it(agent: RealAgent) -> None:
    agent.check_stop_in_a_tool()


def test_a_refused_permission_is_no_success(agent: RealAgent) -> None:
    script: Script = [{"write_file": {"path": "a.txt", "content": "x\n"}}, {"text": "never"}]
    outcome = agent.run(script, settings='{"permission": {"edit": "ask"}}')
    assert outcome.error_kind == "guard_refused"
    assert not (agent.bench.work / "a.txt").exists()
    assert "permission_decision" in outcome.kinds


def test_the_users_own_home_resume_and_files(agent: RealAgent) -> None:
    """One session in the user's home, gone on with later; the user's files stay as they are."""
    folder = agent.bench.home / ".config" / "opencode"
    folder.mkdir(parents=True)
    with ScriptedModel([{"text": "One."}, {"text": "Two."}]) as model:
        entry = {
            "npm": "@ai-sdk/openai-compatible",
            "options": {"baseURL": "http://127.0.0.1:9/v1", "apiKey": "wrong"},
            "models": {"scripted": {"cost": {"input": 1, "output": 2}}},
        }
        # OpenCode adds the schema's address to a file that lacks it, whoever starts it.
        schema = {"$schema": "https://opencode.ai/config.json"}
        mine = json.dumps({**schema, "provider": {"lab": entry}, "autoupdate": False})
        (folder / "opencode.json").write_text(mine)
        (folder / "AGENTS.md").write_text("GLOBAL-RULE")
        options: dict[str, Any] = {
            "model": "lab/scripted",
            "provider": Provider(base_url=f"{model.url}/v1", auth_token_env="LAB_KEY"),
        }
        env = {
            "LAB_KEY": "the-users-own-key",
            "NPM_CONFIG_OFFLINE": "true",
            "OPENCODE_DISABLE_MODELS_FETCH": "1",
        }
        first, again = agent.check_resumed(
            lambda session: session[:-2] + "zz", environ=env, **options
        )
        assert again.result.cost_usd is not None
        asked = model.requests[0].question
        assert asked is not None
        assert "GLOBAL-RULE" in asked.system
        assert (folder / "opencode.json").read_text() == mine
        assert (folder / "AGENTS.md").read_text() == "GLOBAL-RULE"
        session = first.result.native_session_id
        check_stored(parse_transcript(f"{database_path(agent.bench.env)}#{session}"), first, again)


def test_a_copy_goes_on_and_its_source_stays_as_it_was(agent: RealAgent) -> None:
    account = agent.bench.home / "account"
    account.mkdir()
    texts = ("One.", "Two.", "Three.", "Four.")
    with ScriptedModel([{"text": text} for text in texts]) as model:
        server = ModelServer(url=model.url, api_key=model.api_key)
        kept: dict[str, Any] = {"model_server": server, "account_dir": str(account)}
        first = agent.run(prompt="Begin.", **kept)
        source = first.result.native_session_id
        fork = {"resume": source, "provider_options": {"fork": True}, **kept}
        copy = agent.run(prompt="Ask the copy.", **fork)
        assert (copy.result.status, copy.result.text) == ("completed", "Two.")
        native = copy.result.native_session_id
        assert native not in (None, source)
        assert "Begin." in str(model.requests[-1].body)
        again = agent.run(prompt="Ask the source.", resume=source, **kept)
        assert again.result.native_session_id == source
        assert "Ask the copy." not in str(model.requests[-1].body)
        last = agent.run(prompt="Once more.", resume=native, **kept)
        assert last.result.native_session_id == native
        assert "Ask the copy." in str(model.requests[-1].body)
        lost = agent.run(**{**fork, "resume": f"{str(source)[:-2]}zz"})
        assert lost.error_kind == "resume_refused"
        assert len(model.requests) == len(texts)
    [database] = account.rglob("opencode.db")
    check_stored(parse_transcript(f"{database}#{source}"), first, again)
    check_stored(parse_transcript(f"{database}#{native}"), copy, last)
    check_stored(parse_transcript(str(database)), first, copy, again, last)
