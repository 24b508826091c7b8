"""What the scripted agent does: text, tools, its boundary, permissions, limits."""

import stat
import threading
from pathlib import Path

import pytest

from bridle._version import __version__
from bridle.core import events as ev
from bridle.core.errors import WrongUse
from bridle.core.options import HooksDef, OverlayContent
from bridle.core.usage import Usage
from bridle.runtimes import deployment
from bridle.runtimes.scripted import ScriptedRuntime
from bridle.runtimes.scripted.product import BEHAVIOURS, ScriptedOptions
from bridle.testing.bench import AgentRun
from bridle.turns.wire import Question
from tests.runtimes.scripted.runs import ScriptedBench

SHOW = [
    {
        "text": "I write a file.",
        "shell": "echo hello > out.txt && echo written",
        "usage": {"input_tokens": 100, "output_tokens": 20, "cache_read_tokens": 7},
    },
    {
        "thinking": "Was that all?",
        "text": "All is done.\nORCHESTRA_COMPLETE",
        "chunks": 3,
        "usage": {
            "input_tokens": 140,
            "output_tokens": 30,
            "cache_write_tokens": 5,
            "reasoning_tokens": 4,
        },
    },
]


def test_a_text_a_shell_call_and_a_final_text(bench: ScriptedBench) -> None:
    played = bench.play(SHOW)
    assert [str(each.__struct_config__.tag) for each in played.events] == [
        "session_start",
        "state",
        "agent_start",
        "message_start",
        *["message_update"] * 3,
        "message_end",
        "tool_execution_start",
        "tool_execution_end",
        "message_start",
        *["message_update"] * 10,
        "message_end",
        "usage",
        "agent_end",
        "state",
        "session_end",
    ]
    kinds = [each.kind for each in played.of(ev.MessageUpdate)][3:]
    assert kinds == [
        "thinking_start",
        *["thinking_delta"] * 3,
        "thinking_end",
        "text_start",
        *["text_delta"] * 3,
        "text_end",
    ]
    result = played.result
    assert (result.status, result.exit_code, result.error) == ("completed", 0, None)
    assert result.text == "All is done.\nORCHESTRA_COMPLETE"
    assert result.marker_detected
    assert result.usage == Usage(
        input_tokens=240,
        output_tokens=50,
        cache_read_tokens=7,
        cache_write_tokens=5,
        reasoning_tokens=4,
    )
    assert (bench.work / "out.txt").read_text() == "hello\n"
    assert played.of(ev.ToolExecutionEnd)[0].result == "written\n"


def test_it_says_that_it_is_scripted(bench: ScriptedBench) -> None:
    played = bench.play()
    start = played.of(ev.SessionStart)[0]
    assert (start.model, start.runtime_version) == ("scripted", __version__)
    assert "scripted agent" in played.result.text
    assert "no model" in played.result.text
    assert "6 characters" in played.result.text
    assert played.result.usage.total == 0
    assert list(bench.work.iterdir()) == []


def test_the_end_of_the_script_is_said(bench: ScriptedBench) -> None:
    played = bench.play([{"shell": "true"}])
    assert played.result.text == "The script has ended."
    assert played.result.status == "completed"


def test_file_tools(bench: ScriptedBench) -> None:
    (bench.work / "notes.txt").write_text("one two one\n")
    played = bench.play(
        [
            {"write_file": {"path": "deep/new.txt", "content": "grüße\n"}},
            {"edit_file": {"path": "deep/new.txt", "old": "grüße", "new": "hello"}},
            {"read_file": "deep/new.txt"},
            {"edit_file": {"path": "notes.txt", "old": "one", "new": "1"}},
            {"read_file": "absent.txt"},
            {"shell": "echo out; echo err >&2; exit 3"},
            {"tool_calls": [{"name": "Bash", "args": {"command": "true"}}]},
            {"tool_calls": [{"name": "shell", "args": {"cmd": "true"}}]},
        ]
    )
    ends = played.of(ev.ToolExecutionEnd)
    assert [end.is_error for end in ends] == [False, False, False, True, True, True, True, True]
    assert ends[2].result == "hello\n"
    assert "occurs 2 times" in ends[3].result
    assert "No such file" in ends[4].result
    assert ends[5].result == "exit status 3\nout\nerr\n"
    assert "no tool 'Bash'" in ends[6].result
    assert "needs the text argument 'command'" in ends[7].result
    assert (bench.work / "notes.txt").read_text() == "one two one\n"
    assert played.result.status == "completed"


def test_tools_of_one_reply_run_at_the_same_time(bench: ScriptedBench) -> None:
    # Each waits for the other's file, so neither could end if they ran one after the other.
    wait = "touch {0}; for i in $(seq 500); do test -e {1} && exit 0; sleep 0.02; done; exit 1"
    calls = [
        {"name": "shell", "args": {"command": wait.format("a", "b")}},
        {"name": "shell", "args": {"command": wait.format("b", "a")}},
    ]
    played = bench.play([{"tool_calls": calls}, {"text": "Done."}])
    assert [end.is_error for end in played.of(ev.ToolExecutionEnd)] == [False, False]
    types = [t for t in played.kinds if t.startswith("tool")]
    assert types == ["tool_execution_start"] * 2 + ["tool_execution_end"] * 2


