"""Rebuilds a session from its ledger: its process, its player, and all its events.

A ledger's `Begin` entry says how a process was started. From it every driver makes the same process
object, wire and player, and replay of journal and ledger gives the same events again.
"""

import os
from typing import Any

import msgspec

from bridle.core.errors import UnsupportedOption
from bridle.core.events import Drive, Event
from bridle.core.options import RunOptions
from bridle.core.redaction import Redactor
from bridle.process.detached import DetachedProcess
from bridle.runtimes.contract import Adapter
from bridle.runtimes.supporting import as_live, as_terminal
from bridle.sessions.home import StateHome
from bridle.sessions.ledger import Begin, Entry, Ledger
from bridle.sessions.player import Player
from bridle.sessions.store import SessionRecord
from bridle.turns.guard_contract import Guard
from bridle.turns.recorder import Recorder
from bridle.turns.wire import LiveFacts, LiveWire

TYPE_CHECKING = False
if TYPE_CHECKING:
    from bridle.drives.tmux.pane_process import PaneProcess

    SessionProcess = DetachedProcess | PaneProcess
    """What holds a session's agent."""


def process_of(begin: Begin, folder: str, runtime: Adapter) -> "SessionProcess":
    """The process that `begin` describes, in `folder`, started or not."""
    drive, facts = begin.drive, begin.facts
    if drive == "rpc":
        return DetachedProcess(folder)
    if drive == "tmux":
        from bridle.drives.tmux.pane_process import PaneProcess

        terminal = as_terminal(runtime)
        return PaneProcess(
            folder,
            terminal.configured_terminal(),
            runtime.detect_ready,
            lambda pid: terminal.transcript_path(facts, pid),
            verify=runtime.requires_beacon_verification(),
            reports=facts.reports,
        )
    if drive == "print":
        from bridle.drives.print_session.turn_process import TurnProcess
        from bridle.sessions.print_plan import planner

        return TurnProcess(folder, planner(runtime, begin))
    raise UnsupportedOption(runtime.id, f"drive {drive}", [], reason="not in a session")


def recorder_of(record: SessionRecord, begin: Begin, redactor: Redactor) -> Recorder:
    """The recorder of a session's process."""
    settings: dict[str, Any] = {
        "runtime": record.runtime,
        "session_id": record.session_id,
        "options": msgspec.convert({"prompt": "", **begin.options}, RunOptions),
        "cwd": begin.facts.cwd,
        "runtime_version": begin.facts.runtime_version,
        "redactor": redactor,
        "drive": begin.drive,
        "before": begin.before,
    }
    if begin.drive == "print":
        from bridle.drives.print_session.turn_recorder import TurnRecorder

        recorder: Recorder = TurnRecorder(**settings)
    else:
        recorder = Recorder(**settings)
    recorder.words.file_instructions = lambda: begin.file_instructions
    return recorder


def wire_of(drive: Drive, runtime: Adapter, facts: LiveFacts, recorder: Recorder) -> LiveWire:
    """The wire of a session's process."""
    if drive == "tmux":
        from bridle.drives.tmux.pane_wire import PaneWire

        return PaneWire(as_terminal(runtime).tmux_wire(facts, recorder), recorder)
    if drive == "print":
        from bridle.drives.print_session.turn_recorder import TurnRecorder
        from bridle.sessions.print_plan import turn_wire

        assert isinstance(recorder, TurnRecorder)
        return turn_wire(runtime, facts, recorder)
    return as_live(runtime).live_wire(facts, recorder)


def player_of(record: SessionRecord, begin: Begin, runtime: Adapter, redactor: Redactor) -> Player:
    """A player of the process that `begin` describes; it has not begun."""
    recorder = recorder_of(record, begin, redactor)
    if begin.guard is not None:
        recorder.guard = Guard.of_session(begin.guard)
    return Player(wire_of(begin.drive, runtime, begin.facts, recorder), recorder)


def replayed(home: StateHome, record: SessionRecord, runtime: Adapter) -> list[Event]:
    """The events that journal and ledger of all the session's processes give; changes nothing.

    Secrets are removed by their shape only: the keys of that time are not known any more.
    """
    entries = Ledger(os.path.join(home.folder(record.session_id), "ledger.jsonl")).read()
    events: list[Event] = []
    starts = [at for at, entry in enumerate(entries) if isinstance(entry, Begin)]
    for at, end in zip(starts, [*starts[1:], len(entries)], strict=True):
        begin = entries[at]
        assert isinstance(begin, Begin)
        events += _one(home, record, runtime, begin, entries[at + 1 : end])
    return events


def _one(
    home: StateHome,
    record: SessionRecord,
    runtime: Adapter,
    begin: Begin,
    entries: list[Entry],
) -> list[Event]:
    redactor = Redactor()
    player = player_of(record, begin, runtime, redactor)
    player.begin(begin.carried)
    waiting = list(reversed(entries))

    def catch_up() -> None:
        while waiting and waiting[-1].at <= player.lines:
            player.apply(waiting.pop())

    catch_up()
    folder = home.run_folder(record.session_id, begin.run)
    process = process_of(begin, folder, runtime)
    while lines := process.read_lines():
        for line in lines:
            player.feed(redactor.line(line))
            catch_up()
    ended = process.exit(redactor)
    if ended is not None:
        if last := process.last_words():
            player.feed(redactor.line(last))
        player.finish(ended)
    return player.take_events()
