"""Each option mapped or refused by name, before anything is started."""

import json
import os
import shlex
from pathlib import Path
from typing import Any

import pytest

from bridle.core.errors import (
    NotSupported,
    ResumeRefused,
    WrongUse,
)
from bridle.core.options import (
    ModelServer,
    Provider,
    ResolvedModel,
    RunOptions,
    SpawnOptions,
)
from bridle.runtimes.contract import AdapterSettings
from bridle.runtimes.pi import PiRuntime
from bridle.runtimes.pi.command import expand_model
from bridle.runtimes.plan import RunPlan
from tests.runtimes.products import installed

VERSIONS = ["0.74.2", "1.5.0"]
PNG = b"\x89PNG\r\n\x1a\n" + b"\0" * 20


def on_version(folder: Path, version: str, **section: Any) -> PiRuntime:
    """A runtime that finds a package of that version; it is never started."""
    binary = installed("pi", folder / version, version)
    return PiRuntime(AdapterSettings(binary=binary, options=section))


def plan(folder: Path, version: str = "1.5.0", **options: Any) -> RunPlan:
    env = {"HOME": str(folder / "home"), "PATH": "/usr/bin:/bin", **options.pop("given_env", {})}
    (folder / "home").mkdir(exist_ok=True)
    (folder / "work").mkdir(exist_ok=True)
    defaults = {"prompt": "do it", "cwd": str(folder / "work"), "permission_mode": "bypass"}
    wanted = RunOptions(**{**defaults, **options})
    return on_version(folder, version).plan_run(wanted, env, "the-session")


def words(plan: RunPlan) -> list[str]:
    return list(plan.spec.argv[1:])


@pytest.mark.parametrize("version", VERSIONS)
def test_the_plain_command(tmp_path: Path, version: str) -> None:
    made = plan(tmp_path, version)
    expected = {
        "0.74.2": ["--mode", "json"],
        "1.5.0": ["--mode", "json", "--session-id", "the-session", "--no-approve"],
    }
    assert words(made) == expected[version]
    assert made.spec.stdin == b"do it"
    assert made.native_session_id == (None if version == "0.74.2" else "the-session")
    assert made.spec.env["BRIDLE_SESSION_ID"] == "the-session"
    assert made.private_dirs == ()
    assert "PI_CODING_AGENT_DIR" not in made.spec.env
    assert made.dialect.name == {"0.74.2": "pi-0.74", "1.5.0": "pi-1.5"}[version]


@pytest.mark.parametrize("version", VERSIONS)
def test_asking_is_an_extension(tmp_path: Path, version: str) -> None:
    made = plan(tmp_path, version, permission_mode="ask")
    argv = words(made)
    code = Path(argv[argv.index("-e") + 1])
    assert "tool_call" in code.read_text()
    assert code.parent == Path(*made.private_dirs)
    assert "-e" not in words(plan(tmp_path, version))


@pytest.mark.parametrize(
    ("name", "section", "full"),
    [
        ("sonnet", {}, "anthropic/claude-sonnet-4-6"),
        ("opus", {}, "anthropic/claude-opus-4-6"),
        ("haiku", {}, "anthropic/claude-haiku-4-5"),
        ("sonnet:high", {}, "anthropic/claude-sonnet-4-6:high"),
        ("claude-opus-4-6", {}, "anthropic/claude-opus-4-6"),
        ("gpt-5", {"provider": "openai"}, "openai/gpt-5"),
        ("sonnet", {"provider": "amazon-bedrock"}, "amazon-bedrock/claude-sonnet-4-6"),
        ("sonnet", {"modelMap": {"sonnet": "openrouter/a/b"}}, "openrouter/a/b"),
        ("sonnet", {"model_map": {"sonnet": "x/y"}}, "x/y"),
        ("fast", {"modelMap": {"fast": "gpt-5"}, "provider": "openai"}, "openai/gpt-5"),
        ("openai/gpt-5:low", {}, "openai/gpt-5:low"),
        ("lab/qwen3:8b", {}, "lab/qwen3:8b"),
    ],
)
def test_model_names(name: str, section: dict[str, Any], full: str) -> None:
    assert expand_model(name, section) == full