def test_a_background_process_does_not_hold_the_shell(bench: ScriptedBench) -> None:
    played = bench.play([{"shell": "sleep 300 & echo started"}, {"text": "Done."}])
    assert played.of(ev.ToolExecutionEnd)[0].result == "started\n"
    assert played.result.duration_ms < 60_000


def test_file_tools_stay_in_the_working_directory(bench: ScriptedBench) -> None:
    outside = bench.work.parent / "outside"
    outside.mkdir()
    (outside / "secret.txt").write_text("secret")
    (bench.work / "link").symlink_to(outside)
    played = bench.play(
        [
            {"write_file": {"path": "../outside/new.txt", "content": "x"}},
            {"write_file": {"path": str(outside / "new.txt"), "content": "x"}},
            {"write_file": {"path": "link/new.txt", "content": "x"}},
            {"read_file": "link/secret.txt"},
            {"edit_file": {"path": "link/secret.txt", "old": "secret", "new": "x"}},
            {"text": "I was refused."},
        ]
    )
    ends = played.of(ev.ToolExecutionEnd)
    assert len(ends) == 5
    for end in ends:
        assert end.is_error
        assert "outside the working directory" in end.result
        assert "boundary of the scripted agent's file tools" in end.result
    decisions = played.of(ev.PermissionDecision)
    assert [each.decision for each in decisions] == ["deny"] * 5
    assert {each.by for each in decisions} == {"scripted"}
    assert [each.name for each in outside.iterdir()] == ["secret.txt"]
    assert (outside / "secret.txt").read_text() == "secret"


def test_ask_refuses_when_nobody_is_there(bench: ScriptedBench) -> None:
    (bench.work / "in.txt").write_text("readable")
    played = bench.play(
        [{"shell": "touch made"}, {"read_file": "in.txt"}, {"text": "Sorry."}],
        permission_mode="ask",
    )
    assert not (bench.work / "made").exists()
    ends = played.of(ev.ToolExecutionEnd)
    assert ends[0].is_error
    assert ends[0].result.startswith("permission denied: nobody is there")
    assert ends[1].result == "readable"
    assert len(played.of(ev.PermissionRequest)) == 1
    assert [each.decision for each in played.of(ev.PermissionDecision)] == ["deny"]
    assert played.result.status == "completed"


def test_ask_runs_what_was_allowed(bench: ScriptedBench) -> None:
    asked: list[Question] = []

    def only_touch(question: Question) -> tuple[bool, str, str]:
        asked.append(question)
        return "touch" in question.args["command"], "test", "only touch"

    played = bench.play(
        [{"shell": "touch made"}, {"shell": "rm made"}, {"text": "Done."}],
        permission_mode="ask",
        permission=only_touch,
    )
    assert [each.tool_name for each in asked] == ["shell", "shell"]
    assert (bench.work / "made").exists()
    assert [end.is_error for end in played.of(ev.ToolExecutionEnd)] == [False, True]
    assert played.of(ev.ToolExecutionEnd)[1].result == "permission denied: only touch"


def test_max_turns(bench: ScriptedBench) -> None:
    script = [{"shell": "touch one"}, {"shell": "touch two"}, {"text": "Done."}]
    played = bench.play(script, max_turns=1)
    assert played.result.status == "budget_exceeded"
    assert played.result.error is not None
    assert played.result.error.kind == "budget_exceeded"
    assert (bench.work / "one").exists()
    assert not (bench.work / "two").exists()
    assert bench.play(script, max_turns=3).result.status == "completed"


def test_budget(bench: ScriptedBench) -> None:
    script = [{"shell": "touch one"}, {"shell": "sleep 60; touch two"}, {"text": "Done."}]
    own = {"cost_per_turn": "0.01"}
    played = bench.play(script, budget_usd=0.015, provider_options=own)
    assert (played.result.status, played.result.exit_status) == ("budget_exceeded", 8)
    assert len(played.of(ev.MessageEnd)) == 2
    assert (bench.work / "one").exists()
    assert not (bench.work / "two").exists()
    script = [{"shell": "touch one"}, {"shell": "touch two"}, {"text": "Done."}]
    enough = bench.play(script, budget_usd=0.03, provider_options=own)
    assert enough.result.status == "completed"
    assert enough.result.cost_usd is not None
    assert abs(enough.result.cost_usd - 0.03) < 1e-9
    assert enough.result.cost_source == "provider"


