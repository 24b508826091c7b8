"""What every wire promises: captures of real runs in, ordered events out, whatever else is printed.

A row stands for the wire of one product's runs. What its lines mean is tested in its folder.
"""

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from bridle.core import events as ev
from bridle.core.options import RunOptions
from bridle.process.spec import ProcessExit
from bridle.runtimes.scripted.stream import ScriptedNormalizer
from bridle.testing.contract import check_event_order, kinds
from tests.runtimes import captures
from tests.runtimes.aider import captures as aider
from tests.runtimes.captures import Played, folder_of, lines_in
from tests.runtimes.claude import captures as claude
from tests.runtimes.cline import captures as cline
from tests.runtimes.codex import captures as codex
from tests.runtimes.copilot import captures as copilot
from tests.runtimes.gemini import captures as gemini
from tests.runtimes.opencode import captures as opencode
from tests.runtimes.pi import captures as pi


def play_claude(lines: list[bytes], *, code: int | None = 0, **options: Any) -> Played:
    done = claude.Replay(lines, exit=ProcessExit(code=code), **options)
    return done.events, done.result


def play_codex(lines: list[bytes], *, code: int | None = 0, **options: Any) -> Played:
    with tempfile.TemporaryDirectory() as home:
        given = RunOptions(prompt="p", **options)
        return codex.play(lines, home=Path(home), exit=ProcessExit(code=code), options=given)


def play_scripted(lines: list[bytes], **options: Any) -> Played:
    return captures.play("scripted", ScriptedNormalizer, lines, **options)


def of_version(path: Path) -> dict[str, Any]:
    """Which of Pi's two dialects printed a capture."""
    return {"settles": "1.5.0" in path.name}


OLDER = "v*/run*.jsonl"
"""Captures of versions other than the pinned ones."""


class Wire(msgspec.Struct, frozen=True, kw_only=True):
    """The wire of one product's runs."""

    product: str
    pattern: str
    """Its captures."""
    play: Callable[..., Played]
    whole: str
    """A run that completed, with more than one model call."""
    lines: Callable[[Path], list[bytes]] = lines_in
    options: Callable[[Path], dict[str, Any]] = lambda path: {}
    garbage: tuple[bytes, ...] = ()
    """Lines that are nearly right."""
    unknown: frozenset[str] | None = frozenset()
    """Types of captured lines that mean nothing to a run; None where nothing is said of them."""
    resumed: dict[str, Any] | None = None
    """Options of a run that must go on in another conversation than the captured one."""
    limited: bool = False
    """Whether Bridle counts the model calls of `whole`, which are two."""
    text: bool = False
    """Whether it is plain text, in which garbage is not told from words."""

    def __str__(self) -> str:
        return self.product

    @property
    def paths(self) -> list[Path]:
        folder = folder_of(self.product)
        return sorted({*folder.glob(self.pattern), *folder.glob(OLDER)})

    def of_whole(self) -> list[bytes]:
        return self.lines(folder_of(self.product) / self.whole)


