"""Each option of Gemini CLI is mapped or refused by name, before anything is started."""

import os
import stat
import tomllib
from pathlib import Path
from typing import Any

import msgspec
import pytest

from bridle.core.errors import (
    GuardRefused,
    NotSupported,
    ResumeRefused,
    UnsupportedOption,
    WrongUse,
)
from bridle.core.options import ModelServer, Provider, ResolvedModel, RunOptions, SpawnOptions
from bridle.process.private_folders import remove_folders
from bridle.runtimes.contract import AdapterSettings
from bridle.runtimes.gemini import GeminiRuntime
from bridle.runtimes.plan import RunPlan
from bridle.turns.guard_contract import GuardAddress, HookShape
from tests.runtimes.products import installed

SESSION = "0b5ad6d2-3c1f-4f0e-9a52-2f6f0d2f7a11"


@pytest.fixture
def runtime(tmp_path: Path) -> GeminiRuntime:
    return GeminiRuntime(AdapterSettings(binary=installed("gemini", tmp_path)))


def of_version(runtime: GeminiRuntime, version: str) -> None:
    """Make the stand-in one of `version`."""
    manifest = Path(runtime.settings.binary or "").parents[1] / "package.json"
    manifest.write_text(f'{{"name":"@google/gemini-cli","version":"{version}"}}')


def plan(runtime: GeminiRuntime, env: dict[str, str] | None = None, **options: Any) -> RunPlan:
    given = {"HOME": os.environ["HOME"], "PATH": "/bin", **(env or {})}
    return runtime.plan_run(RunOptions(**{"prompt": "do it", **options}), given, SESSION)


def settings(made: RunPlan) -> dict[str, Any]:
    path = Path(made.spec.env["GEMINI_CLI_HOME"]) / ".gemini" / "settings.json"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    return msgspec.json.decode(path.read_bytes(), type=dict[str, Any])


def own(text: str, name: str = "settings.json") -> Path:
    """A file in the user's own `.gemini`."""
    path = Path(os.environ["HOME"]) / ".gemini" / name
    path.parent.mkdir(exist_ok=True)
    path.write_text(text)
    return path


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
    assert "-m" not in plan(runtime, settings='{"model": {"name": "mine"}}').spec.argv
    own('// comment "x"\n{"model": {"name": "mine" /* too */}, "ui": {"theme": "a // b"}}')
    made = plan(runtime)
    assert "-m" not in made.spec.argv
    assert settings(made)["ui"] == {"theme": "a // b"}
    assert "other" in plan(runtime, model="other").spec.argv


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


MINE: dict[str, Any] = {
    "general": {"vimMode": True},
    "tools": {"core": ["glob"], "exclude": ["x"]},
    "hooks": {"AfterTool": [{"hooks": [{"type": "command", "command": "mine"}]}]},
    "mcpServers": {"a": {"command": "mine", "cwd": "/"}, "b": {"command": "b"}},
}


def test_the_runs_settings_are_laid_over_the_users(runtime: GeminiRuntime) -> None:
    path = own(msgspec.json.encode(MINE).decode())
    given = {"hooks": {"AfterTool": [{"hooks": []}]}, "tools": {"exclude": ["x", "y"]}}
    made = plan(
        runtime,
        allowed_tools=("write_file",),
        settings=msgspec.json.encode(given).decode(),
        mcp_config='{"mcpServers": {"a": {"command": "theirs"}}}',
    )
    told = settings(made)
    assert told["general"] == {"vimMode": True, "maxAttempts": 3}
    assert told["tools"] == {"core": ["write_file"], "exclude": ["x", "y"]}
    assert told["hooks"]["AfterTool"] == [*MINE["hooks"]["AfterTool"], {"hooks": []}]
    # A server is replaced whole: half of another's would be a third one.
    assert told["mcpServers"]["a"] == {"command": "theirs", "args": [], "env": {}}
    assert told["mcpServers"]["b"] == {"command": "b"}
    assert msgspec.json.decode(path.read_bytes()) == MINE


