"""Each option is mapped to what Claude Code takes, or refused by name before anything starts."""

import json
import os
import shlex
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import msgspec
import pytest

from bridle.core.errors import (
    GuardRefused,
    NotAuthenticated,
    UnsupportedOption,
    WrongUse,
)
from bridle.core.options import (
    ModelServer,
    Provider,
    ResolvedModel,
    RunOptions,
    SpawnOptions,
)
from bridle.runs import prepare
from bridle.runtimes.claude import ClaudeRuntime
from bridle.runtimes.contract import AdapterSettings
from bridle.runtimes.plan import RunPlan
from bridle.turns.guard_contract import GuardHook
from tests.runtimes.products import installed

SESSION = "0f0f0f0f-1111-4222-8333-444444444444"
SERVER = ModelServer(url="http://127.0.0.1:9", api_key="sk-scripted-0123456789")


@pytest.fixture
def runtime(tmp_path: Path) -> ClaudeRuntime:
    return ClaudeRuntime(AdapterSettings(binary=installed("claude", tmp_path)))


@pytest.fixture
def env(tmp_path: Path) -> dict[str, str]:
    home = tmp_path / "home"
    home.mkdir()
    return {"PATH": os.environ["PATH"], "HOME": str(home), "IS_SANDBOX": "1"}


def plan(
    runtime: ClaudeRuntime, around: dict[str, str], tmp_path: Path, /, **options: Any
) -> RunPlan:
    wanted = {"prompt": "go", "cwd": str(tmp_path), **options}
    return runtime.plan_run(RunOptions(**wanted), around, SESSION)


def value(plan: RunPlan, flag: str) -> str:
    """The word after `flag`, which must stand there once."""
    argv = plan.spec.argv
    assert argv.count(flag) == 1, argv
    return argv[argv.index(flag) + 1]


def test_a_plain_run(runtime: ClaudeRuntime, env: dict[str, str], tmp_path: Path) -> None:
    made = plan(runtime, env, tmp_path)
    assert made.installation.version == "2.1.197"
    assert made.dialect.name == "claude-2.1"
    assert made.warnings == ()
    assert made.private_dirs == ()
    assert value(made, "--session-id") == SESSION == made.native_session_id
    assert value(made, "--permission-mode") == "default"
    assert value(made, "--permission-prompt-tool") == "stdio"
    assert made.spec.keep_stdin
    assert made.spec.env["CLAUDE_CODE_MAX_RETRIES"] == "3"
    assert "go" not in made.spec.argv
    assert msgspec.json.decode(made.spec.stdin or b"") == {
        "type": "user",
        "message": {"role": "user", "content": "go"},
    }


@pytest.mark.parametrize(
    ("options", "flags"),
    [
        ({"model": "sonnet"}, ["--model", "sonnet"]),
        ({"system_prompt": "Be."}, ["--system-prompt", "Be."]),
        ({"append_system_prompt": "Be."}, ["--append-system-prompt", "Be."]),
        ({"max_turns": 4}, ["--max-turns", "4"]),
        ({"budget_usd": 0.5}, ["--max-budget-usd", "0.500000"]),
        ({"allowed_tools": ("Bash", "Read")}, ["--tools", "Bash,Read", "--strict-mcp-config"]),
        ({"denied_tools": ("Bash", "Write")}, ["--disallowedTools", "Bash", "Write"]),
        ({"resume": SESSION}, ["--resume", SESSION]),
        ({"permission_mode": "bypass"}, ["--permission-mode", "bypassPermissions"]),
        ({"raw_args": ("--betas", "x")}, ["--betas", "x"]),
        ({"provider_options": {"fallback_model": "haiku"}}, ["--fallback-model", "haiku"]),
        ({"provider_options": {"effort": "low"}}, ["--effort", "low"]),
        ({"provider_options": {"add_dirs": ["a", "b"]}}, ["--add-dir", "a", "b"]),
        ({"provider_options": {"add_dirs": "a,b"}}, ["--add-dir", "a", "b"]),
        ({"provider_options": {"setting_sources": "user"}}, ["--setting-sources", "user"]),
        ({"provider_options": {"persist_session": "false"}}, ["--no-session-persistence"]),
        (
            {"provider_options": {"preapproved_tools": ["Bash(git *)"]}},
            ["--allowedTools", "Bash(git *)"],
        ),
    ],
)
def test_an_option_becomes_flags(
    runtime: ClaudeRuntime,
    env: dict[str, str],
    tmp_path: Path,
    options: dict[str, Any],
    flags: list[str],
) -> None:
    argv = list(plan(runtime, env, tmp_path, **options).spec.argv)
    at = argv.index(flags[0])
    assert argv[at : at + len(flags)] == flags


