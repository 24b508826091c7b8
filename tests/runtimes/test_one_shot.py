"""`bridle.print_once`: one question, one plain answer, by the runtime that is configured for it."""

import os
from pathlib import Path

import pytest

import bridle
from bridle.core.errors import (
    ConfigError,
    Crashed,
    NotAuthenticated,
    NotInstalled,
    TimedOut,
    WrongUse,
)
from bridle.core.options import ModelServer
from bridle.process.process_tree import marked_processes
from bridle.testing import ScriptedModel

SECRET = "sk-one-shot-0123456789abcdef"


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / ".bridle").mkdir()
    monkeypatch.chdir(tmp_path)
    return tmp_path


def declare(project: Path, script: str, more: str = "") -> None:
    """A runtime `mine` for one-shot calls that runs a shell script."""
    agent = project / "agent"
    agent.write_text(f"#!/bin/sh\n{script}\n")
    agent.chmod(0o755)
    (project / ".bridle/config.yaml").write_text(
        "runtime:\n  default: scripted\n  printCommand: mine\n  adapters:\n"
        f"    mine: {{binary: ./agent, modelFlag: -m}}\n{more}"
    )


def test_the_configured_runtime_answers(project: Path) -> None:
    declare(project, 'echo; echo "$# $1 $2 $3"; echo', "models: {fast: large-1}\n")
    assert bridle.print_once("hello") == "1 hello"
    assert bridle.print_once("hello", "fast") == "3 -m large-1 hello"


def test_the_default_runtime_answers_where_no_other_is_set(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (project / "script.yaml").write_text("- text: From the script.\n")
    (project / ".bridle/config.yaml").write_text("runtime: scripted\n")
    monkeypatch.setenv("BRIDLE_SCRIPT", str(project / "script.yaml"))
    assert bridle.print_once("hello") == "From the script."


def test_a_providers_variables_reach_the_agent(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    more = "providers: {hub: {env: {HUB_REGION: eu}}}\nmodels: {big: hub/large-1}\n"
    declare(project, 'echo "$HUB_REGION $2"', more)
    assert bridle.print_once("hello", "big") == "eu large-1"


HUB = "providers: {hub: {baseUrl: 'http://127.0.0.1:9', authTokenEnv: HUB_KEY}}\n"


def stand_in(project: Path, runtime: str, more: str = "") -> dict[str, str]:
    """A configuration whose `runtime` is a script that prints its words and variables; returns an
    environment with routing of the user's own."""
    agent = project / runtime
    agent.write_text('#!/bin/sh\n[ "$1" = --version ] && exit 1\necho "$@"; env\n')
    agent.chmod(0o755)
    (project / ".bridle/config.yaml").write_text(
        f"runtime: {{adapters: {{{runtime}: {{binary: ./{runtime}}}}}}}\n{more}"
    )
    own = ("ANTHROPIC_CUSTOM_HEADERS", "CLAUDE_CODE_USE_BEDROCK", "OPENAI_ORG_ID", "ZAI_API_KEY")
    return {**os.environ, **dict.fromkeys(own, "of-the-user")}


@pytest.mark.parametrize("runtime", ["claude", "codex", "copilot", "gemini"])
def test_nothing_of_the_users_own_reaches_a_foreign_provider(project: Path, runtime: str) -> None:
    env = stand_in(project, runtime, HUB)
    said = bridle.print_once("hi", "hub/large-1", runtime=runtime, env={**env, "HUB_KEY": "hub-k"})
    assert "of-the-user" not in said
    assert "hub-k" in said
    assert "large-1" in said
    assert "of-the-user" in bridle.print_once("hi", runtime=runtime, env=env), "without one"
    with pytest.raises(NotAuthenticated, match="HUB_KEY"):
        bridle.print_once("hi", "hub/large-1", runtime=runtime, env=env)


def test_names_of_models_mean_what_they_mean_in_a_run(project: Path) -> None:
    aliases = "models: {fast: large-1}\n"
    env = stand_in(project, "claude", aliases)
    own = "anthropic/claude-sonnet-4-6"
    said = bridle.print_once("hi", own, runtime="claude", env=env)
    assert "--model claude-sonnet-4-6" in said
    env = stand_in(project, "codex", aliases)
    file = project / ".bridle/config.yaml"
    file.write_text(file.read_text().replace("./codex", "./codex, models: {fast: gpt-x}"))
    assert "gpt-x" in bridle.print_once("hi", "fast", runtime="codex", env=env)


def test_a_runtime_that_is_not_there_is_a_mistake_of_the_file(project: Path) -> None:
    (project / ".bridle/config.yaml").write_text("runtime: {printCommand: nope}\n")
    with pytest.raises(ConfigError, match=r'config.yaml:1: runtime.printCommand: .*"nope"'):
        bridle.print_once("hello")


def test_a_failed_call_says_why_without_its_secrets(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MY_API_KEY", SECRET)
    declare(project, 'echo "no: $MY_API_KEY" >&2; exit 3')
    with pytest.raises(Crashed, match="mine exited 3: no: ") as caught:
        bridle.print_once("hello")
    assert SECRET not in caught.value.message
    declare(project, "true")
    with pytest.raises(Crashed, match="mine answered nothing"):
        bridle.print_once("hello")


def test_a_call_that_takes_too_long_is_ended_with_all_it_started(project: Path) -> None:
    declare(project, 'echo "$BRIDLE_SESSION_ID" > id; sleep 600 & sleep 600')
    with pytest.raises(TimedOut):
        bridle.print_once("hello", timeout=2)
    assert marked_processes((project / "id").read_text().strip()) == []


def test_what_cannot_answer_in_plain_text(project: Path) -> None:
    (project / ".bridle/config.yaml").write_text(
        "runtime: {adapters: {gone: {binary: /no/agent}, talker: {binary: ./a, protocol: acp}}}"
    )
    (project / "a").write_text("#!/bin/sh\n")
    (project / "a").chmod(0o755)
    with pytest.raises(NotInstalled):
        bridle.print_once("hello", runtime="gone")
    with pytest.raises(WrongUse, match="protocol"):
        bridle.print_once("hello", runtime="talker")


def test_a_scripted_model_answers_in_a_home_of_its_own(project: Path, private_home: Path) -> None:
    before = sorted(private_home.rglob("*"))
    with ScriptedModel([{"text": "the answer"}]) as model:
        server = ModelServer(url=model.url, api_key=model.api_key)
        said = bridle.print_once("what?", runtime="scripted", model_server=server)
        assert model.prompts() == ["what?"]
    assert said == "the answer"
    left = {path for path in private_home.rglob("*") if path.is_file()} - set(before)
    assert left == set()
