"""What wins, and where files are looked for."""

import subprocess
import sys
from pathlib import Path

import pytest

from bridle.config import load_config
from bridle.config.load import new_project_file, project_file, user_file
from bridle.core.errors import ConfigError, WrongUse


def write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


@pytest.fixture
def env(tmp_path: Path) -> dict[str, str]:
    return {"HOME": str(tmp_path / "home")}


@pytest.fixture
def project(tmp_path: Path) -> Path:
    root = tmp_path / "project"
    write(root / ".git" / "HEAD", "ref: refs/heads/main\n")
    (root / "deep" / "down").mkdir(parents=True)
    return root


def test_without_files_and_variables_everything_has_its_default(
    project: Path, env: dict[str, str]
) -> None:
    config = load_config(str(project), env)
    assert config.runtime.default is None
    assert config.files == ()
    assert config.print_runtime() is None


def test_environment_beats_project_beats_user(project: Path, env: dict[str, str]) -> None:
    user = write(
        Path(env["HOME"], ".config/bridle/config.yaml"),
        "runtime: {default: pi, printCommand: claude}\nbudgets: {runUsd: 1, runSeconds: 60}\n",
    )
    mine = write(
        project / ".bridle/config.yaml", "runtime: {default: codex}\nbudgets: {runUsd: 2.5}\n"
    )
    config = load_config(str(project), env)
    assert (config.runtime.default, config.print_runtime()) == ("codex", "claude")
    assert (config.budgets.run_usd, config.budgets.run_seconds) == (2.5, 60)
    assert config.files == (str(mine), str(user))
    assert load_config(str(project), {**env, "BRIDLE_BACKEND": "x"}).runtime.default == "x"
    both = {**env, "BRIDLE_BACKEND": "x", "BRIDLE_RUNTIME": "y"}
    assert load_config(str(project), both).runtime.default == "y"


def test_an_empty_variable_says_nothing(project: Path, env: dict[str, str]) -> None:
    assert load_config(str(project), {**env, "BRIDLE_RUNTIME": ""}).runtime.default is None


def test_backend_names_of_older_programs_mean_runtimes(project: Path, env: dict[str, str]) -> None:
    old = {**env, "BRIDLE_BACKEND": "claude-cli"}
    assert load_config(str(project), old).runtime.default == "claude"


