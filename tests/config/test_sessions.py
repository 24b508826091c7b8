"""What a configuration says about sessions: clocks, hooks, delivery, readiness, profiles."""

from pathlib import Path

import pytest

from bridle.config import Config, load_config
from bridle.config.edit import set_value
from bridle.config.environment import agent_variables, aliases
from bridle.config.schema import AdapterSection, ReadySection, RuntimeSection
from bridle.core.errors import ConfigError
from bridle.core.results import Loading, Ready
from bridle.runtimes.preset import PresetRuntime
from bridle.runtimes.registry import check_declaration, get_adapter
from bridle.sessions.clocks import Clocks, configured_clocks

CANONICAL = {
    "BRIDLE_SESSION_ID": "s1",
    "BRIDLE_AGENT_NAME": "ivy",
    "BRIDLE_CAPABILITY": "builder",
    "BRIDLE_PROJECT": "greenplace",
    "BRIDLE_ACTOR": "greenplace/polecats/ivy",
    "BRIDLE_WORKTREE_PATH": "/w",
}


def configured(tmp_path: Path, text: str, **env: str) -> Config:
    (tmp_path / ".bridle").mkdir(exist_ok=True)
    (tmp_path / ".bridle" / "config.yaml").write_text(text)
    return load_config(str(tmp_path), {"HOME": str(tmp_path / "home"), **env})


def test_the_defaults_are_those_of_the_clocks() -> None:
    assert configured_clocks(Config()) == Clocks()


def test_clocks_are_read_and_zero_switches_off(tmp_path: Path) -> None:
    config = configured(
        tmp_path,
        "sessions: {startup: 0, firstProgress: 1.5, toolInactivity: 7, turn: 60, leave: 2,"
        " daemonIdle: 0}",
    )
    clocks = configured_clocks(config)
    assert clocks == Clocks(
        startup=None, first_progress=1.5, tool_inactivity=7.0, turn=60.0, leave=2.0
    )
    assert config.sessions.daemon_idle == 0


def test_hooks_are_read_by_the_names_of_their_events(tmp_path: Path) -> None:
    config = configured(tmp_path, "hooks: {OnError: [a, b], timeoutSeconds: 2}")
    assert config.hooks.commands("OnError") == ("a", "b")
    assert config.hooks.commands("SessionStart") == ()
    assert config.hooks.timeout_seconds == 2


@pytest.mark.parametrize("text", ['{ "runtime": "codex" }', "runtime: codex", "runtime:\n  codex"])
def test_a_bare_runtime_is_the_default(tmp_path: Path, text: str) -> None:
    config = configured(tmp_path, text)
    assert config.runtime == RuntimeSection(default="codex")


def test_a_bare_runtime_lies_over_the_users_sections(tmp_path: Path) -> None:
    user = tmp_path / "home" / ".config" / "bridle"
    user.mkdir(parents=True)
    (user / "config.yaml").write_text(
        "runtime: {default: claude, adapters: {codex: {ready: warmup, delivery: stdin}}}"
    )
    config = configured(tmp_path, '{"runtime": "codex"}')
    assert config.runtime.default == "codex"
    assert config.runtime.adapters["codex"].delivery == "stdin"
    assert config.readiness("codex") == ReadySection(strategy="warmup")


def test_setting_the_default_in_a_file_with_a_bare_runtime(tmp_path: Path) -> None:
    path = tmp_path / "config.yaml"
    path.write_text("# mine\nruntime: codex\n")
    set_value(str(path), ("runtime", "default"), "pi")
    assert path.read_text() == "# mine\nruntime:\n  default: pi\n"


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("prompt", ReadySection(strategy="prompt")),
        ("warmup", ReadySection(strategy="warmup")),
        ("{strategy: warmup, warmupSeconds: 1, retries: 0}", None),
    ],
)
def test_any_runtime_takes_a_strategy(
    tmp_path: Path, text: str, wanted: ReadySection | None
) -> None:
    config = configured(tmp_path, f"runtime: {{adapters: {{claude: {{ready: {text}}}}}}}")
    assert get_adapter("claude", config).id == "claude"
    wanted = wanted or ReadySection(strategy="warmup", warmup_seconds=1.0, retries=0)
    assert config.readiness("claude") == wanted
    assert config.readiness("codex") is None


def test_a_runtime_with_an_adapter_takes_no_text(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"claude\.ready: only for runtimes declared"):
        configured(tmp_path, 'runtime: {adapters: {claude: {ready: "> "}}}')


