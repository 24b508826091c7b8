"""Live conversations with the real Pi, in each pinned version, against the scripted model."""

import os
import signal
import time
from collections.abc import Callable
from typing import Any

import pytest

from bridle.core import events as ev
from bridle.core.errors import ResumeRefused
from bridle.core.options import ModelServer, RunOptions
from bridle.core.usage import Usage
from bridle.process.process_tree import marked_processes
from bridle.runtimes.pi import PiRuntime
from bridle.testing import ScriptedModel
from bridle.testing.bench import AgentBench
from bridle.testing.contract import steps
from bridle.turns.wire import CompactionControl, ModelSwitch, Outgoing, Question
from tests.runtimes.pi.real import agent_dir, login, run_real
from tests.runtimes.products import ONE_PNG
from tests.runtimes.scripts import SCRIPT
from tests.support.conversation import AttachedConversation
from tests.support.live import DEADLINE, conversing, events_of, last_end, say
from tests.support.real_cli import pinned_as, versions
from tests.support.replaying import record_wires

pytestmark = [
    pytest.mark.real_cli,
    pytest.mark.timeout(300),
    pytest.mark.parametrize("version", versions("pi")),
]

WAIT = "touch begun; while [ ! -e go ]; do sleep 0.05; done"
SLEEP = "touch begun; sleep 600 & sleep 600; wait"


def options(bench: AgentBench, model: ScriptedModel, **more: Any) -> RunOptions:
    fields: dict[str, Any] = {
        "prompt": "",
        "cwd": str(bench.work),
        "permission_mode": "bypass",
        "model_server": ModelServer(url=model.url, api_key="a-scripted-key"),
    }
    return RunOptions(**{**fields, **more})


def pump_until(talk: AttachedConversation, done: Callable[[], bool]) -> None:
    """Until something happened outside the conversation."""
    until = time.monotonic() + DEADLINE
    while not done():
        assert time.monotonic() < until
        talk.pump(time.monotonic() + 0.05)


def bodies(model: ScriptedModel) -> list[str]:
    return [str(each.body) for each in model.requests if each.body]


def test_a_conversation(version: str, bench: AgentBench) -> None:
    """Turns with tools, a failed one, an image, another model, a long prompt, a polite end."""
    (bench.work / "a.png").write_bytes(ONE_PNG)
    long = "all work and no play " * 50_000
    script = (
        SCRIPT
        + """
- {text: Second., usage: {input_tokens: 10, output_tokens: 1}}
- {fault: {status: 401, times: 1}}
- {text: Third.}
- {text: Fourth.}
- {text: Fifth.}
"""
    )
    runtime = pinned_as(PiRuntime, version)
    log = record_wires(runtime)
    with ScriptedModel(script) as model:
        with conversing(runtime, options(bench, model), bench.env) as talk:
            assert talk.recorder.native_session_id
            assert talk.recorder.model == "anthropic/claude-sonnet-4-6"
            first = say(talk, "First words.")
            first_steps = steps(talk.events)
            second = say(talk, "Second words.")
            failed = say(talk, "Third words.")
            third = say(talk, "Look.", images=("a.png",))
            assert isinstance(talk.wire, ModelSwitch)
            talk.wire.set_model("haiku")
            fourth = say(talk, "Other words.")
            fifth = say(talk, long)
            talk.wire.set_model("nobody/nothing")
            talk.prompt(Outgoing(id="refused", text="Never."))
            talk.wait(lambda: "refused" in talk.deliveries, DEADLINE)
            talk.prompt(Outgoing(id="none", text="Look.", images=("none.png",)))
            assert not talk.deliveries["none"].taken
            result = talk.recorder.result()
            talk.leave()
            talk.wait(lambda: talk.recorder.state == "stopped", DEADLINE)
        said = bodies(model)
        model.assert_finished()
    assert (first.text, first.marker_detected) == ("Done. ORCHESTRA_COMPLETE", True)
    assert first.usage is not None
    assert (first.usage.input_tokens, first.usage.output_tokens) == (800, 100)
    assert (second.text, second.usage and second.usage.input_tokens) == ("Second.", 10)
    assert result.usage.input_tokens == 800 + 10 + 300
    assert failed.error is not None
    assert (failed.status, failed.error.kind) == ("failed", "not_authenticated")
    assert (third.text, fourth.text, fifth.text) == ("Third.", "Fourth.", "Fifth.")
    assert "First words." in said[2]
    assert "image/png" in said[4]
    assert "haiku" in said[5]
    assert long[:-1] in said[6]
    assert "nobody/nothing" in str(talk.deliveries["refused"].error)
    assert talk.process.exit is not None
    assert talk.process.exit.code == 0
    log.check_repeatable()
    with ScriptedModel(SCRIPT) as model:
        run = steps(run_real(version, bench, model).events)
    assert [each for each in first_steps if each != "state"] == [
        each for each in run if each not in ("state", "session_end")
    ]


