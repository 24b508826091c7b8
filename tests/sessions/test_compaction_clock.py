"""A compaction between turns has a clock like everything else that an agent does."""

import time

from bridle.core.options import RunOptions
from bridle.process.spec import ProcessExit
from bridle.sessions.clocks import Clocks, Stopwatch
from bridle.sessions.ledger import Compact, Expire
from bridle.sessions.replay import SessionPlayer
from bridle.turns.recorder import Recorder
from bridle.turns.wire import Outgoing

CLOCKS = Clocks(inactivity=20.0, abort=7.0)


class Toy:
    """An agent that is ready at once and never ends a compaction by itself."""

    def __init__(self, recorder: Recorder) -> None:
        self.recorder = recorder

    def begin(self) -> None:
        self.recorder.ready("it is a toy")

    def feed(self, line: bytes) -> None:
        if line == b"compacting":
            self.recorder.compaction_started("full")

    def prompt(self, message: Outgoing) -> None:
        self.recorder.turn_started()

    steer = prompt

    def abort(self) -> None:
        self.recorder.turn_ended()

    def leave(self) -> None:
        self.recorder.input_done = True

    def finish(self, exit: ProcessExit) -> None:
        self.recorder.finish(exit)


class Controlled(Toy):
    """One that can be told to compact, and to give it up."""

    aborts = 0

    def compact(self) -> None:
        self.recorder.compaction_started("manual")

    def abort_compaction(self) -> None:
        self.aborts += 1


class Bench:
    """A session whose clocks are read and run out by hand."""

    def __init__(self, kind: type[Toy]) -> None:
        self.recorder = Recorder(
            runtime="toy", session_id="s", options=RunOptions(prompt=""), drive="rpc"
        )
        self.wire = kind(self.recorder)
        self.player = SessionPlayer(self.wire, self.recorder)
        self.watch = Stopwatch()
        self.watch.begin(time.time())
        self.player.begin()

    def decide(self, entry: Compact | Expire) -> None:
        if isinstance(entry, Compact):
            self.watch.compacting(entry.ts)
        else:
            self.watch.expired(entry.clock, entry.ts)
        self.player.apply(entry)

    def running(self) -> list[tuple[str, float]]:
        return [(name, secs) for name, _, secs in self.watch.running(self.player, CLOCKS)]

    def expire(self) -> None:
        ((name, _, seconds),) = self.watch.running(self.player, CLOCKS)
        self.decide(Expire(clock=name, seconds=seconds, ts=time.time()))


def test_one_that_was_asked_for_is_given_up_then_the_agent_is_ended() -> None:
    bench = Bench(Controlled)
    assert bench.running() == []
    bench.decide(Compact(ts=time.time()))
    assert bench.running() == [("compaction", 20.0)]
    bench.expire()
    assert isinstance(bench.wire, Controlled)
    assert bench.wire.aborts == 1
    assert bench.running() == [("abort", 7.0)]
    bench.expire()
    stop = bench.recorder.stop_requested
    assert stop is not None
    assert stop.message == "the compaction continued for 7 s after it was aborted"


def test_one_that_ends_after_all_stops_the_clock() -> None:
    bench = Bench(Controlled)
    bench.decide(Compact(ts=time.time()))
    bench.expire()
    bench.recorder.compaction_ended("given up")
    assert (bench.running(), bench.recorder.state) == ([], "ready")
    bench.decide(Compact(ts=time.time()))
    assert bench.running() == [("compaction", 20.0)]


def test_the_agents_own_without_a_way_to_end_it() -> None:
    bench = Bench(Toy)
    bench.player.feed(b"compacting")
    assert bench.running() == [("compaction", 20.0)]
    bench.expire()
    assert bench.recorder.stop_requested is not None
    assert "compacted its context" in bench.recorder.stop_requested.message
