"""The real OpenCode against the scripted model: what only the CLI itself can prove."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from bridle.core import events as ev
from bridle.core.options import Provider
from bridle.runtimes.opencode.transcript import database_path, summarize
from bridle.testing import ScriptedModel
from tests.runtimes.opencode.support import real_runtime
from tests.support.driving import (
    COMMON_SCRIPT,
    Outcome,
    Place,
    check_common,
    drive,
    kinds,
    own_place,
)

pytestmark = pytest.mark.real_cli

Script = list[dict[str, Any]]


@pytest.fixture
def place() -> Iterator[Place]:
    with own_place("opencode") as made:
        yield made


def run(
    place: Place, script: list[dict[str, Any]], **options: Any
) -> tuple[Outcome, ScriptedModel]:
    with ScriptedModel(script) as model:
        return drive(real_runtime(), place, model, **options), model


def test_the_common_script(place: Place) -> None:
    prompt = 'Write "it"\n\n  now. ' + "x" * 200_000
    outcome, model = run(
        place,
        COMMON_SCRIPT,
        prompt=prompt,
        permission_mode="bypass",
        system_prompt="MY-BASE",
        append_system_prompt="MY-ADDITION",
        denied_tools=("webfetch",),
    )
    check_common(outcome, place, prompt, model)
    assert outcome.result.model == "scripted/model"
    asked = model.requests[0]
    assert asked.question is not None
    assert "MY-BASE" in asked.question.system
    assert "MY-ADDITION" in asked.question.system
    assert "webfetch" not in [tool.name for tool in asked.question.tools]
    assert not (place.home / ".local" / "share" / "opencode").exists()


def test_a_title_takes_no_turn_and_without_permission_tools_only_look(place: Place) -> None:
    outcome, model = run(place, [{"text": "Hi."}], provider_options={"title_call": True})
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
    place: Place, fault: dict[str, Any], kind: str, retries: int
) -> None:
    outcome, _ = run(place, [{"fault": fault}], provider_options={"max_retries": 1})
    assert outcome.kind == kind, outcome.result.error
    told = [event for event in outcome.events if isinstance(event, ev.Retry)]
    assert len(told) == retries


def test_a_long_wait_that_the_service_asks_for_is_not_waited_for(place: Place) -> None:
    script: Script = [{"fault": {"status": 429, "retry_after": 600}}]
    outcome, _ = run(place, script, provider_options={"retry_seconds": 3})
    assert outcome.kind == "rate_limited"
    assert outcome.result.error is not None
    assert outcome.result.error.until is not None


def test_a_tool_that_runs_when_the_agent_is_stopped_is_gone_with_it(place: Place) -> None:
    script: Script = [{"text": "Wait.", "shell": "echo $$ > pid; sleep 600"}, {"text": "never"}]
    outcome, _ = run(place, script, permission_mode="bypass", stop_at=place.repo / "pid")
    assert outcome.result.status == "aborted"
    assert (place.repo / "pid").exists(), "the tool never began"


def test_a_refused_permission_is_no_success(place: Place) -> None:
    script: Script = [{"write_file": {"path": "a.txt", "content": "x\n"}}, {"text": "never"}]
    outcome, _ = run(place, script, settings='{"permission": {"edit": "ask"}}')
    assert outcome.kind == "guard_refused"
    assert not (place.repo / "a.txt").exists()
    assert "permission_decision" in kinds(outcome.events)


def test_the_users_own_home_resume_and_files(place: Place) -> None:
    """One session in the user's home, gone on with later; the user's files stay as they are."""
    folder = place.home / ".config" / "opencode"
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
        first = drive(real_runtime(), place, env=env, **options)
        assert first.result.status == "completed", first.result.error
        session = first.result.native_session_id
        assert session is not None
        again = drive(real_runtime(), place, env=env, resume=session, prompt="Go on.", **options)
        assert again.result.text == "Two."
        assert again.result.native_session_id == session
        assert again.result.cost_usd is not None
        asked = model.requests[0].question
        assert asked is not None
        assert "GLOBAL-RULE" in asked.system
        assert (folder / "opencode.json").read_text() == mine
        assert (folder / "AGENTS.md").read_text() == "GLOBAL-RULE"
        stored = summarize(f"{database_path(place.env())}#{session}")
        assert stored is not None
        both = first.result.usage + again.result.usage
        assert (stored.input_tokens, stored.output_tokens) == (
            both.input_tokens,
            both.output_tokens,
        )
        lost = drive(real_runtime(), place, env=env, resume=session[:-2] + "zz", **options)
        assert lost.kind == "resume_refused"
