"""Live conversations with the real Codex, in each pinned version, on the scripted model."""

import json
import os
import signal
import sys
from pathlib import Path
from typing import Any, TypeVar

import pytest

from bridle.core import events as ev
from bridle.core.usage import Usage
from bridle.process.process_tree import marked_processes
from bridle.testing import ScriptedModel
from bridle.testing.bench import AgentBench
from bridle.turns.recorder import Recorder
from bridle.turns.wire import CompactionControl, ModelSwitch, Outgoing, Question
from tests.conftest import wait_until
from tests.runtimes.codex.captures import types
from tests.runtimes.codex.real import VERSIONS, RealCodex, model_of
from tests.runtimes.products import ONE_PNG
from tests.support.conversation import AttachedConversation
from tests.support.live import DEADLINE, last_end, say

pytestmark = pytest.mark.real_cli

Event = TypeVar("Event", bound=ev.Event)
ONE = Usage(input_tokens=300, output_tokens=40, cache_read_tokens=70, reasoning_tokens=7)


@pytest.fixture(params=VERSIONS)
def codex(request: pytest.FixtureRequest, bench: AgentBench) -> RealCodex:
    return RealCodex(bench, request.param)


def turn(**fields: Any) -> dict[str, Any]:
    return {"usage": {name: getattr(ONE, name) for name in Usage.__struct_fields__}, **fields}


def body(model: ScriptedModel, number: int = -1) -> str:
    return json.dumps(model.requests[number].body, ensure_ascii=False)


def of(talk: AttachedConversation, kind: type[Event]) -> list[Event]:
    return [each for each in talk.events if isinstance(each, kind)]


def until_told(talk: AttachedConversation, kind: type[ev.Event], count: int = 1) -> None:
    talk.wait(lambda: len(of(talk, kind)) >= count, DEADLINE)


def joined(events: list[ev.Event]) -> list[str]:
    """The kinds of events of the first turn, deltas in a row as one."""
    kinds: list[str] = []
    left_out = ev.StateChange | ev.ToolExecutionUpdate
    for kind in types([each for each in events if not isinstance(each, left_out)]):
        if not (kind.endswith("_delta") and kinds[-1:] == [kind]):
            kinds.append(kind)
    return kinds[: kinds.index("agent_end") + 1]


def test_a_conversation(codex: RealCodex) -> None:
    image = codex.root / "dot.png"
    image.write_bytes(ONE_PNG)
    huge = "é" * 500_000 + " end"
    first = [
        turn(
            thinking="Hm.", text="I write.", shell="echo made > made.txt; cat made.txt; sleep 0.3"
        ),
        turn(text="Done it all.", chunks=3),
    ]
    script = [
        *first,
        turn(text="I see.", fault={"status": 401, "times": 2}),
        turn(text="Much to read. ORCHESTRA_COMPLETE"),
    ]
    options: dict[str, Any] = {
        "append_system_prompt": "Be brief.",
        "provider_options": {"max_retries": 1},
    }
    with model_of(script) as model:
        with codex.talk(model, system_prompt="You are a test.", **options) as talk:
            assert talk.recorder.native_session_id
            began = say(talk, "First.")
            assert (began.text, began.usage) == ("Done it all.", ONE + ONE)
            assert (codex.work / "made.txt").read_text() == "made\n"
            sent = body(model, 0)
            assert "You are a test." in sent
            assert "Be brief." in sent

            failed = say(talk, "Second.")
            assert failed.error is not None
            assert (failed.status, failed.error.kind) == ("failed", "not_authenticated")
            assert failed.usage == Usage()
            assert of(talk, ev.Retry)

            assert isinstance(talk.wire, ModelSwitch)
            talk.wire.set_model("gpt-5.4")
            seen = say(talk, "Look.", images=(str(image),))
            assert (seen.status, seen.usage) == ("completed", ONE)
            assert model.requests[-1].body["model"] == talk.recorder.model == "gpt-5.4"
            assert "data:image/png;base64" in body(model)
            assert "First." in body(model)

            read = say(talk, huge)
            assert (read.text, read.marker_detected) == (script[-1]["text"], True)
            assert model.requests[-1].body["model"] == "gpt-5.4"
            assert huge in body(model)
            assert talk.recorder.usage == ONE + ONE + ONE + ONE
            talk.leave()
            talk.wait(lambda: talk.recorder.state == "stopped", DEADLINE)
        assert talk.process.exit is not None
        assert talk.process.exit.code == 0
    with model_of(first) as model:
        codex.run(model)
    ended = of(talk, ev.ToolExecutionEnd)[0]
    assert (ended.result, ended.synthetic) == ({"output": "made\n", "exit_code": 0}, False)
    both = [joined(talk.events), joined(codex.events)]
    if codex.version == "0.120.0":
        # It tells the end of a quick command late, which is told all the same.
        for kinds in both:
            kinds.remove("tool_execution_end")
    assert both[0] == both[1]
    assert list(codex.config_home.iterdir()) == []


