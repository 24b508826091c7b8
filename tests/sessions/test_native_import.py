"""A conversation carried over by the other agent's own import."""

import json
import os
from pathlib import Path

import pytest

from bridle.core.options import ModelServer, Provider, RunOptions
from bridle.runtimes.past_conversation import ImportsConversation
from bridle.runtimes.scripted import ScriptedRuntime
from bridle.sessions.handover import native_import
from bridle.testing.bench import AgentBench
from tests.runtimes.codex.real import KEY, RealCodex, model_of
from tests.support.sessions import MadeSession, live_session


@pytest.fixture(params=["0.166.0"])
def codex(request: pytest.FixtureRequest, bench: AgentBench) -> RealCodex:
    return RealCodex(bench, request.param)


def a_session(codex: RealCodex) -> MadeSession:
    made = MadeSession(codex.root, workdir=str(codex.work))
    made.ask("m1", "The word is BANANA.")
    made.say("I write it down.", thinking="Hm.")
    made.use("t1", "write_file", {"path": "word.txt"}, "it is written")
    made.say("Noted.")
    made.end_turn()
    return made


def test_a_runtime_without_an_import_takes_none(tmp_path: Path) -> None:
    made = MadeSession(tmp_path)
    made.ask("m1", "Go.")
    assert not isinstance(ScriptedRuntime(), ImportsConversation)
    options = RunOptions(prompt="", cwd=str(tmp_path))
    assert native_import(made.home, made.record, ScriptedRuntime(), options, env={}) is None


@pytest.mark.real_cli
def test_codex_goes_on_with_a_real_session_of_another_agent(
    codex: RealCodex, tmp_path: Path
) -> None:
    script = [{"text": "I look.", "shell": "echo it is PAPAYA"}, {"text": "I found it."}]
    with live_session(tmp_path, script) as live:
        live.send("Find the fruit for ORCHARD.")
        live.wait_idle()
        live.leave()
        home, record = live.home, live.record
    codex.env["MY_KEY"] = KEY
    with model_of([{"text": "A papaya."}]) as model:
        provider = Provider(base_url=f"{model.url}/v1", auth_token_env="MY_KEY")
        options = RunOptions(prompt="", cwd=str(codex.work), provider=provider)
        thread = native_import(home, record, codex.runtime, options, env=codex.env)
        assert thread is not None
        assert list(codex.config_home.glob(f"sessions/*/*/*/*{thread}.jsonl"))
        assert model.requests == []
        result = codex.run(None, prompt="Which was it?", resume=thread, provider=provider)
        assert result.error is None, result.error
        sent = json.dumps(model.requests[-1].body)
    assert result.native_session_id == thread
    assert result.text == "A papaya."
    for words in ("Find the fruit for ORCHARD.", "I look.", "it is PAPAYA", "I found it."):
        assert words in sent


@pytest.mark.real_cli
def test_an_old_session_and_another_account(codex: RealCodex) -> None:
    made = a_session(codex)
    account = codex.root / "account"
    account.mkdir()
    options = RunOptions(prompt="", cwd=str(codex.work), account_dir=str(account))
    thread = native_import(made.home, made.record, codex.runtime, options, env=codex.env)
    assert thread is not None
    [file] = account.glob(f"sessions/*/*/*/*{thread}.jsonl")
    text = file.read_text()
    for words in ("The word is BANANA.", "I write it down.", "it is written", "Noted."):
        assert words in text
    assert "Hm." not in text
    assert list(codex.config_home.iterdir()) == []
    assert not os.path.exists(codex.home / ".claude")


@pytest.mark.real_cli
@pytest.mark.parametrize("codex", ["0.120.0"], indirect=True)
def test_a_version_without_the_import_takes_none(codex: RealCodex) -> None:
    made = a_session(codex)
    options = RunOptions(prompt="", cwd=str(codex.work))
    assert native_import(made.home, made.record, codex.runtime, options, env=codex.env) is None


@pytest.mark.real_cli
def test_a_home_that_is_thrown_away_takes_none(codex: RealCodex) -> None:
    made = a_session(codex)
    server = ModelServer(url="http://127.0.0.1:9", api_key="x" * 20)
    options = RunOptions(prompt="", cwd=str(codex.work), model_server=server)
    assert native_import(made.home, made.record, codex.runtime, options, env=codex.env) is None
    assert list(codex.config_home.iterdir()) == []


@pytest.mark.real_cli
def test_a_session_in_which_nothing_was_said_is_not_imported(codex: RealCodex) -> None:
    made = MadeSession(codex.root)
    options = RunOptions(prompt="", cwd=str(codex.work))
    assert native_import(made.home, made.record, codex.runtime, options, env=codex.env) is None
