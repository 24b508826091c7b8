"""Chaos on sessions with a process for each turn (the drive `print`).

An agent that is killed takes its turn with it and not the session, so what must be so is other: a
turn that was cut is told to have failed, and every message whose turn was not is heard once.
"""

import contextlib
import json
import time
from collections import Counter
from pathlib import Path

from benchmarks._chaos_real import RealRun
from benchmarks.chaos import DEADLINE, Run, Wrong

from bridle.core import events as ev
from bridle.core.events import Drive
from bridle.process.process_tree import look
from bridle.sessions import verbs
from bridle.sessions.client import DaemonClient
from bridle.sessions.event_log import EventLog
from bridle.sessions.store import SessionRecord

_TURN = 2.0
"""Seconds for a turn to have a process."""


class PrintRun(Run):
    """One session of the scripted agent."""

    targets = ("driver", "daemon", "agent", "holder", "keeper")
    drive: Drive = "print"
    latest_kill = 1.5

    def _part(self, run: Path) -> int | None:
        """The process that is to be killed, once a turn has one."""
        names = {"agent": "[0-9]*.pid", "holder": "[0-9]*.holder", "keeper": "holder"}
        until = time.monotonic() + _TURN
        while time.monotonic() < until:
            for file in run.glob(names[self.target]):
                with contextlib.suppress(OSError, ValueError):
                    pid = int(file.read_text())
                    if look(pid) is not None:
                        return pid
            time.sleep(0.001)
        return None

    def _died(self, pid: int, run: Path) -> bool:
        return look(pid) is None

    def _recover(self) -> None:
        with DaemonClient(self.home) as client:
            report = client.call(verbs.WaitIdle(session=self.record.session_id, timeout=DEADLINE))
            if report is None:
                raise Wrong("it never came to rest")
            if self.target == "keeper" and self.notes["killed"]:
                if report.state != "lost":
                    raise Wrong(f"its keeper was killed and it says {report.state}")
                self.notes["told lost"] += 1
                self._resume(client)
                report = client.call(
                    verbs.WaitIdle(session=self.record.session_id, timeout=DEADLINE)
                )
            if report is None or report.state != "ready":
                raise Wrong(f"it did not go on: {report}")
            self._finally(client)
            client.call(verbs.Stop(session=self.record.session_id, timeout=DEADLINE))

    def _check_messages(self, record: SessionRecord) -> None:
        heard: Counter[str] = Counter()
        for transcript in (self.folder / "account").rglob("*.jsonl"):
            entries = map(json.loads, transcript.read_text().splitlines())
            heard.update(each["text"] for each in entries if each["type"] == "user")
        self._compare(
            record, {f"{kind} {name}": name for name, kind in self.accepted.items()}, heard
        )
        if set(heard) - {f"{kind} {name}" for name, kind in self.accepted.items()}:
            raise Wrong("the agent heard a message that was refused")

    def _compare(self, record: SessionRecord, wanted: dict[str, str], heard: Counter[str]) -> None:
        events = EventLog(self.home.folder(record.session_id)).read()
        ends = [event for event in events if isinstance(event, ev.AgentEnd)]
        failed = sum(event.status != "completed" for event in ends)
        if failed and self.target in ("driver", "daemon"):
            raise Wrong("nothing was done to its agent and a turn failed")
        if failed > 1:
            raise Wrong(f"one process was killed and {failed} turns failed")
        self.notes["messages"] += len(wanted)
        self.notes["turns told failed"] += failed
        unheard = 0
        for text, name in wanted.items():
            if heard[text] > 1:
                raise Wrong(f"message {name} was doubled")
            unheard += heard[text] == 0
        if unheard > failed:
            raise Wrong(f"{unheard} messages were lost and {failed} turns told failed")


class RealPrintRun(PrintRun, RealRun):
    """One session of a real agent."""

    drive: Drive = "print"

    def _bare(self, event: ev.Event) -> dict[str, object]:
        """An event without what some agents tell only in files, which later turns made longer; what
        was used was written down when the turn was over."""
        plain = super()._bare(event)
        return {name: plain[name] for name in plain if name not in ("usage", "cost_usd", "model")}

    def _check_messages(self, record: SessionRecord) -> None:
        asked = [each for each in self.model.requests if each.outcome in ("turn", "overrun")]
        if not asked:
            raise Wrong("the agent never asked its model")
        last = json.dumps(asked[-1].body)
        heard = Counter({name: last.count(name) for name in self.accepted})
        self._compare(record, {name: name for name in self.accepted}, heard)