def test_steering(codex: RealCodex) -> None:
    go = codex.work / "go"
    wait = "echo begun; while [ ! -e go ]; do sleep 0.05; done; echo gone"
    script = [turn(text="Waiting.", shell=wait), turn(text="Both read.")]
    script += [turn(text=f"Answer {n}.") for n in range(20)]
    with model_of(script) as model, codex.talk(model, sandbox="off") as talk:
        talk.prompt(Outgoing(id="p", text="Begin."))
        until_told(talk, ev.ToolExecutionStart)
        talk.steer(Outgoing(id="one", text="Mind the gap."))
        talk.steer(Outgoing(id="two", text="And the step."))
        go.touch()
        talk.wait_ready(DEADLINE)
        given = {key: (each.taken, each.turn) for key, each in talk.deliveries.items()}
        assert given == {"p": (True, 1), "one": (True, 1), "two": (True, 1)}
        assert "Mind the gap." not in body(model, 0)
        assert body(model, 1).count("Mind the gap.") == body(model, 1).count("And the step.") == 1
        assert last_end(talk.events).text == "Both read."

        # Before Codex has said that the turn began.
        talk.prompt(Outgoing(id="q", text="Once more."))
        talk.steer(Outgoing(id="early", text="Before all else."))
        talk.wait_ready(DEADLINE)
        assert talk.deliveries["early"].taken
        assert body(model).count("Before all else.") == 1

        # At the instant the turn ends: read once, or refused and not read at all.
        for number in range(5):
            talk.prompt(Outgoing(id=f"p{number}", text="Go on."))
            until_told(talk, ev.MessageEnd, len(of(talk, ev.MessageEnd)) + 1)
            if talk.recorder.turn_open:
                talk.steer(Outgoing(id=f"s{number}", text=f"steer number {number}."))
            talk.wait(lambda: talk.recorder.is_ready, DEADLINE)
        steered = [f"s{n}" for n in range(5)]
        sent = [key for key in steered if key in talk.deliveries]
        say(talk, "The last.")
        for key in sent:
            assert body(model).count(f"steer number {key[1:]}.") == talk.deliveries[key].taken
        assert sent


def test_aborting(codex: RealCodex) -> None:
    script = [
        turn(text="word " * 400, chunk_size=5, fault={"slow": 0.1}),
        turn(text="Waiting.", shell="sleep 61 & sleep 60; echo woke"),
        turn(text="Quick."),
        turn(text="After it all."),
    ]
    with model_of(script) as model, codex.talk(model, sandbox="off") as talk:
        talk.abort()
        assert talk.recorder.is_ready
        talk.prompt(Outgoing(id="text", text="Write."))
        until_told(talk, ev.MessageUpdate, 3)
        talk.abort("enough of it")
        talk.wait_ready(DEADLINE)
        assert last_end(talk.events).status == "aborted"

        talk.prompt(Outgoing(id="tool", text="Wait."))
        until_told(talk, ev.ToolExecutionStart)
        talk.steer(Outgoing(id="unread", text="Never read."))
        talk.abort()
        talk.wait_ready(DEADLINE)
        assert last_end(talk.events).status == "aborted"
        assert not talk.deliveries["unread"].taken
        only = [talk.process.pid]
        wait_until(lambda: marked_processes(talk.recorder.session_id) == only)

        # In the instant that the turn ends by itself; the next one is not hit.
        talk.prompt(Outgoing(id="quick", text="Quickly."))
        until_told(talk, ev.MessageEnd, len(of(talk, ev.MessageEnd)) + 1)
        talk.abort()
        talk.wait_ready(DEADLINE)
        assert say(talk, "And now?").text == "After it all."
        assert "Never read." not in body(model)
        assert "enough of it" in str(of(talk, ev.AgentEnd)[0].error)


