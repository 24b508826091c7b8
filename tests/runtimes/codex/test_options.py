"""Each option is mapped, or refused by name, before anything starts."""

import shlex
import stat
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import msgspec
import pytest

from bridle.core.errors import (
    NotAuthenticated,
    ResumeRefused,
    UnsupportedOption,
    WrongUse,
)
from bridle.core.git_hold import is_hold
from bridle.core.options import ModelServer, Provider, ResolvedModel, RunOptions, SpawnOptions
from bridle.process.private_folders import remove_folders
from bridle.runtimes.codex import CodexRuntime, command
from bridle.runtimes.contract import AdapterSettings
from bridle.runtimes.plan import RunPlan
from tests.runtimes.codex.fake_install import KEY, VERSIONS, FakeInstall, configured, merge
from tests.runtimes.products import codex


def after_exec(plan: RunPlan) -> list[str]:
    argv = list(plan.spec.argv)
    return argv[argv.index("exec") + 1 :]


def sandbox(plan: RunPlan) -> str:
    words = after_exec(plan)
    return words[words.index("-s") + 1]


# -- finding --------------------------------------------------------------------------------------


def test_the_native_binary_is_started_not_the_launcher(fake: FakeInstall) -> None:
    found = fake.runtime.installation()
    assert "codex-linux-x64/vendor" in found.binary
    assert found.version in VERSIONS
    assert fake.runtime.dialect(found.version)[1:] == (True, "")


def test_the_launcher_is_the_fallback(tmp_path: Path) -> None:
    path = codex(tmp_path, "0.166.0", native=False)
    found = CodexRuntime(AdapterSettings(binary=path)).installation()
    assert found.binary == path
    assert found.version == "0.166.0"


@pytest.mark.parametrize(
    ("version", "row"),
    [
        ("0.111.0", "codex-0.120"),
        ("0.123.0", "codex-0.122"),
        ("0.128.0", "codex-0.122"),
        ("0.140.1", "codex-0.136"),
        ("0.152.1", "codex-0.148"),
        ("0.153.4", "codex-0.153"),
        ("0.155.1", "codex-0.154"),
        ("0.199.0", "codex-0.166"),
        (None, "codex-0.166"),
    ],
)
def test_a_version_never_seen_gets_a_guess_and_a_warning(version: str | None, row: str) -> None:
    dialect, seen, warning = CodexRuntime().dialect(version)
    assert (dialect.name, seen) == (row, False)
    assert warning


# -- the command ----------------------------------------------------------------------------------


def test_the_prompt_goes_by_stdin_whatever_its_size(fake: FakeInstall) -> None:
    prompt = "--help\n" + "x" * 3_000_000
    plan = fake.plan(prompt=prompt)
    assert plan.spec.stdin == prompt.encode()
    assert plan.spec.argv[-2:] == ("--json", "-")
    assert all(len(word) < 2000 for word in plan.spec.argv)


def test_what_must_not_happen_is_switched_off(fake: FakeInstall) -> None:
    plan = fake.plan()
    argv = plan.spec.argv
    disabled = [argv[i + 1] for i, word in enumerate(argv) if word == "--disable"]
    assert "plugins" in disabled
    newer = plan.dialect.name == "codex-0.166"
    assert ("unbounded_connection_retries" in disabled) == newer
    assert "--skip-git-repo-check" in after_exec(plan)
    assert "--full-auto" not in argv


def test_model_instructions_and_effort(fake: FakeInstall, tmp_path: Path) -> None:
    extra = tmp_path / "extra.md"
    extra.write_text('From "the" file\n\té')
    plan = fake.plan(
        model="gpt-5.5",
        append_system_prompt="Be brief.",
        append_system_prompt_file=str(extra),
        system_prompt="All new.",
        provider_options={"effort": "high"},
    )
    told = configured(plan)
    assert told["model"] == "gpt-5.5"
    assert told["developer_instructions"] == 'Be brief.\n\nFrom "the" file\n\té'
    assert told["model_reasoning_effort"] == "high"
    file = Path(told["model_instructions_file"])
    assert file.read_text() == "All new."
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    (folder,) = plan.private_dirs
    assert file.parent == Path(folder)
    assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700


def test_instructions_too_long_for_a_command_line_go_before_the_prompt(fake: FakeInstall) -> None:
    plan = fake.plan(append_system_prompt="y" * 200_000)
    assert plan.spec.stdin is not None
    assert plan.spec.stdin.startswith(b"<instructions>\nyyy")
    assert plan.spec.stdin.endswith(b"do it")
    assert plan.warnings


