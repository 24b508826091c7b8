"""What a run of each ready-made agent is started and opened with."""

import os
from pathlib import Path
from typing import Any

import msgspec
import pytest

from bridle.core.errors import GuardRefused, NotAuthenticated, UnsupportedOption, WrongUse
from bridle.core.options import ModelServer, Provider, ResolvedModel, RunOptions
from bridle.runtimes.acp.adapter import OverAcp
from bridle.runtimes.acp.declared import ClaudeAcp, CodexAcp
from bridle.runtimes.acp.plan import AcpPlan
from bridle.runtimes.cline import ClineAcp, ClineRuntime
from bridle.runtimes.contract import AdapterSettings
from bridle.runtimes.copilot import CopilotAcp
from bridle.runtimes.gemini import GeminiAcp
from bridle.runtimes.history import read_history
from bridle.runtimes.opencode import OpencodeAcp, OpenCodeRuntime
from bridle.runtimes.registry import available_runtimes, get_adapter

READY: dict[str, type[OverAcp]] = {
    "claude-acp": ClaudeAcp,
    "cline-acp": ClineAcp,
    "codex-acp": CodexAcp,
    "copilot-acp": CopilotAcp,
    "gemini-acp": GeminiAcp,
    "opencode-acp": OpencodeAcp,
}
PNG = b"\x89PNG\r\n\x1a\n" + b"0" * 8
SERVER = ModelServer(url="http://127.0.0.1:1", api_key="server-key-123")


@pytest.fixture
def desk(tmp_path: Path) -> "PlanBench":
    return PlanBench(tmp_path)


class PlanBench:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.bin = folder / "bin"
        self.bin.mkdir()
        for name in ("bwrap", *(cls.binary for cls in READY.values())):
            # Codex's bridge of the line that takes arguments; see `test_scripts.py` for the other.
            version = "0.16.0" if name == "codex-acp" else "9.9.9"
            (self.bin / name).write_text(f"#!/bin/sh\necho {version}\n")
            (self.bin / name).chmod(0o755)

    def plan(self, name: str, env: dict[str, str] | None = None, **options: Any) -> AcpPlan:
        cls = READY[name]
        runtime = cls(AdapterSettings(binary=str(self.bin / cls.binary)))
        wanted = {"prompt": "go", "cwd": str(self.folder), **options}
        around = {"HOME": str(self.folder), "PATH": str(self.bin), "KEY": "own-key-456"}
        plan = runtime.plan_run(RunOptions(**wanted), {**around, **(env or {})}, "sid")
        assert isinstance(plan, AcpPlan)
        return plan


@pytest.mark.parametrize("name", sorted(READY))
def test_they_are_registered(name: str) -> None:
    assert name in available_runtimes()
    runtime = get_adapter(name)
    features = runtime.features_of(runtime.dialect(None)[0])
    assert features.resume
    assert not features.message_usage
    assert runtime.install_hint.startswith("npm install -g ")


@pytest.mark.parametrize("name", sorted(READY))
def test_what_each_agent_is_started_with_on_a_model_server(name: str, desk: PlanBench) -> None:
    plan = desk.plan(name, model_server=SERVER)
    assert not any("server-key-123" in word for word in plan.spec.argv)
    assert plan.secrets == ("server-key-123",)
    (folder,) = plan.private_dirs
    for root, folders, files in os.walk(folder):
        for each in (*folders, *files):
            assert os.stat(os.path.join(root, each)).st_mode & 0o077 == 0
    assert os.stat(folder).st_mode & 0o077 == 0
    first = msgspec.json.decode(plan.spec.stdin or b"")
    assert first["method"] == "initialize"
    assert first["params"]["clientCapabilities"]["fs"]["readTextFile"] is False
    assert plan.spec.keep_stdin
    assert all(step.to == "group" for step in plan.spec.stop)


