"""Which way a run goes by who answers permission requests, and what it says before the start."""

from pathlib import Path
from typing import Any

import pytest

from bridle.core import events as ev
from bridle.core.features import Features
from bridle.core.options import ModelServer, RunOptions
from bridle.runs import prepare
from bridle.runtimes.acp.adapter import AcpAdapter
from bridle.runtimes.acp.quirks import features_over_acp
from bridle.runtimes.dialects import Dialect
from bridle.runtimes.permission import Way, unasked_in, way_of
from bridle.runtimes.preset import PresetRuntime
from bridle.runtimes.registry import available_runtimes, get_adapter
from bridle.runtimes.scripted import ScriptedRuntime
from bridle.testing import ScriptedModel
from bridle.testing.contract import check_event_order
from bridle.turns.wire import Question

BY_PROTOCOL = ("codex", "pi")
BY_ACP = ("cline", "copilot", "gemini", "opencode")


def way(runtime: str, *, answered: bool = True, **options: Any) -> Way:
    return way_of(get_adapter(runtime), RunOptions(prompt="x", **options), answered=answered)


@pytest.mark.parametrize("runtime", [*BY_PROTOCOL, *BY_ACP])
def test_a_run_with_somebody_there_takes_the_protocol(runtime: str) -> None:
    found = way(runtime)
    assert (found.live, found.warnings, found.runtime.id) == (True, (), runtime)
    assert not way(runtime, permission_mode="bypass").live


@pytest.mark.parametrize("runtime", BY_ACP)
def test_which_is_acp_for_a_product_that_speaks_it(runtime: str) -> None:
    asked = get_adapter(runtime)
    assert isinstance(asked, AcpAdapter)
    found = way_of(asked, RunOptions(prompt="x"), answered=True)
    assert found.runtime is asked
    assert asked.features.over["rpc"] == features_over_acp(asked.quirks, asked.instruction_path)


@pytest.mark.parametrize("runtime", ["claude", "scripted", "gemini-acp"])
def test_a_runtime_whose_runs_ask_goes_its_usual_way(runtime: str) -> None:
    asked = get_adapter(runtime)
    assert way_of(asked, RunOptions(prompt="x"), answered=True) == Way(runtime=asked)


@pytest.mark.parametrize("runtime", [*BY_PROTOCOL, *BY_ACP, "claude", "scripted"])
def test_nobody_there_is_said_in_one_line(runtime: str) -> None:
    asked = get_adapter(runtime)
    found = way_of(asked, RunOptions(prompt="x"), answered=False)
    assert found.runtime is asked
    assert not found.live
    (line,) = found.warnings
    assert line.startswith(f"{runtime}: nobody is there to give permission: ")
    assert line.endswith("(--permission bypass lets it act)")


@pytest.mark.parametrize("answered", [True, False])
def test_an_agent_that_cannot_ask_says_what_happens_instead(answered: bool) -> None:
    (line,) = way("aider", answered=answered).warnings
    assert line.startswith("aider: it cannot ask for permission: it edits only files")


def test_a_preset_says_that_its_own_settings_decide() -> None:
    from bridle.config.schema import AdapterSection

    preset = PresetRuntime("tiny", AdapterSection(binary="tiny"))
    (line,) = way_of(preset, RunOptions(prompt="x"), answered=True).warnings
    assert line == (
        "tiny: it cannot ask for permission: its own settings decide what it does, "
        "with --permission bypass too"
    )
    flagged = PresetRuntime("tiny", AdapterSection(binary="tiny", bypass_flags=("--yes",)))
    (line,) = way_of(flagged, RunOptions(prompt="x"), answered=True).warnings
    assert line.endswith("what it does (--permission bypass lets it act)")


@pytest.mark.parametrize(
    ("runtime", "options", "named"),
    [
        ("gemini", {"max_turns": 3}, "max_turns"),
        ("copilot", {"denied_tools": ("bash",), "max_turns": 3}, "max_turns"),
        ("opencode", {"provider_options": {"agent": "plan"}}, "provider_options"),
        ("codex", {"raw_args": ("--ephemeral",)}, "raw_args"),
    ],
)
def test_an_option_is_honoured_rather_than_lost(
    runtime: str, options: dict[str, Any], named: str
) -> None:
    """What the asking way does not carry keeps the run on its usual way, and that is said."""
    found = way(runtime, **options)
    assert type(found.runtime) is type(get_adapter(runtime))
    assert not found.live
    (line,) = found.warnings
    assert f"it cannot ask and honour {named} in one run" in line


