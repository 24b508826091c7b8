"""The real OpenCode against the scripted model: what only the CLI itself can prove."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from bridle.core.options import ModelServer, Provider
from bridle.runtimes.opencode.transcript import database_path, parse_transcript
from bridle.testing import ScriptedModel
from tests.runtimes.opencode.support import real_runtime
from tests.support.driving import kinds, own_place
from tests.support.real_bench import RealBench, Script, check_stored

pytestmark = pytest.mark.real_cli


@pytest.fixture
def bench() -> Iterator[RealBench]:
    with own_place("opencode") as place:
        yield RealBench(real_runtime(), place)


def test_the_common_script(bench: RealBench) -> None:
    outcome, model = bench.run_common_script("webfetch")
    assert outcome.result.model == "scripted/model"
    asked = model.requests[0]
    assert asked.question is not None
    assert "MY-BASE" in asked.question.system
    assert "MY-ADDITION" in asked.question.system
    assert not (bench.place.home / ".local" / "share" / "opencode").exists()


def test_a_title_takes_no_turn_and_without_permission_tools_only_look(bench: RealBench) -> None:
    outcome, model = bench.run([{"text": "Hi."}], provider_options={"title_call": True})
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
    bench: RealBench, fault: dict[str, Any], kind: str, retries: int
) -> None:
    bench.check_fault(fault, kind, retries)


def test_a_long_wait_that_the_service_asks_for_is_not_waited_for(bench: RealBench) -> None:
    bench.check_long_wait(600, provider_options={"retry_seconds": 3})


def test_a_tool_that_runs_when_the_agent_is_stopped_is_gone_with_it(bench: RealBench) -> None:
    bench.check_stop_in_a_tool()


def test_a_refused_permission_is_no_success(bench: RealBench) -> None:
    script: Script = [{"write_file": {"path": "a.txt", "content": "x\n"}}, {"text": "never"}]
    outcome, _ = bench.run(script, settings='{"permission": {"edit": "ask"}}')
    assert outcome.kind == "guard_refused"
    assert not (bench.place.repo / "a.txt").exists()
    assert "permission_decision" in kinds(outcome.events)


def test_the_users_own_home_resume_and_files(bench: RealBench) -> None:
    """One session in the user's home, gone on with later; the user's files stay as they are."""
    folder = bench.place.home / ".config" / "opencode"
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
        first, again = bench.check_resumed(lambda session: session[:-2] + "zz", env=env, **options)
        assert again.result.cost_usd is not None
        asked = model.requests[0].question
        assert asked is not None
        assert "GLOBAL-RULE" in asked.system
        assert (folder / "opencode.json").read_text() == mine
        assert (folder / "AGENTS.md").read_text() == "GLOBAL-RULE"
        session = first.result.native_session_id
        check_stored(
            parse_transcript(f"{database_path(bench.place.env())}#{session}"), first, again
        )


def test_a_copy_goes_on_and_its_source_stays_as_it_was(bench: RealBench) -> None:
    account = bench.place.home / "account"
    account.mkdir()
    texts = ("One.", "Two.", "Three.", "Four.")
    with ScriptedModel([{"text": text} for text in texts]) as model:
        server = ModelServer(url=model.url, api_key=model.api_key)
        kept: dict[str, Any] = {"model_server": server, "account_dir": str(account)}
        first = bench.drive(prompt="Begin.", **kept)
        source = first.result.native_session_id
        fork = {"resume": source, "provider_options": {"fork": True}, **kept}
        copy = bench.drive(prompt="Ask the copy.", **fork)
        assert (copy.result.status, copy.result.text) == ("completed", "Two.")
        native = copy.result.native_session_id
        assert native not in (None, source)
        assert "Begin." in str(model.requests[-1].body)
        again = bench.drive(prompt="Ask the source.", resume=source, **kept)
        assert again.result.native_session_id == source
        assert "Ask the copy." not in str(model.requests[-1].body)
        last = bench.drive(prompt="Once more.", resume=native, **kept)
        assert last.result.native_session_id == native
        assert "Ask the copy." in str(model.requests[-1].body)
        lost = bench.drive(**{**fork, "resume": f"{str(source)[:-2]}zz"})
        assert lost.kind == "resume_refused"
        assert len(model.requests) == len(texts)
    [database] = account.rglob("opencode.db")
    check_stored(parse_transcript(f"{database}#{source}"), first, again)
    check_stored(parse_transcript(f"{database}#{native}"), copy, last)
    check_stored(parse_transcript(str(database)), first, copy, again, last)