def test_resume_comes_last_with_its_flags_before(fake: FakeInstall, tmp_path: Path) -> None:
    thread = "01a1e0e5-ff82-7ba2-b209-9af3673d39a1"
    image = tmp_path / "i.png"
    image.write_bytes(b"\x89PNG\r\n\x1a\n")
    words = after_exec(
        fake.plan(resume=thread, images=(str(image),), raw_args=("--color", "never"))
    )
    assert words[-4:] == ["--json", "resume", thread, "-"]
    # `-i` takes every word after it, so a flag must follow.
    assert words[words.index("-i") + 1 : words.index("-i") + 3] == [str(image), "--json"]
    assert words.index("--color") < words.index("-i")


def test_a_copy_where_the_line_can_make_one(fake: FakeInstall) -> None:
    thread = "01a1e0e5-ff82-7ba2-b209-9af3673d39a1"
    fork: dict[str, Any] = {"provider_options": {"fork": "true"}, "resume": thread}
    if fake.runtime.installation().version == "0.166.0":
        made = fake.plan(**fork)
        assert after_exec(made)[-3:] == ["fork", thread, "-"]
        assert made.native_session_id is None
    else:
        with pytest.raises(UnsupportedOption, match=r"fork.*not in a run with codex-0\.120"):
            fake.plan(ignore_unsupported=True, **fork)
    given = RunOptions(prompt="x", cwd=str(fake.work), **fork)
    live = fake.runtime.plan_live(given, fake.env, "session-1")
    assert live.native_session_id is None
    assert live.live is not None
    assert live.live.own["fork"] is True
    with pytest.raises(UnsupportedOption, match=r"fork.*terminal"):
        fake.runtime.plan_tmux(given, fake.env, "session-1")
    with pytest.raises(UnsupportedOption, match=r"fork.*interactive"):
        fake.runtime.plan_interactive(given, fake.env)
    # There is nothing to copy: a new thread as ever.
    assert after_exec(fake.plan(provider_options={"fork": True}))[-2:] == ["--json", "-"]


@pytest.mark.parametrize("resume", ["last", "my thread", "01a1e0e5", "-" * 36, "--last"])
def test_a_resume_that_codex_would_answer_with_a_new_thread(fake: FakeInstall, resume: str) -> None:
    with pytest.raises(ResumeRefused):
        fake.plan(resume=resume)


def test_settings_become_flags(fake: FakeInstall, tmp_path: Path) -> None:
    text = '{"web_search": "disabled", "tools": {"view_image": false}}'
    assert configured(fake.plan(settings=text))["tools"] == {"view_image": False}
    toml = tmp_path / "s.toml"
    toml.write_text('a = [1, 2.5]\n[b."c d"]\ne = "f"\n')
    told = configured(fake.plan(settings=str(toml)))
    assert (told["a"], told["b"]) == ([1, 2.5], {"c d": {"e": "f"}})


def test_trust_is_told_for_this_run_only(fake: FakeInstall) -> None:
    told = configured(fake.plan(permission_mode="bypass"))
    assert told["projects"] == {str(fake.work): {"trust_level": "trusted"}}


def test_a_trust_that_the_user_decided_is_left_alone(fake: FakeInstall) -> None:
    config = fake.home / ".codex/config.toml"
    config.write_text(f'[projects."{fake.work}"]\ntrust_level = "untrusted"\n')
    assert "projects" not in configured(fake.plan(permission_mode="bypass"))
    config.write_text(f'notes = "{fake.work}"\n')
    assert "projects" in configured(fake.plan(permission_mode="bypass"))
    config.write_text(f'"{fake.work}" broken')
    assert "projects" in configured(fake.plan(permission_mode="bypass"))


# -- permission and sandbox -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("permission", "asked", "mode"),
    [
        ("ask", None, "read-only"),
        ("ask", "read-only", "read-only"),
        ("ask", "worktree", "workspace-write"),
        ("bypass", None, "workspace-write"),
        ("bypass", "read-only", "read-only"),
        ("bypass", "worktree", "workspace-write"),
        ("bypass", "off", "danger-full-access"),
    ],
)
def test_permission_and_sandbox(
    fake: FakeInstall, permission: str, asked: str | None, mode: str
) -> None:
    plan = fake.plan(permission_mode=permission, sandbox=asked)
    assert sandbox(plan) == mode
    assert bool(plan.warnings) == (permission == "ask" and mode == "workspace-write")