def test_a_budget_is_exceeded_by_the_last_call_too(bench: ScriptedBench) -> None:
    own = {"cost_per_turn": "0.01"}
    played = bench.play([{"text": "Done."}], budget_usd=0.001, provider_options=own)
    assert (played.result.status, played.result.exit_status) == ("budget_exceeded", 8)
    assert played.result.text == "Done."
    assert played.result.error is not None
    assert played.result.error.message == "cost 0.0100 USD is over the budget of 0.0010 USD"


def test_a_budget_without_a_price_is_refused_before_the_start(bench: ScriptedBench) -> None:
    with pytest.raises(WrongUse, match="no price"):
        bench.play([{"text": "Done."}], budget_usd=1.0)


def test_tools_that_are_not_allowed_do_not_run(bench: ScriptedBench) -> None:
    script = [{"shell": "touch made"}, {"write_file": {"path": "x", "content": ""}}, {"text": "."}]
    denied = bench.play(script, denied_tools=("shell",))
    assert [end.is_error for end in denied.of(ev.ToolExecutionEnd)] == [True, False]
    allowed = bench.play(script, allowed_tools=("read_file",))
    assert [end.is_error for end in allowed.of(ev.ToolExecutionEnd)] == [True, True]
    assert not (bench.work / "made").exists()


def test_one_script_for_several_agents(bench: ScriptedBench) -> None:
    script = {
        "conversations": [
            {"name": "a", "match": {"prompt_contains": "apple"}, "turns": [{"text": "A"}]},
            {"name": "s", "match": {"system_contains": "sour"}, "turns": [{"text": "S"}]},
            {"name": "m", "match": {"model": "big"}, "turns": [{"text": "M"}]},
        ],
        "turns": [{"text": "other"}],
    }
    assert bench.play(script, prompt="an apple").result.text == "A"
    assert bench.play(script, append_system_prompt="be sour").result.text == "S"
    assert bench.play(script, model="big").result.text == "M"
    assert bench.play(script).result.text == "other"
    assert bench.play(script, provider_options={"conversation": "m"}).result.text == "M"


def test_a_prompt_of_any_size(bench: ScriptedBench) -> None:
    played = bench.play(prompt="ä" * 3_000_000)
    assert "3000000 characters" in played.result.text


def test_raw_messages_on_request(bench: ScriptedBench) -> None:
    played = bench.play([{"text": "Hi."}], include_raw=True)
    assert played.of(ev.MessageEnd)[0].raw["type"] == "message_end"


def test_what_it_writes_is_private(bench: ScriptedBench) -> None:
    bench.play([{"text": "Hi."}])
    (file,) = bench.state.iterdir()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(bench.state.stat().st_mode) == 0o700


def test_the_script_may_be_named_by_a_variable(bench: ScriptedBench) -> None:
    (bench.home / "s.yaml").write_text("- text: By a variable.\n")
    played = bench.play(env={"BRIDLE_SCRIPT": str(bench.home / "s.yaml")})
    assert played.result.text == "By a variable."
    own = bench.play([{"text": "By an option."}], env={"BRIDLE_SCRIPT": "/nowhere"})
    assert own.result.text == "By an option."


def test_many_agents_at_once(bench: ScriptedBench) -> None:
    script = [{"shell": "echo $BRIDLE_SESSION_ID"}, {"text": "Done."}]
    played: list[AgentRun] = []
    threads = [
        threading.Thread(target=lambda: played.append(bench.play(script))) for _ in range(16)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(played) == 16
    for each in played:
        assert each.result.text == "Done."
        assert each.of(ev.ToolExecutionEnd)[0].result == f"{each.plan.session_id}\n"
    assert len({each.result.native_session_id for each in played}) == 16


def test_the_documentation_names_everything() -> None:
    page = (Path(__file__).parents[3] / "docs" / "runtimes" / "scripted.md").read_text()
    runtime = ScriptedRuntime()
    for name in (*runtime.features.options, *ScriptedOptions.__struct_fields__):
        assert f"`{name}`" in page or name == "provider_options"
    for name in BEHAVIOURS:
        assert f"`{name}" in page


def test_instructions_in_files_that_are_repeated_are_no_marker(bench: ScriptedBench) -> None:
    rule = "Finish with a summary. ORCHESTRA_COMPLETE"
    echo = [{"text": f"My rules:\n{rule}"}]
    assert bench.play(echo).result.marker_detected
    given = bench.home / "rules.md"
    given.write_text(f"# Rules\n  {rule}\n")
    assert not bench.play(echo, append_system_prompt_file=str(given)).result.marker_detected
    hooks = HooksDef(agent_name="a", capability="builder", worktree_path=str(bench.work))
    deployment.deploy(
        ScriptedRuntime(), str(bench.work), OverlayContent(content=f"{rule}\n"), hooks
    )
    assert not bench.play(echo).result.marker_detected
    said = [{"text": f"{rule}\n\nORCHESTRA_COMPLETE"}]
    assert bench.play(said).result.marker_detected
