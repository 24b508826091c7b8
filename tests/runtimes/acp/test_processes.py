"""Misbehaving agents as real processes, declared by the factory and by configuration alone."""

import os
import sys
from pathlib import Path
from typing import Any

import pytest

import bridle
from bridle.config import load_config
from bridle.core import events as ev
from bridle.core.errors import ConfigError, UnsupportedOption
from bridle.core.options import HooksDef, OverlayContent, RunOptions, SpawnOptions
from bridle.core.results import Ready, RunResult
from bridle.process.process_tree import marked_processes
from bridle.runs import prepare
from bridle.runtimes import deployment
from bridle.runtimes.contract import Adapter
from bridle.runtimes.registry import get_adapter
from bridle.testing.contract import check_event_order

AGENT = Path(__file__).with_name("bad_agent.py")


def agent(how: str) -> Adapter:
    runtime = bridle.create_acp_runtime(
        id="bad", binary=sys.executable, acp_flag=(str(AGENT), how), instruction_file="BAD.md"
    )
    return runtime.adapter


def run(how: str, folder: Path, **options: Any) -> tuple[RunResult, list[ev.Event]]:
    wanted = {"prompt": "go", "cwd": str(folder), "timeout": 60.0, **options}
    prepared = prepare(agent(how), RunOptions(**wanted), env=dict(os.environ))
    events = list(prepared.run.events())
    assert check_event_order(events) == []
    assert marked_processes(prepared.plan.session_id) == []
    return prepared.run.result, events


def test_a_good_turn(tmp_path: Path) -> None:
    result, _ = run("", tmp_path)
    assert (result.status, result.text, result.native_session_id) == ("completed", " done", "s1")
    assert (result.usage.total, result.cost_usd, result.cost_source) == (0, None, "unknown")


@pytest.mark.parametrize(
    ("how", "kind", "words"),
    [
        ("mute", "unavailable", "did not answer initialize in 1 s"),
        ("no-session", "unavailable", "did not answer session/new in 1 s"),
        ("silent", "unavailable", "no progress for 1 s"),
        ("exit", "protocol_drift", "unknown option"),
        ("die", "crashed", "exited 3"),
        ("half-line", "crashed", "SIGKILL"),
    ],
)
def test_agents_that_fail(how: str, kind: str, words: str, tmp_path: Path) -> None:
    clocks = {"start_timeout": 1, "silence_timeout": 1}
    if how in ("silent", "die", "half-line", "exit"):
        clocks["start_timeout"] = 30
    result, _ = run(how, tmp_path, provider_options=clocks)
    assert result.error is not None
    assert (result.error.kind, words in result.error.message) == (kind, True), result.error
    assert result.error.hint or kind == "crashed"
    if how == "die":
        assert result.text == "half"
        assert "cannot go on" in result.error.stderr_tail


@pytest.mark.parametrize("how", ["flood", "noise", "stays"])
def test_agents_that_are_only_untidy(how: str, tmp_path: Path) -> None:
    result, _ = run(how, tmp_path)
    assert (result.status, result.text) == ("completed", " done")


def test_a_line_of_eight_megabytes(tmp_path: Path) -> None:
    result, _ = run("big", tmp_path)
    assert len(result.text) == 8_000_005


def test_what_was_not_offered_is_refused_to_the_agent(tmp_path: Path) -> None:
    result, _ = run("asks", tmp_path)
    assert result.text == "Method not found: fs/read_text_file done"


def test_a_running_tool_is_not_silence_and_is_ended_with_the_run(tmp_path: Path) -> None:
    result, events = run("tool", tmp_path, timeout=3.0, provider_options={"silence_timeout": 1})
    assert result.status == "timed_out"
    assert [event.synthetic for event in events if isinstance(event, ev.ToolExecutionEnd)] == [True]


def test_an_unknown_session_is_refused(tmp_path: Path) -> None:
    result, _ = run("", tmp_path, resume="gone")
    assert result.error is not None
    assert result.error.kind == "resume_refused"


def test_options_that_the_protocol_does_not_carry_are_refused(tmp_path: Path) -> None:
    for option in ({"system_prompt": "x"}, {"max_turns": 1}, {"images": ("x.png",)}):
        with pytest.raises(UnsupportedOption):
            run("", tmp_path, **option)
    with pytest.raises(bridle.WrongUse, match="start_timeout"):
        run("", tmp_path, provider_options={"start_timout": 1})
    with pytest.raises(bridle.WrongUse, match="start_timeout"):
        run("", tmp_path, provider_options={"start_timeout": 0})


def test_the_rest_of_the_contract(tmp_path: Path) -> None:
    runtime = agent("x y")
    assert runtime.id == "bad"
    command = runtime.build_spawn_command(SpawnOptions(model="any"))
    assert command.startswith(sys.executable)
    assert command.endswith("'x y'")
    with pytest.raises(bridle.WrongUse):
        runtime.build_print_command("go")
    assert runtime.detect_ready("whatever") == Ready()
    assert not runtime.requires_beacon_verification()
    assert runtime.credentials({}) == "unknown"
    hooks = HooksDef(agent_name="a", capability="builder", worktree_path=str(tmp_path))
    (tmp_path / "BAD.md").write_text("theirs\n")
    (path,) = deployment.deploy(runtime, str(tmp_path), OverlayContent(content="ours"), hooks)
    assert Path(path).read_text().startswith("theirs\n")
    assert "ours" in Path(path).read_text()
    assert deployment.withdraw(runtime, str(tmp_path))
    assert Path(path).read_text() == "theirs\n"
    assert deployment.deploy(runtime, str(tmp_path), None, hooks) == []


CONFIG = """\
runtime:
  default: mine
  adapters:
    mine:
      binary: {python}
      protocol: acp
      flags: [{agent}, environment]
      instructionFile: docs/AGENTS.md
      install: get it
"""


def declare(folder: Path, text: str) -> None:
    (folder / ".bridle").mkdir()
    (folder / ".bridle" / "config.yaml").write_text(text.format(python=sys.executable, agent=AGENT))


def test_an_agent_by_configuration_alone(tmp_path: Path) -> None:
    declare(tmp_path, CONFIG)
    config = load_config(str(tmp_path))
    runtime = get_adapter(None, config)
    assert (runtime.id, runtime.instruction_path) == ("mine", "docs/AGENTS.md")
    result = bridle.run_sync("go", config=config, cwd=str(tmp_path), timeout=60)
    assert (result.status, result.text) == ("completed", result.session_id)


@pytest.mark.parametrize("key", ["modelFlag: --model", "prompt: stdin", "ready: go"])
def test_keys_that_the_protocol_decides_are_refused(key: str, tmp_path: Path) -> None:
    declare(tmp_path, CONFIG + f"      {key}\n")
    with pytest.raises(ConfigError, match=key.partition(":")[0]):
        get_adapter(None, load_config(str(tmp_path)))
