"""Transcripts of real terminal sessions, read line by line."""

from pathlib import Path
from typing import Any, TypeGuard

import pytest

from bridle.core import events as ev
from bridle.core.options import RunOptions
from bridle.drives.tmux.errors import NotDelivered
from bridle.drives.tmux.transcript_wire import TranscriptWire
from bridle.process.spec import ProcessExit
from bridle.runtimes.alternatives import as_terminal
from bridle.runtimes.registry import get_adapter
from bridle.turns.recorder import Recorder
from bridle.turns.wire import LiveFacts, Outgoing
from tests.support.driving import check_order

RUNTIMES = Path(__file__).parents[3] / "src" / "bridle" / "runtimes"
Told = tuple[str, str, str | None]
"""Status, text and kind of error of a turn."""

DONE: Told = ("completed", "Done.\n\nORCHESTRA_COMPLETE", None)
LATER: list[Told] = [
    ("completed", "Second answer.", None),
    ("completed", "Third answer.", None),
    ("completed", "Fourth", None),
]
LOGIN: Told = ("failed", "", "not_authenticated")

CAPTURES: dict[str, tuple[list[Told], list[tuple[str, bool]]]] = {
    "claude/testdata/following/tui-2.1.197.jsonl": ([DONE, *LATER], [("Bash", False)]),
    "claude/testdata/following/tui-2.1.325.jsonl": ([DONE, *LATER], [("Bash", False)]),
    "claude/testdata/following/tui-interrupt-error-2.1.325.jsonl": (
        [
            ("aborted", "Tool now.", "aborted"),
            ("completed", "After tool.", None),
            ("completed", "More.", None),
            ("completed", "And.", None),
            LOGIN,
        ],
        [("Bash", True)],
    ),
    "codex/testdata/0.166.0/following/tui.jsonl": (
        [DONE, *LATER],
        [("command_execution", False)],
    ),
    "codex/testdata/0.166.0/following/tui-steer-abort-error.jsonl": (
        [
            ("completed", "Hello.", None),
            ("aborted", "", "aborted"),
            ("completed", "After abort.", None),
            ("completed", "After tool abort.", None),
            LOGIN,
        ],
        [],
    ),
    "pi/testdata/following/tui-1.5.0.jsonl": ([DONE, *LATER], [("bash", False)]),
    "pi/testdata/following/tui-abort-error-1.5.0.jsonl": (
        [
            ("completed", "Hello.", None),
            ("aborted", "", "aborted"),
            ("completed", "After abort.", None),
            ("completed", "After tool abort.", None),
            LOGIN,
            ("completed", "The script has ended.", None),
        ],
        [("bash", True)],
    ),
    "copilot/testdata/following/tui-1.0.102.jsonl": ([DONE, *LATER[:2]], [("bash", False)]),
    "copilot/testdata/following/tui-error-1.0.102.jsonl": (
        [
            ("completed", "Hello.", None),
            ("completed", "slow one", None),
            ("completed", "After abort.", None),
            ("completed", "After tool abort.", None),
            LOGIN,
        ],
        [("bash", False)],
    ),
    "copilot/testdata/following/tui-steer-background-1.0.102.jsonl": (
        [
            ("completed", "After tool.", None),
            ("completed", "And.", None),
            LOGIN,
            ("completed", "The script has ended.", None),
            ("completed", "The script has ended.", None),
        ],
        [("bash", False), ("read_bash", False)],
    ),
}

NAMES = sorted(CAPTURES)


def wire_of(name: str, **options: Any) -> tuple[TranscriptWire, Recorder]:
    runtime = get_adapter(name.partition("/")[0])
    recorder = Recorder(
        runtime=runtime.id, session_id="s", options=RunOptions(prompt="", **options), drive="tmux"
    )
    facts = LiveFacts(runtime=runtime.id, runtime_version="", dialect="", cwd="")
    wire = as_terminal(runtime).tmux_wire(facts, recorder)
    wire.begin()
    wire.ready("the pane shows its prompt")
    return wire, recorder


def lines_of(name: str) -> list[bytes]:
    return (RUNTIMES / name).read_bytes().splitlines()


