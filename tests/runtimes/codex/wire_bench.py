"""Conversations with the live wire of Codex, without a process: captures, and step by step."""

import json
from pathlib import Path
from typing import Any

from bridle.core import events as ev
from bridle.core.errors import Aborted
from bridle.core.options import RunOptions
from bridle.core.usage import Usage
from bridle.process.spec import ProcessExit
from bridle.runtimes.codex.live import CodexLiveWire
from bridle.turns.recorder import Recorder
from bridle.turns.wire import Delivery, LiveFacts, Outgoing, Question
from tests.runtimes.codex.captures import TESTDATA

THREAD = "01a1e087-7f71-79d0-9a24-e44e90a1f80c"
CAPTURES = [p for p in sorted(TESTDATA.glob("*/appserver/*.jsonl")) if p.stem != "errors"]
"""Whole conversations."""


class WireBench:
    """A wire with a recorder; `tell` is what Codex says, `sent` what the wire sent."""

    def __init__(self, *, told_ids: bool = False, resume: str | None = None, **own: Any) -> None:
        facts = LiveFacts(
            runtime="codex",
            runtime_version="0.0.0",
            dialect="codex",
            cwd="/repo",
            resume=resume,
            own={"thread": {"cwd": "/repo"}, "told_ids": told_ids, **own},
        )
        options = RunOptions(prompt="", model="gpt-5.5")
        self.recorder = Recorder(runtime="codex", session_id="s", options=options, drive="rpc")
        self.wire = CodexLiveWire(facts, self.recorder)
        self.sent: list[dict[str, Any]] = []
        self.events: list[ev.Event] = []
        self.questions: dict[str, Question] = {}
        self.deliveries: dict[str, Delivery] = {}
        self.wire.begin()
        self.settle()

    def settle(self) -> None:
        for line in b"".join(self.recorder.replies).splitlines():
            self.sent.append(json.loads(line))
        self.recorder.replies.clear()
        for question in self.recorder.questions:
            self.questions[question.request_id] = question
        self.recorder.questions.clear()
        for delivery in self.recorder.deliveries:
            assert delivery.id not in self.deliveries, "told twice what became of it"
            self.deliveries[delivery.id] = delivery
        self.recorder.deliveries.clear()
        self.events += self.recorder.drain()

    def tell(self, message: dict[str, Any]) -> None:
        self.wire.feed(json.dumps(message).encode())
        self.settle()

    def note(self, method: str, **params: Any) -> None:
        self.tell({"method": method, "params": {"threadId": THREAD, **params}})

    def answer(
        self, result: Any = None, *, error: str | None = None, to: int | None = None
    ) -> None:
        """Answer the latest request, or that of number `to`."""
        number = to or max(each["id"] for each in self.sent if "method" in each and "id" in each)
        body = {"result": {} if result is None else result}
        self.tell({"id": number, **(body if error is None else {"error": {"message": error}})})

    def open(self) -> "WireBench":
        """Bring it to its first prompt."""
        self.answer()
        self.answer({"thread": {"id": THREAD}, "model": "gpt-5.5"})
        return self

    def prompt(self, name: str, text: str = "go", *images: str) -> None:
        self.wire.prompt(Outgoing(id=name, text=text, images=images))
        self.settle()

    def steer(self, name: str, text: str = "mind") -> None:
        self.wire.steer(Outgoing(id=name, text=text))
        self.settle()

    def abort(self) -> None:
        self.recorder.fail(Aborted("enough"))
        self.wire.abort()
        self.settle()

    def started(self, turn: str) -> None:
        self.note("turn/started", turn={"id": turn, "status": "inProgress"})

    def completed(self, turn: str, status: str = "completed", error: Any = None) -> None:
        self.note("turn/completed", turn={"id": turn, "status": status, "error": error})

    def item(self, when: str, turn: str, **item: Any) -> None:
        self.note(f"item/{when}", turnId=turn, item=item)

    def methods(self) -> list[str]:
        return [each["method"] for each in self.sent if "method" in each]

    def ends(self) -> list[ev.AgentEnd]:
        return [each for each in self.events if isinstance(each, ev.AgentEnd)]


