"""The six real agents, each driven over the protocol against the scripted model.

Few runs each, since they take seconds to start; everything else is told by the captures.
"""

import os
import shutil
import subprocess
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from bridle.core import events as ev
from bridle.core.options import ModelServer, Provider, RunOptions
from bridle.core.results import RunResult
from bridle.core.usage import Usage
from bridle.drives.print_run import PermissionPolicy, refuse_all
from bridle.process.process_tree import marked_processes
from bridle.runs import prepare
from bridle.runtimes.acp.adapter import OverAcp
from bridle.runtimes.acp.declared import ClaudeAcp, CodexAcp
from bridle.runtimes.cline import ClineAcp
from bridle.runtimes.contract import AdapterSettings
from bridle.runtimes.copilot import CopilotAcp
from bridle.runtimes.gemini import GeminiAcp
from bridle.runtimes.opencode import OpencodeAcp
from bridle.testing import ScriptedModel
from bridle.testing.contract import check_event_order
from bridle.turns.wire import Question
from tests.runtimes.acp.support import short, word
from tests.support.real_cli import path_with_bubblewrap, real_cli

pytestmark = [pytest.mark.real_cli, pytest.mark.timeout(240)]

SCRATCH = Path(__file__).parents[3] / ".tmp" / "acp"
LIMIT = 100.0

