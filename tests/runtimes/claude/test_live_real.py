"""Live conversations with Claude Code itself, in every pinned version."""

import random
import time
from typing import Any

import pytest

from bridle.core import events as ev
from bridle.core.errors import ResumeRefused
from bridle.core.ids import new_session_id
from bridle.runtimes.claude import ClaudeRuntime
from bridle.testing import ScriptedModel
from bridle.testing.bench import AgentBench
from bridle.turns.recorder import Recorder
from bridle.turns.wire import ModelSwitch, Question
from tests.runtimes.claude.captures import trace_word
from tests.runtimes.claude.real_conversation import (
    compact,
    kill,
    leave,
    messages_of,
    of,
    only_the_agent,
    options_for,
    outgoing,
    statuses,
    talking,
    wait_file,
    wait_for,
    wait_ready,
    wait_until,
)
from tests.support.conversation import AttachedConversation
from tests.support.live import last_end, say
from tests.support.real_cli import pinned_as, versions

pytestmark = pytest.mark.real_cli

DOT = bytes.fromhex(
    "89504e470d0a1a0a0000000d4948445200000001000000010802000000907753de0000000c49444154"
    "789c63f8cfc000000301010018dd8db00000000049454e44ae426082"
)
SLOW = {"text": "w " * 40, "chunks": 40, "fault": {"slow": 0.25}}


