"""The plan of an app-server: what goes into flags, what into facts, what is refused."""

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import msgspec
import pytest

from bridle.core.errors import ResumeRefused, UnsupportedOption, WrongUse
from bridle.core.options import ModelServer, Provider, RunOptions
from bridle.runtimes.plan import RunPlan
from bridle.turns.wire import LiveFacts
from tests.runtimes.codex.captures import TESTDATA, put_rollout
from tests.runtimes.codex.fake_install import KEY, FakeInstall, configured

THREAD = "01a1e0e5-ff82-7ba2-b209-9af3673d39a1"


def live(fake: FakeInstall, **options: Any) -> RunPlan:
    given = {"prompt": "not said here", "cwd": str(fake.work), **options}
    return fake.runtime.plan_live(RunOptions(**given), fake.env, "session-1")


def facts(plan: RunPlan) -> LiveFacts:
    assert plan.live is not None
    # As a later driver finds them.
    return msgspec.json.decode(msgspec.json.encode(plan.live), type=LiveFacts)


def thread(plan: RunPlan) -> dict[str, Any]:
    told = facts(plan).own["thread"]
    assert isinstance(told, dict)
    return told


def test_the_process(fake: FakeInstall) -> None:
    plan = live(fake, permission_mode="bypass", model="gpt-5.5", raw_args=("--strict-config",))
    words = list(plan.spec.argv)
    assert words[1] == "app-server"
    assert "exec" not in words
    assert "not said here" not in " ".join(words)
    assert words[-1] == "--strict-config"
    assert (plan.spec.keep_stdin, plan.spec.stdin) == (True, None)
    assert configured(plan)["model"] == "gpt-5.5"
    assert configured(plan)["projects"][str(fake.work)] == {"trust_level": "trusted"}
    known = facts(plan)
    assert (known.runtime, known.cwd, known.resume) == ("codex", str(fake.work), None)
    assert known.dialect == plan.dialect.name
    assert thread(plan) == {
        "cwd": str(fake.work),
        "sandbox": "workspace-write",
        "approvalPolicy": "never",
        "model": "gpt-5.5",
    }
    assert plan.private_dirs == ()


@pytest.mark.parametrize(
    ("permission", "sandbox", "mode", "policy"),
    [
        ("ask", None, "workspace-write", "untrusted"),
        ("ask", "off", "danger-full-access", "untrusted"),
        ("ask", "read-only", "read-only", "never"),
        ("ask", "worktree", "workspace-write", "never"),
        ("bypass", None, "workspace-write", "never"),
        ("bypass", "off", "danger-full-access", "never"),
        ("bypass", "read-only", "read-only", "never"),
    ],
)
def test_who_is_asked(
    fake: FakeInstall, permission: str, sandbox: str | None, mode: str, policy: str
) -> None:
    plan = live(fake, permission_mode=permission, sandbox=sandbox)
    assert (thread(plan)["sandbox"], thread(plan)["approvalPolicy"]) == (mode, policy)
    warned = [each for each in plan.warnings if "nobody is asked" in each]
    assert bool(warned) == (permission == "ask" and sandbox == "worktree")


def test_instructions_of_any_length_go_by_the_wire(fake: FakeInstall) -> None:
    long = "Mind. " * 40_000
    plan = live(fake, system_prompt="You are a test.", append_system_prompt=long)
    assert thread(plan)["baseInstructions"] == "You are a test."
    assert thread(plan)["developerInstructions"] == long
    assert long not in " ".join(plan.spec.argv)
    assert plan.warnings == ()


def test_own_options(fake: FakeInstall, tmp_path: Path) -> None:
    schema = tmp_path / "schema.json"
    schema.write_text('{"type": "object"}')
    more = {"output_schema": str(schema), "effort": "high", "add_dirs": str(tmp_path)}
    plan = live(fake, permission_mode="bypass", provider_options=more)
    assert facts(plan).own["turn"] == {"outputSchema": {"type": "object"}}
    assert configured(plan)["model_reasoning_effort"] == "high"
    assert configured(plan)["sandbox_workspace_write"]["writable_roots"] == [str(tmp_path)]
    schema.write_text("no json")
    with pytest.raises(WrongUse, match="output schema"):
        live(fake, provider_options=more)


def test_the_folders_of_a_repository_are_opened(fake: FakeInstall) -> None:
    subprocess.run(["git", "init", "-q", "."], cwd=fake.work, check=True)
    plan = live(fake, permission_mode="bypass")
    roots = configured(plan)["sandbox_workspace_write"]["writable_roots"]
    assert roots == [os.path.join(fake.work, ".git")]
    assert "sandbox_workspace_write" not in configured(live(fake, sandbox="read-only"))