@pytest.mark.parametrize("name", NAMES)
def test_a_transcript_tells_the_turns(name: str) -> None:
    wire, recorder = wire_of(name)
    for line in lines_of(name):
        wire.feed(line)
    assert recorder.is_ready, "the transcript alone tells the end of the last turn"
    wire.finish(ProcessExit(code=0))
    events = recorder.drain()
    check_order(events)
    ends = [event for event in events if isinstance(event, ev.AgentEnd)]
    tools = [event for event in events if isinstance(event, ev.ToolExecutionEnd)]
    turns, calls = CAPTURES[name]
    assert [(end.status, end.text, end.error and end.error.kind) for end in ends] == turns
    assert [(tool.tool_name, tool.is_error) for tool in tools] == calls
    assert not [event for event in events if isinstance(event, ev.Unknown)]
    typed = [event.text for event in events if _is_typed(event)]
    assert typed[-1] in ("typed by human", "now fail")
    assert len(typed) >= len(ends) - 1


def _is_typed(event: ev.Event) -> TypeGuard[ev.MessageEnd]:
    return isinstance(event, ev.MessageEnd) and event.role == "user"


@pytest.mark.parametrize("name", [name for name in NAMES if DONE in CAPTURES[name][0]])
def test_our_own_prompts_are_told_from_a_persons(name: str) -> None:
    wire, recorder = wire_of(name)
    ours = Outgoing(id="ours", text="Line one\nline two is 'quoted'\nline three  \n")
    never = Outgoing(id="never", text="a text that the agent never wrote down")
    wire.prompt(ours)
    wire.prompt(never)
    for line in lines_of(name):
        wire.feed(line)
    (taken,) = recorder.deliveries
    turn = 1 if name.startswith("copilot") else 2
    assert (taken.id, taken.taken, taken.turn) == ("ours", True, turn)
    events = recorder.drain()
    assert "typed by human" in [event.text for event in events if _is_typed(event)]
    assert not [e for e in events if _is_typed(e) and e.text.startswith("Line one")]
    assert wire.waits
    wire.settle()
    refused = recorder.deliveries[-1]
    assert (refused.id, refused.taken) == ("never", False)
    assert isinstance(refused.error, NotDelivered)


EARLY = "claude/testdata/following/tui-early-2.1.197.jsonl"


def test_an_answer_that_stands_before_its_prompt_belongs_to_it() -> None:
    wire, recorder = wire_of(EARLY)
    wire.prompt(Outgoing(id="ours", text="Hello."))
    for line in lines_of(EARLY):
        wire.feed(line)
    (taken,) = recorder.deliveries
    assert (taken.id, taken.taken, taken.turn) == ("ours", True, 1)
    assert recorder.is_ready
    wire.finish(ProcessExit(code=0))
    events = recorder.drain()
    check_order(events)
    ends = [event for event in events if isinstance(event, ev.AgentEnd)]
    assert [(end.turn, end.status, end.text) for end in ends] == [(1, "completed", "Hello.")]


@pytest.mark.parametrize("end", ["settle", "finish"])
def test_an_answer_whose_prompt_never_comes_is_told(end: str) -> None:
    wire, recorder = wire_of(EARLY)
    wire.prompt(Outgoing(id="ours", text="Hello."))
    for line in lines_of(EARLY)[:2]:
        wire.feed(line)
    assert wire.waits
    if end == "settle":
        wire.settle()
    else:
        wire.finish(ProcessExit(code=0))
    (refused,) = recorder.deliveries
    assert (refused.id, refused.taken) == ("ours", False)
    (ended,) = [event for event in recorder.drain() if isinstance(event, ev.AgentEnd)]
    assert (ended.status, ended.text) == ("completed", "Hello.")


@pytest.mark.parametrize("name", NAMES)
def test_a_transcript_cut_anywhere_keeps_the_order(name: str) -> None:
    lines = lines_of(name)
    for cut in range(0, len(lines), 3):
        for end in ("settle", "rewound", "finish"):
            wire, recorder = wire_of(name)
            for line in [*lines[:cut], lines[cut][: len(lines[cut]) // 2], b"", b"\xff{", b"[1]"]:
                wire.feed(line)
            if end == "settle":
                wire.settle()
                assert recorder.is_ready
            elif end == "rewound":
                wire.rewound()
                assert recorder.is_ready
            wire.finish(ProcessExit(code=None))
            check_order(recorder.drain())


@pytest.mark.parametrize("name", NAMES)
def test_an_open_turn_dies_with_its_agent(name: str) -> None:
    wire, recorder = wire_of(name)
    for line in lines_of(name):
        wire.feed(line)
        if recorder.turn_open:
            break
    wire.finish(ProcessExit(code=None))
    ended = next(event for event in recorder.drain() if isinstance(event, ev.AgentEnd))
    assert (ended.status, ended.error and ended.error.kind) == ("failed", "crashed")
    assert recorder.state == "lost"
