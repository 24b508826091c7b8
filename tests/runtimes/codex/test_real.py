"""The real Codex, in each pinned version, on the scripted model."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from bridle.core import events as ev
from bridle.core.errors import UnsupportedOption
from bridle.core.options import Provider
from bridle.core.results import Ready
from bridle.core.usage import Usage
from bridle.drives.print_run import PrintRun
from bridle.process.process_tree import marked_processes
from bridle.testing.bench import AgentBench
from tests.runtimes.codex.captures import types
from tests.runtimes.codex.real import KEY, VERSIONS, RealCodex, model_of

pytestmark = pytest.mark.real_cli

FIRST = Usage(input_tokens=300, output_tokens=40, cache_read_tokens=70, reasoning_tokens=7)
SECOND = Usage(input_tokens=500, output_tokens=60, cache_read_tokens=30)


def usage(tokens: Usage) -> dict[str, int]:
    return {name: getattr(tokens, name) for name in Usage.__struct_fields__}


SCRIPT = [
    {
        "text": "I will write the file now.",
        "shell": "echo made > made.txt; cat made.txt",
        "usage": usage(FIRST),
    },
    {"text": "Done. ORCHESTRA_COMPLETE", "usage": usage(SECOND)},
]
TYPES = [
    *("session_start", "state", "agent_start"),
    *("message_start", "text_start", "text_delta", "text_end", "message_end"),
    *("tool_execution_start", "tool_execution_end"),
    *("message_start", "text_start", "text_delta", "text_end", "message_end"),
    *("usage", "agent_end", "state", "session_end"),
]


@pytest.fixture(params=VERSIONS)
def codex(request: pytest.FixtureRequest, bench: AgentBench) -> RealCodex:
    return RealCodex(bench, request.param)


@pytest.mark.parametrize("name", ["gpt-5.5", None], ids=["classic", "default"])
def test_one_script(codex: RealCodex, name: str | None) -> None:
    with model_of(SCRIPT) as model:
        result = codex.run(model, model=name)
        model.assert_finished()
        assert model.prompts() == ["Please do it."]
    assert result.error is None
    assert types(codex.events) == TYPES
    assert (codex.work / "made.txt").read_text() == "made\n"
    assert result.usage == FIRST + SECOND
    assert result.marker_detected
    assert result.text == "Done. ORCHESTRA_COMPLETE"
    assert result.model == (name or result.model)
    assert result.model
    assert result.runtime_version == codex.version
    assert (result.cost_usd, result.cost_source) == (None, "unknown")
    tool = next(event for event in codex.events if isinstance(event, ev.ToolExecutionEnd))
    assert (tool.is_error, tool.result) == (False, {"output": "made\n", "exit_code": 0})
    assert list(codex.config_home.iterdir()) == []


def test_a_huge_prompt_arrives_whole(codex: RealCodex) -> None:
    prompt = "é" * 300_000 + " end"
    with model_of([{"text": "ok"}]) as model:
        result = codex.run(model, prompt=prompt)
        assert result.status == "completed"
        assert model.prompts() == [prompt]


def test_instructions_and_images_reach_the_model(codex: RealCodex) -> None:
    image = codex.root / "dot.png"
    image.write_bytes(
        bytes.fromhex(
            "89504e470d0a1a0a0000000d49484452000000010000000108020000009077"
            "53de0000000c49444154789c63f8cfc0000003010100c9fe92ef0000000049454e44ae426082"
        )
    )
    with model_of([{"text": "ok"}, {"text": "more"}]) as model:
        result = codex.run(
            model,
            system_prompt='You are a "test".\nNothing else.',
            append_system_prompt="Add é\tthis.",
            images=(str(image),),
        )
        assert result.status == "completed", result.error
        sent = json.dumps(model.requests[0].body)
    assert json.dumps('You are a "test".\nNothing else.')[1:-1] in sent
    assert json.dumps("Add é\tthis.")[1:-1] in sent
    assert "data:image/png;base64" in sent


def test_ask_may_read_but_not_write(codex: RealCodex) -> None:
    script = [{"shell": "sleep 0.4; cat /proc/self/comm; echo no > no.txt"}, {"text": "ok"}]
    with model_of(script) as model:
        result = codex.run(model, permission_mode="ask")
        assert "Read-only file system" in model.tool_results()[0].text
    assert result.status == "completed"
    assert not (codex.work / "no.txt").exists()


def test_no_sandbox_when_told_so(codex: RealCodex) -> None:
    outside = codex.root / "outside.txt"
    with model_of([{"shell": f"echo yes > {outside}"}, {"text": "ok"}]) as model:
        assert codex.run(model, sandbox="off").status == "completed"
    assert outside.read_text() == "yes\n"


# -- failures -------------------------------------------------------------------------------------

FAULTS: dict[str, tuple[dict[str, Any], str]] = {
    "401": ({"status": 401}, "not_authenticated"),
    "403": ({"status": 403}, "not_authenticated"),
    "429": ({"kind": "rate_limit"}, "rate_limited"),
    "429-retry-after": ({"kind": "rate_limit", "retry_after": 1}, "rate_limited"),
    "429-reset": ({"kind": "usage_limit", "resets_at": 1900000000}, "rate_limited"),
    "429-quota": ({"kind": "quota"}, "billing"),
    "400": ({"status": 400}, "unavailable"),
    "404": ({"status": 404}, "unavailable"),
    "413": ({"status": 413}, "context_overflow"),
    "500": ({"status": 500}, "unavailable"),
    "503": ({"status": 503}, "overloaded"),
    "529": ({"status": 529}, "overloaded"),
    "overflow": ({"kind": "context_overflow"}, "context_overflow"),
    "malformed": ({"malformed": True, "times": 99}, "unavailable"),
    "cut": ({"cut": True, "times": 99}, "unavailable"),
}


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault(codex: RealCodex, name: str) -> None:
    fault, kind = FAULTS[name]
    turn = {"fault": fault, **({"text": "a longer text"} if "times" in fault else {})}
    if name == "429-quota" and codex.version == "0.120.0":
        # The older line keeps the body of a 429 to itself: the wire cannot tell the two apart.
        kind = "rate_limited"
    with model_of([turn]) as model:
        result = codex.run(model)
    assert result.status == "failed"
    assert result.error is not None
    assert result.error.kind == kind, result.error
    assert result.error.hint
    assert (result.error.until is not None) == (name == "429-reset")


@pytest.mark.parametrize(
    ("fault", "kind"), [("rate_limit", "rate_limited"), ("overloaded", "overloaded")]
)
def test_a_long_pause_is_not_waited_for(codex: RealCodex, fault: str, kind: str) -> None:
    turn = {"text": "never", "fault": {"kind": fault, "retry_after": 600, "times": 9}}
    with model_of([turn]) as model:
        result = codex.run(model)
    assert result.status == "failed"
    assert result.error is not None
    assert result.error.kind == kind, result.error
    assert "trace_safe" not in result.error.stderr_tail
    heeds = codex.version == "0.166.0"
    assert (result.error.until is not None) == (heeds and fault == "rate_limit")


def test_a_short_pause_is_waited_for(codex: RealCodex) -> None:
    turn = {"text": "Here.", "fault": {"kind": "overloaded", "retry_after": 1, "times": 1}}
    with model_of([turn]) as model:
        result = codex.run(model)
    assert (result.status, result.text) == ("completed", "Here.")
    told = [event for event in codex.events if isinstance(event, ev.Retry)]
    if codex.version == "0.166.0":
        (retry,) = told
        assert retry.error.kind == "overloaded"
        assert retry.delay_ms is not None


def test_a_refused_connection_ends(codex: RealCodex) -> None:
    with model_of([{"text": "never"}]) as model:
        pass
    result = codex.run(model)
    assert result.error is not None
    assert result.error.kind == "unavailable"
    assert any(isinstance(event, ev.Retry) for event in codex.events)


def test_a_failure_that_passes_is_no_failure(codex: RealCodex) -> None:
    with model_of([{"text": "Recovered.", "fault": {"status": 500, "times": 2}}]) as model:
        result = codex.run(model)
    assert (result.status, result.text, result.error) == ("completed", "Recovered.", None)


def test_usage_of_a_failed_turn_is_counted(codex: RealCodex) -> None:
    script = [SCRIPT[0], {"fault": {"status": 401}}]
    with model_of(script) as model:
        result = codex.run(model)
    assert result.error is not None
    assert result.error.kind == "not_authenticated"
    assert result.usage == FIRST


SLEEP = [{"text": "Waiting.", "shell": "sleep 61 & sleep 60; echo woke"}, {"text": "Woke."}]


def tool_runs(session_id: str) -> bool:
    return len(marked_processes(session_id)) > 1


@pytest.mark.parametrize("sandbox", [None, "off"], ids=["sandboxed", "open"])
def test_a_timeout_during_a_command_leaves_nothing(codex: RealCodex, sandbox: str | None) -> None:
    script = [SLEEP[0], {"text": "x", "fault": {"stall": 60}}]
    seen: list[bool] = []

    def look(event: ev.Event, run: PrintRun) -> None:
        if isinstance(event, ev.ToolExecutionStart):
            seen.append(tool_runs(event.session_id))

    with model_of(script) as model:
        result = codex.run(model, timeout=4.0, sandbox=sandbox, on_event=look)
    assert seen == [True]
    assert result.status == "timed_out"
    assert result.error is not None
    assert result.error.kind == "timeout"


def test_a_stalled_model_is_given_up_in_time(codex: RealCodex) -> None:
    with model_of([{"text": "half of it", "fault": {"stall": 60}}]) as model:
        result = codex.run(model, timeout=3.0)
    assert result.status == "timed_out"


def test_an_abort_ends_cleanly(codex: RealCodex) -> None:
    def stop(event: ev.Event, run: PrintRun) -> None:
        if isinstance(event, ev.ToolExecutionStart):
            run.abort("enough")

    with model_of(SLEEP) as model:
        result = codex.run(model, on_event=stop)
    assert result.status == "aborted"


def test_a_killed_codex_has_crashed(codex: RealCodex) -> None:
    def kill(event: ev.Event, run: PrintRun) -> None:
        if isinstance(event, ev.ToolExecutionStart):
            binary = os.path.realpath(codex.runtime.installation().binary)
            for pid in marked_processes(event.session_id):
                words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
                if (
                    words[0] == os.fsencode(codex.runtime.installation().binary)
                    and b"exec" in words
                ):
                    assert os.path.realpath(f"/proc/{pid}/exe") == binary
                    os.kill(pid, signal.SIGKILL)

    with model_of(SLEEP) as model:
        result = codex.run(model, sandbox="off", on_event=kill)
    assert result.error is not None
    assert result.error.kind == "crashed"
    assert result.exit_code == -9


# -- going on with a thread, on the user's own home -----------------------------------------------


def own_home(codex: RealCodex, url: str) -> dict[str, Any]:
    """Options of a run on the user's own home, with a provider of the caller's."""
    codex.env["MY_KEY"] = KEY
    return {"provider": Provider(base_url=f"{url}/v1", auth_token_env="MY_KEY")}


def test_a_thread_is_resumed_and_counted_apart(codex: RealCodex) -> None:
    script = [*SCRIPT, {"text": "Again.", "usage": usage(SECOND)}]
    with model_of(script) as model:
        first = codex.run(None, **own_home(codex, model.url))
        assert first.error is None
        again = codex.run(None, resume=first.native_session_id, **own_home(codex, model.url))
        assert "Please do it." in json.dumps(model.requests[-1].body)
    assert again.error is None
    assert again.native_session_id == first.native_session_id
    assert again.text == "Again."
    assert first.usage == FIRST + SECOND
    assert again.usage == SECOND
    found = codex.runtime.parse_transcript(
        str(next(codex.config_home.glob(f"sessions/*/*/*/*{first.native_session_id}.jsonl")))
    )
    assert found is not None
    assert found.input_tokens == (FIRST + SECOND + SECOND).input_tokens


def test_a_thread_is_forked_and_stays_as_it_was(codex: RealCodex) -> None:
    script = [*SCRIPT, *({"text": f"Answer {n}.", "usage": usage(SECOND)} for n in range(3))]
    with model_of(script) as model:
        first = codex.run(None, **own_home(codex, model.url))
        fork: dict[str, Any] = {"provider_options": {"fork": True}, **own_home(codex, model.url)}
        if codex.version == "0.120.0":
            with pytest.raises(UnsupportedOption, match=r"fork.*codex-0\.120.*claude"):
                codex.run(None, resume=first.native_session_id, ignore_unsupported=True, **fork)
            return
        [record] = codex.config_home.glob(f"sessions/*/*/*/*{first.native_session_id}.jsonl")
        written = record.read_bytes()
        copy = codex.run(None, prompt="Copy.", resume=first.native_session_id, **fork)
        assert (copy.status, copy.text, copy.usage) == ("completed", "Answer 0.", SECOND)
        assert copy.native_session_id not in (None, first.native_session_id)
        assert "Please do it." in json.dumps(model.requests[-1].body)
        assert record.read_bytes() == written
        last = codex.run(None, resume=copy.native_session_id, **own_home(codex, model.url))
        assert (last.native_session_id, last.usage) == (copy.native_session_id, SECOND)
        assert "Copy." in json.dumps(model.requests[-1].body)
        codex.run(None, resume=first.native_session_id, **own_home(codex, model.url))
        assert "Copy." not in json.dumps(model.requests[-1].body)


def test_an_unknown_thread_is_refused(codex: RealCodex) -> None:
    with model_of([{"text": "never"}]) as model:
        for fork in (False, *((True,) if codex.version != "0.120.0" else ())):
            result = codex.run(
                model,
                resume="01a1e0e5-ff82-7ba2-b209-9af3673d39a1",
                provider_options={"fork": fork},
            )
            assert result.error is not None
            assert result.error.kind == "resume_refused"
        assert model.requests == []


COMMIT = "echo one > one.txt && git add one.txt && git commit -qm change && git log --format=%s -1"


@pytest.mark.parametrize("linked", [False, True], ids=["plain", "linked"])
def test_commits_work_and_the_users_files_stay(codex: RealCodex, linked: bool) -> None:
    config, login = codex.config_home / "config.toml", codex.config_home / "auth.json"
    config.write_text('# mine\nmodel = "gpt-5.5"\n[projects."/elsewhere"]\ntrust_level="trusted"\n')
    login.write_text('{"OPENAI_API_KEY": null}')
    before = (config.read_bytes(), login.read_bytes())
    tree = codex.root / "tree" if linked else codex.work
    if linked:
        codex.git("worktree", "add", "-q", str(tree), "-b", "side")
    hook = codex.work / ".git/hooks/post-commit"
    tried = f"sleep 0.3; {COMMIT}; echo '#!/bin/sh' > {hook}"
    with model_of([{"shell": tried}, {"text": "ok"}]) as model:
        result = codex.run(None, cwd=str(tree), **own_home(codex, model.url))
        shown = model.tool_results()[0].text
    assert result.error is None
    assert "change" in shown, shown
    assert codex.git("log", "--format=%s", "-1", cwd=tree) == "change\n"
    assert hook.exists() != linked
    assert (config.read_bytes(), login.read_bytes()) == before


def test_a_folder_outside_of_git(codex: RealCodex) -> None:
    folder = codex.root / "loose"
    folder.mkdir()
    with model_of(SCRIPT) as model:
        result = codex.run(None, cwd=str(folder), **own_home(codex, model.url))
    assert result.error is None
    assert (folder / "made.txt").exists()
    assert not (codex.config_home / "config.toml").exists()


def test_a_structured_answer(codex: RealCodex) -> None:
    schema = {
        "type": "object",
        "required": ["files"],
        "properties": {"files": {"type": "array", "items": {"type": "string"}}},
        "additionalProperties": False,
    }
    with model_of([{"text": "It is a.py."}, {"text": '{"files": ["a.py"]}'}]) as model:
        result = codex.run(model, output_schema=schema)
        bodies = [request.body for request in model.requests if request.body]
    assert (result.status, result.structured) == ("completed", {"files": ["a.py"]})
    # Held by the service itself, in both turns; what comes back is checked all the same.
    formats = [body["text"]["format"] for body in bodies if "text" in body]
    assert [each["schema"] for each in formats] == [schema, schema]
    assert "It is a.py." in str(bodies[-1]), "the conversation goes on"


# -- MCP servers, the sandbox of the machine, the terminal interface ------------------------------


def toy_server() -> str:
    server = {
        "command": sys.executable,
        "args": [str(Path(__file__).with_name("toy_mcp.py"))],
        "env": {"TOY_SECRET": "s3cret-for-the-toy"},
    }
    return json.dumps({"mcpServers": {"toy": server}})


@pytest.mark.parametrize(
    ("permission", "sandbox"), [("bypass", None), ("bypass", "off"), ("ask", None)]
)
def test_an_mcp_server_is_called(codex: RealCodex, permission: str, sandbox: str | None) -> None:
    newer = codex.version == "0.166.0"
    # The newer line offers the tool in a namespace, and to catalogue models only on a search.
    name = "tell" if newer else "mcp__toy__tell"
    with model_of([{"tool_calls": [{"name": name}]}, {"text": "ok"}]) as model:
        result = codex.run(
            model,
            model="scripted",
            mcp_config=toy_server(),
            permission_mode=permission,
            sandbox=sandbox,
        )
    assert result.error is None
    end = next(event for event in codex.events if isinstance(event, ev.ToolExecutionEnd))
    assert end.tool_name == "mcp_tool_call"
    assert codex.last is not None
    plan = codex.last.plan
    if sandbox == "off" or (newer and permission == "bypass"):
        assert not end.is_error
        assert "told 18" in json.dumps(end.result)
        assert plan.warnings == ()
    else:
        assert end.is_error
        assert "MCP" in plan.warnings[0]
    assert "s3cret" not in " ".join(plan.spec.argv)


def test_raw_configuration_does_not_drop_ours(codex: RealCodex) -> None:
    with model_of([{"text": "ok"}]) as model:
        result = codex.run(model, raw_args=("-c", "foo=1"))
        assert len(model.prompts()) == 1
    assert result.error is None


WITHOUT_NAMESPACES = """
import os, sys
from bridle.core.errors import GuardRefused
from bridle.core.options import RunOptions
from bridle.runtimes.contract import AdapterSettings
from bridle.runtimes.codex import CodexRuntime

