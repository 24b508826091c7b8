"""The real Aider against the scripted model."""

import json
from pathlib import Path
from typing import Any

import pytest

from bridle.core import events as ev
from bridle.core.options import HooksDef, OverlayContent, Provider
from bridle.core.usage import Usage
from bridle.runtimes import deployment
from bridle.runtimes.aider import AiderRuntime
from bridle.testing import ScriptedModel
from bridle.testing.bench import AgentBench, AgentRun
from tests.runtimes.aider.captures import EDIT, known_steps
from tests.support.real_cli import newest

pytestmark = [pytest.mark.real_cli, pytest.mark.timeout(240)]

MESSAGE = ["message_start", "text_start", "text_delta", "text_end", "message_end"]
BEGIN = ["session_start", "state", "agent_start"]
END = ["usage", "agent_end", "state", "session_end"]


@pytest.fixture
def bench(bench: AgentBench) -> AgentBench:
    """A repository with one file under version control."""
    (bench.work / "calc.py").write_text("def add(a, b):\n    return a - b\n")
    bench.git("add", ".")
    bench.git("commit", "-qm", "begin")
    return bench


def run_real(bench: AgentBench, model: ScriptedModel | None = None, /, **options: Any) -> AgentRun:
    return bench.run(newest("aider"), model, **{"prompt": "Mend the sum in calc.py.", **options})


def said(model: ScriptedModel) -> str:
    return json.dumps([request.body for request in model.requests], ensure_ascii=False)


def test_an_edit(bench: AgentBench) -> None:
    (bench.home / ".gitconfig").write_text("[user]\n  name = T\n")
    before = bench.files()
    git_config = (bench.work / ".git" / "config").read_bytes()
    usage = {"input_tokens": 1234, "output_tokens": 56, "cache_read_tokens": 30}
    (bench.work / "AGENTS.md").write_text("The word is rowan.\n")
    hooks = HooksDef(agent_name="a", capability="builder", worktree_path=str(bench.work))
    deployment.deploy(AiderRuntime(), str(bench.work), OverlayContent(content="And damson."), hooks)
    reply = f"{EDIT}\nORCHESTRA_COMPLETE"
    with ScriptedModel([{"text": reply, "usage": usage}]) as model:
        outcome = run_real(bench, model, append_system_prompt="And quince.")
        model.assert_finished()
        told = said(model)
    result = outcome.result
    assert known_steps(outcome.events) == [
        *(*BEGIN, *MESSAGE, "tool_execution_start", "tool_execution_end", *END)
    ]
    assert (result.status, result.exit_code, result.error) == ("completed", 0, None)
    assert result.usage == Usage(input_tokens=1264, output_tokens=56)
    assert (result.text, result.marker_detected) == (reply, True)
    assert (result.model, result.runtime_version) == ("openai/gpt-4o", "0.86.2")
    assert "return a + b" in (bench.work / "calc.py").read_text()
    assert all(word in told for word in ("rowan", "damson", "quince", "Mend the sum"))
    assert bench.files() == before
    assert (bench.work / ".git" / "config").read_bytes() == git_config
    assert bench.git("status", "--short").split() == [
        "M",
        "calc.py",
        "??",
        ".aider.tags.cache.v4/",
        "??",
        "AGENTS.md",
    ]


@pytest.mark.parametrize(
    ("turn", "kind", "retried"),
    [
        ({"fault": {"kind": "authentication"}}, "not_authenticated", 0),
        ({"fault": {"kind": "server_error"}}, "unavailable", 1),
        ({"fault": {"kind": "overloaded"}}, "overloaded", 1),
        ({"fault": {"kind": "rate_limit"}}, "rate_limited", 1),
        ({"fault": {"kind": "context_overflow"}}, "context_overflow", 0),
        ({"text": "Cut.", "stop_reason": "max_tokens"}, "context_overflow", 0),
    ],
)
def test_faults(bench: AgentBench, turn: dict[str, Any], kind: str, retried: int) -> None:
    with ScriptedModel([turn]) as model:
        outcome = run_real(bench, model, prompt="Hello.", provider_options={"max_retries": 1})
    assert (outcome.error_kind, known_steps(outcome.events).count("retry")) == (kind, retried)
    assert known_steps(outcome.events)[-5:] == ["error", *END]
    assert outcome.result.error is not None
    assert outcome.result.error.hint


def test_a_refused_connection_ends(bench: AgentBench) -> None:
    with ScriptedModel([{"text": "x"}]) as model:
        model.stop()
        outcome = run_real(bench, model, prompt="Hello.", provider_options={"max_retries": 1})
    assert outcome.error_kind == "unavailable"


