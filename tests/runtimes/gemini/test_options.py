"""Each option of Gemini CLI is mapped or refused by name, before anything is started."""

import os
import stat
import tomllib
from pathlib import Path
from typing import Any

import msgspec
import pytest

from bridle.core.errors import (
    BridleError,
    NotAuthenticated,
    NotInstalled,
    ResumeRefused,
    UnsupportedOption,
    WrongUse,
)
from bridle.core.options import ModelServer, Provider, ResolvedModel, RunOptions, SpawnOptions
from bridle.runtimes.base import AdapterSettings, RunPlan
from bridle.runtimes.gemini import GeminiRuntime, home

SESSION = "0b5ad6d2-3c1f-4f0e-9a52-2f6f0d2f7a11"


@pytest.fixture
def runtime(tmp_path: Path) -> GeminiRuntime:
    package = tmp_path / "gemini-cli"
    (package / "bundle").mkdir(parents=True)
    (package / "package.json").write_text('{"name":"@google/gemini-cli","version":"0.61.0"}')
    binary = package / "bundle" / "gemini.js"
    binary.write_text("#!/bin/false\n")
    binary.chmod(0o755)
    return GeminiRuntime(AdapterSettings(binary=str(binary)))


def plan(runtime: GeminiRuntime, env: dict[str, str] | None = None, **options: Any) -> RunPlan:
    given = {"HOME": os.environ["HOME"], "PATH": "/bin", **(env or {})}
    return runtime.plan_run(RunOptions(**{"prompt": "do it", **options}), given, SESSION)


@pytest.fixture
def obeyed(monkeypatch: pytest.MonkeyPatch) -> None:
    """As on a machine where root runs Gemini: the folders of a test belong to whoever runs it."""
    monkeypatch.setattr(home, "why_skipped", lambda path: "")


def settings(made: RunPlan) -> dict[str, Any]:
    path = Path(made.spec.env["GEMINI_CLI_SYSTEM_SETTINGS_PATH"])
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    return msgspec.json.decode(path.read_bytes(), type=dict[str, Any])


@pytest.mark.usefixtures("obeyed")
def test_a_plain_run(runtime: GeminiRuntime) -> None:
    made = plan(runtime)
    assert made.spec.argv[1:] == (
        *("-o", "stream-json", "--skip-trust", "--approval-mode", "default"),
        *("-m", "gemini-2.5-pro", "--session-id", SESSION),
    )
    assert made.spec.stdin == b"do it"
    assert made.spec.watch_stderr
    assert made.spec.env["GEMINI_CLI_NO_RELAUNCH"] == "true"
    assert made.native_session_id == SESSION
    assert settings(made) == {"general": {"maxAttempts": 3}}


def test_nodes_own_options_are_added_to(runtime: GeminiRuntime) -> None:
    told = plan(runtime, {"NODE_OPTIONS": "--max-old-space-size=1"}).spec.env["NODE_OPTIONS"]
    mine, _, added = told.partition(" ")
    assert mine == "--max-old-space-size=1"
    script = added.removeprefix('--require="').removesuffix('"')
    assert "setBlocking" in Path(script).read_text()


def test_a_model_that_the_user_chose_is_not_overruled(runtime: GeminiRuntime) -> None:
    assert "-m" not in plan(runtime, {"GEMINI_MODEL": "mine"}).spec.argv
    folder = Path(os.environ["HOME"]) / ".gemini"
    folder.mkdir()
    (folder / "settings.json").write_text('{"model": {"name": "mine"}}')
    assert "-m" not in plan(runtime).spec.argv
    assert "other" in plan(runtime, model="other").spec.argv


