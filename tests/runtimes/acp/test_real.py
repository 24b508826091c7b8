"""The six real agents, each driven over the protocol against the scripted model.

Few runs each, since they take seconds to start; everything else is told by the captures.
"""

import uuid
from typing import Any

import msgspec
import pytest

from bridle.core import events as ev
from bridle.core.options import ModelServer, Provider, RunOptions
from bridle.core.usage import Usage
from bridle.drives.print_run import PrintRun
from bridle.runtimes.acp.adapter import AcpAdapter
from bridle.testing import ScriptedModel
from bridle.testing.bench import AgentBench, AgentRun
from bridle.turns.wire import Question
from tests.runtimes.captures import ROOT
from tests.support.real_cli import path_with_bubblewrap, pinned

pytestmark = [pytest.mark.real_cli, pytest.mark.timeout(240)]

LIMIT = 100.0

AGENTS = {
    "claude-acp": ("claude-agent-acp", "0.49.0"),
    "cline-acp": ("cline", "3.0.65"),
    "codex-acp": ("codex-acp", "0.16.0"),
    "copilot-acp": ("copilot", "1.0.102"),
    "gemini-acp": ("gemini", "0.61.0"),
    "opencode-acp": ("opencode", "1.18.33"),
}
each_agent = pytest.mark.parametrize("name", sorted(AGENTS))

WRITES = """
- text: I will write the file now.
  chunks: 4
  shell: "printf 'made by shell' > shell.txt"
  usage: {input_tokens: 300, output_tokens: 40, cache_read_tokens: 70}
- text: Done. ORCHESTRA_COMPLETE
  chunks: 3
  usage: {input_tokens: 500, output_tokens: 60, cache_read_tokens: 30}
"""
MESSAGE = ["message_start", "text_start", "text_delta", "text_end", "message_end"]
COMMON = [
    *["session_start", "state", "agent_start"],
    *MESSAGE,
    *["tool_execution_start", "tool_execution_end"],
    *MESSAGE,
    *["usage", "agent_end", "state", "session_end"],
]
"""What every runtime shows of that script."""


@pytest.fixture
def bench(bench: AgentBench) -> AgentBench:
    """Copilot unpacks 235 MB for each home; one cache serves all tests."""
    bench.env["COPILOT_CACHE_HOME"] = str(ROOT / ".tmp" / "copilot-cache")
    return bench


def agent(bench: AgentBench, name: str) -> AcpAdapter:
    """The adapter on its pinned CLI."""
    if name == "codex-acp":
        bench.env["PATH"] = path_with_bubblewrap(bench.env["PATH"])
    cli, version = AGENTS[name]
    runtime = pinned(name, version, cli)
    assert isinstance(runtime, AcpAdapter)
    return runtime


def run(name: str, bench: AgentBench, url: str, **options: Any) -> AgentRun:
    """Run a prompt to its end."""
    wanted: dict[str, Any] = {
        "prompt": "Please write the file.",
        "timeout": LIMIT,
        "model_server": ModelServer(url=url, api_key="bridle-scripted-key"),
    }
    done = bench.run(agent(bench, name), **{**wanted, **options})
    assert done.plan.installation.version == AGENTS[name][1]
    return done


@each_agent
def test_a_text_a_shell_call_and_a_last_text(name: str, bench: AgentBench) -> None:
    with ScriptedModel(WRITES) as model:
        done = run(name, bench, model.url)
        model.assert_finished()
    assert done.steps == COMMON
    result = done.result
    assert (result.status, result.text) == ("completed", "Done. ORCHESTRA_COMPLETE")
    assert result.marker_detected
    assert (bench.work / "shell.txt").read_text() == "made by shell"
    assert result.usage == Usage(input_tokens=800, output_tokens=100, cache_read_tokens=100)
    assert result.native_session_id


