"""The process of a conversation: options as in a run, no prompt, and what its wire must know."""

from pathlib import Path
from typing import Any

import msgspec
import pytest

from bridle.core.errors import UnsupportedOption, WrongUse
from bridle.core.options import RunOptions
from bridle.runtimes.claude import ClaudeRuntime
from bridle.runtimes.plan import RunPlan
from bridle.turns.recorder import Recorder
from bridle.turns.wire import CompactionControl, LiveFacts, ModelSwitch
from tests.runtimes.claude.test_options import SERVER, SESSION, env, plan, runtime, value

__all__ = ["env", "runtime"]

NATIVE = "11111111-2222-4333-8444-555555555555"


def plan_live(
    runtime: ClaudeRuntime, around: dict[str, str], tmp_path: Path, /, **options: Any
) -> tuple[RunPlan, LiveFacts]:
    wanted = RunOptions(**{"prompt": "", "cwd": str(tmp_path), **options})
    made = runtime.plan_live(wanted, around, SESSION)
    assert made.live is not None
    return made, made.live


def home_of(env: dict[str, str]) -> str:
    """Where Claude keeps its conversations."""
    return f"{env['HOME']}/.claude"


def test_it_is_a_run_without_its_prompt(
    runtime: ClaudeRuntime, env: dict[str, str], tmp_path: Path
) -> None:
    options = {"model": "m", "denied_tools": ("Bash",), "max_turns": 3, "raw_args": ("--x",)}
    run = plan(runtime, env, tmp_path, **options)
    made, facts = plan_live(runtime, env, tmp_path, images=("/not/looked/at",), **options)
    assert made.spec.stdin is None
    assert made.spec.keep_stdin
    words = [word for word in made.spec.argv if word != "--replay-user-messages"]
    assert tuple(words) == run.spec.argv
    assert len(words) == len(made.spec.argv) - 1
    assert made.spec.env == run.spec.env
    assert (made.native_session_id, facts.own) == (
        SESSION,
        {"home": home_of(env), "session": SESSION},
    )
    assert (facts.runtime, facts.runtime_version, facts.cwd) == (
        "claude",
        "2.1.197",
        str(tmp_path),
    )
    assert run.live is None


def test_what_to_take_up(runtime: ClaudeRuntime, env: dict[str, str], tmp_path: Path) -> None:
    made, facts = plan_live(runtime, env, tmp_path, resume=NATIVE)
    assert value(made, "--resume") == NATIVE
    assert "--session-id" not in made.spec.argv
    assert (facts.resume, facts.own) == (NATIVE, {"home": home_of(env), "session": NATIVE})
    made, facts = plan_live(runtime, env, tmp_path, resume=NATIVE, provider_options={"fork": True})
    assert value(made, "--session-id") == SESSION
    assert (facts.resume, facts.own) == (NATIVE, {"home": home_of(env), "session": SESSION})


def test_an_account_takes_the_place_of_the_private_home(
    runtime: ClaudeRuntime, env: dict[str, str], tmp_path: Path
) -> None:
    account = tmp_path / "account"
    account.mkdir()
    made, facts = plan_live(runtime, env, tmp_path, model_server=SERVER, account_dir=str(account))
    assert made.private_dirs == ()
    assert made.spec.env["CLAUDE_CONFIG_DIR"] == str(account)
    assert SERVER.api_key not in msgspec.json.encode(facts).decode()
    assert SERVER.api_key not in made.spec.argv


def test_it_refuses_what_a_run_refuses(
    runtime: ClaudeRuntime, env: dict[str, str], tmp_path: Path
) -> None:
    with pytest.raises(UnsupportedOption):
        plan_live(runtime, env, tmp_path, allowed_tools=("Bash(ls *)",))
    with pytest.raises(WrongUse):
        plan_live(runtime, env, tmp_path, resume="-x")
    with pytest.raises(WrongUse):
        plan_live(runtime, env, tmp_path, provider_options={"forc": True})


def test_its_wire_is_made_from_what_is_on_disk(
    runtime: ClaudeRuntime, env: dict[str, str], tmp_path: Path
) -> None:
    _, facts = plan_live(runtime, env, tmp_path)
    kept = msgspec.json.decode(msgspec.json.encode(facts), type=LiveFacts)
    recorder = Recorder(
        runtime="claude", session_id=SESSION, options=RunOptions(prompt=""), drive="rpc"
    )
    wire = runtime.live_wire(kept, recorder)
    assert isinstance(wire, ModelSwitch)
    assert isinstance(wire, CompactionControl)
    wire.begin()
    assert recorder.replies == [
        b'{"type":"control_request","request_id":"bridle-1","request":{"subtype":"initialize"}}\n'
    ]


def test_it_says_so(runtime: ClaudeRuntime) -> None:
    features = runtime.features
    assert {"print", "rpc"} <= set(features.drives)
    assert features.steer
    assert features.follow_up
    assert features.abort
    assert features.compaction
