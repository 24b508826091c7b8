"""Rebuilds a session from its ledger: its process, its player, and all its events.

A ledger's `Begin` entry says how a process was started. From it every driver makes the same process
object, wire and player, and replay of journal and ledger gives the same events again.
"""

import os
from typing import Any, TypeAlias

from bridle.core import structs
from bridle.core.errors import Aborted, TimedOut, UnsupportedOption
from bridle.core.events import Drive, Event
from bridle.core.options import RunOptions
from bridle.core.redaction import Redactor
from bridle.process.detached import DetachedProcess
from bridle.process.spec import ProcessExit
from bridle.runtimes.alternatives import as_live, as_terminal
from bridle.runtimes.contract import Adapter
from bridle.sessions.home import StateHome
from bridle.sessions.ledger import (
    Abort,
    AbortCompaction,
    Accept,
    Answer,
    Begin,
    Compact,
    Drop,
    Entry,
    Expire,
    Leave,
    Ledger,
    Model,
    Send,
    Settled,
    Told,
)
from bridle.sessions.store import SessionRecord
from bridle.turns import player
from bridle.turns.guard_contract import Guard
from bridle.turns.recorder import Recorder
from bridle.turns.wire import CompactionControl, LiveFacts, LiveWire, ModelSwitch, TurnByTurn

TYPE_CHECKING = False
if TYPE_CHECKING:
    from bridle.drives.tmux.pane_process import PaneProcess

    SessionProcess = DetachedProcess | PaneProcess
    """The object that holds a session's agent process."""


_HUNG = {
    "first_progress": "the agent said nothing for {:g} s after the prompt",
    "inactivity": "the agent was silent for {:g} s",
    "turn": "the turn did not end within {:g} s",
}

MessageState: TypeAlias = player.MessageState[Accept]
"""A message of a session and how far it has come."""


class SessionPlayer(player.Conversation[Accept]):
    """Plays one process of a session: journal lines (`feed`) and ledger entries (`apply`).

    Contract: as `Conversation`. `feed` and `apply` are called in the order in which things
    happened.
    """

    _kept: tuple[Event, ...] = ()

    @property
    def has_output(self) -> bool:
        """Whether there are bytes or events to take."""
        self._kept = (*self._kept, *self.recorder.drain())
        return bool(self._bytes or self._kept)

    def take_events(self) -> list[Event]:
        """The events since the last call, oldest first."""
        taken, self._kept = [*self._kept, *self.recorder.drain()], ()
        return taken

    def apply(self, entry: Entry) -> None:
        """Carry out a decision of the driver."""
        self.recorder.source_unknown()
        match entry:
            case Accept():
                self.add(entry)
            case Send():
                self.send(entry.id, steer=entry.steer)
            case Drop():
                self.drop(entry.id)
            case Answer():
                self.answer(entry.request_id, entry.allowed, entry.by, entry.reason)
            case Abort():
                self.abort(Aborted(entry.reason))
            case Expire():
                self._expire(entry)
            case Leave():
                self.leave(entry.reason)
            case Model():
                if isinstance(self.wire, ModelSwitch):
                    self.do(self.wire.set_model, entry.model)
            case Compact():
                if isinstance(self.wire, CompactionControl):
                    self.do(self.wire.compact)
            case AbortCompaction():
                if isinstance(self.wire, CompactionControl):
                    self.do(self.wire.abort_compaction)
            case Told():
                if self.recorder.guard is not None:
                    self.recorder.guard.note(entry.note)
                    self.do(self.recorder.verdicts.take_notes)
            case Settled():
                self._settle(entry)
            case _:
                pass

    def finish(self, exit: ProcessExit) -> None:
        """The process has ended. A repeated call has no effect."""
        if not self.finished and self.recorder.state == "starting":
            # The sandbox may have refused to start it, which the adapter cannot know.
            from bridle.runtimes.sandbox_plan import start_refusal

            self.recorder.source_unknown()
            refusal = start_refusal(self.recorder.with_last_words(exit))
            if refusal is not None:
                self.recorder.fail(refusal)
        super().finish(exit)

    def _settle(self, entry: Settled) -> None:
        """Use the totals that the ledger has for the last turn: a replayed turn may find that files
        of the agent have changed. Events beyond them are discarded."""
        if isinstance(self.wire, TurnByTurn):
            events = (*self._kept, *self.recorder.drain())
            self.wire.settled(entry.total, entry.native_session_id, entry.model)
            events = (*events, *self.recorder.drain())
            self._kept = tuple(each for each in events if each.seq <= entry.total.seq)

    def _expire(self, entry: Expire) -> None:
        recorder = self.recorder
        if entry.clock in _HUNG:
            self.abort(TimedOut(_HUNG[entry.clock].format(entry.seconds)))
        elif entry.clock == "patience":
            patience, recorder.patience = recorder.patience, None
            if patience is not None and patience.error is not None:
                recorder.request_stop(patience.error)
        elif entry.clock == "startup":
            recorder.request_stop(TimedOut(f"the agent was not ready within {entry.seconds:g} s"))
        elif entry.clock == "compaction":
            self._expire_compaction(entry.seconds)
        else:
            what = "turn" if recorder.turn_open else "compaction"
            recorder.request_stop(
                TimedOut(f"the {what} continued for {entry.seconds:g} s after it was aborted")
            )

    def _expire_compaction(self, seconds: float) -> None:
        if isinstance(self.wire, CompactionControl):
            self.do(self.wire.abort_compaction)
        else:
            self.recorder.request_stop(
                TimedOut(f"the agent was silent for {seconds:g} s while it compacted its context")
            )


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
        "options": structs.convert({"prompt": "", **begin.options}, RunOptions),
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


def player_of(
    record: SessionRecord, begin: Begin, runtime: Adapter, redactor: Redactor
) -> SessionPlayer:
    """A player of the process that `begin` describes; it has not begun."""
    recorder = recorder_of(record, begin, redactor)
    if begin.guard is not None:
        recorder.guard = Guard.of_session(begin.guard)
    return SessionPlayer(wire_of(begin.drive, runtime, begin.facts, recorder), recorder)


def replayed(home: StateHome, record: SessionRecord, runtime: Adapter) -> list[Event]:
    """The events that the journals and the ledger of all the session's processes give; changes
    nothing.

    Secrets are removed by their shape only: the keys of that time are not known any more.
    """
    entries = Ledger(os.path.join(home.folder(record.session_id), "ledger.jsonl")).read()
    events: list[Event] = []
    starts = [at for at, entry in enumerate(entries) if isinstance(entry, Begin)]
    for at, end in zip(starts, [*starts[1:], len(entries)], strict=True):
        begin = entries[at]
        assert isinstance(begin, Begin)
        events += _replay_process(home, record, runtime, begin, entries[at + 1 : end])
    return events


def _replay_process(
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