def test_steers(version: str, bench: AgentBench) -> None:
    """Two steers during a tool reach the next model call, in their order; one that comes when the
    turn is over is a turn of its own."""
    script = [
        {"text": "I wait.", "shell": WAIT},
        {"text": "One."},
        {"text": "Two."},
        {"text": "Late."},
        {"text": "Last."},
    ]
    runtime = pinned_as(PiRuntime, version)
    log = record_wires(runtime)
    with ScriptedModel(script) as model:
        with conversing(runtime, options(bench, model), bench.env) as talk:
            talk.prompt(Outgoing(id="p", text="Begin."))
            pump_until(talk, (bench.work / "begun").exists)
            talk.steer(Outgoing(id="s", text="Mind the gap."))
            talk.steer(Outgoing(id="t", text="And the other one."))
            talk.wire.prompt(Outgoing(id="q", text="Too early."))
            pump_until(talk, lambda: "q" in talk.deliveries)
            assert not talk.deliveries["q"].taken
            assert "s" not in talk.deliveries
            (bench.work / "go").touch()
            talk.wait_ready(DEADLINE)
            assert [(d.taken, d.turn) for d in map(talk.deliveries.get, "pst") if d] == [
                (True, 1)
            ] * 3
            assert last_end(talk.events).text == "Two."
            talk.wire.steer(Outgoing(id="late", text="Too late."))
            pump_until(talk, lambda: "late" in talk.deliveries and talk.recorder.is_ready)
            assert (talk.deliveries["late"].taken, talk.deliveries["late"].turn) == (True, 2)
            assert last_end(talk.events).text == "Late."
            assert say(talk, "Go on.").text == "Last."
        said = bodies(model)
        model.assert_finished()
    assert "Mind the gap." not in said[0]
    assert said[1].count("Mind the gap.") == 1
    assert said[-1].count("Mind the gap.") == said[-1].count("And the other one.") == 1
    assert said[-1].count("Too late.") == 1
    log.check_repeatable()


@pytest.mark.parametrize("moment", ["text", "tool"])
def test_abort(version: str, bench: AgentBench, moment: str) -> None:
    """An abort ends the turn and its tools; a steer that waits is never lost and never doubled."""
    step: dict[str, Any] = {"text": "I wait.", "shell": SLEEP}
    if moment == "text":
        step = {"text": "word " * 500, "chunk_size": 5, "fault": {"slow": 0.2}}
    runtime = pinned_as(PiRuntime, version)
    log = record_wires(runtime)
    with ScriptedModel([step, {"text": "Next."}, {"text": "Last."}]) as model:
        with conversing(runtime, options(bench, model), bench.env) as talk:
            talk.prompt(Outgoing(id="p", text="Begin."))
            if moment == "tool":
                pump_until(talk, (bench.work / "begun").exists)
            else:
                talk.wait(lambda: bool(events_of(talk, ev.MessageUpdate)), DEADLINE)
            talk.steer(Outgoing(id="s", text="Mind the gap."))
            talk.abort("no more of it")
            talk.wait_ready(DEADLINE)
            end = last_end(talk.events)
            assert (end.status, end.error and end.error.message) == ("aborted", "no more of it")
            left = marked_processes(talk.recorder.session_id)
            assert left == [talk.process.pid]
            talk.wire.abort()
            assert say(talk, "Go on.").text == "Next."
            taken = "s" in talk.deliveries and talk.deliveries["s"].taken
            assert say(talk, "Go on.").text == "Last."
            assert "s" in talk.deliveries
        assert bodies(model)[-1].count("Mind the gap.") == int(taken)
    log.check_repeatable()