def test_a_scripted_model_and_an_account(fake: FakeInstall, tmp_path: Path) -> None:
    server = ModelServer(url="http://127.0.0.1:9", api_key=KEY)
    plan = live(fake, model_server=server)
    assert plan.private_dirs
    home = plan.spec.env["CODEX_HOME"]
    assert home.startswith(plan.private_dirs[0])
    account = tmp_path / "account"
    account.mkdir()
    kept = live(fake, model_server=server, account_dir=str(account))
    assert (kept.private_dirs, kept.spec.env["CODEX_HOME"]) == ((), str(account))
    for each in (plan, kept):
        assert thread(each)["modelProvider"] == "bridle"
        assert KEY not in " ".join(each.spec.argv)
        assert KEY.encode() not in msgspec.json.encode(each.live)
        assert KEY in each.secrets


def test_no_secret_in_the_facts(fake: FakeInstall) -> None:
    fake.env["MY_KEY"] = KEY
    servers = {"mcpServers": {"toy": {"command": "toy", "env": {"TOKEN": "a-secret-of-mcp"}}}}
    plan = live(
        fake,
        provider=Provider(base_url="https://models.example/v1", auth_token_env="MY_KEY"),
        mcp_config=json.dumps(servers),
        permission_mode="bypass",
    )
    shown = msgspec.json.encode(plan.live).decode() + " ".join(plan.spec.argv)
    assert KEY not in shown
    assert "a-secret-of-mcp" not in shown


@pytest.mark.parametrize("version", ["0.120.0", "0.166.0"])
def test_what_a_thread_used_before_is_known(fake: FakeInstall, version: str) -> None:
    name = "usage_overflow_resume" if version == "0.120.0" else "usage_overflow_compaction_resume"
    source = TESTDATA / version / f"rollout/{name}.jsonl"
    put_rollout(fake.home / ".codex", THREAD, source)
    plan = live(fake, resume=THREAD)
    assert facts(plan).resume == plan.native_session_id == THREAD
    counts = [
        line["payload"]["info"]["total_token_usage"]
        for line in map(json.loads, source.read_text().splitlines())
        if line["payload"].get("type") == "token_count" and line["payload"].get("info")
    ]
    before = facts(plan).own["before"]
    told = before["input_tokens"] + before["cache_read_tokens"]
    assert (told, before["output_tokens"]) == (
        counts[-1]["input_tokens"],
        counts[-1]["output_tokens"],
    )
    assert set(facts(live(fake)).own["before"].values()) == {0}


def test_what_is_refused(fake: FakeInstall) -> None:
    for option in ({"max_turns": 3}, {"budget_usd": 1.0}, {"allowed_tools": ("x",)}):
        with pytest.raises(UnsupportedOption):
            live(fake, **option)
    with pytest.raises(ResumeRefused):
        live(fake, resume="a name")
    with pytest.raises(WrongUse):
        live(fake, cwd="/no/such/folder")
    with pytest.raises(UnsupportedOption, match="profile"):
        live(fake, provider_options={"profile": "mine"})
    ignoring = live(
        fake, provider_options={"profile": "mine"}, max_turns=3, ignore_unsupported=True
    )
    assert ignoring.ignored_options == ("max_turns", "profile")
    assert "mine" not in ignoring.spec.argv


def test_the_log_of_pauses_is_left_alone(fake: FakeInstall) -> None:
    """Nobody reads it, so it is not asked for, and nothing that needs it is promised."""
    run = fake.plan()
    newer = fake.runtime.installation().version == "0.166.0"
    assert ("trace_safe" in run.spec.env.get("RUST_LOG", "")) == newer
    assert run.spec.watch_stderr == newer
    plan = live(fake)
    assert "RUST_LOG" not in plan.spec.env
    assert not plan.spec.watch_stderr
    with pytest.raises(UnsupportedOption, match="retry_seconds"):
        live(fake, provider_options={"retry_seconds": 5})
    ignoring = live(fake, provider_options={"retry_seconds": 5}, ignore_unsupported=True)
    assert ignoring.ignored_options == ("retry_seconds",)


def test_what_it_can_do(fake: FakeInstall) -> None:
    features = fake.runtime.features
    assert {"print", "rpc"} <= set(features.drives)
    assert (features.steer, features.follow_up, features.abort) == (True, True, True)
    assert (features.compaction, features.fork) == (True, True)