@pytest.mark.parametrize("mode", ["read-only", "worktree"])
def test_codex_does_not_ask_in_a_named_sandbox(mode: Any) -> None:
    """A yes would let a command leave it."""
    found = way("codex", sandbox=mode)
    assert not found.live
    assert bool(found.warnings) is (mode == "read-only")
    assert way("codex", sandbox="off").live


@pytest.mark.parametrize(
    ("runtime", "drive", "asks"),
    [
        ("gemini", "print", False),
        ("codex", "print", False),
        ("codex", "rpc", True),
        ("copilot", "tmux", True),
        ("claude", "print", True),
        ("aider", "print", False),
    ],
)
def test_a_session_that_asks_nobody_says_so(runtime: str, drive: str, asks: bool) -> None:
    told = unasked_in(get_adapter(runtime), RunOptions(prompt=""), drive)
    line = f"{runtime}: it asks nobody in a session with drive {drive}: "
    assert [each.startswith(line) for each in told] == ([] if asks else [True])
    bypass = RunOptions(prompt="", permission_mode="bypass")
    assert unasked_in(get_adapter(runtime), bypass, drive) == ()


def test_every_registered_runtime_says_where_it_asks() -> None:
    for name in available_runtimes():
        runtime = get_adapter(name)
        features = runtime.features_of(runtime.dialect(None)[0])
        assert set(features.asks) <= set(features.drives), name


class ByProtocol(ScriptedRuntime):
    """The scripted agent, as one that asks in a conversation only."""

    def features_of(self, dialect: Dialect) -> Features:
        import msgspec

        return msgspec.structs.replace(super().features_of(dialect), asks=("rpc",))


def played(
    tmp_path: Path, script: list[dict[str, Any]], **options: Any
) -> tuple[list[ev.Event], Any, list[Question]]:
    """A run over the protocol; the first request is allowed, the others are refused."""
    asked: list[Question] = []

    def decide(question: Question) -> tuple[bool, str, str]:
        asked.append(question)
        return len(asked) == 1, "person", "said so"

    with ScriptedModel(script) as model:
        server = ModelServer(url=model.url, api_key=model.api_key)
        given: dict[str, Any] = {
            "prompt": "Go",
            "cwd": str(tmp_path),
            "timeout": 60.0,
            "model_server": server,
        }
        wanted = RunOptions(**(given | options))
        env = {"PATH": "/usr/bin:/bin", "HOME": str(tmp_path)}
        prepared = prepare(ByProtocol(), wanted, env=env, permission=decide)
        events = list(prepared.run.events())
    return events, prepared.run.result, asked


def test_a_run_over_the_protocol_is_a_run(tmp_path: Path) -> None:
    script = [
        {"text": "First.", "shell": "echo one > first.txt"},
        {"text": "Second.", "shell": "echo two > second.txt"},
        {"text": "Done. ORCHESTRA_COMPLETE"},
    ]
    events, result, asked = played(tmp_path, script)
    assert check_event_order(events) == []
    assert [each.tool_name for each in asked] == ["shell", "shell"]
    assert (tmp_path / "first.txt").exists()
    assert not (tmp_path / "second.txt").exists()
    assert (result.runtime, result.status, result.refusals) == ("scripted", "completed", 1)
    assert result.text == "Done. ORCHESTRA_COMPLETE"
    assert result.marker_detected
    assert result.usage.total > 0
    assert result.exit_status == 0
    assert len([each for each in events if isinstance(each, ev.AgentEnd)]) == 1
    assert isinstance(events[-1], ev.SessionEnd)


def test_it_fails_as_a_run_fails(tmp_path: Path) -> None:
    events, result, _ = played(tmp_path, [{"fault": {"status": 401}}])
    assert check_event_order(events) == []
    assert result.status == "failed"
    assert result.error.kind == "not_authenticated"
    assert result.exit_status == 5


def test_it_times_out_and_leaves_nothing_behind(tmp_path: Path) -> None:
    script = [{"shell": "sleep 300"}]
    events, result, _ = played(tmp_path, script, timeout=3.0)
    assert check_event_order(events) == []
    assert (result.status, result.exit_status) == ("timed_out", 7)
