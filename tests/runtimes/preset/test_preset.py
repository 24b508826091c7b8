"""Runtimes declared by configuration alone, with a real program behind them."""

import shlex
from pathlib import Path
from typing import Any

import pytest

import bridle
from bridle.config import Config, load_config
from bridle.config.schema import AdapterSection, RuntimeSection
from bridle.core.errors import ConfigError, UnsupportedOption, WrongUse
from bridle.core.events import Event, MessageEnd, MessageUpdate
from bridle.core.options import Provider, ResolvedModel, SpawnOptions
from bridle.core.results import Loading, Ready, RunResult
from bridle.runtimes.preset import PresetRuntime
from bridle.runtimes.registry import available_runtimes, get_adapter
from tests.support.preset_agent import Place, make_place


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return make_place(tmp_path)


def run(place: Place, prompt: str, runtime: str = "tiny", **options: Any) -> RunResult:
    cwd = str(place.project)
    config = load_config(cwd, place.environment())
    return bridle.run_sync(prompt, runtime=runtime, config=config, **{"cwd": cwd, **options})


def test_stdout_is_the_text_and_exit_0_is_success(place: Place) -> None:
    result = run(place, "echo all done\nORCHESTRA_COMPLETE")
    assert result.status == "completed"
    assert result.text == "all done\nORCHESTRA_COMPLETE"
    assert result.marker_detected
    assert result.exit_code == 0
    assert result.error is None
    assert result.exit_status == 0


def test_events_keep_the_order_of_the_contract(place: Place) -> None:
    cwd = str(place.project)
    config = load_config(cwd, place.environment())
    stream = bridle.stream_sync("lines 2", runtime="tiny", config=config, cwd=cwd)
    events: list[Event] = list(stream)
    names = [
        event.kind if isinstance(event, MessageUpdate) else type(event).__name__ for event in events
    ]
    assert names == [
        "SessionStart",
        "StateChange",
        "AgentStart",
        "MessageStart",
        "text_start",
        "text_delta",
        "text_delta",
        "text_end",
        "MessageEnd",
        "UsageTotals",
        "AgentEnd",
        "StateChange",
        "SessionEnd",
    ]
    (end,) = [event for event in events if isinstance(event, MessageEnd)]
    assert end.text == "line 0\nline 1" == stream.result.text


def test_another_exit_status_is_a_failure_with_its_last_words(place: Place) -> None:
    result = run(place, "fail no disk")
    assert result.status == "failed"
    assert result.text == "half done"
    assert result.error is not None
    assert result.error.kind == "crashed"
    assert result.error.message == "tiny exited 3: cannot go on: no disk"
    assert result.exit_status == 1


def test_leading_and_inner_empty_lines_stay(place: Place) -> None:
    assert run(place, "echo \n\na\n\nb").text == "\n\na\n\nb"


def test_bytes_that_are_no_text_do_not_end_the_run(place: Place) -> None:
    result = run(place, "garbage")
    assert result.status == "completed"
    assert result.text.endswith("ok")


def test_ten_megabytes_in_one_line_arrive_whole(place: Place) -> None:
    result = run(place, "big")
    assert result.status == "completed"
    assert len(result.text) == 10_000_004


def test_what_a_dying_agent_said_is_kept(place: Place) -> None:
    result = run(place, "die")
    assert result.text == "first line\nhalf a li"
    assert result.error is not None
    assert result.error.message == "tiny was killed by SIGKILL"


def test_a_prompt_on_stdin_may_have_any_size(place: Place) -> None:
    prompt = "length " + "x" * 1_000_000
    assert run(place, prompt, "feed").text == str(len(prompt))


@pytest.mark.parametrize(
    ("prompt", "why"),
    [
        ("x" * 131_072, "longer than an argument may be"),
        ("ü" * 66_000, "longer than an argument may be"),
        ("-rf", "begins with `-`"),
        ("a\0b", "null character"),
    ],
)
def test_a_prompt_that_cannot_be_an_argument_is_refused(
    place: Place, prompt: str, why: str
) -> None:
    with pytest.raises(WrongUse, match=why) as caught:
        run(place, prompt)
    assert "runtime.adapters.tiny.prompt to stdin" in caught.value.hint


def test_the_longest_argument_passes(place: Place) -> None:
    prompt = "length " + "x" * (131_071 - 7)
    assert run(place, prompt).text == "131071"


def test_flags_model_permission_and_raw_arguments(place: Place) -> None:
    result = run(
        place, "args", "feed", model="m-1", permission_mode="bypass", raw_args=("--deep", "3")
    )
    assert result.text == "['--stdin', '--yolo', '--model', 'm-1', '--deep', '3']"
    assert run(place, "args", "feed").text == "['--stdin']"


