"""Each option of OpenCode is mapped or refused by name, before anything is started."""

import os
import stat
from pathlib import Path
from typing import Any

import msgspec
import pytest

from bridle.core.errors import (
    UnsupportedOption,
    WrongUse,
)
from bridle.core.options import ModelServer, Provider, ResolvedModel, RunOptions, SpawnOptions
from bridle.runtimes.contract import AdapterSettings
from bridle.runtimes.install import npm_platform
from bridle.runtimes.opencode import OpenCodeRuntime
from bridle.runtimes.opencode.product import native_binary
from bridle.runtimes.plan import RunPlan
from tests.runtimes.products import installed


@pytest.fixture
def runtime(tmp_path: Path) -> OpenCodeRuntime:
    return OpenCodeRuntime(AdapterSettings(binary=installed("opencode", tmp_path)))


def plan(runtime: OpenCodeRuntime, env: dict[str, str] | None = None, **options: Any) -> RunPlan:
    given = {"HOME": os.environ["HOME"], "PATH": "/bin", **(env or {})}
    return runtime.plan_run(RunOptions(**{"prompt": "do it", **options}), given, "s-1")


def config(made: RunPlan) -> dict[str, Any]:
    return msgspec.json.decode(made.spec.env["OPENCODE_CONFIG_CONTENT"], type=dict[str, Any])


def test_a_plain_run(runtime: OpenCodeRuntime) -> None:
    made = plan(runtime)
    assert made.spec.argv[1:] == (
        *("run", "--format", "json", "--thinking"),
        *("--print-logs", "--log-level", "ERROR", "--title="),
    )
    assert made.spec.stdin == b"do it"
    assert made.spec.watch_stderr
    assert made.private_dirs == ()
    rules = config(made)["permission"]
    assert rules["*"] == "deny"
    assert rules["read"] == "allow"
    assert "bash" not in rules
    assert "OPENCODE_CONFIG_CONTENT" not in plan(runtime, permission_mode="bypass").spec.env
    assert made.installation.version == "1.18.33"


def test_choices_become_flags(runtime: OpenCodeRuntime, tmp_path: Path) -> None:
    image = tmp_path / "a.png"
    image.write_bytes(b"\x89PNG\r\n\x1a\n")
    made = plan(
        runtime,
        model="sonnet",
        permission_mode="bypass",
        resume="ses_1",
        images=(str(image),),
        provider_options={"agent": "plan", "variant": "high", "fork": True},
        raw_args=("--pure",),
    )
    words = list(made.spec.argv)
    assert words[words.index("-m") + 1] == "anthropic/claude-sonnet-4-6"
    assert words[words.index("-s") + 1 :][:2] == ["ses_1", "--fork"]
    assert made.native_session_id is None
    assert words[words.index("--agent") + 1] == "plan"
    assert words[words.index("--variant") + 1] == "high"
    assert {"--auto", f"--file={image}", "--pure"} <= set(words)
    assert "--title=" not in words
    assert "--auto" not in plan(runtime).spec.argv


def test_prompts_and_tools_become_configuration(runtime: OpenCodeRuntime, tmp_path: Path) -> None:
    extra = tmp_path / "extra.md"
    extra.write_text("more")
    made = plan(
        runtime,
        system_prompt="You are brief.",
        append_system_prompt="And kind.",
        append_system_prompt_file=str(extra),
        allowed_tools=("bash", "read"),
        denied_tools=("read",),
        settings='{"tools": {"glob": false}, "theme": "dark"}',
        mcp_config='{"mcpServers": {"a": {"command": "x", "args": ["y"], "env": {"K": "v"}},'
        ' "b": {"url": "http://127.0.0.1:1/"}}}',
    )
    told = config(made)
    assert told["agent"] == {"build": {"prompt": "You are brief."}}
    own, given = told["instructions"]
    assert Path(own).read_text() == "And kind."
    assert stat.S_IMODE(os.stat(own).st_mode) == 0o600
    assert given == str(extra)
    assert told["tools"] == {"*": False, "bash": True, "read": False, "glob": False}
    assert told["theme"] == "dark"
    assert told["mcp"]["a"]["command"] == ["x", "y"]
    assert told["mcp"]["a"]["environment"] == {"K": "v"}
    assert told["mcp"]["b"]["type"] == "remote"
    assert "You are brief." not in " ".join(made.spec.argv)


def test_the_users_own_variable_stays_in_force(runtime: OpenCodeRuntime) -> None:
    given = {"OPENCODE_CONFIG_CONTENT": '{"theme": "x", "tools": {"glob": false}}'}
    told = config(plan(runtime, given, denied_tools=("bash",), permission_mode="bypass"))
    assert told == {"theme": "x", "tools": {"glob": False, "bash": False}}
    with pytest.raises(WrongUse, match="OPENCODE_CONFIG_CONTENT"):
        plan(runtime, {"OPENCODE_CONFIG_CONTENT": "nonsense"}, denied_tools=("bash",))


def test_a_variable_of_the_run_does_not_undo_its_options(runtime: OpenCodeRuntime) -> None:
    given = {"OPENCODE_CONFIG_CONTENT": '{"theme": "x"}'}
    made = runtime.plan_run(
        RunOptions(prompt="do it", env=given, denied_tools=("bash",)),
        {"HOME": os.environ["HOME"], "PATH": "/bin"},
        "s-1",
    )
    told = config(made)
    assert (told["theme"], told["tools"]) == ("x", {"bash": False})
    assert told["permission"]["*"] == "deny"


