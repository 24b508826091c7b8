"""How agents are made to ask over the protocol, and what becomes of their questions."""

import os
import time
from pathlib import Path
from typing import Any

import msgspec
import pytest

from bridle.core import events as ev
from bridle.core.errors import ConfigError, GuardRefused, exit_code_of
from bridle.core.options import Provider, RunOptions
from bridle.guard.hooks.guard_folder import append_note, read_notes
from bridle.guard.hooks.hook_judge import HookJudge
from bridle.guard.hooks.host import HookHost, HostedGuard, WireJudgement
from bridle.guard.policy import Policy
from bridle.runtimes.acp import quirks
from bridle.runtimes.acp.hooks import ASKING
from bridle.runtimes.acp.plan import AcpPlan
from bridle.runtimes.acp.protocol import Update
from bridle.runtimes.acp.session import wire_call
from bridle.runtimes.acp.updates import Tool
from bridle.runtimes.contract import as_guarded, is_guardable
from bridle.runtimes.guard_plugin import mechanism_of
from bridle.runtimes.opencode import hooks as opencode
from bridle.runtimes.registry import create_acp_adapter, get_adapter
from bridle.turns.guard_contract import (
    UNSEEN,
    Guard,
    GuardFacts,
    HookNote,
    HookShape,
    Verdict,
    WireCall,
)
from tests.conftest import wait_until
from tests.runtimes.acp.captures import Message, RunBench
from tests.runtimes.acp.test_plans import READY, PlanBench
from tests.runtimes.acp.wire_bench import WireBench

YES, NO = {"optionId": "y", "kind": "allow_once"}, {"optionId": "n", "kind": "reject_once"}


class Hook:
    """A `GuardHook` that starts nothing."""

    stdio, lasting = True, False

    def __init__(self, folder: Path) -> None:
        self.folder = str(folder)

    def command(self, shape: HookShape) -> str:
        return "ask-the-judge"

    def address(self) -> Any:
        raise AssertionError("no agent asks there")


# -- plans ----------------------------------------------------------------------------------------


@pytest.fixture
def plans(tmp_path: Path) -> PlanBench:
    return PlanBench(tmp_path)


def guarded(plans: PlanBench, name: str, **options: Any) -> AcpPlan:
    folder = plans.folder / "guard"
    folder.mkdir()
    plan = READY[name]().guard_plan(plans.plan(name, **options), Hook(folder))
    assert isinstance(plan, AcpPlan)
    assert plan.guard is not None
    return plan


def test_every_ready_made_agent_is_guarded() -> None:
    assert all(is_guardable(get_adapter(name)) for name in READY)


def test_copilot_gets_a_plugin(plans: PlanBench) -> None:
    plan = guarded(plans, "copilot-acp")
    place = plan.spec.argv[plan.spec.argv.index("--plugin-dir") + 1]
    hooks = msgspec.json.decode((Path(place) / "hooks/hooks.json").read_bytes())["hooks"]
    assert set(hooks) == {"preToolUse", "SessionStart", "UserPromptSubmit"}
    assert hooks["preToolUse"][0]["bash"] == "ask-the-judge"


def test_claude_gets_settings_in_its_session(plans: PlanBench) -> None:
    plan = guarded(plans, "claude-acp", append_system_prompt="Be brief.")
    path = plan.session.meta["claudeCode"]["options"]["settings"]
    hooks = msgspec.json.decode(Path(path).read_bytes())["hooks"]
    assert hooks["PreToolUse"][0]["hooks"][0]["command"] == "ask-the-judge"
    assert plan.session.meta["systemPrompt"] == {"append": "Be brief."}


