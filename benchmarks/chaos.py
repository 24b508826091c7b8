"""Kills parts of live sessions at random moments and counts what was lost or doubled.

`python -m benchmarks.chaos [--runs 300] [--seed 1] [--workers 3] [--drive print]
[--runtime NAME-VERSION[:tmux|:print]…]`

Each run starts a session, gives it messages (prompt, steer, follow-ups), and kills one part with
SIGKILL at a random moment: the daemon, a driver that runs in a program of its own, the agent, or
the shell that holds it. Then the session is taken up again, and it must be that:

- every message that was accepted is in the agent's own transcript exactly once, with a real agent
  in the last request that it made to its model;
- the events on disk are numbered without a gap or a repeat, keep the order contract, and are the
  very events that playing the journal and the ledger anew gives;
- a session whose agent was killed is told to be failed or lost, and can be gone on with, unless
  the agent had kept nothing yet, which is then told;
- nothing of the session is left running at the end.

With `--runtime` the agents are real ones, against the scripted model, and the runs are fewer; with
`:tmux` they sit in a terminal, and the tmux server is one of the parts that are killed. With
`--drive print` or `:print` they have a process for each turn: see `_chaos_print`.

Exit status 1 when anything was lost, doubled, or wrong.
"""

import argparse
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import msgspec

from bridle.core.errors import BridleError, ResumeRefused
from bridle.core.events import Drive, Event
from bridle.core.ids import new_session_id
from bridle.core.options import RunOptions
from bridle.process.process_tree import kill_marked, look, marked_processes
from bridle.runtimes.contract import Adapter
from bridle.runtimes.registry import get_adapter
from bridle.sessions import verbs
from bridle.sessions.client import DaemonClient
from bridle.sessions.event_log import EventLog
from bridle.sessions.home import StateHome
from bridle.sessions.replay import replayed
from bridle.sessions.start import resume_session, start_session
from bridle.sessions.store import SessionRecord, SessionStore
from bridle.testing.contract import check_event_order

TARGETS = ("driver", "daemon", "agent", "holder")
DEADLINE = 90.0
TURN = """
- text: "a few words that come slowly, one after another, to be cut somewhere"
  shell: "sleep 0.05; echo one"
  fault: {slow: 0.004}
- text: "and the end of it"
"""

DRIVER = """
import sys
from bridle.sessions.engine import find_runtime
from bridle.sessions.engine import Engine
from bridle.sessions.home import StateHome
engine = Engine(StateHome(sys.argv[1]), find_runtime)
engine.call(engine.adopt_living).add_done_callback(lambda done: print("up", flush=True))
engine.run()
"""


class Wrong(Exception):
    """Something was lost, doubled, or untrue."""