def test_a_bare_model_of_a_provider_gets_a_prefix(runtime: OpenCodeRuntime) -> None:
    provider = Provider(base_url="http://127.0.0.1:1/v1", auth_token_env="MY_KEY")
    made = plan(runtime, {"MY_KEY": "k"}, model="m", provider=provider)
    assert made.spec.argv[made.spec.argv.index("-m") + 1] == "bridle/m"
    assert config(made)["provider"]["bridle"]["models"] == {"m": {}}


def test_a_providers_key_goes_by_variable_only(runtime: OpenCodeRuntime) -> None:
    provider = Provider(base_url="http://127.0.0.1:1/v1", auth_token_env="MY_KEY")
    made = plan(runtime, {"MY_KEY": "very-secret-key"}, model="lab/m", provider=provider)
    entry = config(made)["provider"]["lab"]
    assert entry["options"] == {
        "baseURL": "http://127.0.0.1:1/v1",
        "apiKey": "{env:BRIDLE_PROVIDER_KEY}",
    }
    assert entry["models"] == {"m": {}}
    assert "very-secret-key" not in made.spec.env["OPENCODE_CONFIG_CONTENT"]
    assert made.spec.env["BRIDLE_PROVIDER_KEY"] == "very-secret-key"
    assert made.secrets == ("very-secret-key",)
    known = plan(runtime, {"MY_KEY": "very-secret-key"}, model="sonnet", provider=provider)
    assert "npm" not in config(known)["provider"]["anthropic"]


def test_build_env_routes_without_a_file(
    runtime: OpenCodeRuntime, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MY_KEY", "very-secret-key")
    provider = Provider(base_url="http://127.0.0.1:1/v1", auth_token_env="MY_KEY")
    routed = runtime.build_env(ResolvedModel(model="lab/m", env={"A": "b"}, provider=provider))
    assert routed["A"] == "b"
    assert "127.0.0.1:1" in routed["OPENCODE_CONFIG_CONTENT"]
    assert runtime.build_env(ResolvedModel(model="lab/m", env={"A": "b"})) == {"A": "b"}


def test_a_scripted_model_has_a_home_of_its_own(runtime: OpenCodeRuntime) -> None:
    server = ModelServer(url="http://127.0.0.1:1", api_key="scripted-key")
    mine = {"OPENCODE_CONFIG": "/mine.json", "HTTP_PROXY": "http://x", "XDG_DATA_HOME": "/mine"}
    made = plan(runtime, mine, model_server=server)
    (private,) = made.private_dirs
    env = made.spec.env
    assert stat.S_IMODE(os.stat(private).st_mode) == 0o700
    assert "OPENCODE_CONFIG" not in env
    assert "HTTP_PROXY" not in env
    for name in ("CONFIG", "DATA", "CACHE", "STATE"):
        assert env[f"XDG_{name}_HOME"].startswith(private)
    assert config(made)["enabled_providers"] == ["scripted"]
    assert "scripted-key" not in env["OPENCODE_CONFIG_CONTENT"]
    assert "scripted-key" in made.secrets


def test_commands_for_others(runtime: OpenCodeRuntime) -> None:
    spawn = runtime.build_spawn_command(
        SpawnOptions(model="opus", permission_mode="bypass", initial_prompt="it's on")
    )
    assert "--model anthropic/claude-opus-4-6 --auto" in spawn
    assert spawn.endswith("""'--prompt=it'"'"'s on'""")
    with pytest.raises(WrongUse):
        runtime.build_spawn_command(
            SpawnOptions(model="opus", permission_mode="bypass", system_prompt="x")
        )
    with pytest.raises(UnsupportedOption, match="permission_mode=ask"):
        runtime.build_spawn_command(SpawnOptions(model="opus"))
    assert runtime.build_print_command("-x", "a/b")[1:] == ["run", "-m", "a/b", "--", "-x"]


def test_a_run_at_the_terminal(runtime: OpenCodeRuntime, tmp_path: Path) -> None:
    options = RunOptions(prompt="hello", model="a/b", cwd=str(tmp_path), system_prompt="brief")
    spec = runtime.plan_interactive(options, {"HOME": str(tmp_path)}).spec
    assert spec.argv[1:] == ("--model", "a/b", "--prompt=hello")
    assert "brief" in spec.env["OPENCODE_CONFIG_CONTENT"]


def test_an_added_prompt_holds_at_the_terminal(runtime: OpenCodeRuntime, tmp_path: Path) -> None:
    options = RunOptions(prompt="", cwd=str(tmp_path), append_system_prompt="And kind.")
    made = runtime.plan_interactive(options, {"HOME": os.environ["HOME"]})
    (path,) = config(made)["instructions"]
    assert path.startswith(made.private_dirs[0])
    assert Path(path).read_text() == "And kind."
    with pytest.raises(UnsupportedOption, match="images"):
        runtime.plan_interactive(
            RunOptions(prompt="", cwd=str(tmp_path), images=("a.png",)), {"HOME": str(tmp_path)}
        )


def test_the_program_behind_an_npm_script_is_started(tmp_path: Path) -> None:
    modules = tmp_path / "node_modules"
    script = modules / "opencode-ai" / "bin" / "opencode"
    script.parent.mkdir(parents=True)
    script.write_text("#!/usr/bin/env node\n")
    assert native_binary(str(script)) == str(script)
    program = modules / f"opencode-{npm_platform()}" / "bin" / "opencode"
    program.parent.mkdir(parents=True)
    program.write_bytes(b"\x7fELF")
    program.chmod(0o755)
    assert native_binary(str(script)) == str(program)
    assert native_binary(str(program)) == str(program)