@pytest.mark.parametrize("name", sorted(READY))
def test_without_a_server_no_home_is_moved_and_no_file_made(name: str, desk: PlanBench) -> None:
    before = sorted(os.listdir(desk.folder))
    plan = desk.plan(name)
    assert plan.private_dirs == ()
    assert sorted(path for path in os.listdir(desk.folder) if path != ".cache") == before
    for variable in ("CODEX_HOME", "COPILOT_HOME", "CLAUDE_CONFIG_DIR", "XDG_DATA_HOME"):
        assert variable not in plan.spec.env


@pytest.mark.parametrize(
    ("name", "words", "variable"),
    [
        ("codex-acp", ["-c", 'model="big"'], None),
        ("gemini-acp", ["-m", "big"], None),
        ("copilot-acp", [], "COPILOT_MODEL"),
        ("claude-acp", [], "ANTHROPIC_MODEL"),
        ("opencode-acp", [], None),
        ("cline-acp", [], None),
    ],
)
def test_the_model(name: str, words: list[str], variable: str | None, desk: PlanBench) -> None:
    plan = desk.plan(name, model="big")
    assert list(plan.spec.argv[-len(words) :] if words else ()) == words
    if variable:
        assert plan.spec.env[variable] == "big"
    assert plan.session.model == ("big" if not words and not variable else None)


