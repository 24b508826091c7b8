"""A live wire of Claude Code that a test talks to, and the lines that its agent may say."""

from typing import Any

import msgspec

from bridle.core import events as ev
from bridle.core.errors import Aborted
from bridle.core.options import RunOptions
from bridle.process.spec import ProcessExit
from bridle.runtimes.claude import ClaudeRuntime
from bridle.runtimes.claude.live import ClaudeLiveWire
from bridle.turns.recorder import Recorder
from bridle.turns.wire import Delivery, LiveFacts, Outgoing
from tests.runtimes.claude.captures import TESTDATA, check_order
from tests.support.replaying import WireLog

NATIVE = "11111111-2222-4333-8444-555555555555"
CAPTURES = sorted(TESTDATA.glob("live/*.jsonl"))
READY = {"type": "control_response", "response": {"subtype": "success", "request_id": "bridle-1"}}


def message_id(number: int) -> str:
    """The id of the message of that number."""
    return f"0a0a0a0a-0000-4000-8000-{number:012d}"


class WireBench:
    """A wire without a process, and what came of it."""

    def __init__(self, *, resume: str | None = None, version: str = "2.1.197") -> None:
        self.recorder = Recorder(
            runtime="claude",
            session_id=NATIVE,
            options=RunOptions(prompt=""),
            cwd="/",
            runtime_version=version,
            drive="rpc",
        )
        facts = LiveFacts(
            runtime="claude",
            runtime_version=version,
            dialect="",
            cwd="/",
            resume=resume,
            own={"session": resume or NATIVE},
        )
        build = ClaudeRuntime().live_wire
        self.log = WireLog(build, facts, self.recorder)
        wire = build(facts, self.recorder)
        assert isinstance(wire, ClaudeLiveWire)
        self.wire = wire
        self.log.attach(wire)
        self.events: list[ev.Event] = []
        self.deliveries: list[Delivery] = []
        wire.begin()

    def hear(self, *lines: dict[str, Any] | bytes) -> "WireBench":
        """The agent says something."""
        for line in lines:
            self.wire.feed(line if isinstance(line, bytes) else msgspec.json.encode(line))
        self._take()
        return self

    def say(self, number: int, *, steer: bool = False) -> "WireBench":
        """We say something."""
        message = Outgoing(id=message_id(number), text=f"text {number}")
        (self.wire.steer if steer else self.wire.prompt)(message)
        self._take()
        return self

    def abort(self) -> "WireBench":
        self.recorder.fail(Aborted("enough"))
        self.wire.abort()
        return self

    def finish(self, code: int = 0) -> "WireBench":
        """The process is gone; what must hold after every conversation is checked."""
        self.recorder.leaving = self.recorder.leaving or ("done" if code == 0 else None)
        self.wire.finish(ProcessExit(code=code))
        self._take()
        check_order(self.events)
        self.log.check_repeatable()
        return self

    def _take(self) -> None:
        self.events += self.recorder.drain()
        self.deliveries += self.recorder.deliveries
        self.recorder.deliveries.clear()

    @property
    def sent(self) -> list[dict[str, Any]]:
        """The lines for the agent so far."""
        return [msgspec.json.decode(line) for line in self.recorder.replies]

    @property
    def asked(self) -> list[str]:
        """The kinds of our requests so far."""
        return [line["request"]["subtype"] for line in self.sent if "request" in line]

    @property
    def taken(self) -> list[tuple[int, int]]:
        """The numbers of the messages that were taken, each with its turn."""
        return [(int(each.id[-4:]), each.turn) for each in self.deliveries if each.taken]

    def of(self, kind: type[ev.Event]) -> list[Any]:
        return [event for event in self.events if isinstance(event, kind)]

    @property
    def statuses(self) -> list[str]:
        return [end.status for end in self.of(ev.AgentEnd)]


def init(session: str = NATIVE) -> dict[str, Any]:
    """The agent names its session."""
    return {"type": "system", "subtype": "init", "session_id": session, "model": "m"}


def echo(number: int) -> dict[str, Any]:
    """The agent repeats the message of that number."""
    body = {"role": "user", "content": f"text {number}"}
    return {"type": "user", "message": body, "uuid": message_id(number), "isReplay": True}


def starts(name: str = "msg_a") -> dict[str, Any]:
    """The model begins to answer."""
    message = {"id": name, "model": "m"}
    return {"type": "stream_event", "event": {"type": "message_start", "message": message}}


def result(text: str = "done", **fields: Any) -> dict[str, Any]:
    """The turn ends."""
    return {"type": "result", "subtype": "success", "result": text, **fields}


def ack(number: int, **response: Any) -> dict[str, Any]:
    """The agent answers our request of that number."""
    answer = {"subtype": "success", "request_id": f"bridle-{number}", "response": response}
    return {"type": "control_response", "response": answer}


WOKEN = {"kind": "task-notification"}
ABORTED = {
    "is_error": True,
    "subtype": "error_during_execution",
    "terminal_reason": "aborted_streaming",
}


def notified(status: str = "completed") -> dict[str, Any]:
    """A task in the background has come to its end."""
    return {
        "type": "system",
        "subtype": "task_notification",
        "task_id": "t",
        "status": status,
        "summary": "s",
    }
