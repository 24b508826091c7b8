"""What a driver notices of its guard: that it lives, that it was asked, what it said."""

from typing import Any

import pytest

from bridle.core import events as ev
from bridle.core.options import RunOptions
from bridle.core.results import GuardReport
from bridle.process.spec import ProcessExit
from bridle.turns.guard_contract import Guard, GuardMechanism, HookNote, Verdict
from bridle.turns.recorder import Recorder

YES = Verdict(decision="allow", rule="allowed")
NO = Verdict(decision="block", rule="git-push", reason="git push sends work away")


def recorder(*, verdict: Any = YES, **mechanism: Any) -> Recorder:
    """A recorder in its first turn, guarded by a judge that always says the same."""
    made = Recorder(runtime="test", session_id="s", options=RunOptions(prompt="p"))
    how = GuardMechanism(name="test hooks", fails="open", proof="none", **mechanism)
    made.guard = Guard(lambda tool, args, cwd: verdict, how, capability="builder")
    made.session_started("n")
    made.turn_started()
    return made


def told(made: Recorder) -> list[str]:
    return [str(type(each).__struct_config__.tag) for each in made.drain()]


def verdict_note(call_id: str, verdict: Verdict = YES) -> HookNote:
    return HookNote(kind="verdict", tool_call_id=call_id, tool_name="Bash", verdict=verdict)


def test_work_before_the_guard_was_seen_stops_the_agent() -> None:
    made = recorder()
    made.message_started("m")
    assert made.stop_requested is not None
    assert made.stop_requested.exit_code == 9
    assert "does not fire" in str(made.stop_requested)


@pytest.mark.parametrize("kind", ["live", "verdict"])
def test_a_hook_that_spoke_proves_it(kind: Any) -> None:
    made = recorder()
    assert made.guard is not None
    made.guard.note(HookNote(kind=kind, event="SessionStart"))
    made.message_started("m")
    assert made.stop_requested is None
    assert made.guard.live == "SessionStart"


def test_a_tool_that_ran_unasked_stops_the_agent() -> None:
    made = recorder()
    assert made.guard is not None
    made.guard.proved("canary")
    made.guard.note(verdict_note("one"))
    made.tool_started("one", "Bash", {})
    made.tool_ended("one", is_error=False, result="")
    assert made.stop_requested is None
    made.tool_started("two", "Bash", {})
    made.tool_ended("two", is_error=False, result="")
    assert made.stop_requested is not None
    assert "without the guard's permission" in str(made.stop_requested)


def test_a_refused_tool_that_ran_all_the_same_stops_the_agent() -> None:
    made = recorder(verdict=NO)
    assert made.guard is not None
    made.guard.proved("canary")
    made.tool_started("one", "Bash", {})
    assert not made.verdicts.ask("one", "Bash", {}).allowed
    made.tool_ended("one", is_error=False, result="pushed")
    assert made.stop_requested is not None


def test_where_calls_can_only_be_counted_they_are() -> None:
    made = recorder(matching="count", unasked=frozenset({"todo"}))
    assert made.guard is not None
    made.guard.note(verdict_note("hook-1"))
    for item, name in (("item_0", "command"), ("item_1", "todo")):
        made.tool_started(item, name, {})
        made.tool_ended(item, is_error=False, result="")
    assert made.stop_requested is None
    made.tool_started("item_2", "command", {})
    made.tool_ended("item_2", is_error=False, result="")
    assert made.stop_requested is not None


def test_a_verdict_is_told_after_the_start_of_its_tool() -> None:
    made = recorder()
    made.verdicts.ask("one", "Bash", {})
    made.tool_started("one", "Bash", {})
    assert told(made)[-2:] == ["tool_execution_start", "permission_decision"]


def test_a_verdict_whose_tool_the_wire_never_tells_is_not_lost() -> None:
    made = recorder(verdict=NO)
    made.verdicts.ask("one", "Bash", {})
    made.turn_ended()
    decisions = [each for each in made.drain() if isinstance(each, ev.PermissionDecision)]
    assert [(d.decision, d.by, d.reason) for d in decisions] == [
        ("deny", "guard", "git-push: git push sends work away")
    ]


