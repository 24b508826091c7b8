"""The wire of a live conversation with Pi, without Pi: lines in, lines and events out."""

import json
from typing import Any

import pytest

from bridle.core import events as ev
from bridle.core.errors import Aborted, ResumeRefused, Unavailable
from bridle.core.options import RunOptions
from bridle.process.spec import ProcessExit
from bridle.runtimes.pi.live import PiLiveWire
from bridle.runtimes.pi.wire import ASK_TITLE
from bridle.turns.recorder import Recorder
from bridle.turns.wire import Delivery, LiveFacts, Outgoing
from tests.runtimes.pi.captures import TESTDATA
from tests.support.driving import check_order

OLD, NEW = "pi-0.74", "pi-1.5"
both = pytest.mark.parametrize("dialect", [OLD, NEW])


class WireBench:
    """A wire whose other end is played by the test."""

    def __init__(self, dialect: str, resume: str | None = None, **own: Any) -> None:
        self.recorder = Recorder(
            runtime="pi", session_id="s", options=RunOptions(prompt=""), drive="rpc"
        )
        facts = LiveFacts(
            runtime="pi",
            runtime_version="",
            dialect=dialect,
            cwd="/nowhere",
            resume=resume,
            own=own,
        )
        self.wire = PiLiveWire(facts, self.recorder)
        self.dialect = dialect
        self.events: list[ev.Event] = []
        self.deliveries: dict[str, Delivery] = {}
        self.wire.begin()

    def sent(self) -> list[dict[str, Any]]:
        """What the wire said since the last call."""
        lines = [json.loads(data) for data in self.recorder.replies]
        self.recorder.replies.clear()
        return lines

    def hear(self, kind: str, **fields: Any) -> None:
        """Let Pi print one line."""
        self.wire.feed(json.dumps({"type": kind, **fields}).encode())
        self.events += self.recorder.drain()
        for each in self.recorder.deliveries:
            assert each.id not in self.deliveries
            self.deliveries[each.id] = each
        self.recorder.deliveries.clear()

    def answer(self, name: str, command: str = "", **fields: Any) -> None:
        self.hear("response", id=name, command=command, **{"success": True, **fields})

    def tell_state(self, name: str, **fields: Any) -> None:
        self.answer(name, "get_state", data={"sessionId": "native", **fields})

    def up(self) -> "WireBench":
        self.tell_state(self.sent()[0]["id"])
        assert self.recorder.is_ready
        return self

    def prompt(self, name: str = "p") -> None:
        """A prompt that Pi takes, up to the first model call."""
        self.wire.prompt(Outgoing(id=name, text=f"text of {name}"))
        assert self.sent()[0]["id"] == name
        new = self.dialect == NEW
        self.answer(name, "prompt", **({"data": {"disposition": "started"}} if new else {}))
        self.hear("agent_start")
        self.hear("turn_start")
        for command in self.sent():
            assert not new
            self.tell_state(command["id"], isStreaming=True)

    def reply(self, text: str = "Hello.", stop: str = "stop", error: str = "") -> None:
        message = {
            "role": "assistant",
            "content": [{"type": "text", "text": text}],
            "stopReason": stop,
            "errorMessage": error,
        }
        self.hear("message_start", message=message)
        self.hear("message_end", message=message)

    def end(self, **settled: Any) -> None:
        """The end of the work, with the proof that the dialect has for it."""
        self.hear("agent_end", messages=[])
        if self.dialect == NEW:
            self.hear("agent_settled", aborted=False, **settled)
        else:
            (probe,) = self.sent()
            assert probe["type"] == "get_state"
            self.tell_state(probe["id"])

    def user(self, text: str) -> None:
        self.hear("message_start", message={"role": "user", "content": text})

    @property
    def last(self) -> ev.AgentEnd:
        return next(each for each in reversed(self.events) if isinstance(each, ev.AgentEnd))


@both
def test_a_turn(dialect: str) -> None:
    bench = WireBench(dialect).up()
    assert bench.recorder.native_session_id == "native"
    bench.prompt()
    assert bench.deliveries["p"] == Delivery(id="p", taken=True, turn=1)
    bench.reply()
    assert bench.recorder.turn_open
    bench.end()
    assert bench.recorder.is_ready
    assert (bench.last.status, bench.last.text) == ("completed", "Hello.")


@both
def test_another_conversation_is_refused(dialect: str) -> None:
    bench = WireBench(dialect, resume="wanted")
    bench.tell_state(bench.sent()[0]["id"])
    assert isinstance(bench.recorder.stop_requested, ResumeRefused)
    assert not bench.recorder.is_ready


