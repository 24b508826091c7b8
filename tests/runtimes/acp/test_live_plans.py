"""What a live conversation of each ready-made agent is started with, and its wire built from."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from bridle.core.errors import Unavailable, UnsupportedOption
from bridle.core.options import ModelServer, RunOptions
from bridle.runtimes.acp.plan import AcpPlan
from bridle.runtimes.alternatives import as_live
from bridle.runtimes.contract import Adapter, AdapterSettings
from bridle.runtimes.registry import get_adapter
from bridle.turns.recorder import Recorder
from bridle.turns.wire import LiveFacts, ModelSwitch
from tests.runtimes.acp.test_plans import READY, SERVER, PlanBench, desk

__all__ = ["desk"]

each = pytest.mark.parametrize("name", sorted(READY))
MCP_BY_FILE: dict[str, Callable[[AcpPlan], str]] = {
    "cline-acp": lambda plan: plan.spec.env["CLINE_MCP_SETTINGS_PATH"],
    "copilot-acp": lambda plan: next(
        word.partition("=@")[2]
        for word in plan.spec.argv
        if word.startswith("--additional-mcp-config=")
    ),
}
"""Agents that ignore the servers of the protocol, and where the file with them is."""
SERVERS = '{"mcpServers": {"files": {"command": "sh", "env": {"TOKEN": "a-secret-token-7"}}}}'


def runtime_of(place: PlanBench, name: str) -> Adapter:
    cls = READY[name]
    return cls(AdapterSettings(binary=str(place.bin / cls.binary)))


def plan_live(place: PlanBench, name: str, **options: Any) -> AcpPlan:
    wanted = RunOptions(**{"prompt": "", "cwd": str(place.folder), **options})
    around = {"HOME": str(place.folder), "PATH": str(place.bin)}
    plan = as_live(runtime_of(place, name)).plan_live(wanted, around, "sid")
    assert isinstance(plan, AcpPlan)
    return plan


def first_words(place: PlanBench, name: str, facts: LiveFacts) -> list[dict[str, Any]]:
    """What a wire that is built from `facts` says until its session is asked for."""
    recorder = Recorder(runtime=name, session_id="sid", options=RunOptions(prompt=""), drive="rpc")
    wire = as_live(runtime_of(place, name)).live_wire(facts, recorder)
    assert isinstance(wire, ModelSwitch)
    wire.begin()
    result = {"protocolVersion": 1, "agentCapabilities": {"loadSession": True}}
    wire.feed(msgspec.json.encode({"jsonrpc": "2.0", "id": 0, "result": result}))
    return [msgspec.json.decode(data) for data in recorder.replies]


@each
def test_features(name: str, desk: PlanBench) -> None:
    runtime = runtime_of(desk, name)
    features = runtime.features_of(runtime.dialect(None)[0])
    assert features.drives == ("print", "rpc")
    assert (features.steer, features.follow_up, features.abort) == (False, True, True)
    assert features.resume
    assert features.fork == features.compaction == (name in ("claude-acp", "opencode-acp"))


@each
def test_it_is_started_as_a_run_is_but_without_a_word(name: str, desk: PlanBench) -> None:
    live = plan_live(desk, name, model_server=SERVER)
    run = desk.plan(name, model_server=SERVER)
    assert live.spec.stdin is None
    assert live.spec.keep_stdin
    words = [word for word in live.spec.argv if word not in ("features.unified_exec=false",)]
    assert set(words) == set(run.spec.argv)
    assert live.spec.stop == run.spec.stop
    assert set(live.spec.env) >= set(run.spec.env) - {"KEY"}


@each
def test_the_facts_hold_no_secret_and_are_all_a_wire_needs(name: str, desk: PlanBench) -> None:
    plan = plan_live(desk, name, model_server=SERVER, mcp_config=SERVERS)
    assert plan.live is not None
    stored = msgspec.json.encode(plan.live)
    assert b"server-key-123" not in stored
    assert b"a-secret-token-7" not in stored
    facts = msgspec.json.decode(stored, type=LiveFacts)
    initialize, new = first_words(desk, name, facts)
    assert initialize["method"] == "initialize"
    assert (new["method"], new["params"]["cwd"]) == ("session/new", str(desk.folder))
    assert new["params"]["mcpServers"] == plan.session.mcp_servers
    assert bool(plan.session.mcp_servers) is (name not in MCP_BY_FILE)
    if name in MCP_BY_FILE:
        path = MCP_BY_FILE[name](plan)
        assert "a-secret-token-7" in Path(path).read_text()
        assert os.stat(path).st_mode & 0o077 == 0
        assert any(path.startswith(folder) for folder in plan.private_dirs)
        return
    servers = facts.own["servers"]
    assert os.stat(servers).st_mode & 0o077 == 0
    assert any(servers.startswith(folder) for folder in plan.private_dirs)
    os.unlink(servers)
    with pytest.raises(Unavailable, match="MCP servers"):
        first_words(desk, name, facts)


@pytest.mark.parametrize("product", ["cline", "copilot", "gemini", "opencode"])
def test_a_product_and_its_alias_are_one(product: str, desk: PlanBench) -> None:
    """The same conversation under both names; a run of the product does not use the protocol."""
    alias = runtime_of(desk, f"{product}-acp")
    runtime = get_adapter(product)
    runtime.use_binary(str(desk.bin / runtime.binary))
    wanted = RunOptions(prompt="", cwd=str(desk.folder))
    around = {"HOME": str(desk.folder), "PATH": str(desk.bin)}
    one, other = (as_live(each).plan_live(wanted, around, "sid") for each in (runtime, alias))
    assert isinstance(one, AcpPlan)
    assert one.spec == other.spec
    assert one.live is not None
    assert (one.live.runtime, other.live and other.live.runtime) == (product, f"{product}-acp")
    assert runtime.routing_facts() is alias.routing_facts()
    assert runtime.tool_table() is alias.tool_table()
    assert runtime.instruction_places(".") == alias.instruction_places(".")
    features = runtime.features
    assert {"print", "rpc"} <= set(features.drives)
    assert features.in_session("rpc") == alias.features
    assert features.in_session("print").over == features.over
    assert runtime.session_by_print
    assert not alias.session_by_print


@each
def test_a_resumed_conversation_loads_its_session(name: str, desk: PlanBench) -> None:
    plan = plan_live(desk, name, resume="old-one")
    assert plan.live is not None
    assert plan.live.resume == "old-one"
    assert plan.private_dirs == ()
    _, load = first_words(desk, name, plan.live)
    assert (load["method"], load["params"]["sessionId"]) == ("session/load", "old-one")


def test_clocks_and_prompts_play_no_part(desk: PlanBench) -> None:
    plan = plan_live(desk, "opencode-acp", prompt="x", images=("none.png",))
    assert plan.session.prompt[0]["text"] == ""
    assert plan.session.silence_timeout is None
    given = plan_live(desk, "opencode-acp", provider_options={"silence_timeout": 7})
    assert given.session.silence_timeout == 7
    with pytest.raises(UnsupportedOption, match="max_turns"):
        plan_live(desk, "opencode-acp", max_turns=3)


def test_what_nobody_reads_is_not_asked_for(desk: PlanBench) -> None:
    assert desk.plan("gemini-acp").spec.watch_stderr
    plan = plan_live(desk, "gemini-acp")
    assert not plan.spec.watch_stderr
    assert plan.session.silence_timeout is None
    assert desk.plan("gemini-acp").session.silence_timeout == 90


def test_claude_keeps_its_system_prompt(desk: PlanBench) -> None:
    plan = plan_live(desk, "claude-acp", append_system_prompt="Be brief.")
    assert plan.live is not None
    _, new = first_words(desk, "claude-acp", plan.live)
    assert new["params"]["_meta"] == {"systemPrompt": {"append": "Be brief."}}


def test_another_server_for_the_same_account(desk: PlanBench) -> None:
    """Cline keeps its service in a file, which must not be the one of the process before."""
    account = desk.folder / "account"
    account.mkdir()
    other = ModelServer(url="http://127.0.0.1:9", api_key="another-key-9")
    for server in (SERVER, other):
        plan = plan_live(desk, "cline-acp", account_dir=str(account), model_server=server)
        with open(plan.spec.env["CLINE_PROVIDER_SETTINGS_PATH"]) as file:
            assert f"{server.url}/v1" in file.read()