def asked_of(talk: AttachedConversation) -> list[str]:
    return [each.tool_name for each in of(talk, ev.PermissionRequest)]


def test_permissions(codex: RealCodex) -> None:
    def decide(question: Question) -> tuple[bool, str, str]:
        return "no.txt" not in json.dumps(question.args), "a test", "as it likes"

    tool = "tell" if codex.version == "0.166.0" else "mcp__toy__tell"
    server = {"command": sys.executable, "args": [str(Path(__file__).with_name("toy_mcp.py"))]}
    servers = json.dumps({"mcpServers": {"toy": {**server, "env": {"TOY_ASKS": "1"}}}})
    script = [
        turn(shell="echo yes > yes.txt"),
        turn(shell="echo no > no.txt"),
        turn(write_file={"path": "patched.txt", "content": "patched\n"}),
        turn(tool_calls=[{"name": tool, "args": {}, "unchecked": True}]),
        turn(text="All tried."),
    ]
    # The newer line offers such a tool to the models of its catalogue only on a search.
    given: dict[str, Any] = {"permission_mode": "ask", "mcp_config": servers, "model": "scripted"}
    with model_of(script) as model, codex.talk(model, decide, **given) as talk:
        end = say(talk, "Try.")
        results = [each.text for each in model.tool_results()]
    assert end.text == "All tried."
    assert asked_of(talk) == [
        *("command_execution", "command_execution", "file_change", "mcp_tool_call")
    ]
    decisions = [(each.decision, each.by) for each in of(talk, ev.PermissionDecision)]
    assert decisions == [("allow", "a test"), ("deny", "a test"), *[("allow", "a test")] * 2]
    assert (codex.work / "yes.txt").exists()
    assert (codex.work / "patched.txt").exists()
    assert not (codex.work / "no.txt").exists()
    assert "rejected by user" in results[1]
    # The server's own question is for nobody here: it is answered all the same.
    assert "heard" in results[3]
    strange = [each.raw["method"] for each in of(talk, ev.Unknown)]
    assert "mcpServer/elicitation/request" in strange


def test_a_named_sandbox_holds_and_nobody_is_asked(codex: RealCodex) -> None:
    tree = codex.root / "tree"
    codex.git("worktree", "add", "-q", str(tree), "-b", "side")
    commit = "sleep 0.3; echo one > one.txt && git add . && git commit -qm change; echo x > ../x"
    with model_of([turn(shell=commit), turn(text="ok")]) as model:
        given: dict[str, Any] = {"permission_mode": "ask", "sandbox": "worktree", "cwd": str(tree)}
        with codex.talk(model, **given) as talk:
            assert say(talk, "Commit.").status == "completed"
        assert "Read-only file system" in model.tool_results()[0].text
    assert asked_of(talk) == []
    assert codex.git("log", "--format=%s", "-1", cwd=tree) == "change\n"


def kill(talk: AttachedConversation) -> None:
    assert talk.process.pid is not None
    os.kill(talk.process.pid, signal.SIGKILL)