@both
def test_a_copy_is_proved_or_refused(dialect: str) -> None:
    bench = WireBench(dialect, resume="source", fork=True)
    bench.tell_state(bench.sent()[0]["id"], messageCount=2)
    assert bench.recorder.is_ready
    assert bench.recorder.native_session_id == "native"
    empty, same = WireBench(dialect, "source", fork=True), WireBench(dialect, "native", fork=True)
    empty.tell_state(empty.sent()[0]["id"], messageCount=0)
    same.tell_state(same.sent()[0]["id"], messageCount=2)
    for refused in (empty, same):
        assert isinstance(refused.recorder.stop_requested, ResumeRefused)
        assert not refused.recorder.is_ready


def test_a_retry_keeps_the_turn_open_where_nothing_settles() -> None:
    bench = WireBench(OLD).up()
    bench.prompt()
    bench.reply("", "error", "529 overloaded")
    bench.hear("agent_end")
    (probe,) = bench.sent()
    bench.hear("auto_retry_start", attempt=1, delayMs=10, errorMessage="529 overloaded")
    bench.tell_state(probe["id"])
    assert bench.recorder.turn_open
    bench.hear("agent_start")
    bench.reply("", "error", "529 overloaded")
    bench.hear("agent_end")
    (first,) = bench.sent()
    bench.hear("auto_retry_end", success=False, finalError="529 overloaded")
    (second,) = bench.sent()
    bench.tell_state(first["id"])
    assert bench.recorder.turn_open
    bench.tell_state(second["id"])
    assert bench.recorder.is_ready
    assert bench.last.error is not None
    assert bench.last.error.kind == "overloaded"
    bench.prompt("q")
    bench.reply("Better.")
    bench.end()
    assert (bench.last.status, bench.last.text) == ("completed", "Better.")


def test_a_compaction_keeps_the_turn_open_where_nothing_settles() -> None:
    bench = WireBench(OLD).up()
    bench.prompt()
    bench.reply("", "error", "400 prompt is too long")
    bench.hear("agent_end")
    (probe,) = bench.sent()
    bench.hear("compaction_start", reason="overflow")
    bench.tell_state(probe["id"], isCompacting=True)
    bench.wire.steer(Outgoing(id="s", text="Mind the gap."))
    assert bench.sent() == []
    bench.hear("compaction_end", reason="overflow", result={}, willRetry=True)
    (probe,) = bench.sent()
    bench.tell_state(probe["id"])
    assert bench.recorder.turn_open
    bench.hear("agent_start")
    (steer,) = bench.sent()
    assert (steer["id"], steer["streamingBehavior"]) == ("s", "steer")
    bench.hear("queue_update", steering=["Mind the gap."])
    bench.answer("s", "prompt")
    bench.reply("Healed.")
    bench.user("Mind the gap.")
    assert bench.deliveries["s"].taken
    bench.reply("Minded.")
    bench.end()
    assert (bench.last.turn, bench.last.status, bench.last.text) == (1, "completed", "Minded.")


@both
def test_a_steer_in_flight_holds_the_end_of_the_turn(dialect: str) -> None:
    bench = WireBench(dialect).up()
    bench.prompt()
    bench.reply()
    bench.wire.steer(Outgoing(id="s", text="Too late."))
    assert [each["id"] for each in bench.sent()] == ["s"]
    bench.end()
    assert bench.recorder.turn_open
    new = dialect == NEW
    bench.answer("s", "prompt", **({"data": {"disposition": "started"}} if new else {}))
    assert (bench.deliveries["s"].taken, bench.deliveries["s"].turn) == (True, 2)
    assert bench.recorder.turn_open
    assert not any(
        each.new == "ready" for each in bench.events[-2:] if isinstance(each, ev.StateChange)
    )
    bench.hear("agent_start")
    bench.sent()
    bench.reply("Second.")
    bench.end()
    assert (bench.last.turn, bench.last.text) == (2, "Second.")


def test_a_steer_that_is_left_in_the_queue_is_taken_out_and_refused() -> None:
    bench = WireBench(NEW).up()
    bench.prompt()
    bench.wire.steer(Outgoing(id="s", text="Mind the gap."))
    bench.sent()
    bench.hear("queue_update", steering=["Mind the gap."])
    bench.answer("s", "prompt", data={"disposition": "queued"})
    bench.reply("", "error", "401 no")
    bench.hear("agent_end")
    bench.hear("agent_settled", aborted=False)
    (clear,) = bench.sent()
    assert clear["type"] == "clear_queue"
    assert bench.recorder.turn_open
    bench.answer(clear["id"], "clear_queue", data={"steering": ["Mind the gap."], "followUp": []})
    assert bench.recorder.is_ready
    assert not bench.deliveries["s"].taken