@pytest.mark.usefixtures("obeyed")
def test_choices_become_flags_and_settings(runtime: GeminiRuntime, tmp_path: Path) -> None:
    extra = tmp_path / "extra.md"
    extra.write_text("more")
    made = plan(
        runtime,
        model="flash",
        permission_mode="bypass",
        resume=SESSION,
        system_prompt="You are brief.",
        append_system_prompt="And kind.",
        append_system_prompt_file=str(extra),
        allowed_tools=("read_file",),
        denied_tools=("web_fetch",),
        settings='{"general": {"vimMode": true}}',
        mcp_config='{"mcpServers": {"a": {"command": "x", "env": {"K": "v"}},'
        ' "b": {"url": "http://127.0.0.1:1/"}, "c": {"url": "u", "type": "sse"}}}',
        provider_options={"max_retries": "5", "trust_project": "true"},
        raw_args=("--debug",),
    )
    words = list(made.spec.argv)
    assert words[words.index("--approval-mode") + 1] == "yolo"
    assert words[words.index("--resume") + 1] == SESSION
    assert "--skip-trust" not in words
    assert made.spec.env["GEMINI_CLI_TRUST_WORKSPACE"] == "true"
    assert words[-1] == "--debug"
    told = settings(made)
    assert told["general"] == {"maxAttempts": 6, "vimMode": True}
    assert told["tools"] == {"core": ["read_file", "read_many_files"]}
    assert told["context"] == {"loadMemoryFromIncludeDirectories": True}
    assert told["mcpServers"]["a"]["env"] == {"K": "v"}
    assert told["mcpServers"]["b"]["httpUrl"] == "http://127.0.0.1:1/"
    assert told["mcpServers"]["c"]["url"] == "u"
    added = Path(words[words.index("--include-directories") + 1]) / "GEMINI.md"
    assert added.read_text() == "And kind.\n\nmore"
    policy = tomllib.loads(Path(words[words.index("--policy") + 1]).read_text())
    assert policy["rule"] == [{"toolName": "web_fetch", "decision": "deny", "priority": 900}]
    assert Path(made.spec.env["GEMINI_SYSTEM_MD"]).read_text() == "You are brief."


@pytest.mark.usefixtures("obeyed")
def test_what_an_administrator_set_stays_in_force(runtime: GeminiRuntime, tmp_path: Path) -> None:
    path = tmp_path / "system.json"
    path.write_text('{"tools": {"exclude": ["x"]}}')
    told = settings(plan(runtime, {"GEMINI_CLI_SYSTEM_SETTINGS_PATH": str(path)}))
    assert told == {"tools": {"exclude": ["x"]}, "general": {"maxAttempts": 3}}


@pytest.mark.usefixtures("obeyed")
def test_a_provider_of_ones_own(runtime: GeminiRuntime) -> None:
    provider = Provider(base_url="http://127.0.0.1:1", auth_token_env="MY_KEY")
    made = plan(runtime, {"MY_KEY": "very-secret-key"}, provider=provider)
    assert made.spec.env["GOOGLE_GEMINI_BASE_URL"] == "http://127.0.0.1:1"
    assert made.spec.env["GEMINI_API_KEY"] == "very-secret-key"
    assert settings(made)["security"]["auth"]["selectedType"] == "gemini-api-key"
    assert made.secrets == ("very-secret-key",)