@each_agent
def test_a_refused_key(name: str, bench: AgentBench) -> None:
    with ScriptedModel([{"fault": {"kind": "authentication"}}]) as model:
        done = run(name, bench, model.url)
    assert done.result.error is not None
    assert done.result.error.kind == "not_authenticated", done.result.error
    assert done.result.status == "failed"


@each_agent
def test_a_refused_connection_ends(name: str, bench: AgentBench) -> None:
    clock = {"silence_timeout": 12, "max_retries": 1}
    done = run(name, bench, "http://127.0.0.1:9", provider_options=clock)
    assert done.result.error is not None
    assert done.result.error.kind == "unavailable", done.result.error


@each_agent
def test_a_person_says_no(name: str, bench: AgentBench) -> None:
    asked: list[Question] = []

    def no(question: Question) -> tuple[bool, str, str]:
        asked.append(question)
        return False, "test", "not today"

    outside = bench.work.parent / "outside.txt"
    # Codex does not always tell of a command that fails at once, so this one takes its time.
    command = f"sleep 0.5; touch {outside}"
    script = [{"text": "Trying.", "shell": command}, {"text": "I could not."}]
    with ScriptedModel(script) as model:
        done = run(name, bench, model.url, permission=no, permission_mode="ask")
    assert not outside.exists()
    assert [event.is_error for event in done.of(ev.ToolExecutionEnd)] == [True]
    if name == "codex-acp":
        # It asks for nothing that its sandbox refuses by itself.
        assert asked == []
        return
    assert len(asked) == 1
    assert [event.decision for event in done.of(ev.PermissionDecision)] == ["deny"]


@each_agent
def test_stopped_while_a_tool_runs(name: str, bench: AgentBench) -> None:
    def stop(event: ev.Event, run: PrintRun) -> None:
        if isinstance(event, ev.ToolExecutionStart):
            run.abort()

    with ScriptedModel([{"text": "Waiting.", "shell": "sleep 60"}]) as model:
        done = run(name, bench, model.url, on_event=stop)
    assert done.result.status == "aborted"
    assert [event.tool_call_id for event in done.of(ev.ToolExecutionEnd)]


SETTINGS = {
    "claude-acp": ("settings.json", '{"cleanupPeriodDays": 33}'),
    "codex-acp": ("config.toml", '# mine\nmodel_verbosity = "low"\n'),
    "copilot-acp": ("settings.json", '{"beep": false}'),
}
"""A file of the user's own settings for each."""


@pytest.mark.parametrize("name", sorted(SETTINGS))
def test_a_session_is_taken_up_again(name: str, bench: AgentBench) -> None:
    """On the user's own account, whose settings stay as they are; the way to the model is the
    environment's."""
    script = [{"text": "My name is Bridle.", "usage": {"input_tokens": 100, "output_tokens": 7}}]
    more = [{"text": "I said Bridle.", "usage": {"input_tokens": 200, "output_tokens": 9}}]
    account = bench.home / "account"
    account.mkdir()
    settings, content = SETTINGS[name]
    (account / settings).write_text(content)
    with ScriptedModel([*script, *more]) as model:
        provider = {"base_url": model.url + ("" if name == "claude-acp" else "/v1")}
        around: dict[str, Any] = {
            "model_server": None,
            "provider": {**provider, "auth_token_env": "TEST_KEY"},
            "env": {"TEST_KEY": "bridle-scripted-key", "COPILOT_OFFLINE": "true"},
            "model": "claude-sonnet-4-5" if name == "claude-acp" else "gpt-5.5",
            "account_dir": str(account),
        }
        options = msgspec.convert({"prompt": "x", **around}, RunOptions)
        around["provider"] = options.provider
        first = run(name, bench, model.url, prompt="Who are you?", **around)
        assert first.result.error is None, first.result.error
        resumed = first.result.native_session_id
        second = run(name, bench, model.url, prompt="What?", resume=resumed, **around)
        assert second.result.error is None, second.result.error
        third = run(name, bench, model.url, resume=str(uuid.uuid4()), **around)
        sent = [str(request.body) for request in model.requests]
    assert second.result.native_session_id == resumed
    assert second.result.text == "I said Bridle."
    assert [event.text for event in second.of(ev.MessageEnd)] == ["I said Bridle."]
    assert second.result.usage == Usage(input_tokens=200, output_tokens=9)
    assert any("My name is Bridle." in body and "What?" in body for body in sent)
    assert third.result.error is not None
    assert third.result.error.kind == "resume_refused"
    assert (account / settings).read_text() == content