@pytest.mark.parametrize("ready", ["$ ", ReadySection(text="$ ")])
def test_a_preset_still_takes_its_text(ready: str | ReadySection) -> None:
    runtime = PresetRuntime("mine", AdapterSection(binary="b", ready=ready))
    assert runtime.detect_ready("loading") == Loading()
    assert runtime.detect_ready("$ ") == Ready()


def test_a_preset_may_warm_up_instead_but_a_prompt_needs_its_text() -> None:
    runtime = PresetRuntime("mine", AdapterSection(binary="b", ready="warmup"))
    assert runtime.detect_ready("anything") == Ready()
    with pytest.raises(ConfigError, match="needs the text"):
        PresetRuntime("mine", AdapterSection(binary="b", ready="prompt"))
    odd = AdapterSection(binary="b", ready=ReadySection(text="prompt"))
    assert PresetRuntime("mine", odd).detect_ready("prompt") == Ready()


def test_an_acp_preset_has_no_terminal() -> None:
    check_declaration("mine", AdapterSection(binary="b", protocol="acp", delivery="rpc"))
    with pytest.raises(ConfigError, match=r"mine\.delivery"):
        check_declaration("mine", AdapterSection(binary="b", protocol="acp", delivery="tmux"))


@pytest.mark.parametrize(("delivery", "drive"), [("tmux", "tmux"), ("stdin", None), ("rpc", "rpc")])
def test_the_delivery_chooses_the_drive(tmp_path: Path, delivery: str, drive: str | None) -> None:
    config = configured(tmp_path, f"runtime: {{adapters: {{codex: {{delivery: {delivery}}}}}}}")
    assert config.drive("codex") == drive
    assert config.drive("claude") is None


@pytest.mark.parametrize(
    ("mode", "drive"),
    [
        ("exec", "print"),
        ("run", "print"),
        ("json", "print"),
        ("rpc", "rpc"),
        ("acp", "rpc"),
        ("tui", "tmux"),
    ],
)
def test_the_mode_chooses_the_drive(tmp_path: Path, mode: str, drive: str) -> None:
    config = configured(tmp_path, f"runtime: {{adapters: {{codex: {{mode: {mode}}}}}}}")
    assert config.drive("codex") == drive
    assert config.drive("claude") is None


def test_profiles_say_the_same_under_other_names() -> None:
    assert aliases("gastown", CANONICAL) == {
        "GT_SESSION_ID": "s1",
        "GT_ROLE": "builder",
        "GT_RIG": "greenplace",
        "GT_POLECAT": "ivy",
        "BD_ACTOR": "greenplace/polecats/ivy",
        "GT_WORKDIR": "/w",
    }
    assert aliases("overstory", {"BRIDLE_AGENT_NAME": "ivy"}) == {"OVERSTORY_AGENT_NAME": "ivy"}
    with pytest.raises(ConfigError, match="unknown profile nope"):
        aliases("nope", CANONICAL)


def test_profiles_are_switched_on_by_file_or_environment(tmp_path: Path) -> None:
    config = configured(tmp_path, "profiles: [overstory]")
    assert config.profiles == ("overstory",)
    both = configured(tmp_path, "profiles: [overstory]", BRIDLE_PROFILE="gastown, overstory")
    assert both.profiles == ("gastown", "overstory")
    forge = configured(tmp_path, "profiles: [overstory]", BRIDLE_PROFILE="forge")
    assert forge.profiles == ("overstory",)


def test_an_agent_has_its_own_values_under_other_names() -> None:
    outer = {"GT_SESSION_ID": "outer", "GT_POLECAT": "mayor", "OVERSTORY_AGENT_NAME": "mayor"}
    around = {**CANONICAL, **outer, "OTHER": "1"}
    got = agent_variables(around, ("gastown",), {"GT_ROLE": "chosen"})
    assert (got["GT_SESSION_ID"], got["GT_POLECAT"], got["GT_ROLE"]) == ("s1", "ivy", "chosen")
    assert "OVERSTORY_AGENT_NAME" not in got
    assert got["OTHER"] == "1"
    assert agent_variables(around, (), {}) == around


def test_a_rig_is_a_name() -> None:
    assert aliases("gastown", {"BRIDLE_PROJECT": "/repos/greenplace/"}) == {"GT_RIG": "greenplace"}