def test_the_guard_leaves_the_isolation_of_a_provider(plans: PlanBench) -> None:
    own = plans.folder / ".claude/settings.json"
    own.parent.mkdir()
    own.write_text('{"env": {"ANTHROPIC_BASE_URL": "mine"}, "apiKeyHelper": "echo mine"}')
    provider = Provider(base_url="https://gateway.example", auth_token_env="GATEWAY_KEY")
    options = RunOptions(prompt="", cwd=str(plans.folder), provider=provider)
    env = {"HOME": str(plans.folder), "PATH": str(plans.bin), "GATEWAY_KEY": "k"}
    runtime = READY["claude-acp"]()
    runtime.use_binary(str(plans.bin / runtime.binary))
    wanted = {"env": {"ANTHROPIC_BASE_URL": "https://gateway.example"}, "apiKeyHelper": ""}
    plan = runtime.plan_live(options, env, "sid")
    assert plan.live is not None
    given = plan.live.own["session"]["meta"]["claudeCode"]["options"]["settings"]
    assert msgspec.json.decode(given) == wanted
    guarded_plan = runtime.guard_plan(plan, Hook(plans.folder))
    assert guarded_plan.live is not None
    path = guarded_plan.live.own["session"]["meta"]["claudeCode"]["options"]["settings"]
    whole = msgspec.json.decode(Path(path).read_bytes())
    assert {name: whole[name] for name in wanted} == wanted
    assert "PreToolUse" in whole["hooks"]


def test_a_conversation_is_opened_as_its_guard_wants(plans: PlanBench) -> None:
    runtime = READY["claude-acp"]()
    runtime.use_binary(str(plans.bin / runtime.binary))
    options = RunOptions(prompt="", cwd=str(plans.folder))
    env = {"HOME": str(plans.folder), "PATH": str(plans.bin)}
    plan = runtime.guard_plan(runtime.plan_live(options, env, "sid"), Hook(plans.folder))
    assert plan.live is not None
    kept = plan.live.own["session"]["meta"]["claudeCode"]["options"]["settings"]
    assert os.path.dirname(kept) == str(plans.folder)


def test_codex_gets_hooks_and_no_shell_that_is_typed_into(plans: PlanBench) -> None:
    argv = guarded(plans, "codex-acp").spec.argv
    assert "features.unified_exec=false" in argv
    assert any(word.startswith("hooks=") and "PreToolUse" in word for word in argv)
    plan = plans.plan("codex-acp", raw_args=("-c", "hooks={}"))
    with pytest.raises(GuardRefused, match="would replace the guard's"):
        READY["codex-acp"]().guard_plan(plan, Hook(plans.folder))


def test_gemini_is_told_to_ask_about_everything(plans: PlanBench) -> None:
    plan = guarded(plans, "gemini-acp")
    path = plan.spec.argv[plan.spec.argv.index("--admin-policy") + 1]
    assert 'decision = "ask_user"' in Path(path).read_text()
    assert plan.session.mode == "default"


def test_opencode_gets_a_plugin_and_can_do_nothing_without(plans: PlanBench) -> None:
    plan = plans.plan("opencode-acp", permission_mode="bypass")
    hook = Hook(plans.folder)
    hook.lasting = True
    held = READY["opencode-acp"]().guard_plan(plan, hook)
    config = msgspec.json.decode(held.spec.env["OPENCODE_CONFIG_CONTENT"])
    assert config["permission"] == {opencode.CLOSED: "deny"}
    assert config["plugin"] == [f"file://{plans.folder}/bridle-guard.js"]
    assert held.guard == mechanism_of(opencode.PLUGIN, hook)


@pytest.mark.parametrize(("name", "mode"), [("gemini-acp", "yolo"), ("cline-acp", "yolo")])
def test_a_mode_that_does_not_ask_is_refused(plans: PlanBench, name: str, mode: str) -> None:
    with pytest.raises(GuardRefused, match="does not ask"):
        guarded(plans, name, provider_options={"mode": mode})