def test_permission(version: str, bench: AgentBench) -> None:
    """Asked, allowed, refused with a reason, cancelled by an abort."""
    script = [
        {"text": "May I?", "shell": "touch made"},
        {"text": "Thanks."},
        {"text": "May I?", "shell": "touch other"},
        {"text": "Pity."},
        {"text": "May I?", "shell": "touch other"},
        # Pi may have asked the model once more before the abort reaches it.
        {"text": "Next."},
        {"text": "Next."},
    ]
    asked: list[Question] = []

    def policy(question: Question) -> tuple[bool, str, str]:
        asked.append(question)
        return not (bench.work / "made").exists(), "test", "because once is enough"

    runtime = pinned_as(PiRuntime, version)
    log = record_wires(runtime)
    with ScriptedModel(script) as model:
        wanted = options(bench, model, permission_mode="ask")
        with conversing(runtime, wanted, bench.env, policy) as talk:
            assert say(talk, "Do it.").text == "Thanks."
            assert (bench.work / "made").exists()
            assert say(talk, "Again.").text == "Pity."
            assert not (bench.work / "other").exists()
            assert "because once is enough" in bodies(model)[3]
            assert [each.tool_name for each in asked] == ["bash", "bash"]
            assert asked[0].args["command"] == "touch made"
            decisions = events_of(talk, ev.PermissionDecision)
            assert [each.decision for each in decisions] == ["allow", "deny"]
            assert (
                decisions[0].tool_call_id == events_of(talk, ev.ToolExecutionStart)[0].tool_call_id
            )
            kept: list[Question] = []
            talk.recorder.questions = Keeping(kept)
            talk.prompt(Outgoing(id="p", text="Once more."))
            talk.wait(lambda: bool(kept), DEADLINE)
            talk.abort()
            talk.wait_ready(DEADLINE)
            talk.process.write(kept[0].answer(True, "late"))
            assert say(talk, "Go on.").text == "Next."
            assert not (bench.work / "other").exists()
    log.check_repeatable()


class Keeping(list[Question]):
    """Keeps questions from the driver."""

    def __init__(self, kept: list[Question]) -> None:
        self._kept = kept

    def append(self, question: Question) -> None:
        self._kept.append(question)


EXTENSION = """
export default function (pi) {
  pi.on("session_start", async (event, ctx) => { ctx.ui.setStatus("lab", "on"); });
  pi.on("tool_call", async (event, ctx) => {
    const picked = await ctx.ui.select("Which?", ["a", "b"]);
    const sure = await ctx.ui.confirm("Sure?", event.toolName);
    return sure && picked === undefined ? undefined : { block: true, reason: "not sure" };
  });
  pi.registerCommand("lab", { description: "x", handler: async () => {} });
}
"""


def allow(question: Question) -> tuple[bool, str, str]:
    return True, "test", ""