def test_a_live_conversation_knows_the_names_of_models(tmp_path: Path) -> None:
    section = {"provider": "openai", "model_map": {"fast": "gpt-5"}}
    options = RunOptions(prompt="", cwd=str(tmp_path), permission_mode="bypass", model="fast")
    made = on_version(tmp_path, "1.5.0", **section).plan_live(options, {"HOME": str(tmp_path)}, "s")
    assert made.live is not None
    assert made.live.own == {"model": "openai/gpt-5", "names": section, "fork": False}
    assert made.spec.keep_stdin


def test_the_model_goes_qualified(tmp_path: Path) -> None:
    argv = words(plan(tmp_path, model="sonnet"))
    assert argv[argv.index("--model") + 1] == "anthropic/claude-sonnet-4-6"


@pytest.mark.parametrize(
    ("version", "allowed", "denied", "flags"),
    [
        ("0.74.2", ("read", "bash"), (), ["--tools", "read,bash"]),
        ("1.5.0", ("read", "bash"), (), ["--tools", "read,bash"]),
        ("0.74.2", (), ("bash",), ["--tools", "read,edit,write"]),
        ("1.5.0", (), ("bash",), ["--exclude-tools", "bash"]),
        ("0.74.2", ("read", "bash"), ("bash",), ["--tools", "read"]),
        ("1.5.0", ("read", "bash"), ("bash",), ["--tools", "read,bash", "--exclude-tools", "bash"]),
        ("0.74.2", ("bash",), ("bash",), ["--no-tools"]),
    ],
)
def test_tools(
    tmp_path: Path,
    version: str,
    allowed: tuple[str, ...],
    denied: tuple[str, ...],
    flags: list[str],
) -> None:
    argv = words(plan(tmp_path, version, allowed_tools=allowed, denied_tools=denied))
    assert argv[-len(flags) :] == flags


def test_system_prompts_go_by_private_file(tmp_path: Path) -> None:
    extra = tmp_path / "extra.md"
    extra.write_text("extra")
    made = plan(
        tmp_path,
        system_prompt="Be brief. " * 50000,
        append_system_prompt="And kind.",
        append_system_prompt_file=str(extra),
    )
    argv = words(made)
    system = Path(argv[argv.index("--system-prompt") + 1])
    appended = [argv[n + 1] for n, word in enumerate(argv) if word == "--append-system-prompt"]
    assert system.read_text() == "Be brief. " * 50000
    assert Path(appended[0]).read_text() == "And kind."
    assert appended[1] == str(extra)
    assert system.stat().st_mode & 0o777 == 0o600
    (folder,) = made.private_dirs
    assert os.stat(folder).st_mode & 0o777 == 0o700
    assert folder.startswith(str(tmp_path / "home" / ".local" / "state" / "bridle"))
    assert "PI_CODING_AGENT_DIR" not in made.spec.env


def test_images_are_checked(tmp_path: Path) -> None:
    picture = tmp_path / "p.png"
    picture.write_bytes(PNG)
    assert words(plan(tmp_path, images=(str(picture),)))[-1] == f"@{picture}"
    (tmp_path / "t.txt").write_text("text")
    with pytest.raises(WrongUse, match="not an image"):
        plan(tmp_path, images=(str(tmp_path / "t.txt"),))
    with pytest.raises(WrongUse, match="cannot read image"):
        plan(tmp_path, images=(str(tmp_path / "none.png"),))


def test_nothing_private_is_left_by_a_refusal(tmp_path: Path) -> None:
    with pytest.raises(WrongUse):
        plan(tmp_path, system_prompt="x", images=("/none.png",))
    assert not (tmp_path / "home" / ".local").exists()


def test_thinking(tmp_path: Path) -> None:
    argv = words(plan(tmp_path, "1.5.0", provider_options={"thinking": "max"}))
    assert argv[2:4] == ["--thinking", "max"]
    with pytest.raises(WrongUse):
        plan(tmp_path, "0.74.2", provider_options={"thinking": "max"})
    assert "--thinking" not in words(plan(tmp_path, model="sonnet:high"))


