"""Drives one session over its detached process: reads, decides, writes down, sends.

At most one driver holds a session, by a lock on its folder. It can be killed at any moment: the
next one plays journal and ledger again (`player`), compares what came out with what the agent was
given and what the event file holds, completes both, and goes on.
"""

import os
import shutil
import time
from collections.abc import Callable

from bridle.core.errors import AgentError, BridleError, Crashed, WrongUse
from bridle.core.events import Event
from bridle.core.redaction import Redactor, secrets_in
from bridle.process.process_tree import environment, kill_marked
from bridle.process.run_files import HoldingFailed
from bridle.process.spec import ProcessExit
from bridle.runtimes.contract import Adapter
from bridle.sessions.catching_up import CatchingUp
from bridle.sessions.clocks import Clocks
from bridle.sessions.commands import Commands
from bridle.sessions.decisions import Decisions
from bridle.sessions.holding import process_of
from bridle.sessions.home import StateHome
from bridle.sessions.intake import PIECE, Intake
from bridle.sessions.ledger import (
    Accept,
    Answer,
    Begin,
    Entry,
    Expire,
    Ledger,
    Send,
    Settled,
)
from bridle.sessions.lock import SessionLock
from bridle.sessions.outflow import Outflow
from bridle.sessions.record_changes import brought_up_to_date
from bridle.sessions.replay import SessionPlayer, player_of
from bridle.sessions.stopping import Cleaning, Stopping
from bridle.sessions.stopwatch import Stopwatch
from bridle.sessions.store import SessionRecord, SessionStore
from bridle.turns.guard_contract import WireCall
from bridle.turns.wire import TurnByTurn

TYPE_CHECKING = False
if TYPE_CHECKING:
    from bridle.sessions.holding import SessionProcess

_CLEANING = 0.05
"""Seconds between looks whether what an agent left behind is gone."""
_NO_ANSWER = "nobody answered in time; do without it"

Publish = Callable[["SessionDriver", list[Event]], None]