with open("/proc/sys/user/max_user_namespaces", "w") as file:
    file.write("0")
runtime = CodexRuntime(AdapterSettings(binary=sys.argv[1]))
for attempt in range(2):
    try:
        runtime.plan_run(RunOptions(prompt="x"), dict(os.environ), "s")
    except GuardRefused as refused:
        sys.stdout.write(f"refused: {refused.message}\\n")
open_run = RunOptions(prompt="x", permission_mode="bypass", sandbox="off")
runtime.plan_run(open_run, dict(os.environ), "s")
sys.stdout.write("open run planned\\n")
"""


def test_a_machine_without_the_sandbox_is_told_before_the_start(codex: RealCodex) -> None:
    binary = codex.runtime.installation().binary
    done = subprocess.run(
        ["unshare", "--user", "--map-root-user", sys.executable, "-c", WITHOUT_NAMESPACES, binary],
        env={**codex.env, "XDG_CACHE_HOME": str(codex.root / "cache")},
        cwd=codex.work,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    lines = done.stdout.splitlines()
    assert [line.partition(":")[0] for line in lines] == [
        "refused",
        "refused",
        "open run planned",
    ], done.stderr
    assert "namespace" in lines[0].lower() or "bwrap" in lines[0].lower()
    assert not (codex.config_home / "tmp").exists()


def test_the_terminal_comes_up_without_a_question(codex: RealCodex) -> None:
    with model_of([{"text": "The answer is here."}, {"text": "A title"}]) as model:
        env = {"OPENAI_BASE_URL": f"{model.url}/v1", "OPENAI_API_KEY": KEY}
        terminal = codex.bench.terminal(
            codex.runtime, model="gpt-5.5", env=env, initial_prompt="Say - it."
        )
        assert KEY not in terminal.command
        assert terminal.wait_ready(40) == [], "it asks nothing"
        terminal.wait_for_text("The answer is here.", 40)
        terminal.wait(lambda state: state == Ready(), 40)
        assert model.prompts()[0] == "Say - it."