def test_settings_and_retries_come_over_the_users(tmp_path: Path) -> None:
    folder = tmp_path / "home" / ".pi" / "agent"
    folder.mkdir(parents=True)
    (folder / "settings.json").write_text('{"theme": "light", "retry": {"baseDelayMs": 5}}')
    (folder / "auth.json").write_text('{"x": 1}')
    made = plan(tmp_path, settings='{"theme": "dark"}', provider_options={"max_retries": "1"})
    own = Path(made.spec.env["PI_CODING_AGENT_DIR"])
    assert json.loads((own / "settings.json").read_text()) == {
        "theme": "dark",
        "retry": {"baseDelayMs": 5, "enabled": True, "maxRetries": 1},
    }
    assert os.readlink(own / "auth.json") == str(folder / "auth.json")
    assert os.readlink(own / "sessions") == str(folder / "sessions")
    assert json.loads((folder / "settings.json").read_text())["theme"] == "light"


def test_mcp_servers_come_beside_the_users(tmp_path: Path) -> None:
    folder = tmp_path / "home" / ".pi" / "agent"
    folder.mkdir(parents=True)
    (folder / "mcp.json").write_text('{"mcpServers": {"mine": {"command": "m"}}}')
    given = {"mcpServers": {"a": {"command": "x"}, "b": {"url": "u", "exposure": "codemode"}}}
    made = plan(tmp_path, mcp_config=json.dumps(given))
    own = Path(made.spec.env["PI_CODING_AGENT_DIR"])
    assert json.loads((own / "mcp.json").read_text())["mcpServers"] == {
        "mine": {"command": "m"},
        "a": {"command": "x", "exposure": "direct"},
        "b": {"url": "u", "exposure": "codemode"},
    }
    for wrong in ("{}", '{"mcpServers": []}', '{"mcpServers": {"a": 1}}', "{"):
        with pytest.raises(WrongUse):
            plan(tmp_path, mcp_config=wrong)


def test_settings_that_are_no_object(tmp_path: Path) -> None:
    (tmp_path / "s.json").write_text("[]")
    with pytest.raises(WrongUse, match="not a JSON object"):
        plan(tmp_path, settings=str(tmp_path / "s.json"))


@pytest.mark.parametrize("version", VERSIONS)
def test_a_provider_with_its_own_key_never_sees_the_users(tmp_path: Path, version: str) -> None:
    folder = tmp_path / "home" / ".pi" / "agent"
    folder.mkdir(parents=True)
    (folder / "auth.json").write_text('{"anthropic": {"type": "oauth"}}')
    made = plan(
        tmp_path,
        version,
        model="sonnet",
        provider=Provider(base_url="http://127.0.0.1:9", auth_token_env="GATEWAY"),
        given_env={
            "GATEWAY": "gateway-secret",
            "ANTHROPIC_API_KEY": "users-secret",
            "ANTHROPIC_OAUTH_TOKEN": "users-other",
        },
    )
    env = made.spec.env
    own = Path(env["PI_CODING_AGENT_DIR"])
    assert env["ANTHROPIC_API_KEY"] == "gateway-secret"
    assert "ANTHROPIC_OAUTH_TOKEN" not in env
    assert not (own / "auth.json").exists()
    assert "secret" not in (own / "models.json").read_text()
    assert "secret" not in " ".join(made.spec.argv)
    assert made.secrets == ("gateway-secret",)


def test_a_key_of_the_callers_variables_does_not_go_to_another_provider(tmp_path: Path) -> None:
    made = plan(
        tmp_path,
        model="sonnet",
        provider=Provider(base_url="http://127.0.0.1:9", auth_token_env="GATEWAY"),
        env={"GATEWAY": "gateway-secret", "ANTHROPIC_OAUTH_TOKEN": "users-other"},
    )
    assert "ANTHROPIC_OAUTH_TOKEN" not in made.spec.env
    assert made.spec.env["ANTHROPIC_API_KEY"] == "gateway-secret"


