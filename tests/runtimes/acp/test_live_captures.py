"""Recorded conversations through the live wire: turn by turn the same as in a run."""

from typing import Any

import msgspec
import pytest

from bridle.core import events as ev
from bridle.turns.wire import Question
from tests.runtimes.acp.captures import CAPTURES, Part, Played, parts, row_of, word
from tests.runtimes.acp.wire_bench import WireBench


def opening_of(part: Part, method: str) -> dict[str, Any] | None:
    return next(
        (said for way, said in part.opening if way == ">" and said.get("method") == method), None
    )


def conversations(capture: str) -> list[list[Part]]:
    """The prompts of a capture by their session, without those that were sent while one ran."""
    found: dict[str, list[Part]] = {}
    for part in parts(capture):
        sent = [said for way, said in part.turn if way == ">" and "method" in said]
        busy = any(said["method"] == "session/prompt" for said in sent[1:])
        last = part.turn[-1][1]
        answered = last.get("id") == part.turn[0][1]["id"] and "method" not in last
        if not busy and answered:
            found.setdefault(part.turn[0][1]["params"]["sessionId"], []).append(part)
    return list(found.values())


EVERY = [(name, number) for name in CAPTURES for number in range(len(conversations(name)))]


def turn_words(events: list[ev.Event]) -> list[str]:
    """The events from the start of a turn to its end. States are a conversation's own."""
    shown = [event for event in events if not isinstance(event, ev.StateChange)]
    first = next(i for i, event in enumerate(shown) if isinstance(event, ev.AgentStart))
    last = next(i for i, event in enumerate(shown) if isinstance(event, ev.AgentEnd))
    return [word(event) for event in shown[first : last + 1]]


class Replay:
    """A recorded conversation played through a `WireBench`."""

    def __init__(self, capture: str, conversation: list[Part]) -> None:
        first = conversation[0]
        load, new = opening_of(first, "session/load"), opening_of(first, "session/new")
        mode = opening_of(first, "session/set_mode")
        how = (load or new or {})["params"]
        session = {
            "cwd": how["cwd"],
            "mcp_servers": how["mcpServers"],
            "resume": how.get("sessionId"),
            "mode": mode["params"]["modeId"] if mode else None,
        }
        self.desk = WireBench(row_of(capture), session=session)
        self._names = {
            said["id"]: said["method"]
            for part in conversation
            for way, said in [*part.opening, *part.turn]
            if way == ">" and "method" in said and "id" in said
        }
        for way, said in first.opening:
            if way == "<":
                self._hear(said)
        assert self.desk.recorder.is_ready
        self.turns: list[list[ev.Event]] = []
        for part in conversation:
            self._play(part)

    def _play(self, part: Part) -> None:
        desk, begin = self.desk, len(self.desk.events)
        answers = {said["id"]: said for way, said in part.turn if way == ">" and "result" in said}
        text = next(b for b in part.turn[0][1]["params"]["prompt"] if b["type"] == "text")["text"]
        desk.prompt(text)
        for way, said in part.turn[1:]:
            if way == "<":
                self._hear(said)
            elif said.get("method") == "session/cancel":
                desk.abort()
            while desk.questions:
                question = desk.questions.pop(0)
                self._decide(question, part, answers)
        assert desk.recorder.is_ready
        self.turns.append(desk.events[begin:])

    def _decide(self, question: Question, part: Part, answers: dict[Any, Any]) -> None:
        asked = next(
            said
            for way, said in part.turn
            if way == "<" and "method" in said and str(said.get("id")) == question.request_id
        )
        chosen = answers[asked["id"]]["result"]["outcome"].get("optionId")
        kinds = {each["optionId"]: each["kind"] for each in asked["params"]["options"]}
        allowed = str(kinds[chosen]).startswith("allow")
        self.desk.decide(question, allowed, "" if allowed else "not now")

    def _hear(self, said: dict[str, Any]) -> None:
        if "method" in said:
            self.desk.say(msgspec.json.encode(said))
            return
        method = self._names.get(said["id"], "")
        if any(call.get("method") == method for call in self.desk.calls):
            rest = {key: value for key, value in said.items() if key in ("result", "error")}
            error = rest.get("error")
            self.desk.answer_last(method, rest.get("result"), **(error or {}))


@pytest.mark.parametrize(("name", "number"), EVERY)
def test_each_turn_is_told_as_in_a_run(name: str, number: int) -> None:
    conversation = conversations(name)[number]
    live = Replay(name, conversation)
    for part, events in zip(conversation, live.turns, strict=True):
        run = Played(part, row_of(name))
        cancelled = any(said.get("method") == "session/cancel" for _, said in part.turn)
        expected = turn_words(run.events)
        assert turn_words(events) == expected
        (end,) = [event for event in events if isinstance(event, ev.AgentEnd)]
        assert end.status == ("aborted" if cancelled else run.result.status)
        assert end.text == run.result.text
    taken = [delivery.taken for delivery in live.desk.deliveries]
    assert taken == [True] * len(conversation)


def test_there_are_conversations_of_several_turns() -> None:
    longest = {name: max(map(len, conversations(name)), default=0) for name in CAPTURES}
    for agent in ("claude-agent-acp", "cline", "copilot", "opencode"):
        assert longest[f"{agent}.jsonl"] >= 3