def test_resuming_names_no_new_id_unless_it_forks(
    runtime: ClaudeRuntime, env: dict[str, str], tmp_path: Path
) -> None:
    old = "11111111-2222-4333-8444-555555555555"
    resumed = plan(runtime, env, tmp_path, resume=old)
    assert "--session-id" not in resumed.spec.argv
    assert resumed.native_session_id == old
    forked = plan(runtime, env, tmp_path, resume=old, provider_options={"fork": True})
    assert "--fork-session" in forked.spec.argv
    assert value(forked, "--session-id") == SESSION == forked.native_session_id
    with pytest.raises(WrongUse, match="not a conversation"):
        plan(runtime, env, tmp_path, resume="--continue")


def test_json_texts_go_into_private_files(
    runtime: ClaudeRuntime, env: dict[str, str], tmp_path: Path
) -> None:
    made = plan(
        runtime,
        env,
        tmp_path,
        settings='{"env": {"SECRET": "s3cret-value"}}',
        mcp_config='{"mcpServers": {"echo": {"command": "x", "env": {"K": "s3cret-value"}}}}',
    )
    (folder,) = made.private_dirs
    assert os.stat(folder).st_mode & 0o777 == 0o700
    assert folder.startswith(env["HOME"])
    for flag in ("--settings", "--mcp-config"):
        path = Path(value(made, flag))
        assert path.parent == Path(folder)
        assert path.stat().st_mode & 0o777 == 0o600
        assert "s3cret-value" in path.read_text()
    assert "s3cret-value" not in " ".join(made.spec.argv)


def test_files_are_passed_as_they_are(
    runtime: ClaudeRuntime, env: dict[str, str], tmp_path: Path
) -> None:
    settings, servers = tmp_path / "s.json", tmp_path / "m.json"
    settings.write_text("{}")
    servers.write_text('{"mcpServers": {}}')
    made = plan(runtime, env, tmp_path, settings=str(settings), mcp_config=str(servers))
    assert value(made, "--settings") == str(settings)
    assert value(made, "--mcp-config") == str(servers)
    assert made.private_dirs == ()


def test_large_and_odd_system_prompts_go_by_file(
    runtime: ClaudeRuntime, env: dict[str, str], tmp_path: Path
) -> None:
    more = tmp_path / "more.txt"
    more.write_text("from the file")
    made = plan(
        runtime,
        env,
        tmp_path,
        system_prompt="x" * 300_000,
        append_system_prompt="-starts like a flag",
        append_system_prompt_file=str(more),
    )
    assert Path(value(made, "--system-prompt-file")).read_text() == "x" * 300_000
    appended = Path(value(made, "--append-system-prompt-file")).read_text()
    assert appended == "-starts like a flag\n\nfrom the file"
    assert max(map(len, made.spec.argv)) < 1000


def test_images_are_blocks_of_the_prompt(
    runtime: ClaudeRuntime, env: dict[str, str], tmp_path: Path
) -> None:
    starts = {
        "image/png": b"\x89PNG\r\n\x1a\n",
        "image/jpeg": b"\xff\xd8\xff\xe0",
        "image/gif": b"GIF89a",
        "image/webp": b"RIFF\x00\x00\x00\x00WEBP",
    }
    for kind, start in starts.items():
        path = tmp_path / "image"
        path.write_bytes(start + b"data")
        made = plan(runtime, env, tmp_path, images=(str(path),))
        message = msgspec.json.decode(made.spec.stdin or b"")["message"]
        assert message["content"][0] == {"type": "text", "text": "go"}
        assert message["content"][1]["source"]["media_type"] == kind
    path.write_bytes(b"%PDF-1.4")
    with pytest.raises(WrongUse, match="not an image"):
        plan(runtime, env, tmp_path, images=(str(path),))


