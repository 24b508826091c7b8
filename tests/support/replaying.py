"""Proves that a live wire is repeatable: what was asked of it is asked of a second one.

log = record_wires(runtime)
with conversing(runtime, options, env) as talk:
    ...
log.check_repeatable()
"""

from collections.abc import Callable
from typing import Any

import msgspec

from bridle.core.events import Event
from bridle.runtimes.alternatives import as_live
from bridle.runtimes.contract import Adapter
from bridle.turns.recorder import Recorder
from bridle.turns.wire import LiveFacts, LiveWire, Question

_WIRE_CALLS = (
    "begin",
    "feed",
    "prompt",
    "steer",
    "abort",
    "leave",
    "finish",
    "set_model",
    "compact",
    "abort_compaction",
    "feed_stderr",
)
_DRIVER_CALLS = ("fail", "request_stop", "permission_decided", "finish")
"""What a driver itself calls on the recorder: a wire may see the consequences."""


class Call(msgspec.Struct):
    """One call from outside, on the wire, the recorder or a question, and what the wire sent
    because of it."""

    on: str
    name: str
    args: tuple[Any, ...]
    named: dict[str, Any]
    leaving: str | None
    replies: list[bytes]


class WireLog:
    """All that was asked of one wire, and all that came of it."""

    def __init__(
        self,
        build: Callable[[LiveFacts, Recorder], LiveWire],
        facts: LiveFacts,
        recorder: Recorder,
    ) -> None:
        self.calls: list[Call] = []
        self.events: list[Event] = []
        self.questions: list[Question] = []
        self._build = build
        self._facts = facts
        self._recorder = recorder
        self._inside = False

    def attach(self, wire: LiveWire) -> None:
        """Note every call on `wire` and its recorder from now on."""
        for name in _WIRE_CALLS:
            if hasattr(wire, name):
                setattr(wire, name, self._noted("wire", name, getattr(wire, name)))
        for name in _DRIVER_CALLS:
            method = getattr(self._recorder, name)
            setattr(self._recorder, name, self._noted("recorder", name, method))
        drain, ask = self._recorder.drain, self._recorder.permission_requested

        def draining() -> list[Event]:
            events = drain()
            self.events += events
            return events

        def asking(question: Question) -> None:
            number = str(len(self.questions))
            answer = self._noted("question", number, question.answer)
            noted = msgspec.structs.replace(question, answer=answer)
            self.questions.append(noted)
            ask(noted)

        setattr(self._recorder, "drain", draining)  # noqa: B010 (mypy forbids assigning a method)
        setattr(self._recorder, "permission_requested", asking)  # noqa: B010 (as above)

    def _noted(self, on: str, name: str, method: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **named: Any) -> Any:
            if self._inside:
                return method(*args, **named)
            self._inside = True
            before = len(self._recorder.replies)
            answer = b""
            try:
                result = method(*args, **named)
                answer = result if isinstance(result, bytes) else b""
                return result
            finally:
                self._inside = False
                sent = [*self._recorder.replies[before:], answer]
                leaving = self._recorder.leaving
                self.calls.append(Call(on, name, args, named, leaving, sent))

        return call

    def check_repeatable(self) -> None:
        """Ask the same of a second wire, made from facts that were on disk: it must send the same
        bytes after each call and tell the same events, at whatever time."""
        facts = msgspec.json.decode(msgspec.json.encode(self._facts), type=LiveFacts)
        first = self._recorder
        second = Recorder(
            runtime=first.runtime,
            session_id=first.session_id,
            options=first.options,
            cwd=facts.cwd,
            runtime_version=facts.runtime_version,
            redactor=first.redactor,
            drive="rpc",
        )
        again = WireLog(self._build, facts, second)
        wire = self._build(facts, second)
        again.attach(wire)
        for number, call in enumerate(list(self.calls)):
            second.leaving = call.leaving
            if call.on == "question":
                again.questions[int(call.name)].answer(*call.args, **call.named)
            else:
                target: Any = wire if call.on == "wire" else second
                getattr(target, call.name)(*call.args, **call.named)
            sent = again.calls[-1].replies
            assert sent == call.replies, f"call {number}, {call.name}: {sent} != {call.replies}"
            second.replies.clear()
        second.drain()
        self._recorder.drain()
        assert [_timeless(each) for each in again.events] == [_timeless(e) for e in self.events]
        assert [_answers(each) for each in again.questions] == [_answers(q) for q in self.questions]


def record_wires(runtime: Adapter) -> "WireLogs":
    """Note what is asked of each live wire that `runtime` makes from now on."""
    logs = WireLogs()
    build = as_live(runtime).live_wire

    def building(facts: LiveFacts, recorder: Recorder) -> LiveWire:
        log = WireLog(build, facts, recorder)
        logs.all.append(log)
        wire = build(facts, recorder)
        log.attach(wire)
        return wire

    setattr(runtime, "live_wire", building)  # noqa: B010 (mypy forbids assigning a method)
    return logs


class WireLogs:
    """The logs of all the wires that a runtime made, in order."""

    def __init__(self) -> None:
        self.all: list[WireLog] = []

    def check_repeatable(self) -> None:
        """Every wire can be built again, and there was one."""
        assert self.all
        for log in self.all:
            log.check_repeatable()


def _timeless(event: Event) -> dict[str, Any]:
    fields: dict[str, Any] = msgspec.to_builtins(event)
    return {name: value for name, value in fields.items() if name != "ts"}


def _answers(question: Question) -> tuple[str, bytes, bytes]:
    return question.request_id, question.answer(True, "yes"), question.answer(False, "no")
