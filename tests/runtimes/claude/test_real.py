"""Claude Code itself, in every pinned version, driven against the scripted model."""

import os
import signal
import uuid
from typing import Any

import msgspec
import pytest

from bridle.core import events as ev
from bridle.core.options import ModelServer, Provider
from bridle.drives.print_run import PrintRun
from bridle.process.process_tree import marked_processes, send_signal
from bridle.runtimes.claude import ClaudeRuntime
from bridle.testing import ScriptedModel
from bridle.testing.bench import AgentBench, AgentRun
from tests.support.real_cli import pinned_as

pytestmark = pytest.mark.real_cli

VERSIONS = ("2.1.197", "2.1.325")
KEY = "sk-ant-scripted-0123456789abcdefghij"
LIMIT = 60.0

WRITES = """
- text: I will write the file now.
  chunks: 4
  shell: "printf 'made by shell' > shell.txt"
  usage: {input_tokens: 300, output_tokens: 40, cache_read_tokens: 70, cache_write_tokens: 5}
- text: Done. ORCHESTRA_COMPLETE
  chunks: 3
  usage: {input_tokens: 500, output_tokens: 60, cache_read_tokens: 30}
"""


@pytest.fixture(params=VERSIONS)
def version(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def run(
    version: str,
    bench: AgentBench,
    url: str,
    *,
    kill_at: type[ev.Event] | None = None,
    **options: Any,
) -> AgentRun:
    """Run a prompt to its end; nothing that it prints may be unknown."""
    wanted: dict[str, Any] = {
        "prompt": "Please write the file.",
        "model": "claude-sonnet-4-5",
        "timeout": LIMIT,
        "model_server": ModelServer(url=url, api_key=KEY),
    }

    def kill(event: ev.Event, _: PrintRun) -> None:
        if kill_at is not None and isinstance(event, kill_at):
            send_signal(min(marked_processes(event.session_id)), signal.SIGKILL)

    done = bench.run(pinned_as(ClaudeRuntime, version), on_event=kill, **{**wanted, **options})
    assert not [event.raw for event in done.of(ev.Unknown)]
    assert KEY not in str((done.plan.spec.argv, done.events))
    return done


def test_a_text_a_shell_call_and_a_last_text(version: str, bench: AgentBench) -> None:
    with ScriptedModel(WRITES) as model:
        done = run(version, bench, model.url)
        model.assert_finished()
    assert done.kinds == [
        "session_start",
        "state",
        "agent_start",
        "message_start",
        *["text_start", *["text_delta"] * 4, "text_end"],
        "message_end",
        "tool_execution_start",
        "tool_execution_end",
        "message_start",
        *["text_start", *["text_delta"] * 3, "text_end"],
        "message_end",
        "usage",
        "agent_end",
        "state",
        "session_end",
    ]
    result = done.result
    assert (bench.work / "shell.txt").read_text() == "made by shell"
    assert (result.status, result.exit_code) == ("completed", 0)
    assert result.runtime_version == version
    assert result.native_session_id == done.plan.session_id
    assert result.model == "claude-sonnet-4-5"
    assert result.text == "Done. ORCHESTRA_COMPLETE"
    assert result.marker_detected
    usage = result.usage
    assert (usage.input_tokens, usage.output_tokens) == (800, 100)
    assert (usage.cache_read_tokens, usage.cache_write_tokens) == (100, 5)
    assert [each.usage and each.usage.output_tokens for each in done.of(ev.MessageEnd)] == [40, 60]
    assert result.cost_source == "provider"


def test_a_custom_models_price_is_not_believed(version: str, bench: AgentBench) -> None:
    with ScriptedModel(WRITES) as model:
        result = run(version, bench, model.url, model="my-own-model").result
    assert (result.cost_usd, result.cost_source) == (None, "unknown")
    assert result.usage.output_tokens == 100
    with ScriptedModel(WRITES) as model:
        result = run(version, bench, model.url, model="my-own-model", budget_usd=5.0).result
    assert (result.status, result.exit_status) == ("budget_exceeded", 8)
    assert result.error is not None
    assert "price of my-own-model is not known" in result.error.message


FAULTS: dict[str, tuple[Any, dict[str, Any], str]] = {
    "401": ([{"fault": {"kind": "authentication"}}], {}, "not_authenticated"),
    "403": ([{"fault": {"kind": "permission"}}], {}, "not_authenticated"),
    "404": ([{"fault": {"kind": "not_found"}}], {}, "unavailable"),
    "429": ([{"fault": {"kind": "rate_limit"}}], {}, "rate_limited"),
    "429-reset": ([{"fault": {"kind": "usage_limit", "resets_in": 3600}}], {}, "rate_limited"),
    "429-retry-after": (
        [{"fault": {"kind": "rate_limit", "retry_after": 1}}],
        {},
        "rate_limited",
    ),
    "credit": ([{"fault": {"kind": "quota"}}], {}, "billing"),
    "500": ([{"fault": {"kind": "server_error"}}], {}, "unavailable"),
    "503": ([{"fault": {"status": 503}}], {}, "overloaded"),
    "529": ([{"fault": {"kind": "overloaded"}}], {}, "overloaded"),
    "overflow": ([{"context_overflow": True}], {}, "context_overflow"),
    "413": ([{"fault": {"kind": "too_large"}}], {}, "context_overflow"),
    "400": ([{"fault": {"kind": "bad_request"}}], {}, "unavailable"),
    "max-tokens": (
        [{"text": "cut short", "stop_reason": "max_tokens"}] * 8,
        {},
        "context_overflow",
    ),
    "refusal": ([{"text": "No.", "stop_reason": "refusal"}] * 4, {}, "unavailable"),
    "max-turns": (
        [{"text": "again", "shell": "echo a"}] * 6,
        {"max_turns": 2},
        "budget_exceeded",
    ),
    "budget": (
        [{"text": "again", "shell": "echo a"}] * 40,
        {"budget_usd": 0.002},
        "budget_exceeded",
    ),
    "budget in the last call": (
        [{"text": "Done.", "usage": {"input_tokens": 100000, "output_tokens": 10}}],
        {"budget_usd": 0.001},
        "budget_exceeded",
    ),
    "stall": (
        [{"text": "one two", "chunks": 2, "fault": {"stall": 60}}],
        {"timeout": 4.0},
        "timeout",
    ),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_ends_typed_in_bounded_time(version: str, bench: AgentBench, fault: str) -> None:
    script, options, kind = FAULTS[fault]
    options = {"provider_options": {"max_retries": 1}, **options}
    with ScriptedModel(script) as model:
        result = run(version, bench, model.url, **options).result
    assert result.error is not None
    assert result.error.kind == kind
    # The run ended by itself, long before its limit; only the stall had to be stopped.
    assert (result.status == "timed_out") is (fault == "stall")


def test_a_refused_connection_ends(version: str, bench: AgentBench) -> None:
    done = run(version, bench, "http://127.0.0.1:9", provider_options={"max_retries": 1})
    assert done.result.error is not None
    assert done.result.error.kind == "unavailable"
    assert len(done.of(ev.Retry)) == 1


def test_failures_then_success_show_as_retries(version: str, bench: AgentBench) -> None:
    script = [{"text": "Recovered.", "fault": {"kind": "overloaded", "times": 2}}]
    with ScriptedModel(script) as model:
        done = run(version, bench, model.url)
    assert done.result.status == "completed"
    assert [each.error.kind for each in done.of(ev.Retry)] == ["overloaded"] * 2
    assert done.result.usage.output_tokens == 20


def test_a_cut_stream_that_claude_mends_is_completed(version: str, bench: AgentBench) -> None:
    script = [{"text": "one two three four", "chunks": 4, "fault": {"cut": True}}]
    with ScriptedModel(script) as model:
        # The second try must not count as a second turn.
        done = run(version, bench, model.url, max_turns=1)
    assert (done.result.status, done.result.error) == ("completed", None)
    assert done.result.text == "one two three four"


def test_a_killed_agent_crashed(version: str, bench: AgentBench) -> None:
    script = [{"text": "running", "shell": "echo a; sleep 60"}]
    with ScriptedModel(script) as model:
        done = run(version, bench, model.url, kill_at=ev.ToolExecutionStart)
    assert done.result.error is not None
    assert done.result.error.kind == "crashed"
    assert done.of(ev.SessionEnd)[0].signal == "SIGKILL"
    assert done.of(ev.ToolExecutionEnd)[0].synthetic


def test_a_timeout_during_a_tool_leaves_no_process(version: str, bench: AgentBench) -> None:
    script = [{"text": "running", "shell": "echo $$ > pid.txt; sleep 60"}]
    with ScriptedModel(script) as model:
        done = run(version, bench, model.url, timeout=6.0)
    assert done.result.status == "timed_out"
    shell = int((bench.work / "pid.txt").read_text())
    assert not os.path.exists(f"/proc/{shell}")


def test_nobody_there_refuses_and_the_run_goes_on(version: str, bench: AgentBench) -> None:
    with ScriptedModel(WRITES) as model:
        done = run(version, bench, model.url, permission_mode="ask")
        (told,) = model.tool_results()
    assert not (bench.work / "shell.txt").exists()
    (request,), (decision,) = done.of(ev.PermissionRequest), done.of(ev.PermissionDecision)
    assert (decision.decision, decision.by) == ("deny", "bridle")
    assert request.tool_call_id == done.of(ev.ToolExecutionStart)[0].tool_call_id
    assert "nobody is there" in str(told)
    assert done.result.status == "completed"


def test_a_person_may_allow(version: str, bench: AgentBench) -> None:
    with ScriptedModel(WRITES) as model:
        done = run(
            version,
            bench,
            model.url,
            permission_mode="ask",
            permission=lambda question: (True, "me", ""),
        )
    assert (bench.work / "shell.txt").exists()
    assert [each.decision for each in done.of(ev.PermissionDecision)] == ["allow"]


def test_background_work_may_still_ask_and_the_run_ends(version: str, bench: AgentBench) -> None:
    background = {
        "name": "Bash",
        "args": {"command": "sleep 1", "description": "wait", "run_in_background": True},
    }
    script = [
        {"text": "starting", "tool_calls": [background]},
        {"text": "started"},
        {"text": "noticed", "shell": "printf late > late.txt"},
        {"text": "finished"},
    ]
    with ScriptedModel(script) as model:
        done = run(
            version,
            bench,
            model.url,
            permission_mode="ask",
            permission=lambda question: (True, "me", ""),
        )
    assert (done.result.status, done.result.text) == ("completed", "finished")
    assert (bench.work / "late.txt").exists()
    assert len(done.of(ev.AgentEnd)) == 1
    assert done.result.usage.output_tokens == 80


def test_a_conversation_is_taken_up_again_or_refused(version: str, bench: AgentBench) -> None:
    around = {"IS_SANDBOX": "1", "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1"}
    around |= {"DISABLE_AUTOUPDATER": "1", "SCRIPTED_KEY": KEY}
    script = [{"text": "first"}, {"text": "second"}, {"text": "third"}]
    with ScriptedModel(script) as model:
        options: dict[str, Any] = {
            "model_server": None,
            "provider": Provider(base_url=model.url, auth_token_env="SCRIPTED_KEY"),
            "environ": around,
        }
        first = run(version, bench, model.url, **options).result
        again = run(version, bench, model.url, resume=first.native_session_id, **options)
        assert again.result.native_session_id == first.native_session_id
        assert again.result.text == "second"
        forked = run(
            version,
            bench,
            model.url,
            resume=first.native_session_id,
            provider_options={"fork": True},
            **options,
        )
        assert forked.result.native_session_id == forked.plan.session_id
        assert forked.result.text == "third"
        gone = run(version, bench, model.url, resume=str(uuid.uuid4()), **options).result
    assert gone.error is not None
    assert gone.error.kind == "resume_refused"
    transcripts = pinned_as(ClaudeRuntime, version).transcript_dir(str(bench.work))
    folder = bench.home / ".claude" / "projects" / os.path.basename(transcripts or "")
    summary = pinned_as(ClaudeRuntime, version).parse_transcript(
        f"{folder}/{first.native_session_id}.jsonl"
    )
    assert summary is not None
    assert (summary.input_tokens, summary.output_tokens) == (200, 40)


def test_the_users_configuration_is_left_as_it_was(version: str, bench: AgentBench) -> None:
    config = bench.home / ".claude"
    config.mkdir()
    mine = {
        config / "settings.json": '{ "model":   "haiku" }\n',
        config / "CLAUDE.md": "be brief\n",
        config / ".credentials.json": "{}",
        bench.work / "CLAUDE.md": "the project's\n",
    }
    for path, text in mine.items():
        path.write_text(text)
    around = {"IS_SANDBOX": "1", "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1"}
    around |= {"DISABLE_AUTOUPDATER": "1", "SCRIPTED_KEY": KEY}
    state = bench.home / ".claude.json"
    with ScriptedModel(WRITES) as model:
        provider = Provider(base_url=model.url, auth_token_env="SCRIPTED_KEY")
        for _ in range(2):
            before = state.read_bytes() if state.exists() else None
            run(version, bench, model.url, model_server=None, provider=provider, environ=around)
            assert {path: path.read_text() for path in mine} == mine
    # The first start of a version writes its own state file; after that it stays the same.
    assert state.read_bytes() == before


def test_settings_of_the_user_lead_no_provider_astray(version: str, bench: AgentBench) -> None:
    """Settings win over the environment: an address, headers and keys there would win, too."""
    (bench.home / ".claude").mkdir()
    (bench.work / ".claude").mkdir()
    around = {"IS_SANDBOX": "1", "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1"}
    around |= {"DISABLE_AUTOUPDATER": "1", "SCRIPTED_KEY": KEY}
    with ScriptedModel(WRITES) as model, ScriptedModel(WRITES) as own:
        mine = {"ANTHROPIC_BASE_URL": own.url, "ANTHROPIC_AUTH_TOKEN": "users-own-token"}
        settings = {"env": mine, "apiKeyHelper": "echo users-own-key"}
        (bench.home / ".claude/settings.json").write_bytes(msgspec.json.encode(settings))
        more = {"ANTHROPIC_CUSTOM_HEADERS": "X-Mine: 1", "CLAUDE_CODE_USE_BEDROCK": "1"}
        local = msgspec.json.encode({"env": more})
        (bench.work / ".claude/settings.local.json").write_bytes(local)
        provider = Provider(base_url=model.url, auth_token_env="SCRIPTED_KEY")
        done = run(version, bench, "", model_server=None, provider=provider, environ=around)
        assert done.result.status == "completed", done.result.error
        assert own.requests == []
        calls = [each.headers for each in model.requests if "/v1/messages" in each.path]
    assert len(calls) == 2
    for headers in calls:
        assert "x-mine" not in headers
        # The server shows a key by its digest; all that comes must be the provider's.
        keys = {headers[name] for name in ("authorization", "x-api-key") if name in headers}
        assert len(keys) == 1


def test_on_a_model_server_the_home_is_not_even_looked_at(version: str, bench: AgentBench) -> None:
    config = bench.home / ".claude"
    config.mkdir()
    (config / "settings.json").write_text('{"hooks": "broken on purpose"')
    with ScriptedModel(WRITES) as model:
        assert run(version, bench, model.url).result.status == "completed"
    assert [path.name for path in config.iterdir()] == ["settings.json"]
    assert not (bench.home / ".claude.json").exists()


def test_only_these_tools_are_offered(version: str, bench: AgentBench) -> None:
    with ScriptedModel([{"text": "ok"}]) as model:
        run(version, bench, model.url, allowed_tools=("Bash", "Read"))
        offered = {tool["name"] for tool in model.requests[-1].body["tools"]}
    assert offered - {"DeferredToolPlaceholder"} == {"Bash", "Read"}


def test_a_denied_tool_is_not_offered(version: str, bench: AgentBench) -> None:
    with ScriptedModel([{"text": "ok"}]) as model:
        run(version, bench, model.url, denied_tools=("Bash",))
        offered = {tool["name"] for tool in model.requests[-1].body["tools"]}
    assert "Bash" not in offered
    assert "Read" in offered


def test_prompts_of_any_size_and_kind_arrive(version: str, bench: AgentBench) -> None:
    prompt = "-- begins like a flag\n" + "größer " * 60_000
    image = bench.work / "dot.png"
    image.write_bytes(
        bytes.fromhex(
            "89504e470d0a1a0a0000000d4948445200000001000000010802000000907753de0000000c49444154"
            "789c63f8cfc000000301010018dd8db00000000049454e44ae426082"
        )
    )
    with ScriptedModel([{"text": "ok"}]) as model:
        run(
            version,
            bench,
            model.url,
            prompt=prompt,
            images=(str(image),),
            system_prompt="SYSTEM-MARK " + "s" * 200_000,
            append_system_prompt="APPENDED-MARK",
        )
        body = model.requests[-1].body
    assert prompt in msgspec.json.encode(body["messages"]).decode().replace("\\n", "\n")
    assert '"type":"image"' in msgspec.json.encode(body["messages"]).decode()
    assert "SYSTEM-MARK" in str(body["system"])
    assert "APPENDED-MARK" in str(body["system"])


def test_a_flag_it_does_not_know_is_drift(version: str, bench: AgentBench) -> None:
    done = run(version, bench, "http://127.0.0.1:9", raw_args=("--no-such-flag",))
    assert done.result.error is not None
    assert done.result.error.kind == "protocol_drift"
    assert "--no-such-flag" in done.result.error.message


def test_a_structured_answer(version: str, bench: AgentBench) -> None:
    schema = {
        "type": "object",
        "required": ["files"],
        "properties": {"files": {"type": "array", "items": {"type": "string"}}},
    }
    answer = {"tool_calls": [{"name": "StructuredOutput", "args": {"files": ["a.py"]}}]}
    with ScriptedModel([{"text": "I look.", "shell": "true"}, answer, {"text": "Done."}]) as model:
        done = run(version, bench, model.url, output_schema=schema, permission_mode="ask")
        offered = str([request.body for request in model.requests])
    assert "StructuredOutput" in offered
    assert (done.result.status, done.result.structured) == ("completed", {"files": ["a.py"]})
    # Claude itself or, when it lets the answer pass, Bridle asks for it again.
    with ScriptedModel([{"text": "It is a.py."}, answer, {"text": "Done."}]) as model:
        done = run(version, bench, model.url, output_schema=schema, allowed_tools=("Read",))
    assert (done.result.status, done.result.structured) == ("completed", {"files": ["a.py"]})