def test_what_gemini_writes_reaches_the_users_folder(runtime: GeminiRuntime) -> None:
    user = own("{}", "oauth_creds.json").parent
    (user / "projects.json.lock").mkdir()
    (user.parent / ".env").write_text("GEMINI_API_KEY=k")
    made = plan(runtime)
    home = Path(made.spec.env["GEMINI_CLI_HOME"])
    folder = home / ".gemini"
    (folder / "oauth_creds.json").write_text("renewed")
    (folder / "installation_id").write_text("new")
    (folder / "tmp" / "p").mkdir()
    assert (user / "oauth_creds.json").read_text() == "renewed"
    assert (user / "installation_id").read_text() == "new"
    assert (user / "tmp" / "p").is_dir()
    assert (home / ".env").read_text() == "GEMINI_API_KEY=k"
    assert not os.path.lexists(folder / "projects.json.lock")
    assert not (user / "settings.json").exists()
    assert made.spec.env["GEMINI_CLI_TRUSTED_FOLDERS_PATH"] == str(user / "trustedFolders.json")


def test_a_conversation_has_the_same_home_in_every_run(runtime: GeminiRuntime) -> None:
    first = plan(runtime)
    remove_folders(first.private_dirs)
    again = plan(runtime, resume=SESSION)
    assert again.private_dirs == first.private_dirs
    beside = plan(runtime, resume=SESSION)
    assert beside.private_dirs != first.private_dirs


def test_settings_that_cannot_be_read_are_named(runtime: GeminiRuntime) -> None:
    path = own("{broken")
    with pytest.raises(WrongUse, match=str(path)):
        plan(runtime)


OVERRULED: list[tuple[dict[str, Any], dict[str, Any], str]] = [
    ({"tools": {"core": ["glob"]}}, {"allowed_tools": ("read_file",)}, "tools.core"),
    ({"tools": "all"}, {"allowed_tools": ("read_file",)}, "tools"),
    (
        {"mcpServers": {"a": {"command": "y"}}},
        {"mcp_config": '{"mcpServers": {"a": {"command": "x"}}}'},
        "mcpServers.a",
    ),
    ({"general": {"maxAttempts": 9}}, {"provider_options": {"max_retries": 1}}, "maxAttempts"),
]


@pytest.mark.parametrize(("theirs", "options", "name"), OVERRULED)
def test_what_an_administrator_decides_otherwise_is_refused(
    runtime: GeminiRuntime,
    tmp_path: Path,
    theirs: dict[str, Any],
    options: dict[str, Any],
    name: str,
) -> None:
    path = tmp_path / "system.json"
    path.write_bytes(msgspec.json.encode(theirs))
    held = {"GEMINI_CLI_SYSTEM_SETTINGS_PATH": str(path)}
    with pytest.raises(WrongUse, match=f"{path} sets .*{name}"):
        plan(runtime, held, **options)
    # What the run does not ask for is the administrator's to decide, in that file.
    assert plan(runtime, held).spec.env["GEMINI_CLI_SYSTEM_SETTINGS_PATH"] == str(path)


@pytest.mark.parametrize(
    ("trust", "options"),
    [
        ({}, {"provider_options": {"trust_project": True}}),
        ({"trustedFolders.json": '{"%s": "TRUST_FOLDER"}'}, {}),
        ({"trustedFolders.json": '{"%s/x": "TRUST_PARENT"}'}, {}),
        ({"settings.json": '{"security": {"folderTrust": {"enabled": false}}}'}, {}),
    ],
)
def test_a_trusted_folder_that_decides_otherwise_is_refused(
    runtime: GeminiRuntime, tmp_path: Path, trust: dict[str, str], options: dict[str, Any]
) -> None:
    work = tmp_path / "work"
    (work / ".gemini").mkdir(parents=True)
    (work / ".gemini" / "settings.json").write_text('{"tools": {"core": []}}')
    given: dict[str, Any] = {"cwd": str(work), "allowed_tools": ("read_file",)}
    assert settings(plan(runtime, **given))["tools"]["core"]
    for name, text in trust.items():
        own(text.replace("%s", str(work)), name)
    with pytest.raises(WrongUse, match=r"work/.gemini/settings.json sets tools.core"):
        plan(runtime, **given, **options)
    plan(runtime, cwd=str(work), **options)


def test_a_provider_of_ones_own(runtime: GeminiRuntime) -> None:
    provider = Provider(base_url="http://127.0.0.1:1", auth_token_env="MY_KEY")
    made = plan(runtime, {"MY_KEY": "very-secret-key"}, provider=provider)
    assert made.spec.env["GOOGLE_GEMINI_BASE_URL"] == "http://127.0.0.1:1"
    assert made.spec.env["GEMINI_API_KEY"] == "very-secret-key"
    assert settings(made)["security"]["auth"]["selectedType"] == "gemini-api-key"
    assert made.secrets == ("very-secret-key",)


