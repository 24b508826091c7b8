"""Conversations with the six real agents against the scripted model.

OpenCode and Claude show everything; the other four that several turns, an abort and a resumed
session work. One conversation shows many things, since an agent takes seconds to start.
"""

import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from bridle.core import events as ev
from bridle.core.errors import TimedOut
from bridle.core.ids import new_session_id
from bridle.core.options import ModelServer, RunOptions
from bridle.core.usage import Usage
from bridle.process.process_tree import marked_processes
from bridle.testing import ScriptedModel
from bridle.testing.bench import AgentBench
from bridle.turns.recorder import Recorder
from bridle.turns.wire import (
    CompactionControl,
    LiveFacts,
    LiveWire,
    ModelSwitch,
    Outgoing,
    Question,
)
from tests.runtimes.acp.captures import short, word
from tests.runtimes.acp.test_real import AGENTS, agent, bench
from tests.runtimes.acp.wire_bench import order_problems
from tests.support.conversation import AttachedConversation
from tests.support.live import DEADLINE, conversing, last_end, say
from tests.support.replaying import record_wires

__all__ = ["bench"]

pytestmark = [pytest.mark.real_cli, pytest.mark.timeout(240)]

FULL = ("claude-acp", "opencode-acp")
fully = pytest.mark.parametrize("name", FULL)
SLEEP = "617"
MESSAGE = ["message_start", "text_start", "text_delta", "text_end", "message_end"]
TOOL = ["tool_execution_start", "tool_execution_end"]
PNG = (
    b"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR\x00\x00\x00\x01\x00\x00\x00\x01\x08\x06\x00\x00\x00"
    b"\x1f\x15\xc4\x89\x00\x00\x00\rIDATx\x9cc\xf8\xcf\xc0\xf0\x1f\x00\x05\x00\x01\xff\x89\x99=\x1d"
    b"\x00\x00\x00\x00IEND\xaeB`\x82"
)


def account_of(bench: AgentBench) -> Path:
    account = bench.home / "account"
    account.mkdir(exist_ok=True)
    return account


def options_of(bench: AgentBench, model: ScriptedModel, **more: Any) -> RunOptions:
    wanted: dict[str, Any] = {
        "prompt": "",
        "cwd": str(bench.work),
        "permission_mode": "bypass",
        "account_dir": str(account_of(bench)),
        "model_server": ModelServer(url=model.url, api_key="bridle-scripted-key"),
    }
    return RunOptions(**{**wanted, **more})


def send(talk: AttachedConversation, text: str) -> str:
    message = Outgoing(id=new_session_id(), text=text)
    talk.prompt(message)
    return message.id


def pump_until(talk: AttachedConversation, done: Callable[[], bool]) -> None:
    """Go on until something holds that no event of the agent's tells."""
    until = time.monotonic() + DEADLINE
    while not done():
        assert time.monotonic() < until, f"waited in vain, state {talk.recorder.state}"
        talk.pump(time.monotonic() + 0.05)


def sleepers(talk: AttachedConversation) -> list[int]:
    """The processes of the session's tools that a script told to sleep."""
    found = []
    for pid in marked_processes(talk.recorder.session_id):
        try:
            words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        if words[:2] == [b"sleep", SLEEP.encode()]:
            found.append(pid)
    return found


def abort_in_a_tool(talk: AttachedConversation, bench: AgentBench) -> ev.AgentEnd:
    """Prompt, wait until the tool's command runs, abort: no process of it may be left."""
    send(talk, "Run it, please.")
    pump_until(talk, lambda: (bench.work / "started").exists() and bool(sleepers(talk)))
    talk.abort()
    talk.wait_ready(DEADLINE)
    pump_until(talk, lambda: not sleepers(talk))
    return last_end(talk.events)


def goodbye(talk: AttachedConversation) -> None:
    talk.leave()
    talk.wait(lambda: talk.recorder.state == "stopped", DEADLINE)
    assert order_problems(talk.events) == []


def older(bench: AgentBench) -> None:
    """Make Gemini's sessions older by a minute or more: it loses those that it loads at once."""
    for path in account_of(bench).rglob("chats/session-*.jsonl"):
        path.rename(path.with_name(f"session-2026-01-01T00-00-{path.name[-14:]}"))


def ends(talk: AttachedConversation) -> list[ev.AgentEnd]:
    return [event for event in talk.events if isinstance(event, ev.AgentEnd)]


