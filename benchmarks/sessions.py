"""A thousand idle and two hundred busy sessions in one daemon: memory, idle CPU, event latency.

`python -m benchmarks.sessions [--idle 1000] [--busy 200] [--seconds 20] [--light]`

Every session is real: a scripted agent under its own holder, driven by the real daemon over its
files. With `--light`, or where the machine could not hold so many, the idle ones have a shell
script in the agent's place that says `session` and `ready` and waits; the table says so.

- memory: growth of the daemon's resident (RSS) and proportional (PSS) memory by the idle sessions;
- idle CPU: processor time of the daemon over `--seconds` in which nothing happens;
- latency: the agent writes the moment into each piece of text right before it writes the line, and
  a subscriber in another process notes when the event arrived on its socket. Only pieces from the
  time in which all busy sessions worked at once are counted, the ends and beginnings of their turns
  in between included. The floor is a bare pipe between two
  processes, heard in the same loop at the same time;
- events per second: the busy sessions write as fast as they can, from the first event that arrives
  to the last.

Exit status 1 when a session did not do what it was told, or a goal was missed.
"""

import argparse
import statistics
import sys
import time
from collections.abc import Sequence

from benchmarks._fleet import (
    REAL_AGENT_KB,
    Fleet,
    available_kb,
    cpu_seconds,
    load,
    memory_kb,
    say,
)
from benchmarks._measure import print_table
from benchmarks._subscribing import Subscriber, stamps

from bridle.core.events import AnyEvent
from bridle.core.ids import new_session_id
from bridle.process.process_tree import look
from bridle.sessions import verbs
from bridle.sessions.client import DaemonClient
from bridle.sessions.event_log import EventLog
from bridle.sessions.store import SessionRecord

GOAL_KB, GOAL_CPU, GOAL_MEDIAN, GOAL_P99 = 64.0, 0.5, 5.0, 50.0
PACED, BURST = 3, 4
"""The turns of a busy session: so many at a steady pace, queued as follow-ups of the first, then
one at full speed."""
STAMP = "{stamp}"
TURN = 300.0
"""Seconds for all busy sessions to end a turn."""


