"""Conversations on disk: going on with one, transcripts, instructions, terminals and commands."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from bridle.config.environment import MODEL_SERVER, MODEL_SERVER_KEY
from bridle.core.options import (
    HooksDef,
    ModelServer,
    ResolvedModel,
    RunOptions,
    SpawnOptions,
)
from bridle.core.results import Busy, Loading, Ready
from bridle.process.spec import SESSION_MARK
from bridle.runtimes.registry import available_runtimes, get_adapter
from bridle.runtimes.scripted import ScriptedRuntime
from bridle.testing import ScriptedModel
from tests.runtimes.scripted.runs import ScriptedBench

SCRIPT = [
    {"text": "One.", "usage": {"input_tokens": 1, "output_tokens": 2, "cache_read_tokens": 3}},
    {"text": "Two.", "usage": {"input_tokens": 10, "output_tokens": 20, "reasoning_tokens": 4}},
    {"text": "Three."},
]
HOOKS = HooksDef(agent_name="a", capability="builder", worktree_path=".")


def test_it_is_registered() -> None:
    assert "scripted" in available_runtimes()
    assert isinstance(get_adapter("scripted"), ScriptedRuntime)
    assert ScriptedRuntime().is_available().available


def test_resume_goes_on_where_the_script_stopped(bench: ScriptedBench) -> None:
    first = bench.play(SCRIPT)
    native = first.result.native_session_id
    assert native is not None
    second = bench.play(SCRIPT, resume=native)
    assert second.result.text == "Two."
    assert second.result.native_session_id == native
    without_script = bench.play(resume=native)
    assert without_script.result.text == "Three."
    assert bench.play(resume=native).result.text == "The script has ended."
    assert bench.play([{"text": "Another."}], resume=native).result.text == "Another."


def test_resume_after_a_fault_meets_the_same_turn(bench: ScriptedBench) -> None:
    script = [{"text": "One."}, {"text": "Two.", "fault": {"status": 401}}]
    native = bench.play(script).result.native_session_id
    assert bench.play(script, resume=native).result.status == "failed"


@pytest.mark.parametrize("name", ["scripted-0000", "../../etc/passwd", "a/b", ".."])
def test_an_unknown_conversation_is_refused(bench: ScriptedBench, name: str) -> None:
    played = bench.play(SCRIPT, resume=name)
    assert played.result.error is not None
    assert played.result.error.kind == "resume_refused"
    assert played.result.text == ""


def test_resume_against_a_model_server(bench: ScriptedBench) -> None:
    home = str(bench.home / "account")
    with ScriptedModel(SCRIPT) as model:
        server = ModelServer(url=model.url, api_key=model.api_key)
        first = bench.play(model_server=server, account_dir=home)
        second = bench.play(
            model_server=server, account_dir=home, resume=first.result.native_session_id
        )
    assert (first.result.text, second.result.text) == ("One.", "Two.")


def test_images_and_system_prompt_reach_the_model(bench: ScriptedBench) -> None:
    (bench.work / "a.png").write_bytes(b"\x89PNG\r\n\x1a\n")
    (bench.work / "more.md").write_text("third")
    with ScriptedModel([{"text": "Seen."}]) as model:
        bench.play(
            model_server=ModelServer(url=model.url, api_key=model.api_key),
            images=(str(bench.work / "a.png"),),
            system_prompt="first",
            append_system_prompt="second",
            append_system_prompt_file=str(bench.work / "more.md"),
            model="some-model",
        )
        body = model.requests[0].body
    assert body["system"] == "first\n\nsecond\n\nthird"
    assert body["model"] == "some-model"
    assert body["messages"][0]["content"][0]["source"]["data"] == "iVBORw0KGgo="


def test_transcript_sums_are_exact(bench: ScriptedBench) -> None:
    native = bench.play(SCRIPT, provider_options={"cost_per_turn": 0.5}).result.native_session_id
    bench.play(SCRIPT, resume=native, provider_options={"cost_per_turn": 0.25})
    path = bench.state / f"{native}.jsonl"
    with path.open("ab") as file:
        file.write(b'{"type":"assistant","usage":{"input_to')
    summary = ScriptedRuntime().parse_transcript(str(path))
    assert summary is not None
    assert (summary.input_tokens, summary.output_tokens) == (11, 22)
    assert (summary.cache_read_tokens, summary.reasoning_tokens) == (3, 4)
    assert (summary.model, summary.cost_usd) == ("scripted", 0.75)
    assert bench.play(SCRIPT, resume=native).result.text == "Three."


def test_panes() -> None:
    ready = ScriptedRuntime().detect_ready
    banner = "scripted agent 0.1.0: it plays a script, there is no model.\n"
    assert ready("\n\n") == Loading()
    assert ready("$ python -m something") == Loading()
    assert ready(banner + "scripted> \n\n") == Ready()
    assert ready(banner + "scripted> do it") == Busy()
    assert ready(banner + "scripted> do it\nworking") == Busy()
    assert ready(banner + "  allow shell? [y/N] ") == Busy(what="permission")


def _env(bench: ScriptedBench, script: str) -> dict[str, str]:
    (bench.home / "s.yaml").write_text(script)
    return {**bench.env, "BRIDLE_SCRIPT": str(bench.home / "s.yaml")}


def test_the_print_command_prints_plain_text(bench: ScriptedBench) -> None:
    argv = ScriptedRuntime().build_print_command("--odd prompt", "m")
    done = subprocess.run(
        argv,
        env=_env(bench, "- text: Hello.\n"),
        cwd=bench.work,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.stdout, done.stderr, done.returncode) == ("Hello.\n", "", 0)


def test_the_spawn_command_is_a_conversation(bench: ScriptedBench) -> None:
    command = ScriptedRuntime().build_spawn_command(
        SpawnOptions(model="m", permission_mode="ask", initial_prompt="go; rm -rf /")
    )
    done = subprocess.run(
        ["/bin/sh", "-c", command],
        input="y\nagain\n/exit\n",
        env=_env(bench, "- shell: touch made\n- text: First.\n- text: Second.\n"),
        cwd=bench.work,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "there is no model" in done.stdout
    assert "allow shell? [y/N]" in done.stdout
    assert "First.\nscripted> Second.\nscripted> " in done.stdout
    assert (bench.work / "made").exists()
    assert os.listdir(bench.state.parent / "run") == [], "its request is removed"


def test_its_processes_keep_the_mark_of_the_program_that_started_it(bench: ScriptedBench) -> None:
    """A one-shot call is ended by its caller's mark."""
    show = '- shell: "printf %s $BRIDLE_SESSION_ID > mark"\n- text: Done.\n'
    argv = ScriptedRuntime().build_spawn_command(
        SpawnOptions(model="m", permission_mode="bypass", initial_prompt="go")
    )
    env = {**_env(bench, show), SESSION_MARK: "outer"}
    subprocess.run(
        ["/bin/sh", "-c", argv],
        input=b"/exit\n",
        env=env,
        cwd=bench.work,
        capture_output=True,
        timeout=60,
        check=True,
    )
    assert (bench.work / "mark").read_text() == "outer"