WIRES = (
    Wire(
        product="aider",
        pattern="[ws]*-*.txt",
        play=aider.play,
        lines=lambda path: aider.capture_lines(path.name),
        whole="wire-edit.txt",
        unknown=None,
        text=True,
    ),
    Wire(
        product="claude",
        pattern="stream/*.jsonl",
        play=play_claude,
        whole="stream/partial_messages.jsonl",
        garbage=(
            b"not json",
            b'{"type":"stream_event","event":{"type":"content_block_delta"',
            b'{"type":"system","subtype":"from_the_future"}',
            b'{"type":"stream_event","event":{"type":"new_event"}}',
            b'{"type":"assistant","message":"a text"}',
            b'{"type":"user","message":{"content":[{"type":5}]}}',
        ),
        resumed={"resumed": "11111111-2222-4333-8444-555555555555"},
    ),
    Wire(
        product="cline",
        pattern="[!r]*.jsonl",
        play=cline.play,
        whole="headless-write.jsonl",
        garbage=(
            b'{"type":"agent_ev',
            b'{"type":"agent_event","event":{"type":"from_the_future"}}',
            b'{"type":"agent_event"}',
            b"plain words",
        ),
        limited=True,
    ),
    Wire(
        product="codex",
        pattern="*/exec/*.jsonl",
        play=play_codex,
        whole="0.166.0/exec/success_shell.jsonl",
        garbage=(
            b'{"type":"item.comp',
            b"{}",
            b'{"type":"item.completed","item":{"type":"hologram","id":"x"}}',
            b'{"type":"item.completed","item":{"id":"i","type":"agent_message","text":"\xff"}}',
        ),
        unknown=None,
        resumed={"resume": "01a1e0e5-ff82-7ba2-b209-000000000000"},
    ),
    Wire(
        product="copilot",
        pattern="h*.jsonl",
        play=copilot.play,
        options=lambda path: {"idles": not path.match(OLDER)},
        whole="headless-write.jsonl",
        garbage=(
            b'{"type":"assistant.mess',
            b'{"type":"assistant.message","data":5}',
            b'{"type":"tool.execution_start","data":{}}',
        ),
        resumed={"resumed": "another"},
        limited=True,
    ),
    Wire(
        product="gemini",
        pattern="headless-*.jsonl",
        play=gemini.play,
        whole="headless-write.jsonl",
        unknown=None,
        resumed={"resumed": "another"},
        limited=True,
    ),
    Wire(
        product="opencode",
        pattern="run-*.jsonl",
        play=opencode.play,
        whole="run-write.jsonl",
        unknown=None,
        resumed={"resumed": "ses_other"},
        limited=True,
    ),
    Wire(
        product="pi",
        pattern="[jr]*-*.jsonl",
        play=pi.play,
        lines=lambda path: pi.capture_lines(path.name),
        options=of_version,
        whole="json-tool-1.5.0.jsonl",
        garbage=(
            b'{"type":"agent_st',
            b'{"type":"message_end","message":5}',
            b'{"type":"tool_execution_start"}',
        ),
        # Only the two-way protocol has dialogs of extensions and output of its own shell.
        unknown=frozenset({"extension_ui_request", "bash_execution_update"}),
        resumed={"resumed": "another"},
    ),
    Wire(
        product="scripted",
        pattern="*.jsonl",
        play=play_scripted,
        whole="tools.jsonl",
        unknown=None,
    ),
)
GARBAGE = (
    b"\xff\xfe\x00binary",
    b'{"type":"half',
    b"[" * 5000,
    b"[1, 2]",
    b"null",
    b'"text"',
    b'{"no":"type"}',
    b'{"type":"from_the_future","x":1}',
    b"x" * 100_000,
)
LONGEST_KEPT = 9_000
every_wire = pytest.mark.parametrize("wire", WIRES, ids=str)
json_wires = pytest.mark.parametrize("wire", [each for each in WIRES if not each.text], ids=str)


def unknown_of(events: list[ev.Event]) -> list[Any]:
    return [event.raw for event in events if isinstance(event, ev.Unknown)]


@pytest.mark.parametrize(
    ("wire", "path"),
    [(wire, path) for wire in WIRES for path in wire.paths],
    ids=lambda value: value.stem if isinstance(value, Path) else str(value),
)
def test_a_capture_gives_events_in_order_and_nothing_unknown(wire: Wire, path: Path) -> None:
    events, _ = wire.play(wire.lines(path), **wire.options(path))
    assert check_event_order(events) == []
    if wire.unknown is not None:
        assert {raw["type"] for raw in unknown_of(events)} <= wire.unknown


def test_there_are_captures_of_every_wire() -> None:
    assert min(len(wire.paths) for wire in WIRES) >= 5


@every_wire
def test_a_process_may_die_at_any_line_or_in_the_middle_of_one(wire: Wire) -> None:
    lines = wire.of_whole()
    _, whole = wire.play(lines)
    assert whole.status == "completed"
    for at in range(len(lines)):
        events, result = wire.play([*lines[:at], lines[at][: len(lines[at]) // 2]], code=-9)
        assert check_event_order(events) == [], at
        assert kinds(events)[-3:] == ["agent_end", "state", "session_end"], at
        if at < len(lines) - 1:
            assert (result.status, result.error and result.error.kind) == ("failed", "crashed"), at


@json_wires
def test_garbage_is_kept_and_ends_nothing(wire: Wire) -> None:
    lines = wire.of_whole()
    clean, expected = wire.play(lines)
    for odd in (*GARBAGE, *wire.garbage):
        for at in (0, 3, len(lines) // 2):
            mixed = [*lines[:at], odd, b"", b"   ", *lines[at:]]
            events, result = wire.play(mixed)
            (raw,) = unknown_of(events)
            assert len(msgspec.json.encode(raw)) <= LONGEST_KEPT, odd[:60]
            assert [kind for kind in kinds(events) if kind != "unknown"] == kinds(clean), odd[:60]
            assert (result.status, result.usage) == (expected.status, expected.usage), odd[:60]


@pytest.mark.parametrize("wire", [each for each in WIRES if each.resumed], ids=str)
def test_another_conversation_than_the_one_asked_for_is_refused(wire: Wire) -> None:
    events, result = wire.play(wire.of_whole(), **(wire.resumed or {}))
    assert check_event_order(events) == []
    assert result.error is not None
    assert (result.status, result.error.kind) == ("failed", "resume_refused")


@pytest.mark.parametrize("wire", [each for each in WIRES if each.limited], ids=str)
def test_the_turn_limit_stops_before_the_next_call(wire: Wire) -> None:
    lines = wire.of_whole()
    assert wire.play(lines, max_turns=1)[1].status == "budget_exceeded"
    assert wire.play(lines, max_turns=2)[1].status == "completed"