def test_an_agent_that_is_not_known_to_ask_is_refused(plans: PlanBench) -> None:
    plan = plans.plan("cline-acp")
    with pytest.raises(GuardRefused, match="not known to ask") as refusal:
        as_guarded(create_acp_adapter(id="mine", binary="mine")).guard_plan(
            plan, Hook(plans.folder)
        )
    assert "--unguarded" in (refusal.value.hint or "")
    assert exit_code_of(refusal.value.kind) == 9
    assert not is_guardable(create_acp_adapter(id="mine", binary="mine"))
    assert is_guardable(create_acp_adapter(id="mine", binary="mine", asks=True))


def test_plain_text_has_no_questions() -> None:
    from bridle.config.schema import AdapterSection
    from bridle.runtimes.preset import PresetRuntime

    with pytest.raises(ConfigError, match="asks"):
        PresetRuntime("mine", AdapterSection(binary="mine", asks=True))


# -- what a question is about ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("row", "known", "asked", "args"),
    [
        # Gemini tells the command as a title, and where it runs beside it.
        (
            quirks.GEMINI,
            Tool(id="t", title="rm x"),
            Update(kind="execute"),
            {"command": "rm x"},
        ),
        (
            quirks.GEMINI,
            Tool(id="t", title="rm x"),
            Update(kind="execute", content=[{"type": "content", "content": {"text": "[in a/b]"}}]),
            {"command": "rm x", "dir_path": "a/b"},
        ),
        (
            quirks.GEMINI,
            Tool(id="t", title="rm x"),
            Update(kind="execute", content=[{"type": "content", "content": {"text": "Clean up"}}]),
            {UNSEEN: True},
        ),
        (
            quirks.GEMINI,
            Tool(id="t", title="Writing to a"),
            Update(
                kind="edit",
                locations=[{"path": "/w/a"}],
                content=[{"type": "diff", "path": "/w/b"}],
            ),
            {"path": ["/w/a", "/w/b"]},
        ),
        # Any other agent's title is no command.
        (quirks.PLAIN, Tool(id="t", title="rm x"), Update(kind="execute"), {UNSEEN: True}),
        (
            quirks.PLAIN,
            Tool(id="t", args={"command": "ls"}),
            Update(kind="execute", raw_input={"command": "rm x"}),
            {"command": "rm x"},
        ),
        (
            quirks.PLAIN,
            Tool(id="t", args={"path": "a"}),
            Update(kind="move", locations=[{"path": "b"}]),
            {"path": ["b", "a"]},
        ),
        # OpenCode's first words on a call are not all of them; its question has what counts.
        (
            quirks.OPENCODE,
            Tool(id="t", args={"cwd": "/elsewhere"}),
            Update(kind="execute", raw_input={"command": "rm x"}),
            {"command": "rm x"},
        ),
        (quirks.OPENCODE, Tool(id="t", args={"x": 1}), Update(kind="read"), {UNSEEN: True}),
    ],
)
def test_what_is_judged(
    row: quirks.AcpQuirks, known: Tool, asked: Update, args: dict[str, Any]
) -> None:
    assert wire_call(row, known, "name", asked, "/w").args == args


@pytest.mark.parametrize(
    ("tool", "args", "rule"),
    [
        ("execute", {"command": "git push"}, "git-push"),
        ("execute", {"command": ["/bin/bash", "-lc", "git push"]}, "git-push"),
        ("execute", {UNSEEN: True}, "bad-input"),
        ("edit", {UNSEEN: True}, "bad-input"),
        ("edit", {"path": ["a", "/outside/b"]}, "path-outside"),
        ("delete", {"path": ["/outside/b"]}, "path-outside"),
        ("move", {"path": ["a", "/outside/b"]}, "path-outside"),
        ("other", {UNSEEN: True}, "unknown-tool"),
        ("mcp_server_do", {UNSEEN: True}, "unknown-tool"),
        ("read", {UNSEEN: True}, "allowed"),
        ("search", {UNSEEN: True}, "allowed"),
        ("fetch", {UNSEEN: True}, "allowed"),
        ("think", {UNSEEN: True}, "allowed"),
        ("edit", {"path": ["a"]}, "allowed"),
        ("execute", {"command": "echo hi > a"}, "allowed"),
    ],
)
def test_the_kinds_of_the_protocol_are_judged(
    tmp_path: Path, tool: str, args: dict[str, Any], rule: str
) -> None:
    verdict = HookJudge(Policy(capability="builder", worktree=str(tmp_path))).judge(tool, args)
    assert verdict.rule == rule