@pytest.mark.parametrize(
    ("version", "reference"),
    [("0.74.2", "BRIDLE_PROVIDER_KEY"), ("1.5.0", "${BRIDLE_PROVIDER_KEY}")],
)
def test_a_provider_of_the_callers_own(tmp_path: Path, version: str, reference: str) -> None:
    made = plan(
        tmp_path,
        version,
        model="gate/glm-4.6",
        provider=Provider(base_url="http://127.0.0.1:9/v1", auth_token_env="GATEWAY"),
        provider_options={"api": "openai-completions"},
        given_env={"GATEWAY": "gateway-secret"},
    )
    own = Path(made.spec.env["PI_CODING_AGENT_DIR"])
    assert json.loads((own / "models.json").read_text())["providers"]["gate"] == {
        "baseUrl": "http://127.0.0.1:9/v1",
        "api": "openai-completions",
        "models": [{"id": "glm-4.6"}],
        "apiKey": reference,
    }


def test_the_scripted_model_gets_a_home_with_nothing_of_the_users(tmp_path: Path) -> None:
    folder = tmp_path / "home" / ".pi" / "agent"
    folder.mkdir(parents=True)
    (folder / "settings.json").write_text('{"theme": "light"}')
    (folder / "auth.json").write_text("{}")
    made = plan(
        tmp_path,
        model_server=ModelServer(url="http://127.0.0.1:9", api_key="scripted-key"),
        given_env={"ANTHROPIC_OAUTH_TOKEN": "users", "HTTPS_PROXY": "http://proxy"},
    )
    env = made.spec.env
    own = Path(env["PI_CODING_AGENT_DIR"])
    assert sorted(path.name for path in own.iterdir()) == ["models.json", "settings.json"]
    assert "theme" not in (own / "settings.json").read_text()
    assert env["ANTHROPIC_API_KEY"] == "scripted-key"
    assert "ANTHROPIC_OAUTH_TOKEN" not in env
    assert "HTTPS_PROXY" not in env
    assert env["PI_OFFLINE"] == "1"


def test_a_conversation_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(ResumeRefused, match="no conversation abc"):
        plan(tmp_path, resume="abc")


def test_a_conversation_of_another_folder(tmp_path: Path) -> None:
    made = plan(tmp_path)
    encoded = made.spec.cwd.lstrip("/").replace("/", "-")
    folder = tmp_path / "home" / ".pi" / "agent" / "sessions" / f"--{encoded}--"
    folder.mkdir(parents=True)
    file = folder / "2026-01-01T00-00-00-000Z_abc.jsonl"
    file.write_text('{"type":"session","id":"abc","cwd":"/some/where/else"}\n')
    with pytest.raises(ResumeRefused, match="belongs to /some/where/else"):
        plan(tmp_path, resume="abc")
    file.write_text(json.dumps({"type": "session", "id": "abc", "cwd": made.spec.cwd}) + "\n")
    resumed = plan(tmp_path, resume="abc")
    argv = words(resumed)
    assert argv[argv.index("--session") + 1] == str(file)
    assert "--session-id" not in argv
    assert resumed.native_session_id == "abc"
    forked = plan(tmp_path, resume="abc", provider_options={"fork": "true"})
    argv = words(forked)
    assert argv[argv.index("--fork") + 1] == str(file)
    assert not {"--session", "--session-id"} & set(argv)
    assert forked.native_session_id is None


def test_a_projects_own_code_does_not_run_unasked(tmp_path: Path) -> None:
    assert plan(tmp_path, "0.74.2").warnings == ()
    (tmp_path / "work" / ".pi").mkdir()
    old = plan(tmp_path, "0.74.2")
    assert "--no-extensions" in words(old)
    assert "trust_project" in old.warnings[0]
    trusted = {"trust_project": True}
    assert "--no-extensions" not in words(plan(tmp_path, "0.74.2", provider_options=trusted))
    assert "--approve" in words(plan(tmp_path, "1.5.0", provider_options=trusted))
    assert "--no-approve" in words(plan(tmp_path, "1.5.0"))


def test_a_spawned_terminal_asks_by_the_extension(tmp_path: Path) -> None:
    runtime = PiRuntime(AdapterSettings(binary="pi-that-is-nowhere"))
    options = SpawnOptions(model="sonnet", env={"HOME": str(tmp_path), "XDG_STATE_HOME": ""})
    first = shlex.split(runtime.build_spawn_command(options))
    extension = Path(first[first.index("-e") + 1])
    assert extension.is_relative_to(tmp_path)
    assert "ctx.ui.confirm" in extension.read_text()
    assert extension.stat().st_mode & 0o777 == 0o600
    assert shlex.split(runtime.build_spawn_command(options)) == first
    assert [each.name for each in extension.parent.iterdir()] == [extension.name]