@pytest.mark.parametrize("name", ["claude-acp", "opencode-acp"])
def test_a_copy_of_a_session(name: str, bench: AgentBench) -> None:
    account = bench.home / "account"
    account.mkdir()
    counts = {"input_tokens": 100, "output_tokens": 7}
    with ScriptedModel([{"text": text, "usage": counts} for text in ("One.", "Two.")]) as model:
        kept: dict[str, Any] = {"account_dir": str(account)}
        first = run(name, bench, model.url, prompt="Who are you?", **kept).result
        kept |= {"resume": first.native_session_id, "provider_options": {"fork": True}}
        copy = run(name, bench, model.url, prompt="What?", **kept)
        assert "Who are you?" in str(model.requests[-1].body)
    assert copy.result.error is None
    assert copy.result.native_session_id not in (None, first.native_session_id)
    assert [event.text for event in copy.of(ev.MessageEnd)] == ["Two."]
    assert first.usage == copy.result.usage == Usage(**counts)


def test_claude_gets_an_added_system_prompt(bench: AgentBench) -> None:
    with ScriptedModel([{"text": "Yes."}]) as model:
        run("claude-acp", bench, model.url, append_system_prompt="Speak like a tailor.")
        bodies = [str(request.body) for request in model.requests]
    assert any("Speak like a tailor." in body for body in bodies)


@pytest.mark.parametrize("name", ["claude-acp", "copilot-acp"])
def test_a_failing_service(name: str, bench: AgentBench) -> None:
    with ScriptedModel([{"fault": {"status": 529}}]) as model:
        done = run(name, bench, model.url, provider_options={"max_retries": 1})
    assert done.result.error is not None
    assert done.result.error.kind == "overloaded", done.result.error


@pytest.mark.parametrize("name", ["cline-acp", "copilot-acp", "gemini-acp", "opencode-acp"])
def test_servers_that_are_named_are_started(name: str, bench: AgentBench) -> None:
    """Also by the two that ignore the servers of the protocol."""
    mark = bench.home / "started"
    server = {"command": "/bin/sh", "args": ["-c", f"touch '{mark}'; exec cat >/dev/null"]}
    servers = msgspec.json.encode({"mcpServers": {"mine": server}}).decode()
    with ScriptedModel([{"text": "Hello."}]) as model:
        run(name, bench, model.url, mcp_config=servers, timeout=60)
    assert mark.exists()


@pytest.mark.parametrize("name", ["cline-acp", "copilot-acp", "gemini-acp", "opencode-acp"])
def test_a_provider_and_added_instructions(name: str, bench: AgentBench) -> None:
    """A model service of the caller's own, in the user's own home."""
    with ScriptedModel([{"text": "Hello."}], token="provider-key-1") as model:
        path = "" if name == "gemini-acp" else "/v1"
        provider = Provider(base_url=f"{model.url}{path}", auth_token_env="MY_KEY")
        done = run(
            name,
            bench,
            "",
            model_server=None,
            provider=provider,
            model="gemini-2.5-pro" if name == "gemini-acp" else "big",
            append_system_prompt="Mind the purple rule.",
            env={"MY_KEY": "provider-key-1"},
        )
        asked = [str(request.body) for request in model.requests if request.outcome != "side"]
    assert (done.result.status, done.result.text) == ("completed", "Hello.")
    assert "Mind the purple rule." in asked[0]
