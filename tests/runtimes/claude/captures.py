"""Feeding recorded streams to the normalizer, and the order every stream of events must keep."""

from pathlib import Path
from typing import Any

from bridle.core import events as ev
from bridle.core.options import RunOptions
from bridle.core.redaction import Redactor
from bridle.core.results import RunResult
from bridle.process.spec import ProcessExit
from bridle.runtimes.claude.product import DIALECTS as CLAUDE_DIALECTS
from bridle.runtimes.claude.stream import ClaudeNormalizer
from bridle.turns.recorder import Recorder
from tests.support.driving import check_order as check_order

TESTDATA = Path(__file__).parents[3] / "src/bridle/runtimes/claude/testdata"
STREAMS = sorted(
    [
        *TESTDATA.glob("stream/*.jsonl"),
        *TESTDATA.glob("v2.1.325/*.jsonl"),
        *TESTDATA.glob("bidi/*.stdout.jsonl"),
    ]
)


class Replay:
    """A finished replay: its events, its result, and the recorder it went through."""

    def __init__(
        self,
        lines: list[bytes],
        *,
        exit: ProcessExit | None = None,
        secrets: tuple[str, ...] = (),
        resumed: str | None = None,
        **options: Any,
    ) -> None:
        self.recorder = Recorder(
            runtime="claude",
            session_id="00000000-0000-4000-8000-000000000000",
            options=RunOptions(**{"prompt": "go", **options}),
            redactor=Redactor(secrets),
        )
        self.recorder.agent_counts_turns = self.recorder.cost_at_end = True
        normalizer = ClaudeNormalizer(
            self.recorder, resumed=resumed, known_models=CLAUDE_DIALECTS[0].known_models
        )
        self.live: list[ev.Event] = []
        """Events that were there before the process ended."""
        for line in lines:
            normalizer.feed(self.recorder.redactor.line(line))
            self.live += self.recorder.drain()
        normalizer.finish(exit or ProcessExit(code=0))
        self.events = [*self.live, *self.recorder.drain()]
        self.result: RunResult = self.recorder.result()

    def of(self, kind: type[ev.Event]) -> list[Any]:
        """The events of one kind."""
        return [event for event in self.events if isinstance(event, kind)]

    @property
    def trace(self) -> list[str]:
        """The kinds of the events in their order, updates by their own kind."""
        return [trace_word(event) for event in self.events]


def trace_word(event: ev.Event) -> str:
    """How an event stands in a trace."""
    if isinstance(event, ev.MessageUpdate):
        return event.kind
    return str(event.__struct_config__.tag)


def read_lines(path: Path) -> list[bytes]:
    """The lines of a capture."""
    return [line for line in path.read_bytes().split(b"\n") if line]


def replay(name: str, **options: Any) -> Replay:
    """Replay a capture of the runtime's test data."""
    return Replay(read_lines(TESTDATA / name), **options)