def test_a_stop_leaves_nothing(bench: AgentBench) -> None:
    """Aider runs a command after its edit; the run is stopped while that sleeps."""
    options = {"test_cmd": "touch started; sleep 77 & sleep 77; wait"}
    with ScriptedModel([{"text": EDIT}]) as model:
        outcome = run_real(
            bench,
            model,
            provider_options=options,
            stop_when=(bench.work / "started").exists,
        )
    assert (bench.work / "started").exists()
    assert outcome.result.status == "aborted"
    assert known_steps(outcome.events)[-5:] == ["error", *END]


def test_the_users_own_home_and_a_conversation_that_goes_on(bench: AgentBench) -> None:
    """With the user's configuration in force and unchanged, and a provider beside it."""
    (bench.home / ".aider.conf.yml").write_text("read: [rules.md]\nedit-format: diff\n")
    (bench.work / "rules.md").write_text("The word is sorb.\n")
    (bench.work / "AGENTS.md").write_text("The word is rowan.\n")
    (bench.work / ".env").write_text("OPENAI_API_BASE=http://127.0.0.1:9\nOPENAI_API_KEY=theirs\n")
    before = bench.files()
    with ScriptedModel([{"text": "The word is plum."}, {"text": "It was plum."}]) as model:
        given: dict[str, Any] = {
            "provider": Provider(base_url=f"{model.url}/v1", auth_token_env="GATE_KEY"),
            "model": "gpt-4o",
            "environ": {"GATE_KEY": "key-of-the-gate"},
        }
        first = run_real(bench, prompt="Choose a word.", **given)
        native = first.result.native_session_id
        assert first.result.status == "completed"
        second = run_real(bench, prompt="Which word?", resume=native, **given)
        asked = [json.dumps(request.body) for request in model.requests]
    assert "sorb" in asked[0], "the user's own setting is in force"
    assert "rowan" in asked[0]
    assert "Choose a word." in asked[1]
    assert "The word is plum." in asked[1]
    assert second.result.text == "It was plum."
    assert second.result.native_session_id == native
    after = bench.files()
    assert {name: after[name] for name in before} == before
    runtime = AiderRuntime()
    histories = bench.home / ".aider" / "bridle"
    (history,) = histories.rglob("*.md")
    summary = runtime.parse_transcript(str(history))
    assert summary is not None
    total = first.result.usage + second.result.usage
    assert (summary.input_tokens, summary.output_tokens) == (
        total.input_tokens,
        total.output_tokens,
    )


def test_questions_are_refused_and_commands_are_not_run(bench: AgentBench) -> None:
    with ScriptedModel([{"text": EDIT}]) as model:
        outcome = run_real(bench, model, prompt="!touch made; mend calc.py", permission_mode="ask")
        assert "!touch made" in said(model)
    assert outcome.result.status == "completed"
    assert not (bench.work / "made").exists()
    assert "return a - b" in (bench.work / "calc.py").read_text()
    decisions = [event for event in outcome.events if isinstance(event, ev.PermissionDecision)]
    assert {event.decision for event in decisions} == {"deny"}


def test_a_prompt_of_any_kind(bench: AgentBench) -> None:
    prompt = "--help ünï 漢字 🎉 'q' $HOME `id` https://127.0.0.1:9/page %s\n\n" + "word " * 60_000
    with ScriptedModel([{"text": "Read."}]) as model:
        outcome = run_real(bench, model, prompt=prompt)
        assert any(prompt.rstrip() in text for text in model.prompts())
    assert (outcome.result.status, outcome.result.text) == ("completed", "Read.")
    assert all(len(word) < 4000 for word in outcome.plan.spec.argv)


def test_outside_a_repository(bench: AgentBench, tmp_path: Path) -> None:
    (tmp_path / "calc.py").write_text("def add(a, b):\n    return a - b\n")
    with ScriptedModel([{"text": EDIT}]) as model:
        outcome = run_real(bench, model, cwd=str(tmp_path), provider_options={"files": ["calc.py"]})
    assert outcome.result.status == "completed"
    assert "return a + b" in (tmp_path / "calc.py").read_text()
    assert not (tmp_path / ".git").exists()


def test_in_a_sandbox_edits_stay_in_the_worktree(bench: AgentBench, tmp_path: Path) -> None:
    """The wire passes through a sandbox; a command that Aider runs there cannot write elsewhere."""
    elsewhere = tmp_path / "elsewhere"
    command = f"touch {elsewhere}; touch inside"
    with ScriptedModel([{"text": EDIT}, {"text": "Done."}]) as model:
        outcome = run_real(bench, model, sandbox="worktree", provider_options={"test_cmd": command})
    assert outcome.result.status == "completed"
    assert "return a + b" in (bench.work / "calc.py").read_text()
    assert (bench.work / "inside").exists()
    assert not elsewhere.exists()
