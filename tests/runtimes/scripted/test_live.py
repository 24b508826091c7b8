"""Live conversations with the scripted agent: many prompts, steers, aborts, ends of all kinds."""

import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from bridle.core import events as ev
from bridle.core.errors import ResumeRefused, WrongUse
from bridle.core.options import ModelServer, RunOptions
from bridle.process.process_tree import marked_processes
from bridle.process.spec import ProcessExit
from bridle.runtimes.scripted import ScriptedRuntime
from bridle.runtimes.scripted.command import KEY_VARIABLE
from bridle.testing import ScriptedModel
from bridle.turns.recorder import Recorder
from bridle.turns.wire import LiveFacts, ModelSwitch, Outgoing, Question
from tests.runtimes.scripted.runs import ScriptedBench
from tests.support.conversation import AttachedConversation
from tests.support.driving import check_order
from tests.support.live import DEADLINE, conversing, last_end, say
from tests.support.replaying import record_wires

SLOW: dict[str, Any] = {"text": "word " * 200, "chunk_size": 5, "fault": {"slow": 5.0}}
SLEEP: dict[str, Any] = {"text": "I wait.", "shell": "echo begun > begun; sleep 600"}


def wait_tool(talk: AttachedConversation) -> None:
    """Until a tool runs and has shown that it does."""
    begun = Path(talk.process.spec.cwd) / "begun"
    talk.wait(lambda: bool(talk.recorder.tools.names), DEADLINE)
    pump_until(talk, begun.exists)


def pump_until(talk: AttachedConversation, done: Callable[[], bool]) -> None:
    """Until something happened outside the conversation."""
    until = time.monotonic() + DEADLINE
    while not done():
        assert time.monotonic() < until
        talk.pump(time.monotonic() + 0.02)


def settle(talk: AttachedConversation, name: str) -> None:
    """Until it is known what became of a message that was given to the wire itself."""
    talk.pump(time.monotonic())
    talk.wait(lambda: name in talk.deliveries, DEADLINE)


def of(talk: AttachedConversation, kind: type[Any]) -> list[Any]:
    return [each for each in talk.events if isinstance(each, kind)]


def test_turns_follow_the_script_as_runs_do(bench: ScriptedBench) -> None:
    script = [
        {"text": "Tools.", "shell": "echo hello", "usage": {"input_tokens": 5}},
        {"text": "One.", "thinking": "Hm.", "usage": {"input_tokens": 7, "output_tokens": 1}},
        {"text": "Two.", "fault": {"status": 401}},
        {"text": "Three."},
    ]
    runtime = ScriptedRuntime()
    log = record_wires(runtime)
    options = bench.scripted(script, provider_options={"cost_per_turn": 0.5})
    with conversing(runtime, options, bench.env) as talk:
        assert talk.recorder.native_session_id
        first = say(talk, "First.")
        failed = say(talk, "Second.")
        good = say(talk, "Third.")
        built = talk.recorder.result()
        talk.leave()
        talk.wait(lambda: talk.recorder.state == "stopped", DEADLINE)
    assert first.usage is not None
    assert (first.text, first.usage.input_tokens, first.cost_usd) == ("One.", 12, 1.0)
    assert failed.status == "failed"
    assert failed.error is not None
    assert failed.error.kind == "not_authenticated"
    assert (good.text, good.status, good.cost_usd) == ("Two.", "completed", 0.5)
    assert (built.usage.input_tokens, built.cost_usd) == (112, 1.5)
    assert talk.process.exit == ProcessExit(code=0)
    check_order(talk.events)
    log.check_repeatable()
    run = bench.play(script, provider_options={"cost_per_turn": 0.5})
    end = next(i for i, each in enumerate(talk.events) if isinstance(each, ev.AgentEnd))
    mine = [type(e).__name__ for e in talk.events[: end + 1] if not isinstance(e, ev.StateChange)]
    theirs = [type(e).__name__ for e in run.events if not isinstance(e, ev.StateChange)]
    assert mine == theirs[: len(mine)]