def test_a_steer_that_cannot_be_taken_out_goes_with_the_next_prompt() -> None:
    bench = WireBench(OLD).up()
    bench.prompt()
    bench.wire.steer(Outgoing(id="s", text="Mind the gap."))
    bench.sent()
    bench.hear("queue_update", steering=["Mind the gap."])
    bench.answer("s", "prompt")
    bench.reply("", "error", "401 no")
    bench.hear("agent_end")
    (probe,) = bench.sent()
    bench.tell_state(probe["id"], pendingMessageCount=1)
    assert bench.recorder.is_ready
    assert "s" not in bench.deliveries
    bench.prompt("q")
    bench.user("text of q")
    bench.user("Mind the gap.")
    assert (bench.deliveries["s"].taken, bench.deliveries["s"].turn) == (True, 2)


@both
def test_abort_cancels_dialogs_first(dialect: str) -> None:
    bench = WireBench(dialect).up()
    bench.prompt()
    call = json.dumps({"id": "call", "tool": "bash", "args": {"command": "ls"}})
    bench.hear("extension_ui_request", id="d", method="input", title=ASK_TITLE, placeholder=call)
    assert bench.recorder.state == "waiting_permission"
    (question,) = bench.recorder.questions
    assert (question.tool_call_id, question.tool_name) == ("call", "bash")
    assert json.loads(json.loads(question.answer(False, "no"))["value"]) == {
        "allow": False,
        "reason": "no",
    }
    bench.recorder.fail(Aborted("enough"))
    bench.wire.abort()
    said = bench.sent()
    assert said[0] == {"type": "extension_ui_response", "id": "d", "cancelled": True}
    assert [each["type"] for each in said[1:]] == (
        ["clear_queue", "abort"] if dialect == NEW else ["abort"]
    )
    bench.reply("", "aborted" if dialect == OLD else "error", "This operation was aborted")
    bench.end()
    assert bench.last.status == "aborted"


@both
def test_what_nobody_can_answer_is_cancelled_at_once(dialect: str) -> None:
    bench = WireBench(dialect)
    bench.sent()
    bench.hear("extension_ui_request", id="early", method="confirm", title="Trust?")
    assert bench.sent() == [{"type": "extension_ui_response", "id": "early", "cancelled": True}]
    bench.tell_state("bridle-1")
    bench.prompt()
    for method in ("select", "input", "editor", "never_heard_of"):
        bench.hear("extension_ui_request", id=method, method=method)
        assert bench.sent() == [{"type": "extension_ui_response", "id": method, "cancelled": True}]
    for method in ("notify", "setStatus", "setTitle", "setWidget", "set_editor_text"):
        bench.hear("extension_ui_request", id=method, method=method)
    assert bench.sent() == []
    bench.hear("extension_error", extensionPath="x", error="y")
    assert len([each for each in bench.events if isinstance(each, ev.Unknown)]) == 6


@both
def test_prompts_wait_for_the_model_and_an_unknown_one_refuses_them(dialect: str) -> None:
    bench = WireBench(dialect).up()
    bench.wire.set_model("sonnet:high")
    bench.wire.prompt(Outgoing(id="p", text="a"))
    first, second = bench.sent()
    assert (first["type"], first["provider"], first["modelId"]) == (
        "set_model",
        "anthropic",
        "claude-sonnet-4-6",
    )
    assert (second["type"], second["level"]) == ("set_thinking_level", "high")
    bench.answer(first["id"])
    assert bench.sent() == []
    bench.answer(second["id"])
    assert [each["id"] for each in bench.sent()] == ["p"]
    bench.answer("p", "prompt", success=False, error="No API key found for the selected model.")
    assert bench.deliveries["p"].error is not None
    assert bench.deliveries["p"].error.kind == "not_authenticated"
    bench.wire.set_model("nobody/nothing")
    (asked,) = bench.sent()
    bench.wire.prompt(Outgoing(id="q", text="a"))
    bench.answer(asked["id"], success=False, error="Model not found: nobody/nothing")
    assert bench.sent() == []
    assert isinstance(bench.deliveries["q"].error, Unavailable)
    bench.prompt("r")


@both
def test_a_command_of_an_extension_is_a_turn_without_an_answer(dialect: str) -> None:
    bench = WireBench(dialect).up()
    bench.wire.prompt(Outgoing(id="p", text="/lab"))
    bench.sent()
    if dialect == NEW:
        bench.answer("p", "prompt", data={"disposition": "handled"})
    else:
        bench.answer("p", "prompt")
        assert bench.recorder.turn_open
        (probe,) = bench.sent()
        bench.tell_state(probe["id"])
    assert bench.deliveries["p"].taken
    assert (bench.last.status, bench.last.text) == ("completed", "")
    assert bench.recorder.is_ready