def play_capture(path: Path) -> WireBench:
    """Do what the captured client did, tell what the captured Codex said."""
    stage = WireBench()
    numbers: dict[int, int] = {}
    for line in path.read_text().splitlines():
        entry = json.loads(line)
        message = entry["msg"]
        if entry["dir"] == "client->server":
            before = len(stage.sent)
            _act(stage, message)
            asked = [each for each in stage.sent[before:] if "method" in each]
            if "method" in message and asked:
                numbers[message["id"]] = asked[-1]["id"]
        elif entry["dir"] == "server->client":
            _hear(stage, message, numbers)
        if stage.sent and stage.sent[-1].get("method") == "thread/backgroundTerminals/clean":
            # Captured clients did that by hand, at other times.
            stage.answer({}, to=stage.sent[-1]["id"])
            stage.sent.append({})
    return stage


def _act(stage: WireBench, message: dict[str, Any]) -> None:
    recorder, params = stage.recorder, message.get("params") or {}
    parts = params.get("input", [])
    text = "".join(part.get("text", "") for part in parts)
    images = [part["path"] for part in parts if part["type"] == "localImage"]
    match message.get("method"):
        case "turn/start" if recorder.is_ready:
            if "model" in params:
                stage.wire.set_model(params["model"])
            stage.prompt(f"p{message['id']}", text, *images)
        case "turn/steer" if recorder.turn_open and params["expectedTurnId"] != "nope":
            stage.steer(f"s{message['id']}", text)
        case "turn/interrupt" if recorder.turn_open:
            stage.abort()
        case "thread/compact/start":
            stage.wire.compact()
            stage.settle()
        case None:
            question = stage.questions.pop(str(message["id"]))
            yes = message["result"].get("decision", "accept").startswith("accept")
            recorder.reply(question.answer(yes, ""))
            recorder.permission_decided(
                question.request_id,
                tool_name=question.tool_name,
                tool_call_id=question.tool_call_id,
                decision="allow" if yes else "deny",
                by="test",
            )
            stage.settle()


def _hear(stage: WireBench, message: dict[str, Any], numbers: dict[int, int]) -> None:
    if "method" in message:
        stage.tell(message)
    elif "userAgent" in message.get("result", {}):
        stage.answer(to=1)
    elif stage.recorder.state == "starting" and "thread" in message.get("result", {}):
        stage.answer(message["result"], to=2)
    elif message["id"] in numbers:
        stage.tell({**message, "id": numbers[message["id"]]})


CALL = Usage(input_tokens=600, output_tokens=50, cache_read_tokens=400, reasoning_tokens=10)
OTHER = "01a1e17e-e73a-7812-b961-02f676303419"


def tokens(calls: int) -> dict[str, Any]:
    """The totals that Codex tells after so many model calls."""
    counts = {"inputTokens": 1000, "cachedInputTokens": 400, "outputTokens": 50}
    counts["reasoningOutputTokens"] = 10
    return {"tokenUsage": {"total": {name: calls * value for name, value in counts.items()}}}


def times(calls: int) -> Usage:
    """The usage of so many model calls."""
    return sum([CALL] * calls, Usage())


def opened(**own: Any) -> WireBench:
    """A conversation that is ready."""
    return WireBench(**own).open()


def working(name: str = "p", **own: Any) -> WireBench:
    """A conversation in its first turn, `t1`."""
    stage = opened(**own)
    stage.prompt(name)
    stage.answer({"turn": {"id": "t1"}})
    stage.started("t1")
    return stage


def left(stage: WireBench, code: int = 0) -> list[ev.Event]:
    """All the events, once the process is gone as it was asked to."""
    stage.recorder.leaving = "done"
    stage.wire.leave()
    assert stage.recorder.input_done
    stage.wire.finish(ProcessExit(code=code))
    stage.settle()
    return stage.events