def test_a_steer_reaches_the_model_at_the_tool_boundary(bench: ScriptedBench) -> None:
    script = [
        {"text": "I wait.", "shell": "echo begun > begun; while [ ! -e go ]; do sleep 0.02; done"},
        {"text": "Done."},
    ]
    with ScriptedModel(script) as model:
        server = ModelServer(url=model.url, api_key=model.api_key)
        runtime = ScriptedRuntime()
        log = record_wires(runtime)
        options = bench.scripted(model_server=server)
        with conversing(runtime, options, bench.env) as talk:
            talk.prompt(Outgoing(id="p", text="Begin."))
            wait_tool(talk)
            talk.steer(Outgoing(id="s", text="Mind the gap."))
            talk.steer(Outgoing(id="t", text="And the other one."))
            # The agent reads lines in order: once this is refused, the steers are with it.
            talk.wire.prompt(Outgoing(id="q", text="Too early."))
            settle(talk, "q")
            assert "s" not in talk.deliveries
            (bench.work / "go").touch()
            talk.wait_ready(DEADLINE)
            assert last_end(talk.events).text == "Done."
            given = talk.deliveries
            assert (given["p"].taken, given["s"].taken, given["t"].taken) == (True, True, True)
            assert (given["s"].turn, given["q"].taken) == (1, False)
        requests = [str(each.body) for each in model.requests]
    assert "Mind the gap." not in requests[0]
    assert requests[1].count("Mind the gap.") == requests[1].count("And the other one.") == 1
    log.check_repeatable()


def test_a_steer_that_comes_too_late_is_refused(bench: ScriptedBench) -> None:
    with conversing(ScriptedRuntime(), bench.scripted([{"text": "Hi."}]), bench.env) as talk:
        say(talk, "One.")
        talk.wire.steer(Outgoing(id="late", text="Too late."))
        settle(talk, "late")
        assert not talk.deliveries["late"].taken
        assert talk.recorder.is_ready


@pytest.mark.parametrize("step", [SLOW, SLEEP], ids=["text", "tool"])
def test_abort_ends_the_turn_and_the_conversation_goes_on(
    bench: ScriptedBench, step: dict[str, Any]
) -> None:
    script = [step, {"text": "Next."}, {"text": "Last."}]
    runtime = ScriptedRuntime()
    log = record_wires(runtime)
    with conversing(runtime, bench.scripted(script), bench.env) as talk:
        talk.prompt(Outgoing(id="p", text="Begin."))
        if step is SLEEP:
            wait_tool(talk)
        else:
            talk.wait(lambda: bool(of(talk, ev.MessageUpdate)), DEADLINE)
        talk.steer(Outgoing(id="s", text="Never mind."))
        talk.abort("no more of it")
        talk.wait_ready(DEADLINE)
        end = last_end(talk.events)
        assert (end.status, end.error and end.error.message) == ("aborted", "no more of it")
        assert not talk.deliveries["s"].taken
        assert len(marked_processes(talk.recorder.session_id)) == 1
        talk.wire.abort()
        assert say(talk, "Go on.").text == "Next."
        assert say(talk, "Go on.").text == "Last."
        talk.leave()
        talk.wait(lambda: talk.recorder.state == "stopped", DEADLINE)
    check_order(talk.events)
    log.check_repeatable()


def test_abort_while_the_model_server_is_silent(bench: ScriptedBench) -> None:
    script = [{"text": "Never.", "fault": {"stall": 600.0}}, {"text": "Next."}]
    with ScriptedModel(script) as model:
        server = ModelServer(url=model.url, api_key=model.api_key)
        options = bench.scripted(model_server=server, model="one")
        with conversing(ScriptedRuntime(), options, bench.env) as talk:
            talk.prompt(Outgoing(id="p", text="Begin."))
            pump_until(talk, lambda: bool(model.requests))
            talk.abort()
            talk.wait_ready(DEADLINE)
            assert last_end(talk.events).status == "aborted"
            assert isinstance(talk.wire, ModelSwitch)
            talk.wire.set_model("two")
            assert say(talk, "Go on.").text == "Next."
        assert [each.body["model"] for each in model.requests] == ["one", "two"]