def test_no_sandbox_and_nobody_to_ask_is_refused(fake: FakeInstall) -> None:
    with pytest.raises(UnsupportedOption, match="sandbox"):
        fake.plan(sandbox="off")
    plan = fake.plan(sandbox="off", ignore_unsupported=True)
    assert sandbox(plan) == "read-only"
    assert plan.ignored_options == ("sandbox",)


@pytest.mark.parametrize("mode", ["run", "live", "tmux"])
def test_a_sandbox_for_commits_alone_is_refused_or_reported(fake: FakeInstall, mode: str) -> None:
    options = RunOptions(prompt="x", cwd=str(fake.work), sandbox="commit")
    plan = getattr(fake.runtime, f"plan_{mode}")
    with pytest.raises(UnsupportedOption, match="sandbox=commit"):
        plan(options, fake.env, "session-1")
    ignoring = msgspec.structs.replace(options, ignore_unsupported=True)
    assert plan(ignoring, fake.env, "session-1").ignored_options == ("sandbox",)


def test_folders_that_may_be_written(fake: FakeInstall, tmp_path: Path) -> None:
    (fake.work / ".git").mkdir()
    (fake.work / ".git/HEAD").write_text("ref: refs/heads/main\n")
    words = after_exec(
        fake.plan(permission_mode="bypass", provider_options={"add_dirs": f"{tmp_path}/a:/b"})
    )
    added = [words[i + 1] for i, word in enumerate(words) if word == "--add-dir"]
    assert added == [f"{tmp_path}/a", "/b", str(fake.work / ".git")]
    closed = fake.plan(permission_mode="bypass", provider_options={"git_write": "false"})
    assert "--add-dir" not in after_exec(closed)
    assert "--add-dir" not in after_exec(fake.plan())
    opened = fake.plan(permission_mode="bypass", provider_options={"network_access": "true"})
    assert configured(opened)["sandbox_workspace_write"] == {"network_access": True}


# -- providers, accounts, servers -----------------------------------------------------------------


def assert_hidden(plan: RunPlan, secret: str) -> None:
    assert secret not in " ".join(plan.spec.argv)
    assert secret in plan.secrets


def test_a_model_server_gets_a_private_home(fake: FakeInstall) -> None:
    fake.env |= {"CODEX_HOME": "/mine", "OPENAI_API_KEY": "users", "CODEX_API_KEY": "users"}
    plan = fake.plan(model_server=ModelServer(url="http://127.0.0.1:1", api_key=KEY))
    assert_hidden(plan, KEY)
    env = plan.spec.env
    assert (env.get("OPENAI_API_KEY"), env.get("CODEX_API_KEY")) == (None, None)
    home = Path(env["CODEX_HOME"])
    assert stat.S_IMODE(home.stat().st_mode) == 0o700
    assert plan.private_dirs == (str(home.parent),)
    assert not str(home).startswith("/mine")
    told = configured(plan)
    provider = told["model_providers"][told["model_provider"]]
    assert provider["base_url"] == "http://127.0.0.1:1/v1"
    assert env[provider["env_key"]] == KEY
    assert provider["request_max_retries"] == provider["stream_max_retries"] == 3


def test_a_provider_of_the_callers(fake: FakeInstall) -> None:
    fake.env["MY_TOKEN"] = KEY
    provider = Provider(base_url="http://127.0.0.1:1/v1", auth_token_env="MY_TOKEN")
    plan = fake.plan(provider=provider, provider_options={"max_retries": "0"})
    assert_hidden(plan, KEY)
    told = configured(plan)
    table = told["model_providers"][told["model_provider"]]
    assert (table["base_url"], table["stream_max_retries"]) == (provider.base_url, 0)
    assert "CODEX_HOME" not in plan.spec.env
    keyed = fake.plan(provider=Provider(auth_token_env="MY_TOKEN"))
    assert keyed.spec.env["CODEX_API_KEY"] == KEY
    assert_hidden(keyed, KEY)
    with pytest.raises(NotAuthenticated, match="NOT_SET"):
        fake.plan(provider=Provider(auth_token_env="NOT_SET"))