class Run:
    """One session of the scripted agent and what is done to it."""

    targets: tuple[str, ...] = TARGETS
    drive: Drive = "rpc"
    latest_kill = 0.5
    """Seconds after the first message within which the kill comes."""
    longest_pause = 0.1
    """Seconds between two messages."""

    def __init__(self, base: Path, number: int, seed: int) -> None:
        self.random = random.Random(f"{seed}-{number}")
        self.folder = base / f"run-{number}"
        self.work = self.folder / "work"
        self.work.mkdir(parents=True)
        self.home = StateHome(str(self.folder / "state"))
        self.env = {
            "PATH": os.environ["PATH"],
            "HOME": str(self.folder / "home"),
            "LANG": "C.UTF-8",
            "BRIDLE_DAEMON_IDLE": "20",
        }
        self.target = self.random.choice(self.targets)
        self.notes: Counter[str] = Counter()
        self.accepted: dict[str, str] = {}
        """The messages that were taken: their ids and kinds."""
        self.refused: list[str] = []
        self.over = False
        """Whether there was nothing left to go on with."""
        self.driver: subprocess.Popen[str] | None = None

    def play(self) -> None:
        """The whole run; raises `Wrong`."""
        self.record = self._start()
        try:
            self._disturb()
            self._recover()
            self._check()
        finally:
            if self.driver is not None:
                self.driver.kill()
                self.driver.communicate()
            self._end_daemon()
            kill_marked(self.record.session_id)

    # -- the agent ------------------------------------------------------------------------------

    def _runtime(self) -> Adapter:
        return get_adapter("scripted")

    def _start(self) -> SessionRecord:
        script = self.folder / "script.yaml"
        script.write_text(TURN * 12)
        options = RunOptions(
            prompt="",
            cwd=str(self.work),
            permission_mode="bypass",
            provider_options={"script": str(script)},
            account_dir=str(self.folder / "account"),
        )
        store = SessionStore(self.home)
        try:
            return start_session(
                self.home, store, self._runtime(), options, env=self.env, drive=self.drive
            )
        finally:
            store.close()

    def _resumed(self, store: SessionStore, record: SessionRecord) -> None:
        resume_session(self.home, store, self._runtime(), record, env=self.env)

    # -- the disturbance ------------------------------------------------------------------------

    def _disturb(self) -> None:
        if self.target == "driver":
            self.driver = subprocess.Popen(
                [sys.executable, "-c", DRIVER, self.home.root],
                stdout=subprocess.PIPE,
                text=True,
                env=self.env,
            )
            assert self.driver.stdout is not None
            self.driver.stdout.readline()
        else:
            with DaemonClient(self.home) as client:
                client.call(verbs.WaitReady(session=self.record.session_id, timeout=DEADLINE))
                self.daemon = client.call(verbs.Status())["pid"]
        killer = threading.Timer(self.random.uniform(0.0, self.latest_kill), self._kill)
        killer.start()
        try:
            if self.target != "driver":
                self._talk()
        finally:
            killer.join()
        if self.target == "driver":
            self._talk()

    def _talk(self) -> None:
        with DaemonClient(self.home) as client:
            for kind in ("prompt", "steer", "follow_up", "follow_up"):
                self._say(client, kind)
                time.sleep(self.random.uniform(0.0, self.longest_pause))

    def _say(self, client: DaemonClient, kind: str) -> None:
        message_id = new_session_id()
        try:
            self._send(client, message_id, kind)
            self.accepted[message_id] = kind
        except BridleError as problem:
            # Refused in words: the agent is gone, and nothing was taken.
            self.refused.append(message_id)
            self.notes[f"refused ({problem.kind})"] += 1

    def _send(self, client: DaemonClient, message_id: str, kind: Any) -> Any:
        return client.call(
            verbs.Send(
                session=self.record.session_id,
                kind=kind,
                text=f"{kind} {message_id}",
                message_id=message_id,
                timeout=0.01,
            )
        )

    def _kill(self) -> None:
        pid: int | None = None
        run = Path(self.home.run_folder(self.record.session_id, 1))
        if self.target == "driver" and self.driver is not None:
            pid = self.driver.pid
        elif self.target == "daemon":
            pid = self.daemon
        else:
            pid = self._part(run)
        if pid is not None:
            self.notes["killed"] += 1
            os.kill(pid, signal.SIGKILL)
        until = time.monotonic() + 10
        while pid and not self._died(pid, run):
            # Death takes a moment, and the shell needs one to tell; until then nobody can know.
            if time.monotonic() > until:
                raise Wrong("what was killed does not die")
            time.sleep(0.001)

    def _died(self, pid: int, run: Path) -> bool:
        """Whether what was killed is dead, and that can be known."""
        return look(pid) is None and (self.target != "agent" or (run / "exit").exists())

    def _part(self, run: Path) -> int | None:
        """The process of the agent's that is to be killed."""
        name = {"agent": "pid", "holder": "holder"}[self.target]
        word = (run / name).read_text().strip() if (run / name).exists() else ""
        return int(word) if word else None

    # -- afterwards -----------------------------------------------------------------------------

    def _recover(self) -> None:
        with DaemonClient(self.home) as client:
            report = client.call(verbs.WaitIdle(session=self.record.session_id, timeout=DEADLINE))
            if report is None:
                raise Wrong("it never came to rest")
            if self.target not in ("driver", "daemon"):
                if report.state not in ("failed", "lost"):
                    raise Wrong(f"its agent was killed and it says {report.state}")
                self.notes[f"told {report.state}"] += 1
                try:
                    self._resume(client)
                except ResumeRefused:
                    # It died before it kept anything, and that is what the user is told.
                    self.notes["resume refused"] += 1
                    self.over = True
                    return
            elif report.state != "ready":
                raise Wrong(f"nothing was done to its agent and it says {report.state}")
            report = client.call(verbs.WaitIdle(session=self.record.session_id, timeout=DEADLINE))
            if report is None or report.state != "ready":
                raise Wrong(f"it did not go on: {report}")
            self._finally(client)
            client.call(verbs.Stop(session=self.record.session_id, timeout=DEADLINE))

    def _finally(self, client: DaemonClient) -> None:
        """What is left to do before the session is stopped."""

    def _resume(self, client: DaemonClient) -> None:
        client.call(verbs.Release(session=self.record.session_id))
        store = SessionStore(self.home)
        try:
            record = store.get(self.record.session_id)
            self._resumed(store, record)
        finally:
            store.close()
        told = client.call(verbs.WaitReady(session=self.record.session_id, timeout=DEADLINE))
        if told is None or told.state in ("failed", "lost"):
            if told is not None and self._kept_nothing(record):
                raise ResumeRefused("it is told failed again")
            raise Wrong(f"it could not be resumed: {told}")
        self.notes["resumed"] += 1

    def _kept_nothing(self, record: SessionRecord) -> bool:
        """Whether the agent died before it wrote anything down."""
        return False

    def _check(self) -> None:
        store = SessionStore(self.home)
        record = store.get(self.record.session_id)
        store.close()
        if not self.over:
            self._check_messages(record)
        self._check_events(record)
        until = time.monotonic() + 20
        while marked_processes(record.session_id):
            if time.monotonic() > until:
                raise Wrong("something of the session is still running")
            time.sleep(0.05)

    def _check_messages(self, record: SessionRecord) -> None:
        [transcript] = (self.folder / "account").rglob(f"{record.native_session_id}.jsonl")
        heard = Counter(
            entry.get("id")
            for entry in map(json.loads, transcript.read_text().splitlines())
            if entry["type"] == "user"
        )
        for message_id in self.accepted:
            self.notes["messages"] += 1
            if heard[message_id] == 0:
                raise Wrong(f"message {message_id} was lost")
            if heard[message_id] > 1:
                raise Wrong(f"message {message_id} was doubled")
        if set(heard) - set(self.accepted):
            raise Wrong("the agent heard a message that was refused")

    def _check_events(self, record: SessionRecord) -> None:
        events: list[Event] = list(EventLog(self.home.folder(record.session_id)).read())
        numbers = [event.seq for event in events]
        if numbers != list(range(1, len(events) + 1)):
            raise Wrong("the events are not numbered without a gap")
        again = replayed(self.home, record, self._runtime())
        if [self._bare(e) for e in events] != [self._bare(e) for e in again]:
            raise Wrong("the journal played anew gives other events")
        if wrong := check_event_order(events):
            raise Wrong(wrong[0])
        self.notes["events"] += len(events)

    def _bare(self, event: Event) -> dict[str, object]:
        """An event without the moment it was written down."""
        plain: dict[str, object] = msgspec.to_builtins(event)
        plain.pop("ts")
        return plain

    def _end_daemon(self) -> None:
        try:
            with DaemonClient(self.home, start=False) as client:
                client.call(verbs.Shutdown())
                client.wait_gone()
        except BridleError:
            pass