def test_dialogs_and_commands_of_extensions(version: str, bench: AgentBench) -> None:
    """What nobody can answer is cancelled at once; a confirm is a question; a command of an
    extension is a turn without an answer."""
    extension = bench.home / "lab.ts"
    extension.write_text(EXTENSION)
    runtime = pinned_as(PiRuntime, version)
    log = record_wires(runtime)
    with ScriptedModel([{"text": "Go.", "shell": "touch made"}, {"text": "Done."}]) as model:
        wanted = options(bench, model, raw_args=("-e", str(extension)))
        with conversing(runtime, wanted, bench.env, allow) as talk:
            assert say(talk, "/lab").text == ""
            assert last_end(talk.events).status == "completed"
            assert say(talk, "Do it.").text == "Done."
            assert (bench.work / "made").exists()
            assert any("select" in str(each.raw) for each in events_of(talk, ev.Unknown))
            assert [each.tool_name for each in events_of(talk, ev.PermissionRequest)] == [
                "extension_confirm"
            ]
    log.check_repeatable()


def test_retries_and_then_a_good_turn(version: str, bench: AgentBench) -> None:
    """A turn is not over while Pi tries again, and it is when Pi gave up or was told to."""
    script = [
        {"fault": {"status": 529, "times": 1}},
        {"text": "At last."},
        {"fault": {"status": 529, "times": 2}},
        {"text": "Better."},
    ]
    runtime = pinned_as(PiRuntime, version)
    log = record_wires(runtime)
    with ScriptedModel(script) as model:
        wanted = options(bench, model, provider_options={"max_retries": 1})
        with conversing(runtime, wanted, bench.env) as talk:
            assert say(talk, "One.").text == "At last."
            assert len(events_of(talk, ev.Retry)) == 1
            failed = say(talk, "Two.")
            assert failed.error is not None
            assert (failed.status, failed.error.kind) == ("failed", "overloaded")
            assert say(talk, "Three.").text == "Better."
    log.check_repeatable()


def test_resume_after_close_and_after_a_kill(version: str, bench: AgentBench) -> None:
    script = [
        {"text": "One."},
        {"text": "I wait.", "shell": SLEEP},
        {"text": "Two."},
        {"text": "Three."},
    ]
    account = bench.home / "account"
    runtime = pinned_as(PiRuntime, version)
    log = record_wires(runtime)
    with ScriptedModel(script) as model:
        wanted = options(bench, model, account_dir=str(account))
        with conversing(runtime, wanted, bench.env) as talk:
            assert say(talk, "First words.").text == "One."
            native = talk.recorder.native_session_id
            talk.prompt(Outgoing(id="p", text="Second words."))
            pump_until(talk, (bench.work / "begun").exists)
            assert talk.process.pid
            os.kill(talk.process.pid, signal.SIGKILL)
            talk.wait(lambda: talk.recorder.state == "failed", DEADLINE)
        end = last_end(talk.events)
        assert end.error is not None
        assert (end.status, end.error.kind) == ("failed", "crashed")
        assert marked_processes(talk.recorder.session_id) == []
        again = options(bench, model, account_dir=str(account), resume=native)
        with conversing(runtime, again, bench.env) as talk:
            assert talk.recorder.native_session_id == native
            assert say(talk, "Third words.").text == "Two."
        with conversing(runtime, again, bench.env) as talk:
            assert say(talk, "Fourth words.").text == "Three."
        assert "First words." in bodies(model)[-1]
        wrong = options(bench, model, account_dir=str(account), resume="nobody")
        with pytest.raises(ResumeRefused):
            runtime.plan_live(wrong, bench.env, "s")
    log.check_repeatable()