def test_a_registered_adapter_may_really_be_called_so(
    project: Path, env: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    site = project / "site" / "mine-1.dist-info"
    site.mkdir(parents=True)
    (site / "entry_points.txt").write_text("[bridle.runtimes]\nmine-cli = mine:Mine\n")
    monkeypatch.syspath_prepend(str(site.parent))
    monkeypatch.setattr("bridle.core.entry_points._found", None)
    found = load_config(str(project), {**env, "BRIDLE_BACKEND": "mine-cli"})
    assert found.runtime.default == "mine-cli"


def test_an_alias_of_a_runtime_goes_before_that_of_all(project: Path, env: dict[str, str]) -> None:
    text = """\
models: {sonnet: claude-sonnet-4-5, small: haiku}
runtime:
  adapters:
    copilot:
      models: {sonnet: claude-sonnet-4.5}
"""
    write(project / ".bridle/config.yaml", text)
    config = load_config(str(project), env)
    assert config.resolve_model("sonnet").model == "claude-sonnet-4-5"
    assert config.resolve_model("sonnet", "copilot").model == "claude-sonnet-4.5"
    assert config.resolve_model("small", "copilot").model == "haiku"


def test_other_systems_names_are_read_only_when_switched_on(
    project: Path, env: dict[str, str]
) -> None:
    forge = {**env, "FORGE_BACKEND": "codex-cli"}
    assert load_config(str(project), forge).runtime.default is None
    switched = {**forge, "BRIDLE_PROFILE": "forge"}
    assert load_config(str(project), switched).runtime.default == "codex"
    with pytest.raises(ConfigError, match="unknown profile nope"):
        load_config(str(project), {**env, "BRIDLE_PROFILE": "nope"})


def test_the_model_server_needs_address_and_key(project: Path, env: dict[str, str]) -> None:
    server = {**env, "BRIDLE_MODEL_SERVER": "http://127.0.0.1:1/v1/"}
    with pytest.raises(WrongUse, match="BRIDLE_MODEL_SERVER_KEY is not set"):
        load_config(str(project), server)
    found = load_config(str(project), {**server, "BRIDLE_MODEL_SERVER_KEY": "k"}).model_server
    assert found is not None
    assert (found.url, found.api_key) == ("http://127.0.0.1:1", "k")
    with pytest.raises(WrongUse, match="not an http address"):
        load_config(str(project), {**env, "BRIDLE_MODEL_SERVER": "127.0.0.1:1"})


def test_the_nearest_project_file_up_to_the_root_counts(project: Path) -> None:
    assert project_file(str(project / "deep" / "down")) is None
    outer = write(project / ".bridle/config.yaml", "")
    assert project_file(str(project / "deep" / "down")) == str(outer)
    inner = write(project / "deep/.bridle/config.yaml", "")
    assert project_file(str(project / "deep" / "down")) == str(inner)
    assert project_file(str(project)) == str(outer)


def test_a_file_above_the_repository_does_not_count(project: Path) -> None:
    write(project.parent / ".bridle/config.yaml", "")
    assert project_file(str(project)) is None


def test_outside_of_a_repository_only_the_folder_itself_counts(tmp_path: Path) -> None:
    mine = write(tmp_path / ".bridle/config.yaml", "")
    (tmp_path / "sub").mkdir()
    (tmp_path / ".git").mkdir()  # an empty one makes no repository
    assert project_file(str(tmp_path)) == str(mine)
    assert project_file(str(tmp_path / "sub")) is None


def git(folder: Path, *words: str) -> None:
    env = {"PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": str(folder)}
    subprocess.run(["git", *words], cwd=folder, env=env, check=True, capture_output=True)


def test_a_linked_worktree_has_its_main_repositorys_file(tmp_path: Path) -> None:
    main, linked = tmp_path / "main", tmp_path / "linked"
    main.mkdir()
    git(main, "init", "-q")
    identity = ("-c", "user.name=t", "-c", "user.email=t@example.invalid")
    git(main, *identity, "commit", "-q", "--allow-empty", "-m", "one")
    git(main, "worktree", "add", "-q", str(linked))
    (linked / "sub").mkdir()
    assert project_file(str(linked / "sub")) is None
    shared = write(main / ".bridle/config.yaml", "")
    assert project_file(str(linked / "sub")) == str(shared)
    own = write(linked / ".bridle/config.yaml", "")
    assert project_file(str(linked / "sub")) == str(own)


def test_a_new_project_file_belongs_to_the_root(project: Path) -> None:
    assert new_project_file(str(project / "deep")) == str(project / ".bridle/config.yaml")


def test_the_users_file_follows_the_base_directory_rule(tmp_path: Path) -> None:
    home = {"HOME": "/home/u"}
    assert user_file(home) == "/home/u/.config/bridle/config.yaml"
    assert user_file({**home, "XDG_CONFIG_HOME": "/x"}) == "/x/bridle/config.yaml"
    assert user_file({**home, "XDG_CONFIG_HOME": "rel"}) == "/home/u/.config/bridle/config.yaml"


def test_on_a_mac_the_native_folder_is_used_when_only_it_has_a_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "platform", "darwin")
    env = {"HOME": str(tmp_path)}
    native = write(tmp_path / "Library/Application Support/bridle/config.yaml", "")
    assert user_file(env) == str(native)
    usual = write(tmp_path / ".config/bridle/config.yaml", "")
    assert user_file(env) == str(usual)


def test_a_relative_binary_is_meant_from_the_project(project: Path, env: dict[str, str]) -> None:
    write(
        project / ".bridle/config.yaml",
        "runtime: {adapters: {a: {binary: tools/a}, b: {binary: b}, c: {binary: /c/d}}}",
    )
    adapters = load_config(str(project / "deep"), env).runtime.adapters
    assert adapters["a"].binary == str(project / "tools/a")
    assert adapters["b"].binary == "b"
    assert adapters["c"].binary == "/c/d"


def test_a_run_without_files_does_not_import_a_yaml_reader(
    project: Path, env: dict[str, str]
) -> None:
    code = (
        "import sys; from bridle.config import load_config; load_config(sys.argv[1], {'HOME': '/x',"
        "'BRIDLE_RUNTIME': 'pi'}); sys.exit('ruamel.yaml' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code, str(project)], check=False)
    assert done.returncode == 0
