"""Playing recorded conversations through the state machine, one prompt at a time."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from bridle.core import events as ev
from bridle.core.options import RunOptions
from bridle.core.results import RunResult
from bridle.process.spec import ProcessExit
from bridle.runtimes.acp import quirks
from bridle.runtimes.acp.plan import SessionPlan
from bridle.runtimes.acp.quirks import AcpQuirks
from bridle.runtimes.acp.stream import AcpNormalizer
from bridle.runtimes.retries import RetryReader
from bridle.testing.contract import check_event_order
from bridle.turns.recorder import Recorder

TESTDATA = Path(__file__).parents[3] / "src/bridle/runtimes/acp/testdata"
CAPTURES = sorted(path.name for path in TESTDATA.glob("*.jsonl"))

ROWS: dict[str, AcpQuirks] = {
    "claude-agent-acp": quirks.CLAUDE,
    "cline": quirks.CLINE,
    "codex-acp-2": quirks.CODEX,
    "codex-acp-1.7": quirks.CODEX_REVIEWED,
    "codex-acp-1": quirks.CODEX_SCRIPT,
    "codex-acp": quirks.CODEX_FLAGS,
    "copilot": quirks.COPILOT,
    "gemini": quirks.GEMINI,
    "opencode": quirks.OPENCODE,
}

Message = dict[str, Any]


def row_of(capture: str) -> AcpQuirks:
    return next(row for name, row in ROWS.items() if capture.startswith(name))


class Part(msgspec.Struct, frozen=True):
    """What a capture holds of one prompt: how its session was opened, and the prompt itself."""

    opening: list[tuple[str, Message]]
    """From `initialize` to the answer that opened the session, and what came before the prompt."""
    turn: list[tuple[str, Message]]
    """From the prompt to its answer, where there is one."""


def parts(capture: str) -> list[Part]:
    """The prompts of a capture, each with the opening of its session."""
    lines = [msgspec.json.decode(line) for line in (TESTDATA / capture).read_bytes().splitlines()]
    entries = [(line["dir"], line["msg"]) for line in lines]
    starts = [
        index
        for index, (way, message) in enumerate(entries)
        if way == ">" and message.get("method") == "session/prompt"
    ]
    found = []
    for start in starts:
        wanted = entries[start][1]["id"]
        end = next(
            (
                index
                for index, (way, message) in enumerate(entries)
                if index > start
                and way == "<"
                and message.get("id") == wanted
                and "method" not in message
            ),
            len(entries) - 1,
        )
        session_id = entries[start][1]["params"]["sessionId"]
        found.append(Part(_opening(entries[:start], session_id), entries[start : end + 1]))
    return found


def _opening(entries: list[tuple[str, Message]], session_id: str) -> list[tuple[str, Message]]:
    """`initialize` and what belongs to the opening of one session, of everything before it."""
    first = next(
        index
        for index, (way, message) in enumerate(entries)
        if way == "<" and "method" not in message and _opens(entries, message, session_id)
    )
    asked = next(
        index
        for index, (way, message) in enumerate(entries)
        if way == ">" and message.get("id") == entries[first][1]["id"] and "method" in message
    )
    rest = entries[asked:]
    ends = next(
        (
            index
            for index, (way, message) in enumerate(rest)
            if way == ">" and message.get("method") == "session/prompt"
        ),
        len(rest),
    )
    return [*entries[:2], *rest[:ends]]


def _opens(entries: list[tuple[str, Message]], answer: Message, session_id: str) -> bool:
    """Whether an answer opened the session: it names it, or the call that it answers did."""
    for way, message in entries:
        if way == ">" and message.get("id") == answer["id"]:
            if message.get("method") == "session/load":
                return bool(message["params"]["sessionId"] == session_id)
            told = answer.get("result") or {}
            return message.get("method") == "session/new" and told.get("sessionId") == session_id
    return False


class Played:
    """A prompt that was played: what the machine sent, and what came of it."""

    def __init__(
        self,
        part: Part,
        agent: AcpQuirks,
        *,
        exit: ProcessExit | None = None,
        **options: Any,
    ) -> None:
        everything = [*part.opening, *part.turn]
        opened = _request(everything, "session/load") or _request(everything, "session/new")
        mode = _request(part.opening, "session/set_mode")
        assert opened is not None
        self.recorder = Recorder(
            runtime="acp",
            session_id="00000000-0000-4000-8000-000000000000",
            options=RunOptions(**{"prompt": "go", **options}),
        )
        plan = SessionPlan(
            cwd=opened["params"]["cwd"],
            prompt=part.turn[0][1]["params"]["prompt"],
            mcp_servers=opened["params"]["mcpServers"],
            resume=opened["params"].get("sessionId"),
            mode=mode["params"]["modeId"] if mode else None,
        )
        self.machine = AcpNormalizer(self.recorder, agent, plan)
        self.sent: list[Message] = []
        self.answers: dict[Any, Any] = {}
        """Our answers to the agent's calls, by id."""
        self.expected = {
            message["id"]: message["result"]
            for way, message in everything
            if way == ">" and "result" in message
        }
        self.events: list[ev.Event] = []
        self._ids: dict[str, list[int]] = {"initialize": [0]}
        self._methods = {
            message["id"]: message["method"]
            for way, message in everything
            if way == ">" and "method" in message and "id" in message
        }
        for way, message in everything:
            if way == "<":
                self._feed(message)
        self.machine.finish(exit or ProcessExit(code=0))
        self.events += self.recorder.drain()
        self.result: RunResult = self.recorder.result()
        assert check_event_order(self.events) == []

    def _feed(self, message: Message) -> None:
        if "method" not in message:
            # Their ids are the recorder's of that time; ours differ where we call less.
            method = self._methods.get(message["id"], "")
            ours = self._ids.get(method)
            if not ours:
                return
            message = {**message, "id": ours.pop(0)}
        self.machine.feed(msgspec.json.encode(message))
        while self.recorder.questions:
            question = self.recorder.questions.pop(0)
            allowed = self._was_allowed(message)
            self.recorder.reply(question.answer(allowed, "" if allowed else "not now"))
            self.recorder.permission_decided(
                question.request_id,
                tool_name=question.tool_name,
                tool_call_id=question.tool_call_id,
                decision="allow" if allowed else "deny",
                by="test",
            )
        while self.recorder.replies:
            self._note(msgspec.json.decode(self.recorder.replies.pop(0)))
        self.events += self.recorder.drain()

    def _was_allowed(self, request: Message) -> bool:
        outcome = self.expected[request["id"]]["outcome"]
        chosen = next(
            option
            for option in request["params"]["options"]
            if option["optionId"] == outcome.get("optionId")
        )
        return str(chosen["kind"]).startswith("allow")

    def _note(self, message: Message) -> None:
        self.sent.append(message)
        if "method" in message and "id" in message:
            self._ids.setdefault(message["method"], []).append(message["id"])
        elif "result" in message or "error" in message:
            self.answers[message["id"]] = message.get("result", message.get("error"))

    def of(self, kind: type[ev.Event]) -> list[Any]:
        return [event for event in self.events if isinstance(event, kind)]

    def requests(self, method: str) -> list[Message]:
        return [message["params"] for message in self.sent if message.get("method") == method]

    @property
    def trace(self) -> list[str]:
        return [word(event) for event in self.events]