def test_variables_and_working_directory_reach_the_agent(place: Place) -> None:
    assert run(place, "env PLUM", env={"PLUM": "ripe"}).text == "ripe"
    folder = place.project / "sub"
    folder.mkdir()
    assert run(place, "cwd", cwd=str(folder)).text == str(folder)


@pytest.mark.parametrize("mode", ["worktree", "read-only"])
def test_the_sandbox_holds_a_program_that_nothing_is_known_of(place: Place, mode: str) -> None:
    outside = place.project.parent / "outside"
    outside.mkdir()
    result = run(place, f"write inside {outside}/b $TMPDIR/c", sandbox=mode)
    inside = "wrote" if mode == "worktree" else "refused"
    assert (result.status, result.ignored_options) == ("completed", ())
    assert result.text.split() == [inside, "refused", "wrote"]
    assert (place.project / "inside").exists() is (mode == "worktree")
    assert list(outside.iterdir()) == []


def test_no_version_is_asked_of_a_program_that_may_not_know_the_question(place: Place) -> None:
    # Its agent would take `--version` for a prompt and start to work.
    (place.project / "agent").write_text("#!/bin/sh\ntouch started\n")
    report = get_adapter("tiny", load_config(str(place.project))).is_available({})
    assert report.available
    assert report.version is None
    assert not (place.project / "started").exists()


def test_spawn_and_print_commands() -> None:
    section = AdapterSection(binary="my agent", flags=("-q",), model_flag="-m")
    runtime = PresetRuntime("mine", section)
    spawn = runtime.build_spawn_command(SpawnOptions(model="m 1", initial_prompt="it's"))
    assert shlex.split(spawn) == ["my agent", "-q", "-m", "m 1", "it's"]
    assert runtime.build_print_command("p", "x") == ["my agent", "-q", "-m", "x", "p"]
    assert runtime.build_print_command("p") == ["my agent", "-q", "p"]
    assert runtime.build_env(ResolvedModel(model="m", env={"A": "b"})) == {"A": "b"}
    with pytest.raises(UnsupportedOption, match="append_system_prompt"):
        runtime.build_spawn_command(SpawnOptions(model="m", append_system_prompt="x"))
    with pytest.raises(UnsupportedOption, match="model"):
        PresetRuntime("mine", AdapterSection(binary="b")).build_print_command("p", "x")


def test_a_service_that_it_cannot_be_led_to_is_refused() -> None:
    runtime = PresetRuntime("mine", AdapterSection(binary="b", model_flag="-m"))
    named = ResolvedModel(model="m", env={"A": "b"}, provider=Provider(auth_token_env="A"))
    assert runtime.build_env(named) == {"A": "b"}
    elsewhere = ResolvedModel(model="m", provider=Provider(base_url="http://127.0.0.1:9"))
    with pytest.raises(UnsupportedOption, match="provider"):
        runtime.build_env(elsewhere)


def test_readiness_is_the_declared_text() -> None:
    runtime = PresetRuntime("mine", AdapterSection(binary="b", ready="> "))
    assert runtime.detect_ready("loading") == Loading()
    assert runtime.detect_ready("hello\n> ") == Ready()
    assert PresetRuntime("mine", AdapterSection(binary="b")).detect_ready("") == Ready()


@pytest.mark.parametrize(
    ("name", "section", "why"),
    [
        ("Bad Name", AdapterSection(binary="b"), "not a name"),
        ("-x", AdapterSection(binary="b"), "not a name"),
        ("x", AdapterSection(), "no `binary` declares one"),
        ("x", AdapterSection(binary="b", model_flag=" "), "modelFlag: is empty"),
        ("x", AdapterSection(binary="b", ready=""), "ready: is empty"),
        ("x", AdapterSection(binary="b", instruction_file="/etc/x"), "inside the worktree"),
        ("x", AdapterSection(binary="b", instruction_file="../x"), "inside the worktree"),
    ],
)
def test_a_declaration_that_could_never_run_is_refused(
    name: str, section: AdapterSection, why: str
) -> None:
    with pytest.raises(ConfigError, match=why):
        PresetRuntime(name, section)


def test_presets_stand_beside_registered_runtimes() -> None:
    config = Config(runtime=RuntimeSection(adapters={"mine": AdapterSection(binary="b")}))
    assert "mine" in available_runtimes(config)
    assert isinstance(get_adapter("mine", config), PresetRuntime)


def test_a_section_that_nothing_would_read_is_refused() -> None:
    config = Config(runtime=RuntimeSection(adapters={"mine": AdapterSection(mode="exec")}))
    with pytest.raises(ConfigError, match=r"runtime\.adapters\.mine: there is no such runtime"):
        get_adapter("anything", config)
