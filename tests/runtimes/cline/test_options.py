"""Each option of a run is mapped to Cline's own words, or refused by name."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from bridle.core.errors import NotAuthenticated, NotSupported, UnsupportedOption, WrongUse
from bridle.core.options import ModelServer, Provider, ResolvedModel, RunOptions, SpawnOptions
from bridle.runtimes.cline import ClineRuntime
from bridle.runtimes.contract import AdapterSettings
from bridle.runtimes.plan import RunPlan
from tests.runtimes.products import ONE_PNG, installed

SERVER = ModelServer(url="http://127.0.0.1:1", api_key="a-scripted-key")


@pytest.fixture
def runtime(tmp_path: Path) -> ClineRuntime:
    return ClineRuntime(AdapterSettings(binary=installed("cline", tmp_path)))


def login(tmp_path: Path, **entry: Any) -> Path:
    settings = tmp_path / ".cline" / "data" / "settings"
    settings.mkdir(parents=True)
    own = {"provider": "anthropic", "apiKey": "the-users-key", **entry}
    content = {"providers": {"anthropic": {"settings": own}}}
    (settings / "providers.json").write_text(json.dumps(content))
    return settings


def plan(
    runtime: ClineRuntime, tmp_path: Path, env: dict[str, str] | None = None, **options: Any
) -> RunPlan:
    home = {"HOME": str(tmp_path), "PATH": os.environ["PATH"]}
    wanted = RunOptions(**{"prompt": "Do it.", "cwd": str(tmp_path), **options})
    return runtime.plan_run(wanted, home | (env or {}), "5e55-id")


def written(found: RunPlan, variable: str) -> Any:
    path = Path(found.spec.env[variable])
    assert path.is_relative_to(found.private_dirs[0])
    assert os.stat(path).st_mode & 0o777 == 0o600
    return json.loads(path.read_text())


def test_a_plain_run(runtime: ClineRuntime, tmp_path: Path) -> None:
    login(tmp_path)
    found = plan(runtime, tmp_path)
    assert found.spec.argv[1:] == ("--json", "--auto-approve", "false", " ")
    assert found.spec.stdin == b"Do it."
    env = found.spec.env
    assert env["CLINE_SESSION_BACKEND_MODE"] == "local"
    assert env["CLINE_NO_AUTO_UPDATE"] == "1"
    assert env["CLINE_LOG_PATH"].startswith(found.private_dirs[0])
    copy = written(found, "CLINE_PROVIDER_SETTINGS_PATH")
    assert copy["providers"]["anthropic"]["settings"]["apiKey"] == "the-users-key"
    assert found.warnings == ()


def test_a_login_that_renews_itself_stays_where_it_is(
    runtime: ClineRuntime, tmp_path: Path
) -> None:
    login(tmp_path, auth={"refreshToken": "x"})
    found = plan(runtime, tmp_path, model="m")
    assert "CLINE_PROVIDER_SETTINGS_PATH" not in found.spec.env
    assert any("next default" in warning for warning in found.warnings)
    assert plan(runtime, tmp_path).warnings == ()


def test_the_daemon_cannot_be_asked_for(runtime: ClineRuntime, tmp_path: Path) -> None:
    login(tmp_path)
    found = plan(runtime, tmp_path, {"CLINE_SESSION_BACKEND_MODE": "hub"})
    assert found.spec.env["CLINE_SESSION_BACKEND_MODE"] == "local"


def test_flags(runtime: ClineRuntime, tmp_path: Path) -> None:
    login(tmp_path)
    found = plan(
        runtime,
        tmp_path,
        permission_mode="bypass",
        model="m",
        system_prompt="-x",
        raw_args=("--verbose",),
        provider_options={"provider": "p", "thinking": "low", "compaction": "off", "plan": "true"},
    )
    assert found.spec.argv[1:] == (
        *("--json", "--auto-approve", "true", "--provider=p", "--model=m", "--system=-x"),
        *("--thinking=low", "--compaction=off", "--plan", "--verbose", " "),
    )


def test_files_of_the_run(runtime: ClineRuntime, tmp_path: Path) -> None:
    settings = login(tmp_path)
    (settings / "global-settings.json").write_text('{"tuiTheme":"x","disabledTools":["a"]}')
    image = tmp_path / "with a space.png"
    image.write_bytes(ONE_PNG)
    servers = {"mcpServers": {"a": {"command": "x"}, "b": {"url": "http://127.0.0.1:1/mcp"}}}
    found = plan(
        runtime,
        tmp_path,
        settings='{"compactionEnabled": false}',
        denied_tools=("run_commands",),
        mcp_config=json.dumps(servers),
        append_system_prompt="Added.",
        images=(str(image),),
    )
    assert written(found, "CLINE_GLOBAL_SETTINGS_PATH") == {
        "tuiTheme": "x",
        "compactionEnabled": False,
        "disabledTools": ["a", "run_commands"],
    }
    mcp = written(found, "CLINE_MCP_SETTINGS_PATH")["mcpServers"]
    assert (mcp["a"]["command"], mcp["b"]["type"]) == ("x", "streamableHttp")
    rules = Path(found.spec.env["OneDrive"]) / "Documents" / "Cline" / "Rules" / "bridle.md"
    assert rules.read_text() == "Added.\n"
    assert found.spec.stdin is not None
    mention, _, rest = found.spec.stdin.decode().partition("\n\n")
    assert rest == "Do it."
    assert Path(mention.removeprefix("@")).read_bytes() == ONE_PNG


def test_the_scripted_model(runtime: ClineRuntime, tmp_path: Path) -> None:
    login(tmp_path)
    user = {"CLINE_API_KEY": "the-users-token", "CLINE_DATA_DIR": "/elsewhere"}
    found = plan(runtime, tmp_path, user, model_server=SERVER, model="m")
    env = found.spec.env
    assert "CLINE_API_KEY" not in env
    for name in ("CLINE_DIR", "CLINE_DATA_DIR"):
        assert env[name].startswith(found.private_dirs[0])
    (entry,) = written(found, "CLINE_PROVIDER_SETTINGS_PATH")["providers"].values()
    assert entry["settings"]["baseUrl"] == "http://127.0.0.1:1/v1"
    assert written(found, "CLINE_GLOBAL_SETTINGS_PATH")["telemetryOptOut"] is True
    assert found.secrets == ("a-scripted-key",)
    assert not any("a-scripted-key" in word for word in found.spec.argv)
    assert "a-scripted-key" not in env.values()


def test_providers(runtime: ClineRuntime, tmp_path: Path) -> None:
    login(tmp_path)
    user = {"GATE": "the-gateway-key"}
    provider = Provider(base_url="http://127.0.0.1:1/v1", auth_token_env="GATE")
    found = plan(
        runtime,
        tmp_path,
        user,
        provider=provider,
        model="m",
        provider_options={"api": "anthropic"},
    )
    settings = written(found, "CLINE_PROVIDER_SETTINGS_PATH")["providers"]
    assert settings["anthropic"]["settings"] == {
        "provider": "anthropic",
        "apiKey": "the-gateway-key",
        "model": "m",
        "baseUrl": "http://127.0.0.1:1/v1",
    }
    assert found.secrets == ("the-gateway-key",)
    with pytest.raises(WrongUse, match="needs a model"):
        plan(runtime, tmp_path, user, provider=provider)
    with pytest.raises(NotAuthenticated, match="NOT_SET"):
        plan(runtime, tmp_path, provider=Provider(auth_token_env="NOT_SET"), model="m")


def test_no_login(runtime: ClineRuntime, tmp_path: Path) -> None:
    with pytest.raises(NotAuthenticated, match="no provider"):
        plan(runtime, tmp_path)
    assert runtime.credentials({"HOME": str(tmp_path), "OPENAI_API_KEY": "x"}) == "unknown"
    assert runtime.credentials({"HOME": str(tmp_path), "CLINE_API_KEY": "x"}) == "present"


def test_an_account_of_its_own(runtime: ClineRuntime, tmp_path: Path) -> None:
    settings = login(tmp_path)
    account = settings.parents[1]
    found = plan(
        runtime, tmp_path / "node_modules", {"CLINE_DATA_DIR": "/x"}, account_dir=str(account)
    )
    assert found.spec.env["CLINE_DIR"] == str(account)
    assert "CLINE_DATA_DIR" not in found.spec.env


def test_commands_for_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plain = ClineRuntime()
    spawn = plain.build_spawn_command(SpawnOptions(model="m", initial_prompt="go"))
    assert spawn == "cline --tui --model m --auto-approve false -- go"
    with pytest.raises(UnsupportedOption, match="append_system_prompt"):
        plain.build_spawn_command(SpawnOptions(model="m", append_system_prompt="x"))
    assert plain.build_print_command("hi", "m") == ["cline", "--model", "m", "--", "hi "]
    assert plain.build_print_command("two words") == ["cline", "--", "two words"]
    assert plain.build_env(ResolvedModel(model="m", env={"A": "b"})) == {
        "CLINE_SESSION_BACKEND_MODE": "local",
        "CLINE_NO_AUTO_UPDATE": "1",
        "A": "b",
    }
    monkeypatch.setenv("GATE", "the-gateway-key")
    provider = Provider(base_url="http://127.0.0.1:1/v1", auth_token_env="GATE")
    env = plain.build_env(ResolvedModel(model="m", provider=provider))
    path = Path(env["CLINE_PROVIDER_SETTINGS_PATH"])
    assert "the-gateway-key" in path.read_text()
    assert os.stat(path).st_mode & 0o777 == 0o600


def test_a_terminal_of_a_person(runtime: ClineRuntime, tmp_path: Path) -> None:
    env = {"HOME": str(tmp_path)}
    options = RunOptions(prompt="look", cwd=str(tmp_path), model="m", permission_mode="bypass")
    spec = runtime.plan_interactive(options, env).spec
    assert spec.argv[1:] == ("--tui", "--auto-approve", "true", "--model=m", "--", "look")
    assert spec.env["CLINE_SESSION_BACKEND_MODE"] == "local"
    with pytest.raises(UnsupportedOption, match="max_turns"):
        runtime.plan_interactive(RunOptions(prompt="x", max_turns=1), env)


def test_the_native_program_is_started(tmp_path: Path, runtime: ClineRuntime) -> None:
    launcher = tmp_path / "node_modules" / "cline" / "bin" / "cline"
    launcher.parent.mkdir(parents=True)
    launcher.write_text("#!/usr/bin/env node\n")
    launcher.chmod(0o755)
    found = ClineRuntime(AdapterSettings(binary=str(launcher))).find()
    assert found is not None
    assert found.version == "3.0.65"
    assert ClineRuntime(AdapterSettings(binary="/nowhere/cline")).find() is None


def test_a_version_that_takes_no_added_prompt(runtime: ClineRuntime, tmp_path: Path) -> None:
    manifest = Path(runtime.settings.binary or "").parents[1] / "package.json"
    manifest.write_text('{"name":"@cline/cli-linux-x64","version":"3.0.57"}')
    with pytest.raises(UnsupportedOption, match="append_system_prompt"):
        plan(runtime, tmp_path, append_system_prompt="Be brief.")
    live = RunOptions(prompt="", cwd=str(tmp_path), append_system_prompt="Be brief.")
    with pytest.raises(UnsupportedOption, match="append_system_prompt"):
        runtime.plan_live(live, {"HOME": str(tmp_path), "PATH": os.environ["PATH"]}, "id")


def test_a_version_that_is_too_old(runtime: ClineRuntime, tmp_path: Path) -> None:
    manifest = Path(runtime.settings.binary or "").parents[1] / "package.json"
    manifest.write_text('{"name":"@cline/cli-linux-x64","version":"2.18.0"}')
    with pytest.raises(NotSupported, match=r"oldest version that works is 3\.0\.0"):
        plan(runtime, tmp_path)
