"""A live wire that a test talks to from both sides: as the driver and as the agent."""

from typing import Any

import msgspec

from bridle.core import events as ev
from bridle.core.errors import Aborted
from bridle.core.options import RunOptions
from bridle.process.spec import ProcessExit
from bridle.runtimes.acp import quirks
from bridle.runtimes.acp.live import AcpWire, CompactingWire, PromptHistory
from bridle.runtimes.acp.plan import SessionPlan
from bridle.runtimes.acp.quirks import AcpQuirks
from bridle.testing.contract import check_event_order
from bridle.turns.recorder import Recorder
from bridle.turns.wire import Delivery, Outgoing, Question
from tests.runtimes.acp.captures import Message, update, word

MESSAGE = ["message_start", "text_start", "text_delta", "text_end", "message_end"]
CANCELLED = {"outcome": {"outcome": "cancelled"}}
CAN = {"loadSession": True, "promptCapabilities": {"image": True}}


def order_problems(events: list[ev.Event]) -> list[str]:
    """What is wrong with the order of events. What a run alone promises is left out: that there was
    a turn, and that the session ends as its last turn did."""
    only_runs = ("(session_end): there was no turn", "(session_end): state is")
    return [
        problem
        for problem in check_event_order(events)
        if not any(words in problem for words in only_runs)
    ]


class WireBench:
    """A conversation whose agent is the test. Calls of the wire are answered by their number."""

    def __init__(
        self,
        agent: AcpQuirks = quirks.PLAIN,
        *,
        session: dict[str, Any] | None = None,
        history: PromptHistory | None = None,
        earlier: int = 0,
        **options: Any,
    ) -> None:
        self.recorder = Recorder(
            runtime="acp",
            session_id="test",
            options=RunOptions(**{"prompt": "", **options}),
            drive="rpc",
        )
        plan = SessionPlan(**{"cwd": "/there", "prompt": [], **(session or {})})
        cls = CompactingWire if agent.compact_command else AcpWire
        self.wire = cls(self.recorder, agent, plan, history=history, earlier=earlier)
        self.events: list[ev.Event] = []
        self.deliveries: list[Delivery] = []
        self.questions: list[Question] = []
        self.calls: list[Message] = []
        """Everything the wire sent."""
        self._messages = 0
        self.wire.begin()
        self.collect()

    # -- as the driver --------------------------------------------------------------------------

    def collect(self) -> list[Message]:
        sent = [msgspec.json.decode(data) for data in self.recorder.replies if data]
        self.recorder.replies.clear()
        self.calls += sent
        self.questions += self.recorder.questions
        self.recorder.questions.clear()
        self.deliveries += self.recorder.deliveries
        self.recorder.deliveries.clear()
        self.events += self.recorder.drain()
        return sent

    def prompt(self, text: str = "go", **fields: Any) -> list[Message]:
        self._messages += 1
        self.wire.prompt(Outgoing(**{"id": f"m{self._messages}", "text": text, **fields}))
        return self.collect()

    def abort(self) -> list[Message]:
        self.recorder.fail(Aborted("enough"))
        self.wire.abort()
        return self.collect()

    def decide(self, question: Question, allowed: bool, reason: str = "") -> bytes:
        answer = question.answer(allowed, reason)
        self.recorder.reply(answer)
        self.recorder.permission_decided(
            question.request_id,
            tool_name=question.tool_name,
            tool_call_id=question.tool_call_id,
            decision="allow" if allowed else "deny",
            by="test",
        )
        self.collect()
        return answer

    def end(self, exit: ProcessExit | None = None, leaving: str | None = None) -> None:
        self.recorder.leaving = leaving
        self.wire.finish(exit or ProcessExit(code=0))
        self.collect()
        assert order_problems(self.events) == []

    # -- as the agent ---------------------------------------------------------------------------

    def say(self, line: bytes) -> list[Message]:
        self.wire.feed(line)
        return self.collect()

    def answer(self, call_id: int, result: Any = None, **error: Any) -> list[Message]:
        body: Message = {"jsonrpc": "2.0", "id": call_id}
        body |= {"error": error} if error else {"result": result}
        return self.say(msgspec.json.encode(body))

    def answer_last(self, method: str, result: Any = None, **error: Any) -> list[Message]:
        """Answer the last call of `method`."""
        call = next(call for call in reversed(self.calls) if call.get("method") == method)
        return self.answer(call["id"], result, **error)

    def done(self, reason: str = "end_turn", **more: Any) -> list[Message]:
        return self.answer_last("session/prompt", {"stopReason": reason, **more})

    def open(self, can: dict[str, Any] | None = None, **told: Any) -> None:
        """Bring it to the point where it takes its first prompt."""
        self.answer(0, {"protocolVersion": 1, "agentCapabilities": CAN if can is None else can})
        self.answer(1, {"sessionId": "s1", **told})
        assert self.recorder.is_ready

    def update(self, update_kind: str, **fields: Any) -> list[Message]:
        return self.say(update("s1", update_kind, **fields))

    def text(self, text: str, **fields: Any) -> None:
        self.update("agent_message_chunk", content={"type": "text", "text": text}, **fields)

    def call(self, call_id: int | str, method: str, params: Any) -> list[Message]:
        message = {"jsonrpc": "2.0", "id": call_id, "method": method, "params": params}
        return self.say(msgspec.json.encode(message))

    def ask(self, call_id: int | str = 70, tool: str = "t") -> list[Message]:
        """Ask for permission."""
        options = [
            {"optionId": "y", "kind": "allow_once"},
            {"optionId": "n", "kind": "reject_once"},
        ]
        call = {"toolCallId": tool, "title": "Remove it", "kind": "delete"}
        params = {"sessionId": "s1", "toolCall": call, "options": options}
        return self.call(call_id, "session/request_permission", params)

    # -- what came of it ------------------------------------------------------------------------

    def of(self, kind: type[ev.Event]) -> list[Any]:
        return [event for event in self.events if isinstance(event, kind)]

    @property
    def ends(self) -> list[Any]:
        return self.of(ev.AgentEnd)

    @property
    def trace(self) -> list[str]:
        return [word(event) for event in self.events]


def opened(agent: quirks.AcpQuirks = quirks.PLAIN, **fields: Any) -> WireBench:
    """A conversation with `agent` that is ready."""
    desk = WireBench(agent, **fields)
    desk.open()
    return desk