def test_a_copy_goes_on_and_its_source_stays_as_it_was(version: str, bench: AgentBench) -> None:
    used = {"input_tokens": 100, "output_tokens": 7}
    texts = ("One.", "Two.", "Three.", "Four.")
    account = bench.home / "account"
    runtime = pinned_as(PiRuntime, version)
    log = record_wires(runtime)
    with ScriptedModel([{"text": text, "usage": used} for text in texts]) as model:

        def talked(said: str, **more: Any) -> tuple[str, str]:
            wanted = options(bench, model, account_dir=str(account), **more)
            with conversing(runtime, wanted, bench.env) as talk:
                end = say(talk, said)
                assert end.usage == talk.recorder.usage == Usage(**used)
                return talk.recorder.native_session_id or "", bodies(model)[-1]

        source, _ = talked("First words.")
        [record] = account.rglob(f"*_{source}.jsonl")
        written = record.read_bytes()
        copy, sent = talked("In the copy.", resume=source, provider_options={"fork": True})
        assert copy not in ("", source)
        assert "First words." in sent
        assert "One." in sent
        assert record.read_bytes() == written
        again, sent = talked("In the source.", resume=source)
        assert (again, "In the copy." in sent) == (source, False)
        again, sent = talked("Once more.", resume=copy)
        assert (again, "In the copy." in sent) == (copy, True)
        wrong = options(
            bench,
            model,
            account_dir=str(account),
            resume="nobody",
            provider_options={"fork": True},
        )
        with pytest.raises(ResumeRefused):
            runtime.plan_live(wrong, bench.env, "s")
        [copied] = account.rglob(f"*_{copy}.jsonl")
        for path in (record, copied):
            found = runtime.parse_transcript(str(path))
            assert found is not None
            assert found.input_tokens == 2 * used["input_tokens"]
    log.check_repeatable()


def test_compaction(version: str, bench: AgentBench) -> None:
    """On request between turns; by itself within one, which then goes on."""
    first, second, fourth, fifth = [f"{name} " + "word " * 12_000 for name in "abde"]
    script = [
        {"text": first},
        {"text": second},
        {"text": "Short."},
        {"text": fourth},
        {"text": fifth},
        {"fault": {"kind": "context_overflow", "times": 1}},
        {"text": "Healed."},
        {"text": "After."},
    ]
    runtime = pinned_as(PiRuntime, version)
    log = record_wires(runtime)
    with (
        ScriptedModel(script) as model,
        conversing(runtime, options(bench, model), bench.env) as talk,
    ):
        for text in ("One.", "Two.", "Three."):
            say(talk, text)
        assert isinstance(talk.wire, CompactionControl)
        talk.wire.compact()
        talk.pump(time.monotonic())
        talk.wait(lambda: bool(events_of(talk, ev.AutoCompactionEnd)), DEADLINE)
        assert talk.recorder.is_ready
        assert events_of(talk, ev.AutoCompactionEnd)[0].reason == "manual"
        say(talk, "Four.")
        assert "One." not in bodies(model)[-1]
        say(talk, "Five.")
        healed = say(talk, "Six.")
        assert (healed.status, healed.text) == ("completed", "Healed.")
        assert [each.reason for each in events_of(talk, ev.AutoCompactionEnd)] == [
            "manual",
            "overflow",
        ]
        assert say(talk, "Seven.").text == "After."
        assert talk.recorder.turn == 7
    log.check_repeatable()


def test_the_users_own_folder_stays_as_it_is(version: str, bench: AgentBench) -> None:
    """A change of model is for this conversation; the conversation itself is the user's."""
    with ScriptedModel([{"text": "One."}, {"text": "Two."}]) as model:
        login(bench, model, settings={"theme": "dark"})
        before = {path.name: path.read_bytes() for path in agent_dir(bench).glob("*.json")}
        wanted = RunOptions(
            prompt="", cwd=str(bench.work), permission_mode="bypass", model="lab/scripted"
        )
        with conversing(pinned_as(PiRuntime, version), wanted, bench.env) as talk:
            assert isinstance(talk.wire, ModelSwitch)
            talk.wire.set_model("lab/scripted:off")
            assert say(talk, "First words.").text == "One."
            native = talk.recorder.native_session_id
        after = {path.name: path.read_bytes() for path in agent_dir(bench).glob("*.json")}
        assert {name: after[name] for name in before} == before
        again = RunOptions(**{**_fields(wanted), "resume": native})
        with conversing(pinned_as(PiRuntime, version), again, bench.env) as talk:
            assert say(talk, "Second words.").text == "Two."
        assert "First words." in bodies(model)[-1]


def _fields(options: RunOptions) -> dict[str, Any]:
    return {name: getattr(options, name) for name in options.__struct_fields__}