def test_the_folder_of_a_one_shot_call_to_a_server_is_swept(bench: ScriptedBench) -> None:
    folders = bench.state.parent / "run"
    with ScriptedModel([{"text": "Hello."}]) as model:
        env = {**bench.env, MODEL_SERVER: model.url, MODEL_SERVER_KEY: model.api_key}
        for _ in range(2):
            argv = ScriptedRuntime().build_print_command("go")
            done = subprocess.run(
                argv,
                env=env,
                cwd=bench.work,
                capture_output=True,
                text=True,
                timeout=60,
                check=True,
            )
            assert done.stdout == "Hello.\n"
            assert len([each for each in folders.iterdir() if each.is_dir()]) == 1


def test_env_and_interactive_plan(bench: ScriptedBench) -> None:
    runtime = ScriptedRuntime()
    assert runtime.build_env(ResolvedModel(model="m", env={"A": "b"})) == {"A": "b"}
    options = RunOptions(prompt="hi", cwd=str(bench.work))
    spec = runtime.plan_interactive(options, bench.env).spec
    assert spec.argv[0] == sys.executable
    assert os.stat(spec.argv[-1]).st_mode & 0o777 == 0o600


def test_the_agent_imports_nothing_but_the_standard_library() -> None:
    folder = Path(sys.modules[ScriptedRuntime.__module__].__file__ or "").parent / "agent"
    code = (
        "import sys; sys.path.insert(0, sys.argv[1])\n"
        "import agent.main, agent.live, agent.model_client\n"
        "names = {name.partition('.')[0] for name in sys.modules}\n"
        "print(sorted(names - set(sys.stdlib_module_names) - {'__main__', 'agent'}))"
    )
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", code, str(folder.parent)],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert done.stdout == "[]\n"