@both
def test_a_turn_that_pi_begins_by_itself(dialect: str) -> None:
    bench = WireBench(dialect).up()
    bench.hear("agent_start")
    assert bench.recorder.turn_open
    bench.reply("By myself.")
    bench.end()
    assert bench.last.text == "By myself."


@both
def test_the_end_of_the_process_settles_everything(dialect: str) -> None:
    bench = WireBench(dialect).up()
    bench.prompt()
    bench.wire.steer(Outgoing(id="s", text="Mind the gap."))
    bench.wire.finish(ProcessExit(code=-9))
    bench.events += bench.recorder.drain()
    (delivery,) = bench.recorder.deliveries
    assert (delivery.id, delivery.taken) == ("s", False)
    assert bench.last.error is not None
    assert (bench.last.status, bench.last.error.kind) == ("failed", "crashed")
    assert bench.recorder.state == "failed"


def test_a_start_that_fails_says_why() -> None:
    bench = WireBench(NEW)
    bench.wire.finish(ProcessExit(code=1, stderr_tail="No API key found for anthropic.\n"))
    assert bench.recorder.error is not None
    assert bench.recorder.error.kind == "not_authenticated"


@both
@pytest.mark.parametrize(
    "line",
    [
        b"\x00\xff\xfe",
        b"[]",
        b'{"type":"response"}',
        b'{"type":"response","id":"bridle-1","success":true,"data":[]}',
        b'{"type":"response","id":7,"success":false,"error":"x"}',
        b'{"type":"extension_ui_request"}',
        b'{"type":"queue_update","steering":7}',
        b'{"type":"agent_settled"}',
        b'{"type":"auto_retry_end","success":false}',
        b'{"type":"never heard of"}',
    ],
)
def test_nothing_that_pi_may_print_breaks_it(dialect: str, line: bytes) -> None:
    bench = WireBench(dialect)
    bench.wire.feed(line)
    bench = WireBench(dialect).up()
    bench.wire.feed(line)
    bench.prompt()
    bench.wire.feed(line)
    bench.sent()
    bench.reply()
    bench.end()
    assert bench.last.status == "completed"


@pytest.mark.parametrize(
    ("capture", "dialect", "statuses"),
    [
        ("rpc-conversation-0.74.2", OLD, ["completed", "completed", "aborted", "aborted"]),
        ("rpc-conversation-1.5.0", NEW, ["completed", "completed", "aborted", "aborted"]),
        ("rpc-abort-1.5.0", NEW, ["aborted"] * 5),
        ("rpc-compaction-0.74.2", OLD, ["completed"] * 6),
        ("rpc-compaction-1.5.0", NEW, ["completed"] * 6),
    ],
)
def test_captured_conversations(capture: str, dialect: str, statuses: list[str]) -> None:
    bench = WireBench(dialect)
    names = {"r1": bench.sent()[0]["id"]}
    steers: list[str] = []
    streaming, moment = False, 0.0
    for line in (TESTDATA / f"{capture}.jsonl").read_bytes().splitlines():
        entry = json.loads(line)
        message = entry["msg"]
        kind = message.get("type")
        for said in bench.sent() if entry["t"] > moment else ():
            # The commands that only this wire gave. What Pi prints in one go is not interrupted.
            if said["type"] == "get_state":
                bench.tell_state(said["id"], isStreaming=streaming)
            elif said["type"] == "clear_queue":
                bench.answer(said["id"], data={"steering": [], "followUp": []})
        moment = entry["t"]
        if entry["dir"] == "out":
            began = kind == "agent_start" or message.get("command") == "prompt"
            streaming = (streaming or began) and kind != "agent_end"
            if kind == "response":
                message["id"] = names.get(message.get("id", ""), message.get("id"))
            bench.hear(kind, **{name: value for name, value in message.items() if name != "type"})
        elif kind == "prompt" and "streamingBehavior" not in message and bench.recorder.is_ready:
            bench.wire.prompt(Outgoing(id=message["id"], text=message["message"]))
        elif kind == "steer" or message.get("streamingBehavior") == "steer":
            bench.wire.steer(Outgoing(id=message["id"], text=message["message"]))
            steers.append(message["id"])
        elif kind == "abort" and bench.recorder.turn_open:
            bench.recorder.fail(Aborted("enough"))
            bench.wire.abort()
    bench.wire.finish(ProcessExit(code=0))
    bench.recorder.leaving = "done"
    bench.events += bench.recorder.drain()
    ends = [each for each in bench.events if isinstance(each, ev.AgentEnd)]
    assert [each.status for each in ends] == statuses
    assert all(bench.deliveries[name].taken for name in steers)
    check_order(bench.events)