class Bench:
    """One run of the benchmark."""

    def __init__(self, args: argparse.Namespace) -> None:
        self.args = args
        self.fleet = Fleet()
        self.light = bool(args.light) or available_kb() < args.idle * REAL_AGENT_KB
        self.rows: list[tuple[str, str, str, str]] = []
        self.wrong: list[str] = []
        self.missed = 0

    def run(self) -> int:
        """All of it; returns the exit status."""
        try:
            pid = self.fleet.daemon_pid()
            idle = self._idle(pid)
            self._busy(pid)
            self._check_idle(idle)
        finally:
            self.fleet.close()
        kind = "a light stand-in" if self.light else "the scripted agent"
        print_table(
            f"{self.args.idle} idle ({kind}) and {self.args.busy} busy sessions in one daemon",
            ("what", "measured", "goal", "load"),
            self.rows,
        )
        print(f"\nsessions that did not do what they were told: {len(self.wrong)}")
        for line in self.wrong[:20]:
            print(line)
        return 1 if self.wrong or self.missed else 0

    # -- idle -----------------------------------------------------------------------------------

    def _idle(self, pid: int) -> list[SessionRecord]:
        args = self.args
        # What every daemon needs once, whatever it drives, is loaded by the first session.
        first = self.fleet.start(1, [{"text": "Hello."}], light=self.light)
        self.fleet.wait_ready(first)
        before = memory_kb(pid)
        say(f"starting {args.idle} idle sessions")
        idle = self.fleet.start(args.idle, [{"text": "Hello."}], light=self.light)
        self.fleet.wait_ready(idle)
        after = memory_kb(pid)
        for name, old, new in zip(("RSS", "PSS"), before, after, strict=True):
            each = (new - old) / args.idle
            self._row(f"memory per idle session ({name})", each, "KB", GOAL_KB)
        self.rows.append(("the daemon in all (RSS)", f"{after[0] / 1024:.0f} MB", "", load()))
        say("all ready; looking at the daemon while nothing happens")
        time.sleep(3)
        used, began = cpu_seconds(pid), time.monotonic()
        time.sleep(args.seconds)
        share = (cpu_seconds(pid) - used) / (time.monotonic() - began) * 100
        self._row("CPU of the idle daemon", share, "%", GOAL_CPU)
        return [*first, *idle]

    def _check_idle(self, records: list[SessionRecord]) -> None:
        """They still wait; some of them are asked for something, to see that they do it."""
        with DaemonClient(self.fleet.home) as client:
            for record in records:
                now = client.call(verbs.Show(session=record.session_id))
                pid = now.pid
                if now.state != "ready" or now.turn != 0 or pid is None or not look(pid):
                    self.wrong.append(f"idle {record.session_id}: {now.state}, {now.turn}")
            woken = [] if self.light else records[:: max(1, len(records) // 50)]
            for record in woken:
                self._prompt(client, record)
            for record in woken:
                self._check_turns(client, record, 1)
        if woken:
            self.rows.append(("idle sessions woken by a prompt", str(len(woken)), "", load()))

    # -- busy -----------------------------------------------------------------------------------

    def _busy(self, pid: int) -> None:
        args = self.args
        pieces = int(args.turn_seconds / args.pause)
        script = [
            *[{"text": STAMP * pieces, "chunk_size": len(STAMP), "fault": {"slow": args.pause}}]
            * PACED,
            {"text": STAMP * args.burst, "chunk_size": len(STAMP)},
        ]
        say(f"starting {args.busy} busy sessions")
        before = memory_kb(pid)
        records = self.fleet.start(args.busy, script)
        self.fleet.wait_ready(records)
        subscriber = Subscriber(self.fleet.home, records)
        try:
            say("the busy ones work at a steady pace")
            used, began = cpu_seconds(pid), time.monotonic()
            for _ in range(PACED):
                self._ask_all(records, subscriber)
            subscriber.listen_until_ends(PACED, TURN)
            share = (cpu_seconds(pid) - used) / (time.monotonic() - began) * 100
            paced_load = load()
            say("and as fast as they can")
            self._ask_all(records, subscriber)
            subscriber.listen_until_ends(BURST, TURN)
            subscriber.listen(0.5)
            events = subscriber.events()
        finally:
            subscriber.close()
        each = (memory_kb(pid)[0] - before[0]) / args.busy
        self._latency(events, subscriber.floor(), paced_load)
        self.rows.append(("CPU of the daemon meanwhile", f"{share:.0f} %", "", paced_load))
        self._rate(events)
        self.rows.append(("memory per busy session (RSS)", f"{each:.1f} KB", "", load()))
        counts = {**dict.fromkeys(range(1, PACED + 1), pieces), BURST: args.burst}
        with DaemonClient(self.fleet.home) as client:
            for record in records:
                self._check_turns(client, record, len(counts))
                self._check_events(record, events[record.session_id], counts)

    def _ask_all(self, records: list[SessionRecord], subscriber: Subscriber) -> None:
        with DaemonClient(self.fleet.home) as client:
            for record in records:
                self._prompt(client, record)
                subscriber.listen(0.001)

    def _prompt(self, client: DaemonClient, record: SessionRecord) -> None:
        client.call(
            verbs.Send(
                session=record.session_id,
                kind="follow_up",
                text="go on",
                message_id=new_session_id(),
                timeout=0.0,
            )
        )

    def _latency(
        self,
        events: dict[str, list[tuple[int, AnyEvent]]],
        floor: list[tuple[int, int]],
        at_load: str,
    ) -> None:
        turns = [
            [stamp for turn in range(1, PACED + 1) for stamp in stamps(each, turn)]
            for each in events.values()
        ]
        began = max(turn[0][1] for turn in turns)
        ended = min(turn[-1][1] for turn in turns)
        inside = [
            (here - written) / 1e6
            for turn in turns
            for here, written in turn
            if began <= written <= ended
        ]
        bare = [(here - written) / 1e6 for here, written in floor if began <= written <= ended]
        seconds = (ended - began) / 1e9
        if seconds <= 0 or len(inside) < 100:
            raise RuntimeError("the busy sessions never all worked at once: give longer turns")
        rate = len(inside) / seconds
        name = f"{rate:.0f} events/s over {seconds:.0f} s"
        self._row(f"latency, median ({name})", _share(inside, 50), "ms", GOAL_MEDIAN, at_load)
        self._row("latency, p99", _share(inside, 99), "ms", GOAL_P99, at_load)
        for share in (50, 99):
            word = "median" if share == 50 else "p99"
            value = f"{_share(bare, share):.2f} ms"
            self.rows.append((f"floor, {word} (a bare pipe)", value, "", at_load))

    def _rate(self, events: dict[str, list[tuple[int, AnyEvent]]]) -> None:
        moments = [here for each in events.values() for here, _ in stamps(each, BURST)]
        seconds = (max(moments) - min(moments)) / 1e9
        self.rows.append(
            (
                f"events per second ({len(moments)} at once)",
                f"{len(moments) / seconds:,.0f}",
                "",
                load(),
            )
        )

    # -- right or wrong -------------------------------------------------------------------------

    def _check_turns(self, client: DaemonClient, record: SessionRecord, turns: int) -> None:
        told = client.call(verbs.WaitIdle(session=record.session_id, timeout=60.0))
        right = told is not None and (told.turn, told.status) == (turns, "completed")
        if told is None or told.state != "ready" or not right:
            self.wrong.append(f"{record.session_id}: {told}")

    def _check_events(
        self,
        record: SessionRecord,
        heard: list[tuple[int, AnyEvent]],
        counts: dict[int, int],
    ) -> None:
        kept = [event.seq for event in EventLog(self.fleet.home.folder(record.session_id)).read()]
        if kept != list(range(1, len(kept) + 1)):
            self.wrong.append(f"{record.session_id}: its events have a gap on disk")
        if [event.seq for _, event in heard] != kept:
            self.wrong.append(f"{record.session_id}: the subscriber heard other events")
        for turn, count in counts.items():
            if len(stamps(heard, turn)) != count:
                self.wrong.append(f"{record.session_id}: turn {turn} has not {count} pieces")

    def _row(self, name: str, value: float, unit: str, goal: float, at_load: str = "") -> None:
        self.missed += value > goal
        mark = "" if value <= goal else " MISSED"
        self.rows.append((name, f"{value:.2f} {unit}", f"{goal:g} {unit}{mark}", at_load or load()))


def _share(values: Sequence[float], share: int) -> float:
    return statistics.quantiles(values, n=100, method="inclusive")[share - 1]


def main() -> int:
    """Run the benchmark as the command line says."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--idle", type=int, default=1000)
    parser.add_argument("--busy", type=int, default=200)
    parser.add_argument("--seconds", type=float, default=20.0, help="length of the idle look")
    parser.add_argument("--turn-seconds", type=float, default=12.0, help="of a steady turn")
    parser.add_argument("--pause", type=float, default=0.25, help="seconds between two pieces")
    parser.add_argument("--burst", type=int, default=200, help="pieces of a turn at full speed")
    parser.add_argument("--light", action="store_true", help="a shell script for idle agents")
    return Bench(parser.parse_args()).run()


if __name__ == "__main__":
    sys.exit(main())