class Count:
    """What came of many runs."""

    def __init__(self, title: str, runs: int, keep: bool) -> None:
        self.title = title
        self.runs = runs
        self.keep = keep
        self.total: Counter[str] = Counter()
        self.wrong: list[str] = []
        self.began = time.monotonic()

    def play(self, number: int, run: Run) -> None:
        """Play a run and count it."""
        total = self.total
        try:
            run.play()
        except Exception as problem:
            words = f"{self.title} {number} ({run.target}): {type(problem).__name__}: {problem}"
            self.wrong.append(words)
            sys.stderr.write(f"{words}\n")
        else:
            if not self.keep:
                shutil.rmtree(run.folder, ignore_errors=True)
        total["runs"] += 1
        total[f"kill of the {run.target}"] += run.notes["killed"]
        total.update({k: v for k, v in run.notes.items() if k != "killed"})
        if total["runs"] % 25 == 0:
            sys.stderr.write(f"{total['runs']} of {self.runs}\n")

    def print(self) -> None:
        """Print the counts."""
        print(f"\n{self.title}")
        for name, count in sorted(self.total.items()):
            print(f"{name:<28}{count:>8}")
        print(f"{'seconds':<28}{time.monotonic() - self.began:>8.0f}")
        print(f"{'load':<28}{os.getloadavg()[0]:>8.1f}")
        print(f"{'lost, doubled or untrue':<28}{len(self.wrong):>8}")
        for line in self.wrong:
            print(line)


def main() -> int:
    """Play all runs and print the counts."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--runs", type=int, help="300, or 8 of each --runtime")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--workers", type=int, default=3)
    parser.add_argument("--keep", action="store_true", help="keep the folders of wrong runs")
    parser.add_argument(
        "--runtime", nargs="+", default=[], help="real agents, as claude-2.1.325 or pi-1.5.0:tmux"
    )
    parser.add_argument("--drive", choices=("rpc", "print"), default="rpc", help="of scripted ones")
    args = parser.parse_args()
    wrong = 0
    scripted = "scripted" if args.drive == "rpc" else f"scripted:{args.drive}"
    for label in args.runtime or [scripted]:
        runs = args.runs or (8 if args.runtime else 300)
        count = Count(label, runs, args.keep)
        _play_all(label, runs, args, count)
        count.print()
        wrong += len(count.wrong)
    return 1 if wrong else 0


def _play_all(label: str, runs: int, args: argparse.Namespace, count: Count) -> None:
    if label == "scripted":
        base = Path(tempfile.mkdtemp(prefix="chaos-"))
        make: Callable[[Path, int, int], Run] = Run
    elif label == "scripted:print":
        from benchmarks._chaos_print import PrintRun

        base, make = Path(tempfile.mkdtemp(prefix="chaos-")), PrintRun
    else:
        from benchmarks._chaos_real import base_folder, real_run

        base, make = base_folder(), real_run(label)
    with ThreadPoolExecutor(args.workers) as pool:
        list(pool.map(lambda n: count.play(n, make(base, n, args.seed)), range(runs)))
    if not count.wrong and not args.keep:
        shutil.rmtree(base, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