@pytest.mark.usefixtures("obeyed")
def test_build_env_needs_a_setting_for_an_address(
    runtime: GeminiRuntime, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MY_KEY", "very-secret-key")
    provider = Provider(base_url="http://127.0.0.1:1", auth_token_env="MY_KEY")
    routed = runtime.build_env(ResolvedModel(model="m", env={"A": "b"}, provider=provider))
    assert routed["A"] == "b"
    told = Path(routed["GEMINI_CLI_SYSTEM_SETTINGS_PATH"]).read_text()
    assert "gemini-api-key" in told
    assert "very-secret-key" not in told
    assert runtime.build_env(ResolvedModel(model="m", env={"A": "b"})) == {"A": "b"}


def test_a_scripted_model_has_a_home_of_its_own(runtime: GeminiRuntime) -> None:
    server = ModelServer(url="http://127.0.0.1:1/", api_key="scripted-key")
    mine = {"GOOGLE_API_KEY": "mine", "GEMINI_MODEL": "mine", "https_proxy": "http://x"}
    made = plan(runtime, mine, model_server=server)
    (private,) = made.private_dirs
    assert stat.S_IMODE(os.stat(private).st_mode) == 0o700
    env = made.spec.env
    assert not {"GOOGLE_API_KEY", "GEMINI_MODEL", "https_proxy"} & set(env)
    assert env["GEMINI_CLI_HOME"].startswith(private)
    assert env["TMPDIR"].startswith(private)
    assert env["GOOGLE_GEMINI_BASE_URL"] == "http://127.0.0.1:1"
    assert not os.path.exists(env["GEMINI_CLI_SYSTEM_SETTINGS_PATH"])
    told = home_settings(made)
    assert told["telemetry"] == {"enabled": False}
    assert told["security"]["auth"]["selectedType"] == "gemini-api-key"
    assert made.secrets == ("scripted-key",)


def home_settings(made: RunPlan) -> dict[str, Any]:
    path = Path(made.spec.env["GEMINI_CLI_HOME"]) / ".gemini" / "settings.json"
    return msgspec.json.decode(path.read_bytes(), type=dict[str, Any])


def test_a_lasting_home_keeps_the_settings_of_its_user(
    runtime: GeminiRuntime, tmp_path: Path
) -> None:
    server = ModelServer(url="http://127.0.0.1:1/", api_key="scripted-key")
    account = tmp_path / "account"
    account.mkdir()
    given: dict[str, Any] = {"model_server": server, "account_dir": str(account)}
    assert "tools" not in home_settings(plan(runtime, **given))
    again = plan(runtime, allowed_tools=("read_file",), **given)
    assert home_settings(again)["tools"]["core"][0] == "read_file"
    other = tmp_path / "other"
    (other / ".gemini").mkdir(parents=True)
    (other / ".gemini" / "settings.json").write_text("{}")
    with pytest.raises(UnsupportedOption, match="model_server"):
        plan(runtime, model_server=server, account_dir=str(other))
    assert [path.name for path in (other / ".gemini").iterdir()] == ["settings.json"]


@pytest.mark.parametrize(
    "options",
    [
        {"allowed_tools": ("read_file",)},
        {"settings": "{}"},
        {"mcp_config": '{"mcpServers": {"a": {"command": "x"}}}'},
        {"append_system_prompt": "Be kind."},
        {"provider": Provider(base_url="http://127.0.0.1:1")},
        {"provider_options": {"max_retries": 5}},
    ],
)
def test_what_only_settings_can_do_is_refused_where_gemini_skips_them(
    runtime: GeminiRuntime, tmp_path: Path, options: dict[str, Any]
) -> None:
    (tmp_path / "open").mkdir(0o777)
    (tmp_path / "open").chmod(0o777)
    mine = {"XDG_STATE_HOME": str(tmp_path / "open")}
    name = "max_retries" if "provider_options" in options else next(iter(options))
    with pytest.raises(UnsupportedOption, match=rf"option {name} \(Gemini skips the settings"):
        plan(runtime, mine, **options)
    assert "GEMINI_CLI_SYSTEM_SETTINGS_PATH" not in plan(runtime, mine).spec.env


def test_a_user_with_a_key_needs_no_settings_for_a_provider(
    runtime: GeminiRuntime, tmp_path: Path
) -> None:
    folder = tmp_path / "mine" / ".gemini"
    folder.mkdir(parents=True)
    login = '{"security": {"auth": {"selectedType": "gemini-api-key"}}}'
    (folder / "settings.json").write_text(login)
    (tmp_path / "mine").chmod(0o777)
    made = plan(
        runtime,
        {"HOME": str(tmp_path / "mine")},
        provider=Provider(base_url="http://127.0.0.1:1"),
    )
    assert made.spec.env["GOOGLE_GEMINI_BASE_URL"] == "http://127.0.0.1:1"


def test_what_gemini_takes_for_the_systems_settings(tmp_path: Path) -> None:
    (tmp_path / "open").mkdir()
    file = tmp_path / "open" / "settings.json"
    file.write_text("{}")
    (tmp_path / "open").chmod(0o777)
    assert home.why_skipped(str(file))
    assert home.why_skipped("/") == ""


def test_another_account(runtime: GeminiRuntime, tmp_path: Path) -> None:
    made = plan(runtime, account_dir=str(tmp_path))
    assert made.spec.env["GEMINI_CLI_HOME"] == str(tmp_path)


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"budget_usd": 1.0}, UnsupportedOption),
        ({"images": ("/a.png",)}, UnsupportedOption),
        ({"append_system_prompt_file": "/no/such.md"}, WrongUse),
        ({"settings": "/no/such.json"}, WrongUse),
        ({"settings": "{broken"}, WrongUse),
        ({"mcp_config": '{"mcpServers": {"a": {}}}'}, WrongUse),
        ({"denied_tools": ('x"\n',)}, WrongUse),
        ({"resume": "latest"}, ResumeRefused),
        ({"resume": "5"}, ResumeRefused),
        ({"cwd": "/no/such/folder"}, WrongUse),
        ({"account_dir": "/no/such/folder"}, WrongUse),
        ({"prompt": "x" * (8 * 1024 * 1024 + 1)}, WrongUse),
        ({"provider_options": {"max_retires": 1}}, WrongUse),
        ({"provider_options": {"approval_mode": "maybe"}}, WrongUse),
        ({"provider": Provider(auth_token_env="NO_KEY")}, NotAuthenticated),
        (
            {"resume": SESSION, "model_server": ModelServer(url="http://x", api_key="k")},
            ResumeRefused,
        ),
    ],
)
def test_what_cannot_be_done_is_refused(
    runtime: GeminiRuntime, options: dict[str, Any], error: type[BridleError]
) -> None:
    with pytest.raises(error):
        plan(runtime, **options)
    run = Path(os.environ["HOME"]) / ".local" / "state" / "bridle" / "run"
    assert not run.exists() or not list(run.iterdir())