# -- the questions of a run -----------------------------------------------------------------------


def judge(tool: str, args: Any, cwd: str | None) -> Verdict:
    bad = "bad" in str(args)
    return Verdict(
        decision="allow" if not bad else "block",
        rule="bad" if bad else "allowed",
        reason="no" * bad,
    )


def question(command: str, call_id: int = 70, tool: str = "t") -> bytes:
    call = {"toolCallId": tool, "kind": "execute", "rawInput": {"command": command}}
    params = {"sessionId": "s1", "toolCall": call, "options": [YES, NO]}
    message = {"jsonrpc": "2.0", "id": call_id, "method": "session/request_permission"}
    return msgspec.json.encode({**message, "params": params})


def chosen(sent: list[Message]) -> list[str]:
    outcomes = [message["result"]["outcome"] for message in sent if "result" in message]
    return [outcome.get("optionId", outcome["outcome"]) for outcome in outcomes]


def asking_desk(judging: Any = judge, **options: Any) -> RunBench:
    desk = RunBench(**{"permission_mode": "bypass", **options})
    desk.recorder.guard = Guard(judging, ASKING, capability="builder")
    desk.open()
    return desk


def test_the_guard_answers_the_agent() -> None:
    desk = asking_desk()
    assert chosen(desk.say(question("good"))) == ["y"]
    desk.update("tool_call_update", toolCallId="t", status="completed")
    assert chosen(desk.say(question("bad", 71, "u"))) == ["n"]
    desk.update("tool_call_update", toolCallId="u", status="failed")
    desk.text("Done.")
    desk.answer(2, {"stopReason": "end_turn"})
    result = desk.end()
    assert result.status == "completed", result.error
    decided = [(each.decision, each.reason) for each in desk.of(ev.PermissionDecision)]
    assert decided == [("allow", "allowed"), ("deny", "bad: no")]
    assert [(end.is_error, end.result) for end in desk.of(ev.ToolExecutionEnd)][1] == (True, "no")
    assert result.guard
    assert (result.guard.state, result.guard.allowed, result.guard.blocked) == ("live", 1, 1)


def test_what_the_guard_allows_a_person_may_still_refuse() -> None:
    desk = asking_desk(permission_mode="ask")
    assert desk.say(question("good")) == []
    assert len(desk.recorder.questions) == 1
    assert chosen(desk.say(question("bad", 71, "u"))) == ["n"]
    assert len(desk.recorder.questions) == 1, "nobody is asked what the guard has refused"


def crash(*arguments: Any) -> Any:
    raise RuntimeError("broken on purpose")


@pytest.mark.parametrize("broken", [crash, lambda *arguments: "yes, why not"])
def test_a_broken_judge_refuses(broken: Any) -> None:
    assert chosen(asking_desk(broken).say(question("good"))) == ["n"]


def test_an_agent_that_ran_a_tool_unasked_is_stopped() -> None:
    desk = asking_desk()
    desk.update(
        "tool_call", toolCallId="t", kind="execute", status="in_progress", rawInput={"a": 1}
    )
    assert desk.recorder.stop_requested is None
    desk.update("tool_call_update", toolCallId="t", status="completed")
    assert isinstance(desk.recorder.stop_requested, GuardRefused)
    assert "without the guard's permission" in desk.recorder.stop_requested.message