def test_only_these_tools_holds_for_mcp_servers_too(
    runtime: ClaudeRuntime, env: dict[str, str], tmp_path: Path
) -> None:
    servers = '{"mcpServers": {"echo": {"command": "x"}, "other": {"command": "y"}}}'
    made = plan(runtime, env, tmp_path, allowed_tools=("Bash", "mcp__echo"), mcp_config=servers)
    assert value(made, "--tools") == "Bash"
    assert value(made, "--disallowedTools") == "mcp__other"
    for name in ("mcp__echo__say", "Bash(git *)", "mcp__absent"):
        with pytest.raises(UnsupportedOption, match="allowed_tools"):
            plan(runtime, env, tmp_path, allowed_tools=(name,), mcp_config=servers)


def test_a_model_server_gets_a_home_of_its_own(
    runtime: ClaudeRuntime, env: dict[str, str], tmp_path: Path
) -> None:
    env |= {
        "ANTHROPIC_API_KEY": "sk-users-own-key",
        "ANTHROPIC_AUTH_TOKEN": "users-own-token",
        "CLAUDE_CODE_USE_BEDROCK": "1",
        "HTTPS_PROXY": "http://proxy",
        "CLAUDE_CONFIG_DIR": "/users/own",
    }
    del env["IS_SANDBOX"]
    made = plan(runtime, env, tmp_path, model_server=SERVER, permission_mode="bypass")
    got = made.spec.env
    (folder,) = made.private_dirs
    assert got["CLAUDE_CONFIG_DIR"] == folder
    assert os.stat(folder).st_mode & 0o777 == 0o700
    assert got["ANTHROPIC_BASE_URL"] == SERVER.url
    assert got["ANTHROPIC_API_KEY"] == SERVER.api_key
    assert got["IS_SANDBOX"] == "1"
    assert got["CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC"] == "1"
    for name in ("ANTHROPIC_AUTH_TOKEN", "CLAUDE_CODE_USE_BEDROCK", "HTTPS_PROXY"):
        assert name not in got
    assert made.secrets == (SERVER.api_key,)
    assert SERVER.api_key not in " ".join(made.spec.argv)