def word(event: ev.Event) -> str:
    """An event by its type; a piece of a message by its kind."""
    if isinstance(event, ev.MessageUpdate):
        return event.kind
    return str(type(event).__struct_config__.tag)


def short(trace: list[str]) -> list[str]:
    """A trace without repeats of one word, so that the number of pieces does not count."""
    return [each for index, each in enumerate(trace) if index == 0 or trace[index - 1] != each]


def _request(entries: list[tuple[str, Message]], method: str) -> Message | None:
    return next(
        (message for way, message in entries if way == ">" and message.get("method") == method),
        None,
    )


def update(session_id: str, update_kind: str, **fields: Any) -> bytes:
    """A `session/update` as an agent writes it."""
    inner = {"sessionUpdate": update_kind, **fields}
    params = {"sessionId": session_id, "update": inner}
    return msgspec.json.encode({"jsonrpc": "2.0", "method": "session/update", "params": params})


class RunBench:
    """A machine that a test talks to line by line, as the agent."""

    def __init__(
        self,
        agent: AcpQuirks = quirks.PLAIN,
        *,
        session: dict[str, Any] | None = None,
        history: "Callable[[str], Any] | None" = None,
        log: RetryReader | None = None,
        **options: Any,
    ) -> None:
        self.recorder = Recorder(
            runtime="acp", session_id="test", options=RunOptions(**{"prompt": "go", **options})
        )
        plan: dict[str, Any] = {
            "cwd": "/work",
            "prompt": [{"type": "text", "text": "go"}],
            **(session or {}),
        }
        self.machine = AcpNormalizer(
            self.recorder, agent, SessionPlan(**plan), history=history, log=log
        )
        self.events: list[ev.Event] = []

    def say(self, line: bytes) -> list[Message]:
        """Let the agent say something; what the machine answers."""
        self.machine.feed(line)
        sent = [msgspec.json.decode(data) for data in self.recorder.replies]
        self.recorder.replies.clear()
        self.events += self.recorder.drain()
        return sent

    def answer(self, call_id: int, result: Any = None, **error: Any) -> list[Message]:
        body: Message = {"jsonrpc": "2.0", "id": call_id}
        body |= {"error": error} if error else {"result": result}
        return self.say(msgspec.json.encode(body))

    def open(self, **told: Any) -> None:
        """Bring it to the point where its prompt was sent (as call 2)."""
        self.answer(0, {"protocolVersion": 1, "agentCapabilities": {"loadSession": True}})
        sent = self.answer(1, {"sessionId": "s1", **told})
        assert sent[-1]["method"] == "session/prompt"

    def update(self, update_kind: str, **fields: Any) -> list[Message]:
        return self.say(update("s1", update_kind, **fields))

    def text(self, text: str, **fields: Any) -> None:
        self.update("agent_message_chunk", content={"type": "text", "text": text}, **fields)

    def end(self, exit: ProcessExit | None = None) -> RunResult:
        self.machine.finish(exit or ProcessExit(code=0))
        self.events += self.recorder.drain()
        assert check_event_order(self.events) == []
        return self.recorder.result()

    @property
    def trace(self) -> list[str]:
        return [word(event) for event in self.events]

    def of(self, kind: type[ev.Event]) -> list[Any]:
        return [event for event in self.events if isinstance(event, kind)]
