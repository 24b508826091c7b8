"""`AgentRuntime` and how `get_runtime` chooses one."""

import inspect
from pathlib import Path

import pytest

import bridle
from bridle.config.schema import Config, RuntimeSection
from bridle.core.errors import UnknownRuntime
from bridle.runtimes.contract import Adapter
from bridle.runtimes.scripted import ScriptedRuntime

NAMED_BY_THE_DESIGN = (
    *("id", "instruction_path", "features", "stability", "dialect", "binary", "is_available"),
    *("build_spawn_command", "build_print_command", "build_env"),
    *("deploy_config", "requires_beacon_verification", "detect_ready"),
    *("parse_transcript", "transcript_dir", "connect"),
    *("start", "resume", "send_message", "stop", "is_ready", "detect_running", "list_sessions"),
    *("run_once", "run_streaming", "run_interactive"),
)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty project, with no configuration of the user."""
    monkeypatch.delenv("BRIDLE_RUNTIME", raising=False)
    monkeypatch.delenv("BRIDLE_BACKEND", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "home/.config"))
    project = tmp_path / "project"
    project.mkdir()
    monkeypatch.chdir(project)
    return project


def configure(folder: Path, text: str) -> None:
    (folder / ".bridle").mkdir()
    (folder / ".bridle/config.yaml").write_text(text)


def test_the_default_is_claude(folder: Path) -> None:
    assert bridle.get_runtime().id == "claude"


def test_a_name_wins_over_the_environment_and_that_over_the_configuration(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    configure(folder, "runtime: {default: pi}\n")
    assert bridle.get_runtime().id == "pi"
    monkeypatch.setenv("BRIDLE_RUNTIME", "scripted")
    assert bridle.get_runtime().id == "scripted"
    assert bridle.get_runtime("codex").id == "codex"


def test_the_environment_wins_over_a_configuration_made_in_python(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = Config(runtime=RuntimeSection(default="pi"))
    assert bridle.get_runtime(config=config).id == "pi"
    monkeypatch.setenv("BRIDLE_BACKEND", "codex-cli")
    assert bridle.get_runtime(config=config).id == "codex"
    monkeypatch.setenv("BRIDLE_RUNTIME", "nobody")
    with pytest.raises(UnknownRuntime, match="nobody"):
        bridle.get_runtime(config=config)


def test_it_has_every_method_that_the_design_names() -> None:
    runtime = bridle.get_runtime("scripted")
    assert [name for name in NAMED_BY_THE_DESIGN if not hasattr(runtime, name)] == []
    assert isinstance(runtime.adapter, ScriptedRuntime)


def test_an_adapter_starts_nothing() -> None:
    starting = ("start", "resume", "send_message", "stop", "connect", "run_once", "run_interactive")
    assert [name for name in starting if hasattr(Adapter, name)] == []


def test_it_asks_its_adapter(tmp_path: Path) -> None:
    runtime = bridle.get_runtime("claude")
    adapter = runtime.adapter
    assert (runtime.id, runtime.binary) == (adapter.id, adapter.binary)
    assert runtime.instruction_path == adapter.instruction_path
    assert (runtime.stability, runtime.hints) == (adapter.stability, adapter.hints)
    assert runtime.features == adapter.features
    assert runtime.dialect(None) == adapter.dialect(None)
    assert runtime.is_available({}) == adapter.is_available({})
    spawn = bridle.SpawnOptions(model="m")
    assert runtime.build_spawn_command(spawn) == adapter.build_spawn_command(spawn)
    assert runtime.build_print_command("Hi") == adapter.build_print_command("Hi")
    model = bridle.ResolvedModel(model="m", env={"A": "b"})
    assert runtime.build_env(model) == adapter.build_env(model)
    assert runtime.parse_transcript(str(tmp_path / "none")) is None
    assert runtime.transcript_dir("/p") is not None
    assert runtime.find_transcript("none", {"HOME": str(tmp_path)}) is None
    assert runtime.detect_ready("") == adapter.detect_ready("")
    assert repr(runtime) == "AgentRuntime('claude')"


async def test_a_runtime_an_adapter_and_a_name_mean_the_same(tmp_path: Path) -> None:
    file = tmp_path / "script.yaml"
    file.write_text("- text: Done.\n")
    runtime = bridle.get_runtime("scripted")
    for chosen in (runtime, runtime.adapter, "scripted"):
        result = await bridle.run(
            "Go.", runtime=chosen, cwd=str(tmp_path), provider_options={"script": str(file)}
        )
        assert (result.status, result.text) == ("completed", "Done.")


def test_what_takes_a_runtime_takes_all_three() -> None:
    public = (bridle.run, bridle.stream, bridle.run_sync, bridle.stream_sync, bridle.print_once)
    for function in (*public, bridle.Session.start, bridle.SyncSession.start):
        annotation = str(inspect.signature(function).parameters["runtime"].annotation)
        assert all(name in annotation for name in ("str", "Adapter", "HasAdapter")), function