def usage(count: int) -> dict[str, int]:
    return {"input_tokens": count, "output_tokens": 7, "cache_read_tokens": 10}


def counted(count: int, calls: int = 1) -> Usage:
    return Usage(input_tokens=count, output_tokens=7 * calls, cache_read_tokens=10 * calls)


ONE = {"text": "My name is Bridle.", "usage": usage(100)}
WORK = {"text": "Writing.", "shell": "printf hello > made.txt", "usage": usage(200)}
DONE = {"text": "Done.", "chunks": 3, "usage": usage(300)}
WAIT = {"text": "Waiting.", "shell": f"touch started; exec sleep {SLEEP}", "usage": usage(400)}
AGAIN = {"text": "Here again.", "usage": usage(500)}
LAST = {"text": "I said Bridle.", "usage": usage(600)}


# -- every agent ----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", sorted(AGENTS))
def test_turns_an_abort_and_a_new_process(name: str, bench: AgentBench) -> None:
    runtime = agent(bench, name)
    logs = record_wires(runtime)
    with ScriptedModel([ONE, WORK, DONE, WAIT, AGAIN, LAST]) as model:
        options = options_of(bench, model)
        with conversing(runtime, options, bench.env) as talk:
            native = talk.recorder.native_session_id
            say(talk, "Who are you?")
            done = say(talk, "Write the file.")
            assert abort_in_a_tool(talk, bench).status == "aborted"
            say(talk, "Still there?")
            talk.abort("nothing runs")
            goodbye(talk)
        kept = [each for each in ends(talk) if each.status != "aborted"]
        assert [each.text for each in kept] == ["My name is Bridle.", "Done.", "Here again."]
        assert [each.status for each in kept] == ["completed"] * 3
        assert [each.usage for each in kept] == [
            counted(100),
            counted(500, 2),
            counted(500),
        ]
        assert (bench.work / "made.txt").read_text() == "hello"
        begin, end = (talk.events.index(each) for each in (ends(talk)[0], done))
        turn = [word(event) for event in talk.events[begin + 1 : end]]
        seen = [each for each in short(turn) if each != "tool_execution_update"]
        assert seen == ["state", "agent_start", *MESSAGE, *TOOL, *MESSAGE, "usage"]
        older(bench)
        again = options_of(bench, model, resume=native)
        with conversing(runtime, again, bench.env) as talk:
            assert talk.recorder.native_session_id == native
            last = say(talk, "Who did you say you are?")
            goodbye(talk)
        assert (last.status, last.text, last.usage) == (
            "completed",
            LAST["text"],
            counted(600),
        )
        assert [event.text for event in talk.events if isinstance(event, ev.MessageEnd)] == [
            LAST["text"]
        ], "what is told again of old turns is no news"
        body = str(model.requests[-1].body)
        assert all(text in body for text in ("Who are you?", "My name is Bridle.", "Still there?"))
    logs.check_repeatable()


@fully
def test_a_copy_goes_on_and_its_source_stays_as_it_was(name: str, bench: AgentBench) -> None:
    runtime = agent(bench, name)
    logs = record_wires(runtime)
    texts = ("My name is Bridle.", "In the copy.", "Here again.", "Of the copy.")
    with ScriptedModel([{"text": text, "usage": usage(100)} for text in texts]) as model:

        def talked(said: str, **options: Any) -> tuple[str, ev.AgentEnd, str]:
            with conversing(runtime, options_of(bench, model, **options), around) as talk:
                end = say(talk, said)
                native = talk.recorder.native_session_id or ""
                assert talk.recorder.usage == end.usage == counted(100)
                told = [each.text for each in talk.events if isinstance(each, ev.MessageEnd)]
                assert told == [end.text], "what is told again of old turns is no news"
                assert [each for each in talk.events if isinstance(each, ev.Unknown)] == []
                goodbye(talk)
            return native, end, str(model.requests[-1].body)

        around = bench.env
        source, first, _ = talked("Who are you?")
        fork = {"resume": source, "provider_options": {"fork": True}}
        copy, second, sent = talked("Ask the copy.", **fork)
        assert copy not in ("", source)
        assert (second.status, second.text) == ("completed", "In the copy.")
        assert "Who are you?" in sent
        assert "My name is Bridle." in sent
        again, _, sent = talked("Ask the source.", resume=source)
        assert again == source
        assert "Ask the copy." not in sent
        again, last, sent = talked("Ask the copy again.", resume=copy)
        assert again == copy
        assert "Ask the copy." in sent
        assert "Ask the source." not in sent
        costs = [end.cost_usd for end in (first, second, last)]
        if name == "claude-acp":
            assert costs[0]
            assert costs[0] == pytest.approx(costs[1]) == pytest.approx(costs[2])
    logs.check_repeatable()