def test_permission_is_asked_and_an_answer_after_an_abort_is_harmless(bench: ScriptedBench) -> None:
    script = [{"text": "May I?", "shell": "touch made"}, {"text": "Done."}] * 2
    options = bench.scripted(script, permission_mode="ask")

    def policy(question: Question) -> tuple[bool, str, str]:
        return not (bench.work / "made").exists(), "test", "once"

    runtime = ScriptedRuntime()
    log = record_wires(runtime)
    with conversing(runtime, options, bench.env, policy) as talk:
        assert say(talk, "Do it.").text == "Done."
        assert (bench.work / "made").exists()
        say(talk, "Again.")
        ends = of(talk, ev.ToolExecutionEnd)
        assert [each.is_error for each in ends] == [False, True]
        assert "permission denied: once" in ends[1].result
    log.check_repeatable()


def test_an_abort_answers_the_open_question(bench: ScriptedBench) -> None:
    script = [{"text": "May I?", "shell": "touch made"}, {"text": "Next."}]
    with conversing(
        ScriptedRuntime(), bench.scripted(script, permission_mode="ask"), bench.env
    ) as talk:
        unanswered: list[Question] = []
        talk.recorder.questions = Swallow(unanswered)
        talk.prompt(Outgoing(id="p", text="Do it."))
        talk.wait(lambda: bool(unanswered), DEADLINE)
        assert talk.recorder.state == "waiting_permission"
        talk.abort()
        talk.wait_ready(DEADLINE)
        talk.process.write(unanswered[0].answer(True, "late"))
        assert say(talk, "Go on.").text == "Next."
        assert not (bench.work / "made").exists()


class Swallow(list[Question]):
    """Keeps questions from the driver."""

    def __init__(self, kept: list[Question]) -> None:
        self._kept = kept

    def append(self, question: Question) -> None:
        self._kept.append(question)


def test_resume_after_close_and_after_a_kill(bench: ScriptedBench) -> None:
    script = [{"text": "One."}, SLEEP, {"text": "Two."}, {"text": "Three."}]
    with ScriptedModel(script) as model:
        server = ModelServer(url=model.url, api_key=model.api_key)
        options = bench.scripted(model_server=server, account_dir=str(bench.home / "account"))
        runtime = ScriptedRuntime()
        log = record_wires(runtime)
        with conversing(runtime, options, bench.env) as talk:
            assert say(talk, "First words.").text == "One."
            native = talk.recorder.native_session_id
            talk.prompt(Outgoing(id="p", text="Second words."))
            wait_tool(talk)
            assert talk.process.pid
            os.kill(talk.process.pid, signal.SIGKILL)
            talk.wait(lambda: talk.recorder.state == "failed", DEADLINE)
        end = last_end(talk.events)
        assert end.error is not None
        assert (end.status, end.error.kind) == ("failed", "crashed")
        assert marked_processes(talk.recorder.session_id) == []
        again = RunOptions(**{**_fields(options), "resume": native})
        with conversing(runtime, again, bench.env) as talk:
            assert say(talk, "Third words.").text == "Two."
            assert talk.recorder.native_session_id == native
        with conversing(runtime, again, bench.env) as talk:
            assert say(talk, "Fourth words.").text == "Three."
        assert "First words." in str(model.requests[-1].body)
    log.check_repeatable()


def _fields(options: RunOptions) -> dict[str, Any]:
    return {name: getattr(options, name) for name in options.__struct_fields__}


def test_an_unknown_conversation_is_refused(bench: ScriptedBench) -> None:
    runtime = ScriptedRuntime()
    plan = runtime.plan_live(bench.scripted([{"text": "a"}], resume="scripted-00"), bench.env, "s")
    assert plan.live is not None
    recorder = Recorder(
        runtime="scripted", session_id="s", options=RunOptions(prompt=""), drive="rpc"
    )
    talk = AttachedConversation(plan.spec, runtime.live_wire(plan.live, recorder), recorder)
    try:
        talk.start()
        talk.wait(lambda: recorder.state == "failed", DEADLINE)
        assert isinstance(recorder.error, ResumeRefused)
    finally:
        talk.close()


