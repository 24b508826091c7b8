"""Sessions with a process for each turn, on the scripted agent: begun, looked into and checked."""

import json
from collections import Counter
from typing import Any

from bridle.core import events as ev
from bridle.process.process_tree import marked_processes
from bridle.runtimes.registry import get_adapter
from bridle.sessions.replay import replayed
from bridle.sessions.store import SessionRecord
from bridle.testing.contract import check_event_order
from tests.sessions.place import Place, wait

SLOW = """
- text: "some words that take their time"
  shell: "touch began; sleep 0.5"
  fault: {slow: 0.01}
- text: the end
"""
LONG = '- text: working\n  shell: "touch began; sleep 60"\n'


def begin(place: Place, script: str, **more: Any) -> SessionRecord:
    """A print session."""
    return place.start(script, drive="print", **more)


def heard(place: Place, record: SessionRecord) -> Counter[str]:
    """What the agent's own transcript says that it was told."""
    native = place.record(record).native_session_id
    [transcript] = (place.folder / "account").rglob(f"{native}.jsonl")
    entries = map(json.loads, transcript.read_text().splitlines())
    return Counter(each["text"] for each in entries if each["type"] == "user")


def check(place: Place, record: SessionRecord) -> list[ev.Event]:
    """What must be so of every session that is over; returns its events."""
    events = place.events(record)
    assert check_event_order(events) == []
    again = replayed(place.home, place.record(record), get_adapter("scripted"))
    assert [bare(event) for event in again] == [bare(event) for event in events]
    wait(lambda: marked_processes(record.session_id) == [])
    return events


def bare(event: ev.Event) -> str:
    """An event without the moment it was written down."""
    return str(event).replace(event.ts, "")


def turn_pid(place: Place, record: SessionRecord, number: int = 1) -> int:
    """The process of a turn, once it is there."""
    file = place.run_file(record, f"{number}.pid")
    wait(file.exists)
    return int(file.read_text())


def keeper(place: Place, record: SessionRecord, run: int = 1) -> int:
    """The process between turns."""
    file = place.run_file(record, "holder", run)
    wait(file.exists)
    return int(file.read_text())