def test_routing_by_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_TOKEN", KEY)
    runtime = CodexRuntime()
    provider = Provider(base_url="http://127.0.0.1:1/v1", auth_token_env="MY_TOKEN")
    assert runtime.build_env(ResolvedModel(model="m", env={"A": "b"}, provider=provider)) == {
        "A": "b",
        "OPENAI_BASE_URL": "http://127.0.0.1:1/v1",
        "OPENAI_API_KEY": KEY,
        "CODEX_API_KEY": KEY,
    }


def test_that_environment_routes_a_run_and_a_terminal(fake: FakeInstall) -> None:
    """Codex itself reads no such variable, so what `build_env` gave becomes flags."""
    env = {"OPENAI_BASE_URL": "http://127.0.0.1:1/v1", "OPENAI_API_KEY": KEY}
    told = configured(fake.plan(env=env))
    table = told["model_providers"][told["model_provider"]]
    assert (table["base_url"], table["env_key"]) == ("http://127.0.0.1:1/v1", "OPENAI_API_KEY")
    spawned = fake.runtime.build_spawn_command(SpawnOptions(model="m", env=env))
    assert "http://127.0.0.1:1/v1" in spawned
    assert KEY not in spawned


def test_mcp_servers(fake: FakeInstall) -> None:
    servers = {
        "plain": {"command": "toy", "args": ["-x"]},
        "secret": {"command": "toy", "args": ["it's"], "env": {"TOY_TOKEN": KEY}},
        "web": {"type": "http", "url": "http://127.0.0.1:1", "headers": {"Authorization": KEY}},
    }
    import json

    plan = fake.plan(mcp_config=json.dumps({"mcpServers": servers}), permission_mode="bypass")
    assert_hidden(plan, KEY)
    assert bool(plan.warnings) == (plan.dialect.name == "codex-0.120")
    told = configured(plan)["mcp_servers"]
    assert told["plain"] == {
        "command": "toy",
        "args": ["-x"],
        "default_tools_approval_mode": "approve",
    }
    script = Path(told["secret"]["args"][0])
    assert script.read_text() == f"export TOY_TOKEN={KEY}\nexec toy 'it'\"'\"'s'\n"
    assert stat.S_IMODE(script.stat().st_mode) == 0o600
    assert plan.spec.env[told["web"]["env_http_headers"]["Authorization"]] == KEY


def test_mcp_calls_are_not_approved_without_bypass(fake: FakeInstall) -> None:
    plan = fake.plan(mcp_config='{"mcpServers": {"toy": {"command": "toy"}}}')
    assert configured(plan)["mcp_servers"] == {"toy": {"command": "toy"}}
    assert plan.warnings


# -- refusals -------------------------------------------------------------------------------------


# -- terminal and one-shot commands ---------------------------------------------------------------


def test_the_print_command(fake: FakeInstall) -> None:
    argv = fake.runtime.build_print_command("--why $(x)", "gpt-5.5")
    assert argv[-2:] == ["--", "--why $(x)"]
    assert "--ephemeral" in argv
    assert "exec" in argv
    assert "--json" not in argv
    assert argv[argv.index("-m") + 1] == "gpt-5.5"
    with pytest.raises(WrongUse):
        fake.runtime.build_print_command("x" * 200_000)


def test_the_spawn_command(fake: FakeInstall, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(fake.home))
    monkeypatch.delenv("CODEX_HOME", raising=False)
    options = SpawnOptions(
        model="gpt-5.5",
        cwd=str(fake.work),
        permission_mode="bypass",
        append_system_prompt="It's $HOME",
        initial_prompt="- begin",
        env={"SECRET": KEY},
    )
    words = shlex.split(fake.runtime.build_spawn_command(options))
    assert words[0] == fake.runtime.installation().binary
    newer = fake.runtime.dialect(fake.runtime.installation().version)[0].name == "codex-0.166"
    assert ("--no-daemon" in words) == newer
    assert words[-2:] == ["--", "- begin"]
    assert words[words.index("-a") + 1] == "never"
    assert KEY not in " ".join(words)
    told: dict[str, Any] = {}
    for number, word in enumerate(words):
        if word == "-c":
            merge(told, tomllib.loads(words[number + 1]))
    assert told["developer_instructions"] == "It's $HOME"
    assert told["projects"] == {str(fake.work): {"trust_level": "trusted"}}
    assert told["notice"]["model_migrations"]
    assert words[words.index("-s") + 1] == "workspace-write"
    asking = shlex.split(fake.runtime.build_spawn_command(SpawnOptions(model="m")))
    assert asking[asking.index("-a") + 1] == "on-request"
    assert asking[asking.index("-s") + 1] == "read-only"