def test_build_env_needs_a_setting_for_an_address(
    runtime: GeminiRuntime, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MY_KEY", "very-secret-key")
    provider = Provider(base_url="http://127.0.0.1:1", auth_token_env="MY_KEY")
    routed = runtime.build_env(ResolvedModel(model="m", env={"A": "b"}, provider=provider))
    assert routed["A"] == "b"
    told = (Path(routed["GEMINI_CLI_HOME"]) / ".gemini" / "settings.json").read_text()
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
    assert not os.path.exists(env["GEMINI_CLI_SYSTEM_SETTINGS_PATH"])
    assert env["GOOGLE_GEMINI_BASE_URL"] == "http://127.0.0.1:1"
    assert settings(made)["telemetry"] == {"enabled": False}
    assert made.secrets == ("scripted-key",)


def test_another_account(runtime: GeminiRuntime, tmp_path: Path) -> None:
    made = plan(runtime, account_dir=str(tmp_path))
    folder = Path(made.spec.env["GEMINI_CLI_HOME"]) / ".gemini"
    assert (folder / "tmp").resolve() == tmp_path / ".gemini" / "tmp"
    named = plan(runtime, env={"GEMINI_CLI_HOME": str(tmp_path / "named")})
    folder = Path(named.spec.env["GEMINI_CLI_HOME"]) / ".gemini"
    assert (folder / "tmp").resolve() == tmp_path / "named" / ".gemini" / "tmp"


def test_commands_for_others(runtime: GeminiRuntime) -> None:
    spawn = runtime.build_spawn_command(
        SpawnOptions(model="pro", permission_mode="bypass", initial_prompt="-x")
    )
    assert spawn.endswith("--skip-trust --approval-mode yolo -m pro --prompt-interactive=-x")
    with pytest.raises(WrongUse):
        runtime.build_spawn_command(SpawnOptions(model="pro", append_system_prompt="x"))
    assert runtime.build_print_command("-x")[1:] == [
        *("--skip-trust", "-m", "gemini-2.5-pro", "--prompt=-x")
    ]


def test_a_run_at_the_terminal(runtime: GeminiRuntime, tmp_path: Path) -> None:
    options = RunOptions(prompt="hello", model="pro", cwd=str(tmp_path))
    spec = runtime.plan_interactive(options, {"HOME": str(tmp_path)}).spec
    assert spec.argv[1:] == (
        *("--approval-mode", "default", "-m", "pro", "--prompt-interactive=hello"),
    )
    with pytest.raises(WrongUse):
        runtime.plan_interactive(
            RunOptions(prompt="x", cwd=str(tmp_path), system_prompt="y"), {"HOME": str(tmp_path)}
        )


def test_an_account_and_a_providers_address_hold_at_the_terminal(
    runtime: GeminiRuntime, tmp_path: Path
) -> None:
    env = {"HOME": os.environ["HOME"], "MY_KEY": "very-secret-key"}
    options = RunOptions(prompt="x", cwd=str(tmp_path), account_dir=str(tmp_path))
    made = runtime.plan_interactive(options, env)
    assert made.spec.env["GEMINI_CLI_HOME"] == str(tmp_path)
    assert made.private_dirs == ()
    provider = Provider(base_url="http://127.0.0.1:1", auth_token_env="MY_KEY")
    routed = runtime.plan_interactive(msgspec.structs.replace(options, provider=provider), env)
    assert settings(routed)["security"]["auth"]["selectedType"] == "gemini-api-key"
    assert routed.secrets == ("very-secret-key",)
    assert routed.spec.env["GEMINI_CLI_HOME"].startswith(routed.private_dirs[0])
    with pytest.raises(UnsupportedOption, match="allowed_tools"):
        runtime.plan_interactive(
            RunOptions(prompt="x", cwd=str(tmp_path), allowed_tools=("read_file",)), env
        )


def test_a_conversation_has_its_own_settings_only_if_an_option_needs_them(
    runtime: GeminiRuntime, tmp_path: Path
) -> None:
    env = {"HOME": os.environ["HOME"]}
    plain = runtime.plan_live(RunOptions(prompt="", cwd=str(tmp_path)), env, SESSION)
    assert (plain.private_dirs, "GEMINI_CLI_HOME" in plain.spec.env) == ((), False)
    limited = RunOptions(prompt="", cwd=str(tmp_path), provider_options={"max_retries": 0})
    made = runtime.plan_live(limited, env, SESSION)
    assert settings(made) == {"general": {"maxAttempts": 1}}


# -- the guard ------------------------------------------------------------------------------------


class Hook:
    """A guard's offer, with a command that is easy to find again."""

    stdio, lasting = True, False

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True)
        self.folder = str(folder)

    def command(self, shape: HookShape) -> str:
        return "ask-the-guard"

    def address(self) -> GuardAddress:
        raise NotImplementedError


