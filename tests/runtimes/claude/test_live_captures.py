"""The live wire on captures: whole conversations, and the end of the agent at any line."""

from pathlib import Path

import msgspec
import pytest

from bridle.core import events as ev
from tests.runtimes.claude.captures import TESTDATA, read_lines
from tests.runtimes.claude.wire_bench import (
    CAPTURES,
    READY,
    WireBench,
)


def played(path: Path) -> WireBench:
    """A recorded conversation, our calls where they were made."""
    talk = WireBench(version=path.stem.rpartition("_")[2])
    for line in read_lines(path):
        entry = msgspec.json.decode(line)
        match entry.get("call"):
            case "prompt" | "steer" as call:
                talk.say(int(entry["id"][-4:]), steer=call == "steer")
            case "abort":
                talk.abort()
            case _:
                talk.hear(line)
    return talk


EXPECTED: dict[str, tuple[list[str], list[tuple[int, int]], list[str]]] = {
    "steer_and_late": (
        ["completed"] * 3,
        [(1, 1), (2, 1), (3, 2), (4, 3), (5, 3)],
        ["steered", "w w w w ", "late"],
    ),
    "abort_at_once": (["aborted", "completed"], [(1, 1), (2, 2)], ["", "unheard " * 4]),
    "abort_with_steer": (["aborted", "completed"], [(1, 1), (2, 2)], ["working", "afterwards"]),
    "woken": (["completed", "completed"], [(1, 1)], ["started", "noticed"]),
}


@pytest.mark.parametrize("path", CAPTURES, ids=lambda path: path.stem)
def test_a_recorded_conversation(path: Path) -> None:
    talk = played(path)
    assert talk.recorder.is_ready
    talk.finish()
    statuses, taken, texts = EXPECTED[path.stem.rpartition("_")[0]]
    assert (talk.statuses, talk.taken) == (statuses, taken)
    assert [end.text for end in talk.of(ev.AgentEnd)] == texts
    assert not talk.of(ev.Unknown)
    assert talk.recorder.state == "stopped"


@pytest.mark.parametrize("path", CAPTURES, ids=lambda path: path.stem)
def test_the_agent_may_die_at_any_line(path: Path) -> None:
    lines = read_lines(path)
    for length in range(1, len(lines)):
        talk = WireBench()
        for line in lines[:length]:
            entry = msgspec.json.decode(line)
            if "call" not in entry:
                talk.hear(line)
            elif entry["call"] == "abort":
                talk.abort()
            else:
                talk.say(int(entry["id"][-4:]), steer=entry["call"] == "steer")
        open_turn = talk.recorder.turn_open
        talk.finish(code=-9)
        sent = {line["uuid"] for line in talk.sent if line["type"] == "user"}
        assert sorted(each.id for each in talk.deliveries) == sorted(sent)
        assert talk.recorder.state == "failed"
        if open_turn:
            assert talk.of(ev.AgentEnd)[-1].status in ("failed", "aborted")


def test_the_old_capture_of_a_steer() -> None:
    talk = WireBench().hear(READY).say(1)
    for line in read_lines(TESTDATA / "bidi/bidi_steer.stdout.jsonl"):
        if b'"tool_use"' in line and len(talk.sent) == 2:
            talk.say(2, steer=True)
        talk.hear(line)
    assert talk.finish().taken == [(1, 1), (2, 1)]
    assert talk.statuses == ["completed"]
