"""The bench that tests of adapters use: what it gives, and what it does not let pass."""

import os
import subprocess
from pathlib import Path

import msgspec
import pytest

from bridle.core import events as ev
from bridle.core.options import RunOptions
from bridle.process.process_tree import marked_processes
from bridle.runtimes.plan import RunPlan
from bridle.runtimes.scripted import ScriptedRuntime
from bridle.testing.bench import AgentBench

SCRIPT = [{"text": "Writing.", "shell": "echo hi > hi.txt"}, {"text": "Done."}]
STEPS = [
    *("session_start", "state", "agent_start"),
    *("message_start", "text_start", "text_delta", "text_end", "message_end"),
    *("tool_execution_start", "tool_execution_end"),
    *("message_start", "text_start", "text_delta", "text_end", "message_end"),
    *("usage", "agent_end", "state", "session_end"),
]


def test_a_run_with_all_that_it_showed(agent_bench: AgentBench) -> None:
    seen: list[ev.Event] = []
    run = agent_bench.run(
        ScriptedRuntime(), SCRIPT, prompt="Write it.", on_event=lambda event, _: seen.append(event)
    )
    assert (run.result.status, run.result.text, run.error_kind) == ("completed", "Done.", None)
    assert (agent_bench.work / "hi.txt").read_text() == "hi\n"
    assert run.steps == STEPS
    assert seen == run.events
    assert [each.text for each in run.of(ev.MessageEnd)] == ["Writing.", "Done."]
    assert run.model is not None
    assert run.model.prompts() == ["Write it."]
    assert len(run.requests) == 2


def test_a_run_is_stopped_when_the_test_has_seen_enough(agent_bench: AgentBench) -> None:
    began = agent_bench.work / "began"
    script = [{"shell": "touch began; sleep 60"}, {"text": "Never."}]
    run = agent_bench.run(ScriptedRuntime(), script, stop_when=began.exists)
    assert (run.result.status, run.error_kind) == ("aborted", "aborted")


def test_a_stream_and_a_session_on_scripts_of_their_own(agent_bench: AgentBench) -> None:
    stream = agent_bench.stream(ScriptedRuntime(), SCRIPT)
    assert [event for event in stream if isinstance(event, ev.AgentEnd)]
    assert stream.result.text == "Done."
    session = agent_bench.session(ScriptedRuntime(), [{"text": "One."}, {"text": "Two."}])
    session.prompt("first")
    assert session.wait_idle(60).text == "One."
    session.prompt("second")
    assert session.wait_idle(60).text == "Two."
    assert marked_processes(session.session_id)


def test_the_environment_is_built_from_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "the-users-own")
    own = {"script": SCRIPT}
    with AgentBench(tmp_path / "bench") as bench:
        assert "ANTHROPIC_API_KEY" not in os.environ
        assert os.environ["HOME"] == str(bench.home)
        plan = bench.plan(ScriptedRuntime(), environ={"MORE": "1"}, provider_options=own)
        assert (plan.spec.env["HOME"], plan.spec.env["MORE"]) == (str(bench.home), "1")
        assert "ANTHROPIC_API_KEY" not in plan.spec.env
    assert os.environ["ANTHROPIC_API_KEY"] == "the-users-own"
    assert not (tmp_path / "bench").exists()


def test_folders_and_a_repository(agent_bench: AgentBench) -> None:
    assert list(agent_bench.home.iterdir()) == []
    (agent_bench.home / ".own").mkdir()
    (agent_bench.home / ".own" / "a.json").write_text("{}")
    (agent_bench.home / "b").write_text("b")
    assert agent_bench.files(".own") == {".own/a.json": b"{}"}
    assert agent_bench.files() == {".own/a.json": b"{}", "b": b"b"}
    agent_bench.make_repository()
    assert agent_bench.git("log", "--format=%s").split() == ["first"]
    with pytest.raises(AssertionError, match="git nonsense"):
        agent_bench.git("nonsense")


def test_a_process_that_is_left_fails_the_test_and_is_killed(tmp_path: Path) -> None:
    left: list[subprocess.Popen[bytes]] = []

    def leave() -> None:
        with AgentBench(tmp_path / "bench") as bench:
            left.append(subprocess.Popen(["sleep", "300"], env=bench.env))

    with pytest.raises(AssertionError, match=r"left behind.*sleep 300"):
        leave()
    assert left[0].wait(timeout=20) != 0


class TellsTheKey(ScriptedRuntime):
    """An adapter with a fault: the key is in its argument list."""

    def plan_run(self, options: RunOptions, env: object, session_id: str) -> RunPlan:
        plan = super().plan_run(options, env, session_id)  # type: ignore[arg-type]
        assert options.model_server is not None
        argv = (*plan.spec.argv[:1], *plan.spec.argv[1:], options.model_server.api_key)
        return msgspec.structs.replace(plan, spec=msgspec.structs.replace(plan.spec, argv=argv))


def test_a_key_in_an_argument_fails_the_run(agent_bench: AgentBench) -> None:
    with pytest.raises(AssertionError, match="the key is in an argument"):
        agent_bench.run(TellsTheKey(), SCRIPT)