@pytest.mark.parametrize(
    ("name", "variables"),
    [
        (
            "copilot-acp",
            {
                "COPILOT_PROVIDER_BASE_URL": "http://127.0.0.1:2/v1",
                "COPILOT_PROVIDER_API_KEY": "own-key-456",
            },
        ),
        (
            "claude-acp",
            {
                "ANTHROPIC_BASE_URL": "http://127.0.0.1:2/v1",
                "ANTHROPIC_AUTH_TOKEN": "own-key-456",
                "ANTHROPIC_API_KEY": "",
            },
        ),
        ("codex-acp", {"BRIDLE_MODEL_KEY": "own-key-456"}),
        (
            "gemini-acp",
            {
                "GOOGLE_GEMINI_BASE_URL": "http://127.0.0.1:2/v1",
                "GEMINI_API_KEY": "own-key-456",
            },
        ),
        ("opencode-acp", {"BRIDLE_PROVIDER_KEY": "own-key-456"}),
    ],
)
def test_a_provider(
    name: str, variables: dict[str, str], desk: PlanBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    provider = Provider(base_url="http://127.0.0.1:2/v1", auth_token_env="KEY")
    plan = desk.plan(name, model="big", provider=provider)
    assert {key: plan.spec.env[key] for key in variables} == variables
    assert not any("own-key-456" in word for word in plan.spec.argv)
    assert plan.secrets == ("own-key-456",)
    monkeypatch.setenv("KEY", "own-key-456")
    told = get_adapter(name).build_env(ResolvedModel(model="big", provider=provider))
    assert {key: told[key] for key in variables} == variables
    with pytest.raises(NotAuthenticated, match="NO_SUCH"):
        desk.plan(name, provider=Provider(auth_token_env="NO_SUCH"))


def test_only_two_can_copy_a_session(desk: PlanBench) -> None:
    fork: dict[str, Any] = {"resume": "s0", "provider_options": {"fork": True}}
    for name in ("gemini-acp", "cline-acp", "codex-acp", "copilot-acp"):
        with pytest.raises(UnsupportedOption, match=r"fork.*claude-acp.*opencode-acp"):
            # Ignored, it would go on in the session that is to stay as it is.
            desk.plan(name, ignore_unsupported=True, **fork)
    for name in ("claude-acp", "opencode-acp"):
        assert desk.plan(name, **fork).native_session_id is None


def test_codex_gets_a_mode_that_can_write(desk: PlanBench) -> None:
    for sandbox, mode in (
        (None, "workspace-write"),
        ("read-only", "read-only"),
        ("worktree", "workspace-write"),
        ("off", "danger-full-access"),
    ):
        plan = desk.plan("codex-acp", sandbox=sandbox)
        assert f'sandbox_mode="{mode}"' in plan.spec.argv
        assert plan.session.mode is None, "set by the protocol it would be noted in the user's file"
    assert desk.plan("codex-acp", provider_options={"mode": "x"}).session.mode == "x"
    (desk.bin / "bwrap").unlink()
    with pytest.raises(GuardRefused, match="bwrap"):
        desk.plan("codex-acp")
    desk.plan("codex-acp", sandbox="off")


def test_opencode_is_told_to_ask(desk: PlanBench) -> None:
    config = msgspec.json.decode(desk.plan("opencode-acp").spec.env["OPENCODE_CONFIG_CONTENT"])
    assert config == {"permission": {"edit": "ask", "bash": "ask", "webfetch": "ask"}}
    plan = desk.plan("opencode-acp", permission_mode="bypass")
    assert "OPENCODE_CONFIG_CONTENT" not in plan.spec.env


def test_images_servers_and_system_prompts(desk: PlanBench) -> None:
    image = desk.folder / "a.png"
    image.write_bytes(PNG)
    servers = {
        "files": {"command": "sh", "args": ["-c", "x"], "env": {"A": "1"}},
        "web": {"url": "http://127.0.0.1:3", "headers": {"X": "y"}},
        "old": {"type": "sse", "url": "http://127.0.0.1:4"},
    }
    plan = desk.plan(
        "claude-acp",
        images=(str(image),),
        mcp_config=msgspec.json.encode({"mcpServers": servers}).decode(),
        append_system_prompt="Be brief.",
    )
    kinds = [(block["type"], block.get("mimeType")) for block in plan.session.prompt]
    assert kinds == [("text", None), ("image", "image/png")]
    local, web, old = plan.session.mcp_servers
    assert (local["args"], local["env"]) == (["-c", "x"], [{"name": "A", "value": "1"}])
    assert os.path.isabs(local["command"])
    assert web == {
        "type": "http",
        "name": "web",
        "url": "http://127.0.0.1:3",
        "headers": [{"name": "X", "value": "y"}],
    }
    assert old["type"] == "sse"
    assert plan.session.meta == {"systemPrompt": {"append": "Be brief."}}
    whole = desk.plan("claude-acp", system_prompt="All.").session.meta
    assert whole == {"systemPrompt": "All."}
    (desk.folder / "b.png").write_text("no image")
    with pytest.raises(WrongUse, match="not an image"):
        desk.plan("claude-acp", images=(str(desk.folder / "b.png"),))
    with pytest.raises(WrongUse, match="MCP"):
        desk.plan("claude-acp", mcp_config="{}")


def test_clines_file_is_summed_up_exactly(tmp_path: Path) -> None:
    def message(**metrics: int) -> dict[str, Any]:
        return {"role": "assistant", "metrics": metrics, "modelInfo": {"id": "m"}}

    path = tmp_path / "data" / "sessions" / "s" / "s.messages.json"
    path.parent.mkdir(parents=True)
    told = [
        {"role": "user"},
        message(inputTokens=100, outputTokens=20, cacheReadTokens=30, cacheWriteTokens=5),
        message(inputTokens=50, outputTokens=1),
    ]
    path.write_bytes(msgspec.json.encode({"sessionId": "s", "messages": told}))
    found = read_history(ClineRuntime(), {"CLINE_DIR": str(tmp_path)}, "s")
    assert found is not None
    usage = found.usage
    assert (usage.input_tokens, usage.output_tokens, usage.cache_read_tokens) == (115, 21, 30)
    assert (usage.cache_write_tokens, found.model) == (5, "m")
    summary = ClineAcp().parse_transcript(str(path))
    assert summary is not None
    assert (summary.input_tokens, summary.model) == (115, "m")
    assert ClineAcp().parse_transcript(str(tmp_path / "none")) is None


def test_a_broken_database_is_no_history(tmp_path: Path) -> None:
    folder = tmp_path / "opencode"
    folder.mkdir()
    env = {"XDG_DATA_HOME": str(tmp_path)}
    assert read_history(OpenCodeRuntime(), env, "s") is None
    (folder / "opencode.db").write_text("no database")
    assert read_history(OpenCodeRuntime(), env, "s") is None