def test_a_provider_is_routed_by_variables(
    runtime: ClaudeRuntime, env: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    provider = Provider(base_url="https://gateway.example", auth_token_env="GATEWAY_KEY")
    with pytest.raises(NotAuthenticated, match="GATEWAY_KEY"):
        plan(runtime, env, tmp_path, provider=provider)
    env |= {"GATEWAY_KEY": "gateway-0123456789", "ANTHROPIC_API_KEY": "sk-other"}
    made = plan(runtime, env, tmp_path, provider=provider)
    assert made.spec.env["ANTHROPIC_BASE_URL"] == "https://gateway.example"
    assert made.spec.env["ANTHROPIC_AUTH_TOKEN"] == "gateway-0123456789"
    assert made.spec.env["ANTHROPIC_API_KEY"] == ""
    assert "gateway-0123456789" in made.secrets
    own = plan(runtime, env, tmp_path, provider=Provider(auth_token_env="GATEWAY_KEY"))
    assert own.spec.env["ANTHROPIC_API_KEY"] == "gateway-0123456789"
    monkeypatch.setenv("GATEWAY_KEY", "gateway-0123456789")
    routed = runtime.build_env(ResolvedModel(model="x", env={"A": "1"}, provider=provider))
    assert routed["A"] == "1"
    assert routed["ANTHROPIC_AUTH_TOKEN"] == "gateway-0123456789"
    assert runtime.build_env(ResolvedModel(model="x", env={"A": "1"})) == {"A": "1"}


GATEWAY = Provider(base_url="https://gateway.example", auth_token_env="GATEWAY_KEY")


def test_settings_files_that_lead_elsewhere_are_overruled(
    runtime: ClaudeRuntime, env: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    env["GATEWAY_KEY"] = "gateway-0123456789"
    assert "--settings" not in plan(runtime, env, tmp_path, provider=GATEWAY).spec.argv
    work = tmp_path / "repo" / "below"
    for folder in (tmp_path / "home/.claude", tmp_path / "repo/.claude", work):
        folder.mkdir(parents=True)
    (tmp_path / "repo/.git").mkdir()
    own = tmp_path / "home/.claude/settings.json"
    own.write_text('{"env": {"ANTHROPIC_BASE_URL": "u", "EDITOR": "vi"}, "model": "opus"}')
    project = tmp_path / "repo/.claude/settings.json"
    project.write_text('{"env": {"CLAUDE_CODE_USE_BEDROCK": "1"}}')
    (tmp_path / "repo/.claude/settings.local.json").write_text("broken")

    def given(**options: Any) -> dict[str, Any]:
        made = plan(runtime, env, work, **{"provider": GATEWAY, **options})
        text = value(made, "--settings")
        assert "gateway-0123456789" not in " ".join(made.spec.argv)
        return dict(json.loads(text if text.startswith("{") else Path(text).read_text()))

    variables = {"ANTHROPIC_BASE_URL": "https://gateway.example", "CLAUDE_CODE_USE_BEDROCK": ""}
    assert given() == {"env": variables}
    assert given(settings='{"model": "x", "env": {"A": "1"}}') == {
        "model": "x",
        "env": {**variables, "A": "1"},
    }
    assert given(provider=None, model_server=SERVER) == {"env": {"CLAUDE_CODE_USE_BEDROCK": ""}}
    project.write_text('{"apiKeyHelper": "echo mine"}')
    assert given()["apiKeyHelper"] == ""
    project.write_text('{"env": {"ANTHROPIC_AUTH_TOKEN": "mine", "ANTHROPIC_API_KEY": "mine"}}')
    overruled = given()
    assert overruled["apiKeyHelper"] == "printenv GATEWAY_KEY"
    assert overruled["env"]["ANTHROPIC_AUTH_TOKEN"] == overruled["env"]["ANTHROPIC_API_KEY"] == ""
    env["ANTHROPIC_AUTH_TOKEN"] = "gateway-0123456789"
    same = Provider(base_url="https://gateway.example", auth_token_env="ANTHROPIC_AUTH_TOKEN")
    with pytest.raises(WrongUse, match=r"settings\.json sets ANTHROPIC_AUTH_TOKEN"):
        given(provider=same)
    project.write_text('{"env": {"ANTHROPIC_CUSTOM_HEADERS": "X-Team: mine"}}')
    assert given()["env"]["ANTHROPIC_CUSTOM_HEADERS"] == ""
    with pytest.raises(WrongUse, match=r"settings\.json sets ANTHROPIC_CUSTOM_HEADERS"):
        given(env={"ANTHROPIC_CUSTOM_HEADERS": "X-Key: gateway-0123456789"})
    assert "--settings" not in plan(runtime, env, work).spec.argv, "without a provider"
    monkeypatch.setenv("HOME", env["HOME"])
    monkeypatch.setenv("ANTHROPIC_BASE_URL", "mine")
    monkeypatch.chdir(tmp_path)
    routing = {"ANTHROPIC_BASE_URL": "https://gateway.example"}
    words = runtime.build_print_command("go", "big", routing)
    assert json.loads(words[words.index("--settings") + 1]) == {"env": routing}


def test_a_gateway_gets_nothing_of_the_users_own_and_is_asked_for_its_model_alone(
    runtime: ClaudeRuntime, env: dict[str, str], tmp_path: Path
) -> None:
    provider = Provider(base_url="https://gateway.example", auth_token_env="GATEWAY_KEY")
    own = ("CLAUDE_CODE_OAUTH_TOKEN", "ANTHROPIC_CUSTOM_HEADERS", "CLAUDE_CODE_USE_BEDROCK")
    env |= {"GATEWAY_KEY": "gateway-0123456789", **dict.fromkeys(own, "mine")}
    options = RunOptions(
        prompt="go",
        cwd=str(tmp_path),
        provider=provider,
        model="big",
        env={"ANTHROPIC_DEFAULT_HAIKU_MODEL": "small"},
    )
    made = prepare(runtime, options, env=env).plan.spec.env
    assert not made.keys() & set(own)
    assert made["ANTHROPIC_DEFAULT_OPUS_MODEL"] == made["ANTHROPIC_DEFAULT_SONNET_MODEL"] == "big"
    assert made["ANTHROPIC_SMALL_FAST_MODEL"] == "big"
    assert made["ANTHROPIC_DEFAULT_HAIKU_MODEL"] == "small"
    env[own[2]] = ""
    with pytest.raises(WrongUse) as refusal:
        prepare(runtime, RunOptions(prompt="go", model="openai/gpt-5"), env=env)
    assert refusal.value.info().runtime == "claude"
    warned = prepare(runtime, RunOptions(prompt="go", model="gpt-5"), env=env)
    assert "gpt-5" in warned.plan.warnings[0]


def test_the_environment_is_the_users_but_no_outer_sessions(
    runtime: ClaudeRuntime, env: dict[str, str], tmp_path: Path
) -> None:
    env |= {"CLAUDECODE": "1", "CLAUDE_CODE_ENTRYPOINT": "cli", "CLAUDE_CODE_MAX_RETRIES": "7"}
    made = plan(runtime, env, tmp_path, env={"MORE": "1"}, account_dir=str(tmp_path))
    assert "CLAUDECODE" not in made.spec.env
    assert made.spec.env["MORE"] == "1"
    assert made.spec.env["BRIDLE_SESSION_ID"] == SESSION
    assert made.spec.env["CLAUDE_CONFIG_DIR"] == str(tmp_path)
    # What the user set for themselves stands, unless this run asks for something else.
    assert made.spec.env["CLAUDE_CODE_MAX_RETRIES"] == "7"
    asked = plan(runtime, env, tmp_path, provider_options={"max_retries": 1})
    assert asked.spec.env["CLAUDE_CODE_MAX_RETRIES"] == "1"


def test_root_may_not_bypass_outside_a_sandbox(
    runtime: ClaudeRuntime,
    env: dict[str, str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    del env["IS_SANDBOX"]
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    with pytest.raises(WrongUse, match="root") as caught:
        plan(runtime, env, tmp_path, permission_mode="bypass")
    assert "IS_SANDBOX=1" in caught.value.hint
    plan(runtime, env, tmp_path, permission_mode="ask")
    plan(runtime, env, tmp_path, permission_mode="bypass", env={"IS_SANDBOX": "1"})
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    plan(runtime, env, tmp_path, permission_mode="bypass")


def test_a_script_launcher_gives_way_to_the_native_binary(tmp_path: Path) -> None:
    scope = tmp_path / "node_modules/@anthropic-ai"
    launcher = scope / "claude-code" / "cli-wrapper.cjs"
    launcher.parent.mkdir(parents=True)
    launcher.write_text("#!/usr/bin/env node\n")
    launcher.chmod(0o755)
    machine = {"x86_64": "x64", "aarch64": "arm64"}[os.uname().machine]
    native = scope / f"claude-code-linux-{machine}" / "claude"
    native.parent.mkdir()
    native.write_bytes(b"\x7fELF")
    native.chmod(0o755)
    manifest = {"name": f"@anthropic-ai/claude-code-linux-{machine}", "version": "2.1.325"}
    (native.parent / "package.json").write_text(json.dumps(manifest))
    found = ClaudeRuntime(AdapterSettings(binary=str(launcher))).find()
    assert found is not None
    assert (found.binary, found.version) == (str(native), "2.1.325")


def test_the_native_installers_link_names_its_version(tmp_path: Path) -> None:
    target = tmp_path / "versions" / "2.1.200"
    target.parent.mkdir()
    target.write_bytes(b"\x7fELF")
    target.chmod(0o755)
    (tmp_path / "claude").symlink_to(target)
    found = ClaudeRuntime(AdapterSettings(binary=str(tmp_path / "claude"))).find()
    assert found is not None
    assert found.version == "2.1.200"


@pytest.mark.parametrize(
    ("version", "name", "seen"),
    [
        ("2.1.197", "claude-2.1", True),
        ("2.1.325", "claude-2.1.325", True),
        ("2.1.250", "claude-2.1", False),
        ("3.0.0", "claude-2.1.325", False),
        (None, "claude-2.1.325", False),
    ],
)
def test_a_dialect_is_chosen_by_version(version: str | None, name: str, seen: bool) -> None:
    dialect, known, warning = ClaudeRuntime().dialect(version)
    assert (dialect.name, known) == (name, seen)
    assert bool(warning) is not seen


def test_the_command_of_a_terminal_session_may_not_bypass_as_root(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("IS_SANDBOX", raising=False)
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    bypass = SpawnOptions(model="m", permission_mode="bypass")
    with pytest.raises(WrongUse, match="root"):
        ClaudeRuntime().build_spawn_command(bypass)
    assert ClaudeRuntime().build_spawn_command(SpawnOptions(model="m"))
    held = SpawnOptions(model="m", permission_mode="bypass", env={"IS_SANDBOX": "1"})
    assert "bypassPermissions" in ClaudeRuntime().build_spawn_command(held)


def test_the_command_of_a_terminal_session_is_quoted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    hard = """it's "quoted" $HOME `x` ; & | \\ * \n über"""
    command = ClaudeRuntime().build_spawn_command(
        SpawnOptions(
            model="claude-sonnet-4-6",
            permission_mode="bypass",
            append_system_prompt=hard,
            cwd="/somewhere/else",
            env={"SECRET": "value"},
        )
    )
    assert shlex.split(command) == [
        *["claude", "--model", "claude-sonnet-4-6"],
        *["--permission-mode", "bypassPermissions"],
        *["--append-system-prompt", hard],
    ]
    assert "/somewhere/else" not in command
    assert "SECRET" not in command


def test_a_terminal_session_asks_by_default_and_takes_all_prompts() -> None:
    words = shlex.split(
        ClaudeRuntime().build_spawn_command(
            SpawnOptions(
                model="m",
                system_prompt="s",
                append_system_prompt_file="/f",
                initial_prompt="-begin",
            )
        )
    )
    assert words[words.index("--permission-mode") + 1] == "default"
    assert words[words.index("--system-prompt") + 1] == "s"
    assert words[words.index("--append-system-prompt-file") + 1] == "/f"
    assert words[-2:] == ["--", "-begin"]
    with pytest.raises(WrongUse, match="not both"):
        ClaudeRuntime().build_spawn_command(
            SpawnOptions(model="m", append_system_prompt="a", append_system_prompt_file="/f")
        )


def test_a_run_at_the_terminal(runtime: ClaudeRuntime, env: dict[str, str], tmp_path: Path) -> None:
    options = RunOptions(prompt="do it", cwd=str(tmp_path), model="sonnet", denied_tools=("Bash",))
    spec = runtime.plan_interactive(options, env).spec
    assert spec.argv[-3:] == ("--permission-mode", "default", "do it")
    assert "--print" not in spec.argv
    assert spec.stdin is None
    with pytest.raises(UnsupportedOption, match="max_turns"):
        runtime.plan_interactive(msgspec.structs.replace(options, max_turns=2), env)
    private = runtime.plan_interactive(msgspec.structs.replace(options, settings="{}"), env)
    (folder,) = private.private_dirs
    assert Path(folder, "given-settings.json").read_text() == "{}"
    assert private.spec.argv.count(str(Path(folder, "given-settings.json"))) == 1


@pytest.mark.parametrize(("version", "guarded"), [("2.0.36", False), ("2.1.76", True)])
def test_a_version_whose_hooks_do_not_name_the_call_is_not_guarded(
    runtime: ClaudeRuntime, env: dict[str, str], tmp_path: Path, version: str, guarded: bool
) -> None:
    made = plan(runtime, env, tmp_path)
    dialect = runtime.dialect(version)[0]
    of_version = msgspec.structs.replace(made, dialect=dialect)
    hook = SimpleNamespace(stdio=True)
    if guarded:
        assert runtime.guard_plan(of_version, cast(GuardHook, hook)).guard is not None
        return
    with pytest.raises(GuardRefused, match="do not name the call"):
        runtime.guard_plan(of_version, cast(GuardHook, hook))
