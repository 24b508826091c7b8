"""Each option of a run is mapped to Copilot's own words, or refused by name."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from bridle.core.errors import (
    NotAuthenticated,
    NotSupported,
    ResumeRefused,
    UnsupportedOption,
    WrongUse,
)
from bridle.core.options import ModelServer, Provider, ResolvedModel, RunOptions, SpawnOptions
from bridle.runtimes.contract import AdapterSettings
from bridle.runtimes.copilot import CopilotRuntime
from bridle.runtimes.plan import RunPlan
from tests.runtimes.products import ONE_PNG, installed

SERVER = ModelServer(url="http://127.0.0.1:1", api_key="a-scripted-key")


@pytest.fixture
def runtime(tmp_path: Path) -> CopilotRuntime:
    return CopilotRuntime(AdapterSettings(binary=installed("copilot", tmp_path)))


def of_version(runtime: CopilotRuntime, version: str) -> None:
    """Make the stand-in one of `version`, which knows no flag that has to be looked up."""
    manifest = Path(runtime.settings.binary or "").parent / "package.json"
    manifest.write_text(json.dumps({"name": "@github/copilot-linux-x64", "version": version}))


def plan(
    runtime: CopilotRuntime, tmp_path: Path, env: dict[str, str] | None = None, **options: Any
) -> RunPlan:
    home = {"HOME": str(tmp_path), "PATH": os.environ["PATH"]}
    wanted = RunOptions(**{"prompt": "Do it.", "cwd": str(tmp_path), **options})
    return runtime.plan_run(wanted, home | (env or {}), "5e55-id")


def test_a_plain_run(runtime: CopilotRuntime, tmp_path: Path) -> None:
    found = plan(runtime, tmp_path)
    argv = found.spec.argv
    assert argv[0].endswith("/copilot")
    assert "--output-format=json" in argv
    assert "--session-id=5e55-id" in argv
    assert not any("allow" in word for word in argv)
    assert found.spec.stdin == b"Do it."
    assert "Do it." not in argv
    assert found.spec.env["COPILOT_AUTO_UPDATE"] == "false"
    assert "COPILOT_HOME" not in found.spec.env
    assert (found.native_session_id, found.warnings) == ("5e55-id", ())
    (folder,) = found.private_dirs
    assert os.stat(folder).st_mode & 0o777 == 0o700


def test_permissions(runtime: CopilotRuntime, tmp_path: Path) -> None:
    env = {"COPILOT_ALLOW_ALL": "true"}
    assert "COPILOT_ALLOW_ALL" not in plan(runtime, tmp_path, env).spec.env
    found = plan(
        runtime,
        tmp_path,
        env,
        permission_mode="bypass",
        provider_options={
            "all_paths": True,
            "all_urls": "true",
            "trust_folder": True,
            "preapproved_tools": ["write"],
            "add_dirs": str(tmp_path),
            "effort": "low",
            "agent": "scout",
        },
    )
    assert {
        "--allow-all-tools",
        "--allow-all-paths",
        "--allow-all-urls",
        "--trust-folder",
        "--allow-tool=write",
        f"--add-dir={tmp_path}",
        "--reasoning-effort=low",
        "--agent=scout",
    } <= set(found.spec.argv)


def test_bypass_lets_it_act_outside_the_folder_too(runtime: CopilotRuntime, tmp_path: Path) -> None:
    """With its first flag alone Copilot would still refuse other paths and addresses."""
    wide = {"--allow-all-tools", "--allow-all-paths", "--allow-all-urls"}
    assert wide <= set(plan(runtime, tmp_path, permission_mode="bypass").spec.argv)
    assert not wide & set(plan(runtime, tmp_path).spec.argv)


def test_tools_model_and_raw_words(runtime: CopilotRuntime, tmp_path: Path) -> None:
    found = plan(
        runtime,
        tmp_path,
        model="gpt-5",
        allowed_tools=("bash",),
        denied_tools=("grep", "shell(git push)", "write"),
        raw_args=("--banner",),
    )
    argv = found.spec.argv
    assert argv[-1] == "--banner"
    assert {
        "--model=gpt-5",
        "--available-tools=bash",
        "--excluded-tools=grep",
        "--deny-tool=shell(git push)",
        "--deny-tool=write",
    } <= set(argv)


def test_files_of_the_run(runtime: CopilotRuntime, tmp_path: Path) -> None:
    image = tmp_path / "a.png"
    image.write_bytes(ONE_PNG)
    more = tmp_path / "more.md"
    more.write_text("From a file.")
    servers = {"mcpServers": {"a": {"command": "x"}, "b": {"url": "http://127.0.0.1:1/mcp"}}}
    found = plan(
        runtime,
        tmp_path,
        {"COPILOT_CUSTOM_INSTRUCTIONS_DIRS": "/own"},
        images=(str(image),),
        mcp_config=json.dumps(servers),
        append_system_prompt="Directly.",
        append_system_prompt_file=str(more),
    )
    assert f"--attachment={image}" in found.spec.argv
    (flag,) = [word for word in found.spec.argv if word.startswith("--additional-mcp-config=@")]
    written = json.loads(Path(flag.partition("@")[2]).read_text())["mcpServers"]
    assert (written["a"]["type"], written["b"]["type"]) == ("local", "http")
    own, place = found.spec.env["COPILOT_CUSTOM_INSTRUCTIONS_DIRS"].split(",")
    assert own == "/own"
    (text,) = Path(place).glob(".github/instructions/*.instructions.md")
    assert "Directly.\n\nFrom a file." in text.read_text()
    assert os.stat(text).st_mode & 0o777 == 0o600


def test_the_scripted_model(runtime: CopilotRuntime, tmp_path: Path) -> None:
    user = {"GH_TOKEN": "the-users-token", "COPILOT_MODEL": "x", "COPILOT_CACHE_HOME": "/c"}
    found = plan(runtime, tmp_path, user, model_server=SERVER, model="gpt-5")
    env = found.spec.env
    assert env["COPILOT_PROVIDER_BASE_URL"] == "http://127.0.0.1:1/v1"
    assert (env["COPILOT_MODEL"], env["COPILOT_OFFLINE"]) == ("gpt-5", "true")
    assert env["COPILOT_HOME"].startswith(found.private_dirs[0])
    assert env["COPILOT_CACHE_HOME"] == "/c"
    assert "GH_TOKEN" not in env
    assert "a-scripted-key" in found.secrets
    assert not any("a-scripted-key" in word for word in found.spec.argv)


def test_providers(runtime: CopilotRuntime, tmp_path: Path) -> None:
    user = {"GATE": "the-gateway-key", "COPILOT_PROVIDER_BEARER_TOKEN": "another-service"}
    provider = Provider(base_url="http://127.0.0.1:1/v1", auth_token_env="GATE")
    options = {"provider_type": "anthropic", "wire_api": "responses"}
    found = plan(runtime, tmp_path, user, provider=provider, model="m", provider_options=options)
    env = found.spec.env
    assert env["COPILOT_PROVIDER_API_KEY"] == "the-gateway-key"
    assert "COPILOT_PROVIDER_BEARER_TOKEN" not in env
    assert (env["COPILOT_PROVIDER_TYPE"], env["COPILOT_PROVIDER_WIRE_API"]) == (
        "anthropic",
        "responses",
    )
    token = plan(runtime, tmp_path, user, provider=Provider(auth_token_env="GATE"))
    assert token.spec.env["COPILOT_GITHUB_TOKEN"] == "the-gateway-key"
    with pytest.raises(WrongUse, match="needs a model"):
        plan(runtime, tmp_path, user, provider=provider)
    with pytest.raises(NotAuthenticated, match="NOT_SET"):
        plan(runtime, tmp_path, provider=Provider(auth_token_env="NOT_SET"))


def test_resuming_needs_the_whole_id(runtime: CopilotRuntime, tmp_path: Path) -> None:
    account = tmp_path / "account"
    kept = account / "session-state" / "1111-2222"
    kept.mkdir(parents=True)
    (kept / "events.jsonl").write_text("")
    found = plan(runtime, tmp_path, resume="1111-2222", account_dir=str(account))
    assert "--resume=1111-2222" in found.spec.argv
    assert found.spec.env["COPILOT_HOME"] == str(account)
    for wanted in ("1111", "../session-state/1111-2222", "a name", ".."):
        with pytest.raises(ResumeRefused):
            plan(runtime, tmp_path, resume=wanted, account_dir=str(account))
    with pytest.raises(ResumeRefused):
        plan(runtime, tmp_path, resume="1111-2222", model_server=SERVER)


def test_commands_for_others(runtime: CopilotRuntime) -> None:
    plain = CopilotRuntime()
    spawn = plain.build_spawn_command(SpawnOptions(model="gpt-4o", permission_mode="bypass"))
    bypass = "--allow-all-tools --allow-all-paths --allow-all-urls"
    assert spawn == f"copilot --model gpt-4o {bypass}"
    asked = plain.build_spawn_command(SpawnOptions(model="gpt-4o", initial_prompt="go on"))
    assert asked == "copilot --model gpt-4o '--interactive=go on'"
    with pytest.raises(UnsupportedOption, match=r"append_system_prompt.*instruction file"):
        plain.build_spawn_command(SpawnOptions(model="m", append_system_prompt="x"))
    assert plain.build_print_command("hi", "m") == [
        *("copilot", "-p", "hi", "--allow-all-tools", "--model", "m")
    ]
    env = plain.build_env(
        ResolvedModel(
            model="m", env={"A": "b"}, provider=Provider(base_url="http://127.0.0.1:1/v1")
        )
    )
    assert (env["COPILOT_MODEL"], env["A"]) == ("m", "b")
    assert plain.build_env(ResolvedModel(model="m", env={"A": "b"})) == {"A": "b"}


def test_a_terminal_of_a_person(runtime: CopilotRuntime, tmp_path: Path) -> None:
    env = {"HOME": str(tmp_path)}
    options = RunOptions(prompt="look", cwd=str(tmp_path), model="m", permission_mode="bypass")
    spec = runtime.plan_interactive(options, env).spec
    assert spec.argv[1:] == (
        *("--model=m", "--no-auto-update"),
        *("--allow-all-tools", "--allow-all-paths", "--allow-all-urls"),
        "--interactive=look",
    )
    with pytest.raises(UnsupportedOption, match="max_turns"):
        runtime.plan_interactive(RunOptions(prompt="x", max_turns=1), env)


def test_options_that_a_terminal_may_ignore_have_no_effect(
    runtime: CopilotRuntime, tmp_path: Path
) -> None:
    ignored: dict[str, Any] = {
        "mcp_config": "/nowhere",
        "append_system_prompt": "Added.",
        "model_server": SERVER,
    }
    options = RunOptions(prompt="x", cwd=str(tmp_path), ignore_unsupported=True, **ignored)
    found = runtime.plan_interactive(options, {"HOME": str(tmp_path)})
    assert set(found.ignored_options) == set(ignored)
    assert found.spec.argv[1:] == ("--no-auto-update", "--interactive=x")
    assert not [name for name in found.spec.env if name.startswith("COPILOT_PROVIDER_")]
    assert found.private_dirs == ()


def test_the_native_program_is_started(tmp_path: Path, runtime: CopilotRuntime) -> None:
    launcher = tmp_path / "node_modules" / "@github" / "copilot" / "npm-loader.js"
    launcher.parent.mkdir()
    launcher.write_text("#!/usr/bin/env node\n")
    launcher.chmod(0o755)
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "copilot").symlink_to(launcher)
    found = CopilotRuntime(AdapterSettings(binary=str(tmp_path / "bin" / "copilot"))).find()
    assert found is not None
    assert found.version == "1.0.102"
    assert CopilotRuntime(AdapterSettings(binary="/nowhere/copilot")).find() is None


@pytest.mark.parametrize(
    ("version", "has_id", "lost"), [("1.0.24", False, 4), ("1.0.50", False, 3), ("1.0.78", True, 2)]
)
def test_a_version_without_some_flags(
    runtime: CopilotRuntime, tmp_path: Path, version: str, has_id: bool, lost: int
) -> None:
    of_version(runtime, version)
    found = plan(runtime, tmp_path)
    flags = {word.partition("=")[0] for word in found.spec.argv}
    assert "--usage-output-file" not in flags
    assert ("--session-id" in flags) is has_id
    assert found.native_session_id == ("5e55-id" if has_id else None)
    assert len(found.warnings) == lost
    assert all(each.startswith(f"copilot {version}: ") for each in found.warnings)
    with pytest.raises(UnsupportedOption, match="trust_folder"):
        plan(runtime, tmp_path, provider_options={"trust_folder": True})
    image = tmp_path / "one.png"
    image.write_bytes(ONE_PNG)
    if version == "1.0.24":
        with pytest.raises(UnsupportedOption, match="images"):
            plan(runtime, tmp_path, images=(str(image),))
    else:
        argv = plan(runtime, tmp_path, images=(str(image),)).spec.argv
        assert f"--attachment={image}" in argv
    if not has_id:
        with pytest.raises(UnsupportedOption, match="drive tmux"):
            runtime.plan_tmux(RunOptions(prompt="", cwd=str(tmp_path)), {"HOME": "/"}, "id")


def test_a_version_that_is_too_old(runtime: CopilotRuntime, tmp_path: Path) -> None:
    of_version(runtime, "1.0.6")
    with pytest.raises(NotSupported, match=r"oldest version that works is 1\.0\.11") as caught:
        plan(runtime, tmp_path)
    assert "npm install -g @github/copilot" in caught.value.hint