class SessionDriver:
    """One session, driven.

    Contract: made with the lock held, which it takes over; `open` brings it up to date. Then
    `poll` whenever the run's folder changed or `deadline` has passed, and `commands` whenever
    somebody asks. `close` stops driving and leaves the agent to itself. One thread uses it.
    """

    def __init__(
        self,
        home: StateHome,
        record: SessionRecord,
        runtime: Adapter,
        store: SessionStore,
        lock: SessionLock,
        *,
        clocks: Clocks | None = None,
        publish: Publish | None = None,
    ) -> None:
        self.record = record
        self.clocks = clocks or Clocks()
        self.settle: Callable[[WireCall], None] | None = None
        """Has a call judged that waits on the agent's wire; the verdict comes as a note."""
        self._home = home
        self._runtime = runtime
        self._store = store
        self._lock = lock
        self._publish = publish or (lambda driver, events: None)
        self.run_folder = os.path.realpath(home.run_folder(record.session_id, record.run))
        """The folder whose changes call for `poll`."""
        folder = home.folder(record.session_id)
        self._ledger = Ledger(os.path.join(folder, "ledger.jsonl"))
        self._outflow = Outflow(folder)
        self._cleaning = Cleaning()
        self._process: SessionProcess
        self._begin: Begin
        self._player: SessionPlayer
        self._decisions: Decisions
        self.commands: Commands
        """What the session can be told, once it is open."""
        self._intake: Intake
        self._stopping: Stopping
        self._is_open = False
        self._unsaved = False
        self._input_closed = False
        self._told: set[str] = set()
        self._wake: float | None = None
        self._watch = Stopwatch()

    # -- taking up ------------------------------------------------------------------------------

    @property
    def player(self) -> SessionPlayer:
        """The session as it stands."""
        return self._player

    @property
    def own_clocks(self) -> Clocks | None:
        """The clocks that the session was started with, None when those of its driver hold."""
        return self._begin.clocks

    @property
    def trouble(self) -> AgentError | None:
        """Why nothing can be written down now (a full disk); the driver tries again."""
        return self._outflow.trouble

    @property
    def last_seq(self) -> int:
        """The number of the last event that was told."""
        return self._outflow.logged

    @property
    def guard_folder(self) -> str | None:
        """Where the files of its guard are; None when it has none."""
        return None if self._begin.guard is None else self._begin.guard.folder

    @property
    def is_over(self) -> bool:
        """Whether the session's process is gone with all that it started, and all it said was
        taken."""
        finished = self._player.finished and not self._outflow.has_events
        return finished and not self._cleaning.is_running

    def end_fd(self) -> int | None:
        """A new descriptor whose being readable calls for `poll`: the process has ended. None when
        only a look from time to time tells. The caller closes it."""
        return None if self._player.finished else self._process.end_fd()

    def open(self) -> None:
        """Play what happened so far, and complete what the driver before left half done."""
        entries = self._ledger.read(cut=True)
        starts = [at for at, entry in enumerate(entries) if isinstance(entry, Begin)]
        if not starts:
            raise WrongUse(f"session {self.record.session_id} never began")
        begin = entries[starts[-1]]
        assert isinstance(begin, Begin)
        self._begin = begin
        self.clocks = (begin.clocks or self.clocks).with_turn(begin.options.get("timeout"))
        folder = self._home.run_folder(self.record.session_id, begin.run)
        self._process = process_of(begin, folder, self._runtime)
        self._process.take_up()
        holder = self._process.holder
        env = environment(holder) if holder is not None else {}
        redactor = Redactor(secrets_in(env or dict(os.environ)))
        self._player = player_of(self.record, begin, self._runtime, redactor)
        self._decisions = Decisions(self._ledger, self._player, self._watch, begin.guard)
        known = {entry.id for entry in entries if isinstance(entry, Accept)}
        self.commands = Commands(lambda: self.record, self._decisions, known, self.poll)
        self._intake = Intake(self._process, self._player, redactor, self.run_folder)
        self._stopping = Stopping(self._process, begin.stop)
        self._outflow.open(self._process)
        self._catch_up(entries[starts[-1] + 1 :])
        self._is_open = True
        self.poll()

    def _catch_up(self, entries: list[Entry]) -> None:
        self._watch.begin(self._begin)
        past = CatchingUp(
            self._player,
            self._intake,
            note=self._decisions.note,
            take_late_notes=self._take_late_notes,
        )
        said = past.play(self._begin, entries)
        given = self._process.input_size() if self._intake.is_there else len(said)
        self._outflow.unsent = said[given:]
        sends = [entry.at for entry in entries if isinstance(entry, Send)]
        if sends and self._player.lines > sends[-1]:
            # It has spoken since. When that was is not known any more: its silence counts anew.
            self._watch.progressed()

    def _take_late_notes(self) -> None:
        """Take what hooks told since the driver before was gone: not before all that it told."""
        if self._begin.guard is not None and self._player.recorder.total().seq >= self.last_seq:
            self._decisions.take_hook_notes()

    # -- going on -------------------------------------------------------------------------------

    def poll(self) -> bool:
        """Take what happened, keep the clocks, send what is due; True when there is more to take
        right now."""
        if self._unsaved:
            self._save_record()
        if self._player.finished:
            self._flush()
            return False
        before = self._process.journal_size
        try:
            self._flush()
            if self.trouble is not None:
                return False
            self._hold()
            progressed = self._take()
            self._flush()
            self._settle_turn()
            if not progressed:
                self._look_for_end()
            if not self._player.finished:
                self._settle_calls()
                self._keep_clocks(progressed)
                self._pump()
                self._carry_out()
            self._flush()
        except HoldingFailed as problem:
            self._give_up(problem)
        except (BridleError, OSError):
            raise
        except Exception as problem:
            # A fault of ours: this session must not take the others of its engine with it.
            self._give_up(Crashed(f"Bridle failed at this session: {problem!r}"))
        return self._process.journal_size - before >= PIECE

    def _hold(self) -> None:
        """Let the process do what is due, where it does not run by itself."""
        process, player = self._process, self._player
        for message_id, state in player.messages.items():
            if state.status == "taken" and message_id not in self._told:
                self._told.add(message_id)
                process.delivered(message_id)
        process.expects = player.recorder.turn_open or player.awaited
        process.stopping = self._must_stop()
        process.native_id = player.recorder.native_session_id
        if process.comes_and_goes:
            assert isinstance(player.wire, TurnByTurn)
            process.settled_number = player.wire.settled_number
        self._wake = process.work()

    def _settle_turn(self) -> None:
        """Write down what a turn came to, once its process is gone and its events are told."""
        wire, recorder = self._player.wire, self._player.recorder
        if not self._process.comes_and_goes or self.trouble is not None:
            return
        assert isinstance(wire, TurnByTurn)
        if wire.unsettled:
            entry = Settled(
                total=recorder.total(),
                native_session_id=recorder.native_session_id,
                model=recorder.model,
                **self._decisions.now(),
            )
            self._decisions.make(entry)

    def _take(self) -> bool:
        lines = self._intake.read()
        # After the lines were read and before they are played: a verdict is written down before the
        # agent hears it, so what a line tells of has its verdict there.
        self._decisions.take_hook_notes()
        for line in lines:
            self._intake.play(line)
        if lines:
            self._watch.progressed()
        return bool(lines)

    def _settle_calls(self) -> None:
        """Have the calls judged that wait on the wire."""
        guard = self._player.recorder.guard
        if guard is None or self.settle is None:
            return
        for call in guard.take_unjudged():
            self.settle(call)

    def _look_for_end(self) -> None:
        ended = self._intake.exit()
        if ended is None:
            return
        if ended.code is None:
            # Its holder is gone, but it may still be there and write: it must not any more.
            kill_marked(self.record.session_id)
        # What it said last may have come between the two looks.
        while self._take():
            pass
        self._intake.play_last_words()
        self._end(ended)

    def _end(self, ended: ProcessExit) -> None:
        self._player.finish(ended)
        self._outflow.unsent = b""
        if not self.record.is_over:
            self._cleaning.start(self._process, self.record.session_id, self._begin.private_dirs)

    def _give_up(self, problem: AgentError) -> None:
        """What the agent says cannot be seen any more, so it must not act."""
        self._player.recorder.fail(problem)
        self._end(ProcessExit(code=None))
        self._flush()

    def _flush(self) -> None:
        """Give the agent what is for it, and write down what happened."""
        if not self._outflow.take(self._player):
            return
        known = self._outflow.take_known(self.record.seq)
        events = self._outflow.flush()
        if known or events:
            self._update_record([*known, *events])
        if events:
            self._publish(self, events)
        if self.trouble is None and (self._player.recorder.is_ready or self._player.finished):
            self._outflow.rest()

    def _update_record(self, events: list[Event]) -> None:
        recorder = self._player.recorder
        changed = brought_up_to_date(self.record, events, recorder, self._process)
        if changed is not self.record:
            self.record = changed
            self._save_record()

    def _save_record(self) -> None:
        """Put the record into the store; what cannot be put now is tried again with each poll, and
        keeps nobody from hearing of the events."""
        try:
            self._store.put(self.record)
            self._unsaved = False
        except BridleError:
            self._unsaved = True

    # -- for whoever asks ------------------------------------------------------------------------

    def is_idle_now(self) -> bool:
        """Whether the agent waits for a prompt and none is on its way, with its process looked at
        this very moment."""
        while self._player.is_idle and not self._player.finished:
            before = self._process.journal_size
            self.poll()
            if self._process.journal_size == before:
                # Nothing was said meanwhile, so its process was looked at too.
                break
        return self._player.is_idle

    def wait_over(self, seconds: float) -> bool:
        """Whether the session is over, once what its agent left behind had time to go."""
        self._cleaning.wait(seconds)
        return self.is_over

    def close(self) -> None:
        """Stop driving; the agent goes on by itself. What guarded one that is gone goes too."""
        self._outflow.rest()
        if self._is_open and self._player.finished and self.guard_folder is not None:
            shutil.rmtree(self.guard_folder, ignore_errors=True)
        # The next process of the session would be ended with what this one left behind.
        self._cleaning.then(self._lock.release)

    def _pump(self) -> None:
        """Send the messages whose time has come."""
        player, can_steer = self._player, self._begin.can_steer
        if player.recorder.leaving is not None or not self._process.takes_messages:
            return
        while (message := player.next_message(can_steer)) is not None:
            steer = player.recorder.turn_open
            self._decisions.make(Send(id=message.id, steer=steer, **self._decisions.now()))

    # -- clocks and stopping --------------------------------------------------------------------

    def deadline(self) -> float | None:
        """When to `poll` at the latest (monotonic), None when only a change calls for it."""
        if self._player.finished:
            return None if self.is_over else time.monotonic() + _CLEANING
        waits = self._watch.deadlines(self._player, self.clocks, self._begin)
        if self._wake is not None:
            waits.append(self._wake)
        if self._stopping.has_begun or self._must_stop():
            waits.append(self._stopping.until)
        return min(waits) if waits else None

    def _keep_clocks(self, progressed: bool) -> None:
        player, watch = self._player, self._watch
        ran_out = watch.ran_out(player, self.clocks, self._begin)
        if ran_out is not None and not progressed:
            clock, seconds = ran_out
            self._decisions.make(Expire(clock=clock, seconds=seconds, **self._decisions.now()))
        for request_id in watch.unanswered(player, self.clocks):
            entry = Answer(
                request_id=request_id,
                allowed=False,
                by="bridle",
                reason=_NO_ANSWER,
                **self._decisions.now(),
            )
            self._decisions.make(entry)

    def _must_stop(self) -> bool:
        """Whether the agent's process is to be ended by signals."""
        recorder = self._player.recorder
        if recorder.stop_requested is not None:
            return True
        if recorder.leaving is None:
            return False
        return recorder.turn_open or self._watch.is_late_to_leave(self.clocks)

    def _carry_out(self) -> None:
        recorder = self._player.recorder
        if recorder.input_done and not self._input_closed:
            self._flush()
            self._input_closed = True
            self._process.close_input()
        if self._must_stop():
            self._stopping.go_on(at_once=recorder.stops_at_once)
        else:
            self._stopping.begin_anew()