def test_a_tool_that_was_refused_and_ran_all_the_same_stops_the_agent() -> None:
    desk = asking_desk()
    desk.update("tool_call", toolCallId="t", kind="execute", status="pending", rawInput={"a": 1})
    assert chosen(desk.say(question("bad"))) == ["n"]
    desk.update("tool_call_update", toolCallId="t", status="completed")
    assert isinstance(desk.recorder.stop_requested, GuardRefused)


# -- the questions of a session -------------------------------------------------------------------


def session_desk() -> tuple[WireBench, Guard]:
    desk = WireBench(permission_mode="bypass")
    facts = GuardFacts(capability="builder", mechanism=ASKING, folder="/nowhere")
    desk.recorder.guard = guard = Guard.of_session(facts)
    desk.open()
    desk.prompt()
    return desk, guard


def told(desk: WireBench, guard: Guard, call: WireCall, *, allowed: bool) -> list[Message]:
    verdict = Verdict(decision="allow" if allowed else "block", rule="r")
    guard.note(HookNote(kind="verdict", tool_call_id=call.tool_call_id, verdict=verdict))
    desk.recorder.verdicts.take_notes()
    return desk.collect()


@pytest.mark.parametrize("allowed", [True, False])
def test_a_session_answers_when_the_verdict_is_told(allowed: bool) -> None:
    desk, guard = session_desk()
    assert desk.say(question("x")) == []
    (call,) = guard.take_unjudged()
    assert guard.take_unjudged() == []
    assert (call.tool_name, call.args, call.cwd) == ("execute", {"command": "x"}, "/there")
    assert chosen(told(desk, guard, call, allowed=allowed)) == ["y" if allowed else "n"]
    assert told(desk, guard, call, allowed=True) == [], "it is answered once"


def test_an_aborted_turn_takes_its_questions_along() -> None:
    desk, guard = session_desk()
    desk.say(question("x"))
    (call,) = guard.take_unjudged()
    assert chosen(desk.abort()) == ["cancelled"]
    assert told(desk, guard, call, allowed=True) == []


# -- verdicts that are given apart ----------------------------------------------------------------


class Slow(HostedGuard):
    """A guard whose answer is the test's."""

    def __init__(self, folder: Path, answer: Any) -> None:
        super().__init__(HookHost(), str(folder))
        self._answer = answer

    def report(self, note: HookNote) -> None:
        append_note(self.files.notes, note, with_args=True)

    def judged(self, payload: bytes) -> HookNote:
        made: HookNote = self._answer(payload)
        return made


def reported(judge: Slow) -> list[Verdict]:
    notes = Path(judge.files.notes)
    notes.touch()
    call = WireCall(tool_call_id="t", tool_name="execute", args={"command": "ls"})
    WireJudgement(judge, call).start()
    wait_until(lambda: notes.stat().st_size > 0)
    found = [note for note, _ in read_notes(str(notes), 0)]
    assert [note.tool_call_id for note in found] == ["t"]
    return [note.verdict for note in found if note.verdict is not None]


def test_a_verdict_is_written_down(tmp_path: Path) -> None:
    desk = HookJudge(Policy(capability="builder", worktree=str(tmp_path)))
    (verdict,) = reported(Slow(tmp_path, lambda payload: desk.answer(payload, HookShape())))
    assert verdict.allowed


@pytest.mark.parametrize(
    "answer", [crash, lambda payload: "yes", lambda payload: HookNote(kind="event")]
)
def test_a_judge_that_gives_none_has_refused(tmp_path: Path, answer: Any) -> None:
    (verdict,) = reported(Slow(tmp_path, answer))
    assert (verdict.allowed, verdict.rule) == (False, "internal-error")


def test_a_judge_that_comes_too_late_has_refused(tmp_path: Path) -> None:
    def late(payload: bytes) -> HookNote:
        time.sleep(2)
        return HookNote(kind="verdict", verdict=Verdict(decision="allow", rule="allowed"))

    judge = Slow(tmp_path, late)
    judge.patience = 1
    (verdict,) = reported(judge)
    assert not verdict.allowed