def test_a_silent_wire_gets_start_and_end_of_a_refused_call() -> None:
    made = recorder(matching="count", tells_refused=False)
    assert made.guard is not None
    made.guard.note(verdict_note("one", NO))
    made.verdicts.take_notes()
    assert told(made)[-3:] == [
        "tool_execution_start",
        "permission_decision",
        "tool_execution_end",
    ]


def test_a_silent_refusal_belongs_to_the_turn_that_asked() -> None:
    made = recorder(matching="count", tells_refused=False)
    assert made.guard is not None
    made.guard.proved("canary")
    made.text_delta("I push.")
    made.guard.note(verdict_note("one", NO))
    made.turn_ended()
    made.finish(ProcessExit(code=0))
    names = told(made)
    assert names.index("permission_decision") < names.index("agent_end")
    assert names.count("agent_start") == 1
    assert made.result().status == "completed"


def test_a_hook_that_tells_no_id_and_comes_first_means_the_next_call() -> None:
    made = recorder(matching="count")
    assert made.guard is not None
    made.guard.proved("canary")
    made.guard.note(verdict_note("", NO))
    made.verdicts.take_notes()
    made.drain()
    made.tool_started("item_7", "Bash", {})
    # The agent tells of the hook's refusal as of its own.
    made.permission_decided("item_7", tool_name="Bash", decision="deny", by="agent")
    made.turn_ended()
    decisions = [each for each in made.drain() if isinstance(each, ev.PermissionDecision)]
    assert [(each.tool_call_id, each.by) for each in decisions] == [("item_7", "guard")]


@pytest.mark.parametrize("guard_first", [True, False])
def test_one_refusal_is_told_once_in_the_guards_words(guard_first: bool) -> None:
    """The agent reports the hook's refusal as its own, before the hook's note was looked at."""
    made = recorder()
    assert made.guard is not None
    made.guard.proved("canary")
    made.tool_started("item_7", "Bash", {})
    made.guard.note(verdict_note("item_7", NO))
    if guard_first:
        made.verdicts.take_notes()
    made.permission_decided(
        "item_7", tool_call_id="item_7", tool_name="Bash", decision="deny", by="agent"
    )
    made.tool_ended("item_7", is_error=True, result="no")
    made.turn_ended()
    decisions = [each for each in made.drain() if isinstance(each, ev.PermissionDecision)]
    assert [(each.tool_call_id, each.by) for each in decisions] == [("item_7", "guard")]
    assert made.result().refusals == 1


def test_nor_is_one_lost_whose_call_is_never_told() -> None:
    made = recorder(matching="count")
    assert made.guard is not None
    made.guard.proved("canary")
    made.guard.note(verdict_note("", NO))
    made.turn_ended()
    decisions = [each for each in made.drain() if isinstance(each, ev.PermissionDecision)]
    assert [(each.tool_call_id, each.by) for each in decisions] == [("", "guard")]


def test_a_hook_that_tells_no_id_means_the_open_call() -> None:
    made = recorder(matching="count")
    assert made.guard is not None
    made.guard.proved("canary")
    made.tool_started("item_7", "Bash", {})
    made.guard.note(verdict_note("", NO))
    made.verdicts.take_notes()
    last = made.drain()[-1]
    assert isinstance(last, ev.PermissionDecision)
    assert last.tool_call_id == "item_7"


@pytest.mark.parametrize("broken", [None, "yes", 1])
def test_what_is_no_verdict_is_a_refusal(broken: Any) -> None:
    made = recorder(verdict=broken)
    assert not made.verdicts.ask("one", "Bash", {}).allowed


def test_without_a_guard_whoever_asks_is_refused() -> None:
    made = Recorder(runtime="test", session_id="s", options=RunOptions(prompt="p"))
    assert not made.verdicts.ask("one", "Bash", {}).allowed


def test_the_result_tells_how_the_run_was_guarded() -> None:
    made = recorder(verdict=NO)
    made.verdicts.ask("one", "Bash", {})
    made.turn_ended()
    made.finish(ProcessExit(code=0))
    report = made.result().guard
    assert isinstance(report, GuardReport)
    assert (report.state, report.allowed, report.blocked) == ("live", 0, 1)


def test_going_without_is_written_down() -> None:
    made = Recorder(runtime="test", session_id="s", options=RunOptions(prompt="p"))
    made.unguarded = "builder"
    report = made.result().guard
    assert isinstance(report, GuardReport)
    assert (report.state, report.capability) == ("unguarded", "builder")