def test_a_missing_cli_is_named() -> None:
    with pytest.raises(NotInstalled) as caught:
        plan(GeminiRuntime(AdapterSettings(binary="no-such-gemini")))
    assert "npm install" in caught.value.hint


def test_commands_for_others(runtime: GeminiRuntime) -> None:
    spawn = runtime.build_spawn_command(
        SpawnOptions(model="pro", permission_mode="bypass", initial_prompt="-x")
    )
    assert spawn.endswith("-m pro --skip-trust --approval-mode yolo --prompt-interactive=-x")
    with pytest.raises(WrongUse):
        runtime.build_spawn_command(SpawnOptions(model="pro", append_system_prompt="x"))
    assert runtime.build_print_command("-x")[1:] == [
        *("--skip-trust", "-m", "gemini-2.5-pro", "--prompt=-x")
    ]


def test_credentials_are_looked_for_not_read(runtime: GeminiRuntime, tmp_path: Path) -> None:
    env = {"HOME": str(tmp_path)}
    assert runtime.credentials(env) == "missing"
    assert runtime.credentials({**env, "GEMINI_API_KEY": "k"}) == "present"
    (tmp_path / ".gemini").mkdir()
    (tmp_path / ".gemini" / "settings.json").write_text("{}")
    assert runtime.credentials(env) == "unknown"
    (tmp_path / ".gemini" / "oauth_creds.json").write_text("{}")
    assert runtime.credentials(env) == "present"


def test_a_run_at_the_terminal(runtime: GeminiRuntime, tmp_path: Path) -> None:
    options = RunOptions(prompt="hello", model="pro", cwd=str(tmp_path))
    spec = runtime.plan_interactive(options, {"HOME": str(tmp_path)})
    assert spec.argv[1:] == (
        *("--approval-mode", "default", "-m", "pro", "--prompt-interactive=hello"),
    )
    with pytest.raises(WrongUse):
        runtime.plan_interactive(
            RunOptions(prompt="x", cwd=str(tmp_path), system_prompt="y"), {"HOME": str(tmp_path)}
        )
