"""The real Gemini CLI against the scripted model: what only the CLI itself can prove."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from bridle.core import events as ev
from bridle.core.options import Provider
from bridle.runtimes.gemini.home import config_dir
from bridle.runtimes.gemini.transcript import chats_dir, summarize
from bridle.testing import ScriptedModel
from tests.runtimes.gemini.support import real_runtime
from tests.support.driving import (
    COMMON_SCRIPT,
    Outcome,
    Place,
    check_common,
    drive,
    own_place,
)

pytestmark = pytest.mark.real_cli

Script = list[dict[str, Any]]


@pytest.fixture
def place() -> Iterator[Place]:
    with own_place("gemini") as made:
        yield made


def run(place: Place, script: Script, **options: Any) -> tuple[Outcome, ScriptedModel]:
    with ScriptedModel(script) as model:
        return drive(real_runtime(), place, model, **options), model


def test_the_common_script(place: Place) -> None:
    (place.repo / "GEMINI.md").write_text("PROJECT-RULE")
    prompt = 'Write "it"\n\n  now. ' + "x" * 200_000
    outcome, model = run(
        place,
        COMMON_SCRIPT,
        prompt=prompt,
        permission_mode="bypass",
        system_prompt="MY-BASE",
        append_system_prompt="MY-ADDITION",
        denied_tools=("web_fetch",),
    )
    check_common(outcome, place, prompt, model)
    assert outcome.result.model == "gemini-2.5-pro"
    assert outcome.result.native_session_id == outcome.result.session_id
    asked = model.requests[0].question
    assert asked is not None
    assert asked.system == "MY-BASE"
    context = "\n".join(asked.user_texts)
    assert "MY-ADDITION" in context
    assert "PROJECT-RULE" in context
    assert "web_fetch" not in [tool.name for tool in asked.tools]
    assert not (place.home / ".gemini").exists()


def test_a_long_line_is_not_lost_at_the_end(place: Place) -> None:
    command = "head -c 3000000 /dev/zero | tr '\\0' x; echo; echo end"
    outcome, _ = run(place, [{"shell": command}, {"text": "Seen."}], permission_mode="bypass")
    assert outcome.result.status == "completed", outcome.result.error
    (end,) = [event for event in outcome.events if isinstance(event, ev.ToolExecutionEnd)]
    assert len(str(end.result)) > 3_000_000


def test_tools_of_every_kind_and_only_those_allowed(place: Place) -> None:
    script: Script = [
        {"write_file": {"path": "a.txt", "content": "one\n"}},
        {"read_file": "a.txt"},
        {"edit_file": {"path": "a.txt", "old": "one\n", "new": "two\n"}},
        {"text": "Done."},
    ]
    names = ("write_file", "read_file", "replace")
    outcome, model = run(place, script, permission_mode="bypass", allowed_tools=names)
    assert outcome.result.status == "completed", outcome.result.error
    assert (place.repo / "a.txt").read_text() == "two\n"
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
    place: Place, fault: dict[str, Any], kind: str, retries: int
) -> None:
    outcome, _ = run(place, [{"fault": fault}], provider_options={"max_retries": 1})
    assert outcome.kind == kind, outcome.result.error
    told = [event for event in outcome.events if isinstance(event, ev.Retry)]
    assert len(told) == retries


def test_a_long_wait_that_the_service_asks_for_is_not_waited_for(place: Place) -> None:
    script: Script = [{"fault": {"status": 429, "retry_after": 300}}]
    outcome, _ = run(place, script)
    assert outcome.kind == "rate_limited"
    assert outcome.result.error is not None
    assert outcome.result.error.until is not None


def test_a_tool_that_runs_when_the_agent_is_stopped_is_gone_with_it(place: Place) -> None:
    script: Script = [{"text": "Wait.", "shell": "echo $$ > pid; sleep 600"}, {"text": "never"}]
    outcome, _ = run(place, script, permission_mode="bypass", stop_at=place.repo / "pid")
    assert outcome.result.status == "aborted"
    assert (place.repo / "pid").exists(), "the tool never began"


def test_without_permission_the_tools_are_not_offered(place: Place) -> None:
    call = {"name": "write_file", "args": {"file_path": "a.txt", "content": "x"}, "unchecked": True}
    outcome, _ = run(place, [{"tool_calls": [call]}, {"text": "Then not."}])
    assert outcome.result.status == "completed"
    assert not (place.repo / "a.txt").exists()
    (decision,) = [event for event in outcome.events if isinstance(event, ev.PermissionDecision)]
    assert decision.decision == "deny"


def test_the_users_own_home_resume_and_files(place: Place) -> None:
    """One session in the user's home, gone on with later; the user's files stay as they are."""
    folder = place.home / ".gemini"
    folder.mkdir()
    mine = json.dumps({"model": {"name": "gemini-2.5-flash"}, "ui": {"hideTips": True}})
    (folder / "settings.json").write_text(mine)
    (folder / "GEMINI.md").write_text("GLOBAL-RULE")
    with ScriptedModel([{"text": "One."}, {"text": "Two."}]) as model:
        options: dict[str, Any] = {
            "provider": Provider(base_url=model.url, auth_token_env="LAB_KEY"),
        }
        env = {"LAB_KEY": "the-users-own-key"}
        first = drive(real_runtime(), place, env=env, **options)
        assert first.result.status == "completed", first.result.error
        assert first.result.model == "gemini-2.5-flash"
        session = first.result.native_session_id
        again = drive(real_runtime(), place, env=env, resume=session, prompt="Go on.", **options)
        assert again.result.text == "Two."
        assert again.result.native_session_id == session
        asked = model.requests[0].question
        assert asked is not None
        assert "GLOBAL-RULE" in asked.system
        assert (folder / "settings.json").read_text() == mine
        assert (folder / "GEMINI.md").read_text() == "GLOBAL-RULE"
        chats = chats_dir(config_dir(place.env()), str(place.repo))
        assert chats is not None
        (transcript,) = Path(chats).glob("*.jsonl")
        stored = summarize(str(transcript))
        assert stored is not None
        both = first.result.usage + again.result.usage
        assert (stored.input_tokens, stored.output_tokens) == (
            both.input_tokens,
            both.output_tokens,
        )
        other = "0b5ad6d2-3c1f-4f0e-9a52-2f6f0d2f7a11"
        lost = drive(real_runtime(), place, env=env, resume=other, **options)
        assert lost.kind == "resume_refused"


def test_a_refused_connection_ends(place: Place) -> None:
    outcome = drive(
        real_runtime(),
        place,
        env={"LAB_KEY": "the-users-own-key"},
        provider=Provider(base_url="http://127.0.0.1:9", auth_token_env="LAB_KEY"),
        provider_options={"max_retries": 1},
    )
    assert outcome.kind == "unavailable"