@pytest.fixture(params=versions("claude"))
def version(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def turn_of(talk: AttachedConversation, number: int) -> list[str]:
    """The words of one turn, from its begin to its end."""
    words: list[str] = []
    inside = False
    for event in talk.events:
        if isinstance(event, ev.AgentStart):
            inside = event.turn == number
        if inside:
            words.append(trace_word(event))
        if isinstance(event, ev.AgentEnd):
            inside = False
    return words


def test_a_conversation_of_many_turns(version: str, bench: AgentBench) -> None:
    """Context is kept, tools run, an image and a megabyte arrive, the model changes, counts are
    right, and it leaves when asked."""
    image = bench.work / "dot.png"
    image.write_bytes(DOT)
    large = "größer " * 150_000
    script = [
        {
            "text": "I write.",
            "chunks": 2,
            "shell": "printf made > made.txt",
            "usage": {"input_tokens": 300, "output_tokens": 40, "cache_read_tokens": 70},
        },
        {"text": "Done. ORCHESTRA_COMPLETE"},
        {"text": "I see a dot."},
        {"text": "Long."},
        {"text": "Changed."},
    ]
    with ScriptedModel(script) as model:
        with talking(version, bench, model) as talk:
            first = say(talk, "write it")
            assert (bench.work / "made.txt").read_text() == "made"
            assert say(talk, "look", images=(str(image),)).text == "I see a dot."
            assert '"type":"image"' in messages_of(model)
            assert "write it" in messages_of(model)
            assert say(talk, large).text == "Long."
            assert large in messages_of(model)
            assert isinstance(talk.wire, ModelSwitch)
            talk.wire.set_model("claude-haiku-4-5")
            last = say(talk, "again")
            assert model.requests[-1].body["model"] == "claude-haiku-4-5"
            leave(talk)
        model.assert_finished()
    assert turn_of(talk, 1) == [
        *("agent_start", "message_start", "text_start", "text_delta", "text_delta", "text_end"),
        *("message_end", "tool_execution_start", "tool_execution_end"),
        *("message_start", "text_start", "text_delta", "text_end", "message_end"),
        *("usage", "agent_end"),
    ]
    assert [trace_word(event) for event in talk.events[:4]] == [
        *("session_start", "state", "state", "agent_start")
    ]
    start = of(talk, ev.SessionStart)[0]
    assert (start.native_session_id, start.drive) == (talk.recorder.session_id, "rpc")
    assert start.runtime_version == version
    assert first.usage is not None
    assert last.usage is not None
    assert first.marker_detected
    assert not last.marker_detected
    assert (first.usage.input_tokens, first.usage.output_tokens) == (400, 60)
    assert first.usage.cache_read_tokens == 70
    assert (last.usage.input_tokens, last.usage.output_tokens) == (100, 20)
    assert last.cost_usd == pytest.approx(0.0002)
    totals = of(talk, ev.UsageTotals)[-1]
    assert (totals.usage.input_tokens, totals.usage.output_tokens) == (700, 120)
    assert totals.cost_usd == pytest.approx(sum(end.cost_usd for end in of(talk, ev.AgentEnd)))
    assert (talk.recorder.state, of(talk, ev.SessionEnd)[0].exit_code) == ("stopped", 0)


def test_steering(version: str, bench: AgentBench) -> None:
    """In a running tool it reaches the next request of the same turn; while the last text is
    written it begins a turn of its own; two such are one turn."""
    script = [
        {"text": "working", "shell": "touch started; until test -e go; do sleep 0.05; done"},
        {"text": "steered"},
        SLOW | {"text": "w " * 8, "chunks": 8},
        {"text": "late"},
    ]
    with ScriptedModel(script) as model, talking(version, bench, model) as talk:
        talk.prompt(outgoing("begin"))
        wait_file(talk, bench.work / "started")
        steer = outgoing("AND ALSO THIS")
        talk.steer(steer)
        (bench.work / "go").touch()
        wait_ready(talk)
        assert (talk.deliveries[steer.id].taken, talk.deliveries[steer.id].turn) == (True, 1)
        assert last_end(talk.events).text == "steered"
        assert len(model.requests) == 2 + (version == "2.1.197")  # and its `HEAD`
        assert "AND ALSO THIS" in messages_of(model)

        prompt, late = outgoing("go on"), [outgoing("LATE ONE"), outgoing("LATE TWO")]
        talk.prompt(prompt)
        wait_for(talk, ev.MessageStart, 3)
        for message in late:
            talk.steer(message)
        wait_ready(talk)
        assert [talk.deliveries[each.id].turn for each in (prompt, *late)] == [2, 3, 3]
        assert statuses(talk) == ["completed"] * 3
        assert [end.text for end in of(talk, ev.AgentEnd)][1:] == ["w " * 8, "late"]
        shown = messages_of(model)
        assert [shown.count(each.text) for each in late] == [1, 1]
        model.assert_finished()


def test_aborting(version: str, bench: AgentBench) -> None:
    """In a text, in a tool, at once, and when idle; the conversation goes on each time."""
    script = [
        SLOW,
        {"text": "next"},
        {"text": "working", "shell": "touch started; tail -f /dev/null & tail -f /dev/null"},
        {"text": "still there"},
        {"text": "at once"},
        {"text": "end"},
    ]
    with ScriptedModel(script) as model, talking(version, bench, model) as talk:
        talk.prompt(outgoing("write"))
        wait_for(talk, ev.MessageUpdate, 3)
        talk.abort("enough")
        wait_ready(talk)
        end = last_end(talk.events)
        assert (end.status, end.error and end.error.message) == ("aborted", "enough")
        talk.abort()
        assert say(talk, "go on").status == "completed"

        talk.prompt(outgoing("run"))
        wait_file(talk, bench.work / "started")
        talk.abort()
        wait_ready(talk)
        assert last_end(talk.events).status == "aborted"
        wait_until(talk, lambda: only_the_agent(talk))
        assert of(talk, ev.ToolExecutionEnd)[-1].is_error

        talk.prompt(outgoing("never mind"))
        talk.abort()
        wait_ready(talk)
        assert last_end(talk.events).status == "aborted"
        assert say(talk, "last").status == "completed"
        assert all(delivery.taken for delivery in talk.deliveries.values())
        assert len(statuses(talk)) == 5


def test_failures_and_permissions(version: str, bench: AgentBench) -> None:
    """A failed turn is typed and the next is good; what is asked is allowed or refused."""
    script = [
        {"fault": {"kind": "authentication", "times": 1}},
        {"text": "good"},
        {"text": "may I", "shell": "printf yes > allowed.txt"},
        {"text": "thanks"},
        {"text": "may I", "shell": "printf no > refused.txt"},
        {"text": "a pity"},
    ]

    def decide(question: Question) -> tuple[bool, str, str]:
        return "allowed" in question.args["command"], "me", "not this one"

    with (
        ScriptedModel(script) as model,
        talking(version, bench, model, permission=decide, permission_mode="ask") as talk,
    ):
        failed = say(talk, "one")
        assert (failed.status, failed.error and failed.error.kind) == (
            "failed",
            "not_authenticated",
        )
        assert say(talk, "two").status == "completed"
        assert say(talk, "three").text == "thanks"
        assert (bench.work / "allowed.txt").exists()
        assert say(talk, "four").text == "a pity"
        assert not (bench.work / "refused.txt").exists()
        assert "not this one" in messages_of(model)
    decisions = of(talk, ev.PermissionDecision)
    assert [(each.decision, each.by) for each in decisions] == [("allow", "me"), ("deny", "me")]
    asked = [change.new for change in of(talk, ev.StateChange)].count("waiting_permission")
    assert asked == len(of(talk, ev.PermissionRequest)) == 2


def test_an_abort_takes_back_an_open_question(version: str, bench: AgentBench) -> None:
    script = [{"text": "may I", "shell": "touch made.txt"}, {"text": "on"}]
    with (
        ScriptedModel(script) as model,
        talking(version, bench, model, permission_mode="ask") as talk,
    ):
        open_questions: list[Question] = []
        setattr(talk, "_answer", open_questions.append)  # noqa: B010 (mypy forbids the other)
        talk.prompt(outgoing("one"))
        wait_for(talk, ev.PermissionRequest)
        talk.abort()
        wait_ready(talk)
        # An answer that comes too late changes nothing.
        AttachedConversation._answer(talk, open_questions[0])
        assert talk.recorder.is_ready
        assert say(talk, "two").status == "completed"
    assert statuses(talk) == ["aborted", "completed"]
    assert [each.by for each in of(talk, ev.PermissionDecision)] == ["claude"]
    assert not (bench.work / "made.txt").exists()


def test_background_work_wakes_the_agent(version: str, bench: AgentBench) -> None:
    """A turn of its own; a prompt sent meanwhile is answered once; an abort ends what the turn
    left running."""

    def background(command: str) -> dict[str, Any]:
        args = {"command": command, "description": "wait", "run_in_background": True}
        return {"text": "starting", "tool_calls": [{"name": "Bash", "args": args}]}

    script = [
        background("until test -e go; do sleep 0.05; done"),
        {"text": "started"},
        {"text": "noticed " * 6, "chunks": 6, "fault": {"slow": 0.2}},
        {"text": "answered"},
        background("touch running; tail -f /dev/null"),
        SLOW,
        {"text": "last"},
    ]
    with ScriptedModel(script) as model, talking(version, bench, model) as talk:
        assert say(talk, "one").text == "started"
        assert talk.recorder.is_ready
        (bench.work / "go").touch()
        talk.wait(lambda: talk.recorder.turn_open, 60.0)
        wait_for(talk, ev.MessageStart, 3)
        steer = outgoing("MEANWHILE")
        talk.steer(steer)
        wait_ready(talk)
        assert [end.text for end in of(talk, ev.AgentEnd)] == [
            *("started", "noticed " * 6, "answered")
        ]
        assert talk.deliveries[steer.id].turn == 3
        assert messages_of(model).count("MEANWHILE") == 1

        talk.prompt(outgoing("two"))
        wait_file(talk, bench.work / "running")
        wait_for(talk, ev.MessageStart, 6)
        talk.abort()
        wait_ready(talk)
        wait_until(talk, lambda: only_the_agent(talk))
        assert say(talk, "three").text == "last"
        assert statuses(talk) == ["completed"] * 3 + ["aborted", "completed"]


def test_compaction_on_demand(version: str, bench: AgentBench) -> None:
    script = [{"text": "one"}, {"text": "two"}, {"text": "three"}]
    with ScriptedModel(script) as model, talking(version, bench, model) as talk:
        compact(talk)
        say(talk, "REMEMBER-1")
        say(talk, "REMEMBER-2")
        compact(talk)
        assert say(talk, "and now").text == "three"
        assert "being continued from a previous conversation" in messages_of(model)
        model.assert_finished()
    ends = [end.reason for end in of(talk, ev.AutoCompactionEnd)]
    assert ends == ["failed: No messages to compact", "success"]
    assert len(statuses(talk)) == 3
    # What the compaction used is the session's, and no turn's.
    turns = sum(end.usage.output_tokens for end in of(talk, ev.AgentEnd))
    assert turns == 60
    assert of(talk, ev.UsageTotals)[-1].usage.output_tokens > turns


def test_a_conversation_is_taken_up_again(version: str, bench: AgentBench) -> None:
    """After it was closed and after the agent was killed; the agent takes no message twice."""
    script = [
        {"text": "first"},
        {"text": "second"},
        {"text": "running", "shell": "touch started; tail -f /dev/null"},
        {"text": "third"},
    ]
    with ScriptedModel(script) as model:
        with talking(version, bench, model) as talk:
            say(talk, "REMEMBER-1")
            native = talk.recorder.native_session_id
            assert native is not None
            leave(talk)
        assert talk.recorder.state == "stopped"

        known = outgoing("REMEMBER-2")
        with talking(version, bench, model, resume=native) as talk:
            talk.prompt(known)
            wait_ready(talk)
            assert "REMEMBER-1" in messages_of(model)
            # Only this process is counted here.
            assert of(talk, ev.UsageTotals)[-1].usage.output_tokens == 20
            talk.prompt(outgoing("run"))
            wait_file(talk, bench.work / "started")
            kill(talk)
            while talk.pump(time.monotonic() + 60.0):
                pass
        assert talk.recorder.native_session_id == native
        end = last_end(talk.events)
        assert (end.status, end.error and end.error.kind) == ("failed", "crashed")
        assert of(talk, ev.ToolExecutionEnd)[-1].synthetic
        assert talk.recorder.state == "failed"
        assert of(talk, ev.SessionEnd)[0].signal == "SIGKILL"

        with talking(version, bench, model, resume=native) as talk:
            talk.prompt(known)
            wait_ready(talk)
            assert "already has this message" in str(last_end(talk.events).error)
            assert talk.deliveries[known.id].taken
            assert say(talk, "go on").text == "third"
            assert messages_of(model).count("REMEMBER-2") == 1


def test_a_conversation_that_is_not_there_is_refused(version: str, bench: AgentBench) -> None:
    with ScriptedModel([{"text": "never"}]) as model:
        runtime = pinned_as(ClaudeRuntime, version)
        options = options_for(bench, model, resume=new_session_id())
        plan = runtime.plan_live(options, bench.env, new_session_id())
        assert plan.live is not None
        recorder = Recorder(
            runtime="claude", session_id=plan.session_id, options=options, drive="rpc"
        )
        talk = AttachedConversation(plan.spec, runtime.live_wire(plan.live, recorder), recorder)
        talk.start()
        while talk.pump(time.monotonic() + 60.0):
            pass
        talk.close()
    assert isinstance(recorder.stop_requested, ResumeRefused)
    assert recorder.state == "failed"
    assert not of(talk, ev.AgentStart)
    assert [change.new for change in of(talk, ev.StateChange)] == ["failed"]
    assert [request.method for request in model.requests if request.method == "POST"] == []


def test_steers_and_aborts_at_any_moment(version: str, bench: AgentBench) -> None:
    """Each message reaches the conversation once, and each turn ends."""
    chance = random.Random(20)
    kinds: list[dict[str, Any]] = [
        {"text": "w w w w ", "chunks": 4, "fault": {"slow": 0.03}},
        {"text": "tool", "shell": "sleep 0.1; echo x"},
        {"text": "short"},
    ]
    sent = []
    with (
        ScriptedModel([chance.choice(kinds) for _ in range(100)]) as model,
        talking(version, bench, model) as talk,
    ):
        for number in range(12):
            sent.append(outgoing(f"PROMPT-{number}."))
            talk.prompt(sent[-1])
            for step in range(chance.randrange(3)):
                moment = time.monotonic() + chance.choice((0.0, 0.02, 0.06, 0.15))
                while time.monotonic() < moment:
                    talk.pump(moment)
                if talk.recorder.turn_open and chance.random() < 0.5:
                    sent.append(outgoing(f"STEER-{number}-{step}."))
                    talk.steer(sent[-1])
                else:
                    talk.abort()
            wait_ready(talk)
        say(talk, "FINAL")
        shown = messages_of(model)
    assert {message.text: shown.count(message.text) for message in sent} == {
        message.text: 1 for message in sent
    }
    assert all(talk.deliveries[message.id].taken for message in sent)