@pytest.mark.parametrize(
    ("given", "sandbox", "policy"),
    [
        ({}, "read-only", "on-request"),
        ({"sandbox": "read-only"}, "read-only", "never"),
        ({"sandbox": "worktree"}, "workspace-write", "never"),
        ({"permission_mode": "bypass"}, "workspace-write", "never"),
        ({"permission_mode": "bypass", "sandbox": "off"}, "danger-full-access", "never"),
    ],
)
def test_its_terminal_does_not_write_unasked(
    fake: FakeInstall, given: dict[str, Any], sandbox: str, policy: str
) -> None:
    """In a pane and at a person's terminal Codex asks only about what its sandbox refuses."""
    options = RunOptions(prompt="", cwd=str(fake.work), **given)
    plan = fake.runtime.plan_tmux(options, fake.env, "session-1")
    for words in (plan.spec.argv, fake.runtime.plan_interactive(options, fake.env).spec.argv):
        assert words[words.index("-s") + 1] == sandbox
        assert words[words.index("-a") + 1] == policy
    unasked = "nobody is asked before it changes files" in " ".join(plan.warnings)
    assert unasked is (given == {"sandbox": "worktree"})


def test_its_terminal_refuses_to_ask_without_a_sandbox(fake: FakeInstall) -> None:
    options = RunOptions(prompt="", cwd=str(fake.work), sandbox="off")
    with pytest.raises(UnsupportedOption, match="sandbox=off with permission ask"):
        fake.runtime.plan_tmux(options, fake.env, "session-1")


def test_the_interactive_plan(fake: FakeInstall) -> None:
    options = RunOptions(prompt="hello", cwd=str(fake.work), model="gpt-5.5")
    spec = fake.runtime.plan_interactive(options, fake.env).spec
    assert spec.argv[-2:] == ("--", "hello")
    assert "exec" not in spec.argv
    assert spec.cwd == str(fake.work)
    server = ModelServer(url="http://127.0.0.1:1", api_key=KEY)
    with pytest.raises(UnsupportedOption):
        fake.runtime.plan_interactive(RunOptions(prompt="", model_server=server), fake.env)


def test_an_option_that_a_mode_ignores_is_not_used(fake: FakeInstall) -> None:
    options = RunOptions(
        prompt="x",
        cwd=str(fake.work),
        mcp_config='{"mcpServers": {"toy": {"command": "toy"}}}',
        ignore_unsupported=True,
    )
    plan = fake.runtime.plan_tmux(options, fake.env, "session-1")
    assert plan.ignored_options == ("mcp_config",)
    assert "mcp_servers" not in configured(plan)


@pytest.mark.parametrize("mode", ["run", "live", "tmux", "interactive"])
def test_the_repository_of_a_linked_worktree_is_held(fake: FakeInstall, mode: str) -> None:
    """What git obeys there is restored at the end, also of a run that a person drives."""
    who = ("-c", "user.name=a", "-c", "user.email=a@b")
    repo = fake.home / "repo"
    subprocess.run(["git", "init", "-q", str(repo)], check=True)
    first = ("commit", "-q", "--allow-empty", "-m", "one")
    subprocess.run(["git", *who, *first], cwd=repo, check=True)
    tree = fake.home / "tree"
    subprocess.run(["git", "worktree", "add", "-q", str(tree), "-b", "side"], cwd=repo, check=True)
    options = RunOptions(prompt="x", cwd=str(tree), permission_mode="bypass")
    if mode == "interactive":
        plan = fake.runtime.plan_interactive(options, fake.env)
    else:
        plan = getattr(fake.runtime, f"plan_{mode}")(options, fake.env, "session-1")
    try:
        assert [is_hold(folder) for folder in plan.private_dirs] == [True]
    finally:
        remove_folders(plan.private_dirs)


def test_nothing_heavy_is_imported() -> None:
    import sys

    code = "import sys, bridle.runtimes.codex, bridle.runtimes.codex.command; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    heavy = {"asyncio", "anyio", "logging", "dataclasses", "tomllib", "shlex", "difflib", "rich"}
    assert not heavy & set(done.stdout.split())
    assert command.__name__ in done.stdout.split()