@pytest.mark.parametrize(
    ("name", "fork"),
    [*((name, False) for name in sorted(AGENTS)), *((name, True) for name in sorted(FULL))],
)
def test_a_session_that_never_was_is_refused(
    name: str, fork: bool, bench: AgentBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    runtime = agent(bench, name)
    unknown = "ses_nonesuch" if name == "opencode-acp" else new_session_id()
    recorders: list[Recorder] = []
    build = runtime.live_wire

    def building(facts: LiveFacts, recorder: Recorder) -> LiveWire:
        recorders.append(recorder)
        return build(facts, recorder)

    monkeypatch.setattr(runtime, "live_wire", building)
    with ScriptedModel([ONE]) as model:
        options = options_of(bench, model, resume=unknown, provider_options={"fork": fork})
        with pytest.raises(TimedOut, match="gone"):  # noqa: SIM117 (the inner one is what fails)
            with conversing(runtime, options, bench.env):
                pytest.fail("it must not get ready")
    (recorder,) = recorders
    assert recorder.stop_requested is not None
    assert recorder.stop_requested.kind == "resume_refused"
    assert recorder.state == "failed"


# -- the whole of it ------------------------------------------------------------------------------


@fully
def test_aborted_words_failures_and_a_death(name: str, bench: AgentBench) -> None:
    slow = {"text": "word " * 400, "chunks": 400, "fault": {"slow": 0.2}}
    broken = {"fault": {"kind": "bad_request", "times": 1}}
    runtime = agent(bench, name)
    logs = record_wires(runtime)
    with ScriptedModel([slow, broken, ONE, WAIT, LAST]) as model:
        with conversing(runtime, options_of(bench, model), bench.env) as talk:
            native = talk.recorder.native_session_id
            taken = send(talk, "Tell me a long story.")
            talk.wait(lambda: "text_delta" in map(word, talk.events), DEADLINE)
            talk.abort("too long")
            talk.wait_ready(DEADLINE)
            failed = say(talk, "This will fail.")
            good = say(talk, "This will not.")
            assert talk.deliveries[taken].taken
            send(talk, "Now wait.")
            pump_until(talk, lambda: (bench.work / "started").exists())
            assert talk.process.pid is not None
            os.kill(talk.process.pid, signal.SIGKILL)
            talk.wait(lambda: talk.recorder.state == "failed", DEADLINE)
        statuses = [each.status for each in ends(talk)]
        assert statuses == ["aborted", "failed", "completed", "failed"]
        assert failed.error is not None
        assert failed.error.kind == "unavailable", failed.error
        assert good.text == ONE["text"]
        last = last_end(talk.events).error
        assert last is not None
        assert (last.kind, "SIGKILL" in last.message) == ("crashed", True)
        assert order_problems(talk.events) == []
        assert marked_processes(talk.recorder.session_id) == []
        again = options_of(bench, model, resume=native)
        with conversing(runtime, again, bench.env) as talk:
            assert talk.recorder.native_session_id == native
            assert say(talk, "What was it?").status == "completed"
        assert "This will not." in str(model.requests[-1].body)
    logs.check_repeatable()


@fully
def test_permission_is_asked(name: str, bench: AgentBench) -> None:
    asked: list[Question] = []

    def first_yes_then_no(question: Question) -> tuple[bool, str, str]:
        asked.append(question)
        return len(asked) == 1, "test", "" if len(asked) == 1 else "not today"

    script = [
        {"text": "One.", "shell": "touch one.txt"},
        {"text": "Two.", "shell": "touch two.txt"},
        {"text": "I may not."},
        {"text": "Still here."},
    ]
    runtime = agent(bench, name)
    logs = record_wires(runtime)
    with ScriptedModel(script) as model:
        options = options_of(bench, model, permission_mode="ask")
        with conversing(runtime, options, bench.env, first_yes_then_no) as talk:
            say(talk, "Make two files.")
            after = say(talk, "Go on.")
            goodbye(talk)
    assert [question.args for question in asked if not question.args] == []
    assert (bench.work / "one.txt").exists()
    assert not (bench.work / "two.txt").exists()
    decided = [event for event in talk.events if isinstance(event, ev.PermissionDecision)]
    assert [event.decision for event in decided] == ["allow", "deny"]
    tools = [event for event in talk.events if isinstance(event, ev.ToolExecutionEnd)]
    assert [event.is_error for event in tools] == [False, True]
    assert after.status == "completed"
    states = [event.new for event in talk.events if isinstance(event, ev.StateChange)]
    assert states.count("waiting_permission") == 2
    logs.check_repeatable()


@fully
def test_an_image_and_a_megabyte(name: str, bench: AgentBench) -> None:
    image = bench.work / "a.png"
    image.write_bytes(PNG)
    script = [{"text": "A dot."}, {"text": "So much."}]
    with ScriptedModel(script) as model:
        runtime = agent(bench, name)
        with conversing(runtime, options_of(bench, model), bench.env) as talk:
            assert say(talk, "What is it?", images=(str(image),)).text == "A dot."
            assert "iVBORw0KGgo" in str(model.requests[-1].body)
            long = "begin " + "x" * 1_000_000 + " end"
            assert say(talk, long).text == "So much."
            assert long in str(model.requests[-1].body)
            goodbye(talk)


@fully
def test_another_model(name: str, bench: AgentBench) -> None:
    chosen, shown = "haiku", "haiku"
    if name == "opencode-acp":
        chosen = shown = "scripted/other"
        folder = account_of(bench) / "config" / "opencode"
        folder.mkdir(parents=True)
        text = '{"provider": {"scripted": {"models": {"other": {"name": "Other"}}}}}'
        (folder / "opencode.json").write_text(text)
    with ScriptedModel([{"text": "One."}, {"text": "Two."}, {"text": "Three."}]) as model:
        runtime = agent(bench, name)
        with conversing(runtime, options_of(bench, model), bench.env) as talk:
            say(talk, "First.")
            before = talk.recorder.model
            assert isinstance(talk.wire, ModelSwitch)
            talk.wire.set_model(chosen)
            assert say(talk, "Second.").status == "completed"
            assert talk.recorder.model == shown
            assert before != shown
            goodbye(talk)
        models = [str(each.body["model"]) for each in model.requests if each.outcome == "turn"]
    assert models[0] != models[1]
    assert chosen.rpartition("/")[2] in models[1]


@fully
def test_the_context_is_shortened(name: str, bench: AgentBench) -> None:
    runtime = agent(bench, name)
    logs = record_wires(runtime)
    with ScriptedModel([{"text": "One."}, {"text": "Two."}, {"text": "Three."}]) as model:
        with conversing(runtime, options_of(bench, model), bench.env) as talk:
            say(talk, "The first question.")
            say(talk, "The second question.")
            assert "The first question." in str(model.requests[-1].body)
            assert isinstance(talk.wire, CompactionControl)
            talk.wire.compact()
            talk.process.write(talk.recorder.replies.pop())
            talk.wait_ready(DEADLINE)
            assert say(talk, "The third question.").status == "completed"
            goodbye(talk)
        assert "The first question." not in str(model.requests[-1].body)
    seen = [event for event in talk.events if isinstance(event, ev.AutoCompactionEnd)]
    assert [event.reason for event in seen] == ["asked for"]
    assert len(ends(talk)) == 3
    logs.check_repeatable()


def test_claude_goes_on_by_itself(bench: AgentBench) -> None:
    """A task in the background ends between two prompts, and Claude says so: a turn of its own."""
    args = {"command": "sleep 1; echo over", "run_in_background": True, "description": "wait"}
    script = [
        {"text": "Starting.", "tool_calls": [{"name": "Bash", "args": args}]},
        {"text": "It runs."},
        {"text": "It has ended."},
        {"text": "Yes."},
    ]
    runtime = agent(bench, "claude-acp")
    logs = record_wires(runtime)
    with ScriptedModel(script) as model:
        with conversing(runtime, options_of(bench, model), bench.env) as talk:
            say(talk, "Run it in the background.")
            pump_until(talk, lambda: len(ends(talk)) == 2)
            assert talk.recorder.is_ready
            say(talk, "Is it over?")
            goodbye(talk)
        model.assert_finished()
    told = [(each.turn, each.status, each.text) for each in ends(talk)]
    assert told == [
        (1, "completed", "It runs."),
        (2, "completed", "It has ended."),
        (3, "completed", "Yes."),
    ]
    logs.check_repeatable()