AGENTS: dict[str, tuple[type[OverAcp], str, str]] = {
    "claude-acp": (ClaudeAcp, "claude-agent-acp", "0.49.0"),
    "cline-acp": (ClineAcp, "cline", "3.0.65"),
    "codex-acp": (CodexAcp, "codex-acp", "0.16.0"),
    "copilot-acp": (CopilotAcp, "copilot", "1.0.102"),
    "gemini-acp": (GeminiAcp, "gemini", "0.61.0"),
    "opencode-acp": (OpencodeAcp, "opencode", "1.18.33"),
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


class Place(msgspec.Struct, frozen=True):
    """A home and a repository of its own."""

    home: Path
    repo: Path


class Done(msgspec.Struct, frozen=True):
    """A run that is over."""

    events: list[ev.Event]
    result: RunResult

    @property
    def trace(self) -> list[str]:
        return short([word(event) for event in self.events])

    def of(self, kind: type[ev.Event]) -> list[Any]:
        return [event for event in self.events if isinstance(event, kind)]


@pytest.fixture
def place() -> Iterator[Place]:
    root = SCRATCH / uuid.uuid4().hex[:12]
    made = Place(home=root / "home", repo=root / "repo")
    made.home.mkdir(parents=True)
    made.repo.mkdir()
    subprocess.run(["git", "init", "-q", "."], cwd=made.repo, check=True)
    # Copilot unpacks 235 MB for each home; one cache serves all tests.
    (SCRATCH / "copilot-cache").mkdir(exist_ok=True)
    (made.home / ".cache").mkdir()
    (made.home / ".cache" / "copilot").symlink_to(SCRATCH / "copilot-cache")
    yield made
    shutil.rmtree(root, ignore_errors=True)


def environment(place: Place, name: str = "") -> dict[str, str]:
    path = os.environ["PATH"]
    if name == "codex-acp":
        path = path_with_bubblewrap(path)
    base = {"PATH": path, "HOME": str(place.home), "LANG": "C.UTF-8"}
    return {**base, "TERM": "xterm-256color"}


def run(
    name: str,
    place: Place,
    url: str,
    *,
    permission: PermissionPolicy = refuse_all,
    on_event: Callable[[ev.Event, Callable[[], None]], None] | None = None,
    **options: Any,
) -> Done:
    """Run a prompt to its end; order, survivors and private folders are checked."""
    cls, package, version = AGENTS[name]
    runtime = cls(AdapterSettings(binary=str(real_cli(package, version))))
    wanted: dict[str, Any] = {
        "prompt": "Please write the file.",
        "cwd": str(place.repo),
        "permission_mode": "bypass",
        "timeout": LIMIT,
        "model_server": ModelServer(url=url, api_key="bridle-scripted-key"),
    }
    prepared = prepare(
        runtime,
        RunOptions(**{**wanted, **options}),
        env=environment(place, name),
        permission=permission,
    )
    assert prepared.plan.installation.version == version
    events: list[ev.Event] = []
    for event in prepared.run.events():
        events.append(event)
        if on_event is not None:
            on_event(event, prepared.run.abort)
    assert check_event_order(events) == []
    assert marked_processes(prepared.plan.session_id) == []
    assert not any(os.path.exists(folder) for folder in prepared.plan.private_dirs)
    return Done(events, prepared.run.result)


@each_agent
def test_a_text_a_shell_call_and_a_last_text(name: str, place: Place) -> None:
    with ScriptedModel(WRITES) as model:
        done = run(name, place, model.url)
        model.assert_finished()
    assert [each for each in done.trace if each != "tool_execution_update"] == COMMON
    result = done.result
    assert (result.status, result.text) == ("completed", "Done. ORCHESTRA_COMPLETE")
    assert result.marker_detected
    assert (place.repo / "shell.txt").read_text() == "made by shell"
    assert result.usage == Usage(input_tokens=800, output_tokens=100, cache_read_tokens=100)
    assert result.native_session_id


@each_agent
def test_a_refused_key(name: str, place: Place) -> None:
    with ScriptedModel([{"fault": {"kind": "authentication"}}]) as model:
        done = run(name, place, model.url)
    assert done.result.error is not None
    assert done.result.error.kind == "not_authenticated", done.result.error
    assert done.result.status == "failed"


@each_agent
def test_a_refused_connection_ends(name: str, place: Place) -> None:
    clock = {"silence_timeout": 12, "max_retries": 1}
    done = run(name, place, "http://127.0.0.1:9", provider_options=clock)
    assert done.result.error is not None
    assert done.result.error.kind == "unavailable", done.result.error


@each_agent
def test_a_person_says_no(name: str, place: Place) -> None:
    asked: list[Question] = []

    def no(question: Question) -> tuple[bool, str, str]:
        asked.append(question)
        return False, "test", "not today"

    outside = place.repo.parent / "outside.txt"
    # Codex does not always tell of a command that fails at once, so this one takes its time.
    command = f"sleep 0.5; touch {outside}"
    script = [{"text": "Trying.", "shell": command}, {"text": "I could not."}]
    with ScriptedModel(script) as model:
        done = run(name, place, model.url, permission=no, permission_mode="ask")
    assert not outside.exists()
    assert [event.is_error for event in done.of(ev.ToolExecutionEnd)] == [True]
    if name == "codex-acp":
        # It asks for nothing that its sandbox refuses by itself.
        assert asked == []
        return
    assert len(asked) == 1
    assert [event.decision for event in done.of(ev.PermissionDecision)] == ["deny"]


@each_agent
def test_stopped_while_a_tool_runs(name: str, place: Place) -> None:
    def stop(event: ev.Event, abort: Callable[[], None]) -> None:
        if isinstance(event, ev.ToolExecutionStart):
            abort()

    with ScriptedModel([{"text": "Waiting.", "shell": "sleep 60"}]) as model:
        done = run(name, place, model.url, on_event=stop)
    assert done.result.status == "aborted"
    assert [event.tool_call_id for event in done.of(ev.ToolExecutionEnd)]


SETTINGS = {
    "claude-acp": ("settings.json", '{"cleanupPeriodDays": 33}'),
    "codex-acp": ("config.toml", '# mine\nmodel_verbosity = "low"\n'),
    "copilot-acp": ("settings.json", '{"beep": false}'),
}
"""A file of the user's own settings for each."""


@pytest.mark.parametrize("name", sorted(SETTINGS))
def test_a_session_is_taken_up_again(name: str, place: Place) -> None:
    """On the user's own account, whose settings stay as they are; the way to the model is the
    environment's."""
    script = [{"text": "My name is Bridle.", "usage": {"input_tokens": 100, "output_tokens": 7}}]
    more = [{"text": "I said Bridle.", "usage": {"input_tokens": 200, "output_tokens": 9}}]
    account = place.home / "account"
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
        first = run(name, place, model.url, prompt="Who are you?", **around)
        assert first.result.error is None, first.result.error
        resumed = first.result.native_session_id
        second = run(name, place, model.url, prompt="What?", resume=resumed, **around)
        assert second.result.error is None, second.result.error
        third = run(name, place, model.url, resume=str(uuid.uuid4()), **around)
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
def test_a_copy_of_a_session(name: str, place: Place) -> None:
    account = place.home / "account"
    account.mkdir()
    counts = {"input_tokens": 100, "output_tokens": 7}
    with ScriptedModel([{"text": text, "usage": counts} for text in ("One.", "Two.")]) as model:
        kept: dict[str, Any] = {"account_dir": str(account)}
        first = run(name, place, model.url, prompt="Who are you?", **kept).result
        kept |= {"resume": first.native_session_id, "provider_options": {"fork": True}}
        copy = run(name, place, model.url, prompt="What?", **kept)
        assert "Who are you?" in str(model.requests[-1].body)
    assert copy.result.error is None
    assert copy.result.native_session_id not in (None, first.native_session_id)
    assert [event.text for event in copy.of(ev.MessageEnd)] == ["Two."]
    assert first.usage == copy.result.usage == Usage(**counts)


def test_claude_gets_an_added_system_prompt(place: Place) -> None:
    with ScriptedModel([{"text": "Yes."}]) as model:
        run("claude-acp", place, model.url, append_system_prompt="Speak like a tailor.")
        bodies = [str(request.body) for request in model.requests]
    assert any("Speak like a tailor." in body for body in bodies)


@pytest.mark.parametrize("name", ["claude-acp", "copilot-acp"])
def test_a_failing_service(name: str, place: Place) -> None:
    with ScriptedModel([{"fault": {"status": 529}}]) as model:
        done = run(name, place, model.url, provider_options={"max_retries": 1})
    assert done.result.error is not None
    assert done.result.error.kind == "overloaded", done.result.error


@pytest.mark.parametrize("name", ["cline-acp", "copilot-acp", "gemini-acp", "opencode-acp"])
def test_servers_that_are_named_are_started(name: str, place: Place) -> None:
    """Also by the two that ignore the servers of the protocol."""
    mark = place.home / "started"
    server = {"command": "/bin/sh", "args": ["-c", f"touch '{mark}'; exec cat >/dev/null"]}
    servers = msgspec.json.encode({"mcpServers": {"mine": server}}).decode()
    with ScriptedModel([{"text": "Hello."}]) as model:
        run(name, place, model.url, mcp_config=servers, timeout=60)
    assert mark.exists()


@pytest.mark.parametrize("name", ["cline-acp", "copilot-acp", "gemini-acp", "opencode-acp"])
def test_a_provider_and_added_instructions(name: str, place: Place) -> None:
    """A model service of the caller's own, in the user's own home."""
    with ScriptedModel([{"text": "Hello."}], token="provider-key-1") as model:
        path = "" if name == "gemini-acp" else "/v1"
        provider = Provider(base_url=f"{model.url}{path}", auth_token_env="MY_KEY")
        done = run(
            name,
            place,
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