def test_the_guards_hooks_come_beside_the_users(runtime: GeminiRuntime, tmp_path: Path) -> None:
    path = own(msgspec.json.encode(MINE).decode())
    made = runtime.guard_plan(plan(runtime), Hook(tmp_path / "guard"))
    told = settings(made)
    assert set(told["hooks"]) == {"AfterTool", "BeforeTool", "SessionStart", "BeforeAgent"}
    assert told["hooks"]["AfterTool"] == MINE["hooks"]["AfterTool"]
    assert told["hooks"]["BeforeTool"][0]["hooks"][0]["command"] == "ask-the-guard"
    assert told["tools"] == MINE["tools"]
    assert msgspec.json.decode(path.read_bytes()) == MINE


def test_a_session_of_a_person_gets_a_home_with_the_guard(
    runtime: GeminiRuntime, tmp_path: Path
) -> None:
    own(msgspec.json.encode(MINE).decode())
    spec = runtime.plan_interactive(
        RunOptions(prompt="x", cwd=str(tmp_path)), {"HOME": os.environ["HOME"]}
    ).spec
    before = msgspec.structs.replace(plan(runtime), spec=spec)
    made = runtime.guard_plan(before, Hook(tmp_path / "guard"))
    assert made.spec.env["GEMINI_CLI_HOME"].startswith(str(tmp_path / "guard"))
    assert settings(made)["hooks"]["BeforeTool"]
    assert settings(made)["tools"] == MINE["tools"]


OFF = '{"hooksConfig": {"enabled": false}}'


def test_settings_that_switch_hooks_off_are_refused(runtime: GeminiRuntime, tmp_path: Path) -> None:
    work, system = tmp_path / "work", tmp_path / "system.json"
    (work / ".gemini").mkdir(parents=True)
    (work / ".gemini" / "settings.json").write_text(OFF)
    system.write_text(OFF)
    guard = Hook(tmp_path / "guard")
    # Gemini does not read the settings of a folder that nobody trusted.
    assert runtime.guard_plan(plan(runtime, cwd=str(work)), guard).guard is not None
    trusted = plan(runtime, cwd=str(work), provider_options={"trust_project": True})
    with pytest.raises(GuardRefused, match="switch hooks off"):
        runtime.guard_plan(trusted, guard)
    held = plan(runtime, {"GEMINI_CLI_SYSTEM_SETTINGS_PATH": str(system)})
    with pytest.raises(GuardRefused, match="switch hooks off"):
        runtime.guard_plan(held, guard)
    own(OFF)
    with pytest.raises(GuardRefused, match="switch hooks off"):
        runtime.guard_plan(plan(runtime), guard)


def test_a_version_that_chooses_the_id_itself(runtime: GeminiRuntime) -> None:
    of_version(runtime, "0.40.1")
    made = plan(runtime)
    assert not {"--session-id", SESSION} & set(made.spec.argv)
    assert made.native_session_id is None
    assert made.warnings == (
        "gemini 0.40.1: the id of a conversation is known only when it has begun",
    )


def test_a_version_that_would_ask_the_model_without_the_conversation(
    runtime: GeminiRuntime,
) -> None:
    of_version(runtime, "0.41.0")
    with pytest.raises(ResumeRefused, match="no conversation"):
        plan(runtime, resume=SESSION)
    chats = Path(os.environ["HOME"]) / ".gemini" / "tmp" / "project" / "chats"
    chats.mkdir(parents=True)
    (chats / f"session-2026-01-01T00-00-{SESSION[:8]}.json").write_text("{}")
    made = plan(runtime, resume=SESSION)
    assert made.spec.argv[made.spec.argv.index("--resume") + 1] == SESSION


def test_a_version_that_is_too_old(runtime: GeminiRuntime) -> None:
    of_version(runtime, "0.38.2")
    with pytest.raises(NotSupported, match=r"oldest version that works is 0\.40\.0"):
        plan(runtime)