def test_the_commands_of_the_source_documents(tmp_path: Path) -> None:
    runtime = PiRuntime(AdapterSettings(binary="pi-that-is-nowhere"))
    spawn = runtime.build_spawn_command(
        SpawnOptions(
            model="sonnet",
            permission_mode="bypass",
            append_system_prompt="it's $HOME",
            cwd="/x",
            env={"K": "v"},
        )
    )
    assert spawn == (
        "pi-that-is-nowhere --model anthropic/claude-sonnet-4-6 --no-approve"
        " --append-system-prompt 'it'\"'\"'s $HOME'"
    )
    argv = runtime.build_print_command("say hi", "sonnet")
    model = "anthropic/claude-sonnet-4-6"
    assert argv == ["pi-that-is-nowhere", "--print", "--model", model, "say hi"]
    assert on_version(tmp_path, "0.74.2").build_print_command("-x")[-1] == " -x"
    assert on_version(tmp_path, "1.5.0").build_print_command("-x")[-2:] == ["--", "-x"]
    assert on_version(tmp_path, "1.5.0").build_print_command("@x")[-1] == " @x"


def test_an_interactive_session(tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    env = {"HOME": str(tmp_path), "PATH": "/usr/bin:/bin"}
    runtime = on_version(tmp_path, "1.5.0")
    options = RunOptions(
        prompt="hello",
        cwd=str(tmp_path / "work"),
        raw_args=("json",),
        permission_mode="bypass",
    )
    spec = runtime.plan_interactive(options, env).spec
    assert spec.stdin is None
    assert "--mode" not in spec.argv
    assert spec.argv[-2:] == ("json", "hello")
    private = runtime.plan_interactive(
        RunOptions(prompt="hello", cwd=str(tmp_path / "work"), system_prompt="x"), env
    )
    (folder,) = private.private_dirs
    assert any(word.startswith(folder) for word in private.spec.argv)


def test_variables_for_a_provider(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("PI_CODING_AGENT_DIR", "XDG_STATE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("GATEWAY", "gateway-secret")
    runtime = on_version(tmp_path, "1.5.0")
    assert runtime.build_env(ResolvedModel(model="m", env={"A": "b"})) == {"A": "b"}
    provider = Provider(base_url="http://127.0.0.1:9", auth_token_env="GATEWAY")
    env = runtime.build_env(ResolvedModel(model="sonnet", env={"A": "b"}, provider=provider))
    assert env["A"] == "b"
    assert env["ANTHROPIC_API_KEY"] == "gateway-secret"
    assert env["ANTHROPIC_OAUTH_TOKEN"] == ""
    models = Path(env["PI_CODING_AGENT_DIR"]) / "models.json"
    assert json.loads(models.read_text()) == {
        "providers": {"anthropic": {"baseUrl": "http://127.0.0.1:9"}}
    }
    again = runtime.build_env(ResolvedModel(model="sonnet", provider=provider))
    assert again["PI_CODING_AGENT_DIR"] == env["PI_CODING_AGENT_DIR"]


def test_a_version_between_the_tested_ones_gets_the_flags_that_it_lists(tmp_path: Path) -> None:
    """Where a version can keep a project's extensions from running, Bridle asks it to."""
    assert "--no-approve" in words(plan(tmp_path, "0.85.1"))
    # Its help fails, so nothing is left out.
    assert "--no-approve" in words(plan(tmp_path, "0.80.3"))
    runtime = on_version(tmp_path, "0.80.2")
    Path(runtime.settings.binary or "").write_text(
        "#!/bin/sh\necho '  --session-id ID  --exclude-tools NAMES'\n"
    )
    made = runtime.plan_run(RunOptions(prompt="p", cwd=str(tmp_path)), {"HOME": "/"}, "the-session")
    assert "--session-id" in words(made)
    assert "--no-approve" not in words(made)
    assert any("extensions run without a question" in each for each in made.warnings)


def test_a_version_that_is_too_old(tmp_path: Path) -> None:
    with pytest.raises(NotSupported, match=r"oldest version that works is 0\.49\.0"):
        plan(tmp_path, "0.37.8")