def test_long_prompts_and_images(bench: ScriptedBench) -> None:
    (bench.work / "a.png").write_bytes(b"\x89PNG")
    long = "all work and no play " * 50_000
    with ScriptedModel([{"text": "Read."}, {"text": "Seen."}]) as model:
        server = ModelServer(url=model.url, api_key=model.api_key)
        with conversing(ScriptedRuntime(), bench.scripted(model_server=server), bench.env) as talk:
            assert say(talk, long).text == "Read."
            assert say(talk, "Look.", images=("a.png",)).text == "Seen."
            talk.prompt(Outgoing(id="none", text="Look.", images=("none.png",)))
            settle(talk, "none")
            assert not talk.deliveries["none"].taken
            assert talk.recorder.is_ready
        bodies = [each.body for each in model.requests]
    assert long in str(bodies[0])
    assert "image/png" in str(bodies[1])


def test_each_prompt_chooses_its_conversation(bench: ScriptedBench) -> None:
    script = {
        "conversations": [
            {
                "name": "a",
                "match": {"prompt_contains": "alpha"},
                "turns": [{"text": "A1"}, {"text": "A2"}],
            },
            {"name": "b", "match": {"prompt_contains": "beta"}, "turns": [{"text": "B1"}]},
        ]
    }
    with conversing(ScriptedRuntime(), bench.scripted(script), bench.env) as talk:
        texts = [say(talk, word).text for word in ("alpha", "beta", "alpha", "alpha")]
        assert texts == ["A1", "B1", "A2", "The script has ended."]
        talk.prompt(Outgoing(id="none", text="gamma"))
        settle(talk, "none")
        assert "no conversation" in str(talk.deliveries["none"].error)
    named = bench.scripted(script, provider_options={"conversation": "b"})
    with conversing(ScriptedRuntime(), named, bench.env) as talk:
        assert say(talk, "alpha").text == "B1"
    wrong = bench.scripted(script, provider_options={"conversation": "c"})
    with pytest.raises(WrongUse, match="no conversation 'c'"):
        ScriptedRuntime().plan_live(wrong, bench.env, "s")


def test_without_a_script_it_says_what_it_is(bench: ScriptedBench) -> None:
    with conversing(ScriptedRuntime(), bench.scripted(), bench.env) as talk:
        assert "Your prompt has 5 characters" in say(talk, "Hello").text


@pytest.mark.parametrize("aid", ["garbage", "half-lines", "long-line:3000000"])
def test_bad_manners_do_no_harm(bench: ScriptedBench, aid: str) -> None:
    options = bench.scripted(
        [{"text": "One.", "shell": "true"}, {"text": "Two."}, {"text": "Three."}],
        provider_options={"behave": aid},
    )
    with conversing(ScriptedRuntime(), options, bench.env) as talk:
        assert say(talk, "a").text == "Two."
        assert say(talk, "b").text == "Three."
    check_order(talk.events)


def test_the_key_is_in_no_facts_and_reaches_no_tool(bench: ScriptedBench) -> None:
    with ScriptedModel([{"text": "Show.", "shell": "env > seen"}, {"text": "Ok."}]) as model:
        options = bench.scripted(model_server=ModelServer(url=model.url, api_key=model.api_key))
        plan = ScriptedRuntime().plan_live(options, bench.env, "s")
        assert plan.spec.env[KEY_VARIABLE] == model.api_key
        assert model.api_key not in str(plan.live)
        assert plan.live == LiveFacts(
            runtime="scripted",
            runtime_version=plan.installation.version or "",
            dialect="scripted-1",
            cwd=str(bench.work),
            own=plan.live.own if plan.live else {},
        )
        with conversing(ScriptedRuntime(), options, bench.env) as talk:
            assert say(talk, "Do it.").text == "Ok."
    assert model.api_key not in (bench.work / "seen").read_text()