def test_resuming_after_a_close_and_after_a_kill(codex: RealCodex) -> None:
    script = [
        turn(text="One."),
        turn(text="Waiting.", shell="sleep 60"),
        turn(text="Two."),
        turn(text="Three."),
    ]
    account = codex.root / "account"
    account.mkdir(mode=0o700)
    given: dict[str, Any] = {"account_dir": str(account), "sandbox": "off"}
    with model_of(script) as model:
        with codex.talk(model, **given) as talk:
            assert say(talk, "First.").text == "One."
            native = talk.recorder.native_session_id
        with codex.talk(model, resume=native, **given) as talk:
            assert talk.recorder.native_session_id == native
            talk.prompt(Outgoing(id="killed", text="Second."))
            until_told(talk, ev.ToolExecutionStart)
            kill(talk)
            talk.wait(lambda: talk.recorder.state == "failed", DEADLINE)
            end = last_end(talk.events)
            assert end.error is not None
            assert (end.error.kind, end.error.exit_status) == ("crashed", -9)
            assert talk.deliveries["killed"].taken
        with codex.talk(model, resume=native, **given) as talk:
            end = say(talk, "Third.")
            assert (end.text, end.usage) == ("Two.", ONE)
            assert talk.recorder.usage == ONE
            for text in ("First.", "One.", "Second.", "Waiting."):
                assert text in body(model)
            assert isinstance(talk.wire, CompactionControl)
            talk.wire.compact()
            talk.pump(0.0)
            talk.wait_ready(DEADLINE)
            assert of(talk, ev.AutoCompactionEnd)[0].reason == "completed"
            assert len(of(talk, ev.AgentStart)) == 1
            assert say(talk, "Fourth.").text == "Three."


def test_a_thread_is_forked_and_stays_as_it_was(codex: RealCodex) -> None:
    script = [turn(text=f"Answer {number}.") for number in range(1, 6)]
    account = codex.root / "account"
    account.mkdir(mode=0o700)
    given: dict[str, Any] = {"account_dir": str(account), "sandbox": "off"}
    fork: dict[str, Any] = {"provider_options": {"fork": True}, **given}
    with model_of(script) as model:
        with codex.talk(model, **given) as talk:
            say(talk, "First.")
            source = talk.recorder.native_session_id
        [record] = account.glob(f"sessions/*/*/*/*{source}.jsonl")
        written = record.read_bytes()
        with codex.talk(model, resume=source, **fork) as copy:
            native = copy.recorder.native_session_id
            assert native not in (None, source)
            end = say(copy, "In the copy.")
            assert (end.text, end.usage, copy.recorder.usage) == ("Answer 2.", ONE, ONE)
            assert "First." in body(model)
            assert "Answer 1." in body(model)
        assert record.read_bytes() == written
        with codex.talk(model, resume=source, **given) as talk:
            assert talk.recorder.native_session_id == source
            assert say(talk, "In the source.").usage == ONE
            assert "In the copy." not in body(model)
        # A copy of a copy that was never used, and that copy itself.
        with codex.talk(model, resume=native, **fork) as unused:
            other = unused.recorder.native_session_id
        with codex.talk(model, resume=other, **fork) as last:
            assert last.recorder.native_session_id not in (None, source, native, other)
            assert say(last, "Far away.").usage == ONE
            assert "In the copy." in body(model)
        with codex.talk(model, resume=native, **given) as again:
            assert again.recorder.native_session_id == native
            assert say(again, "Again.").usage == ONE
            assert "In the copy." in body(model)
            assert "In the source." not in body(model)
        # Each call once, though the older line copies all of a thread into the file of its copy.
        files = account.glob("sessions/*/*/*/*.jsonl")
        found = [codex.runtime.parse_transcript(str(path)) for path in files]
    assert sum(each.input_tokens for each in found if each) == 5 * ONE.input_tokens


@pytest.mark.parametrize("fork", [False, True])
def test_an_unknown_thread_is_refused(codex: RealCodex, fork: bool) -> None:
    with model_of([turn(text="never")]) as model:
        unknown: dict[str, Any] = {"resume": "01a1e0e5-ff82-7ba2-b209-9af3673d39a1"}
        unknown["provider_options"] = {"fork": fork}
        plan = codex.runtime.plan_live(codex.options(model, **unknown), codex.env, "s1")
        assert plan.live is not None
        options = codex.options(model)
        recorder = Recorder(runtime="codex", session_id="s1", options=options, drive="rpc")
        wire = codex.runtime.live_wire(plan.live, recorder)
        talk = AttachedConversation(plan.spec, wire, recorder, private_dirs=plan.private_dirs)
        try:
            talk.start()
            talk.wait(lambda: recorder.state == "failed", DEADLINE)
        finally:
            talk.close()
        assert model.requests == []
    assert recorder.stop_requested is not None
    assert recorder.stop_requested.kind == "resume_refused"
