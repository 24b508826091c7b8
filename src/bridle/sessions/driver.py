"""Drives one session over its detached process: reads, decides, writes down, sends.

At most one driver holds a session, by a lock on its folder. It can be killed at any moment: the
next one plays journal and ledger again (`player`), compares what came out with what the agent was
given and what the event file holds, completes both, and goes on.
"""

import os
import shutil
import threading
import time
from collections.abc import Callable
from typing import TypedDict

import msgspec

from bridle.core.errors import AgentError, Unavailable, UnsupportedOption, WrongUse
from bridle.core.events import (
    Event,
)
from bridle.core.redact import Redactor, secrets_in
from bridle.drives.guarding import Guard
from bridle.drives.live import TurnByTurn
from bridle.drives.print_drive import remove_folders
from bridle.drives.processes import environment, kill_marked
from bridle.drives.run_files import HoldingFailed
from bridle.drives.spec import ProcessExit
from bridle.runtimes.base import AgentRuntime, compacting_runtimes
from bridle.sessions.clocks import Clocks
from bridle.sessions.event_log import EventLog
from bridle.sessions.holding import process_of, recorder_of, wire_of
from bridle.sessions.home import StateHome
from bridle.sessions.ledger import (
    Abort,
    AbortCompaction,
    Accept,
    Answer,
    Begin,
    Clock,
    Compact,
    Drop,
    Entry,
    Expire,
    Leave,
    Ledger,
    MessageKind,
    Model,
    Send,
    Settled,
    Told,
)
from bridle.sessions.lock import SessionLock, SessionOver
from bridle.sessions.player import MessageState, Player
from bridle.sessions.record_changes import brought_up_to_date
from bridle.sessions.stopwatch import TURN_CLOCKS, Stopwatch
from bridle.sessions.store import SessionRecord, SessionStore

TYPE_CHECKING = False
if TYPE_CHECKING:
    from bridle.sessions.holding import SessionProcess

_PIECE = 1 << 20
"""Bytes of the journal taken at once, so that one chatty session does not starve the others."""
_CLEANING = 0.05
"""Seconds between looks whether what an agent left behind is gone."""
_NO_ANSWER = "nobody answered in time; do without it"

Publish = Callable[["SessionDriver", list[Event]], None]


class SessionDriver:
    """One session, driven.

    Contract: made with the lock held, which it takes over; `open` brings it up to date. Then
    `poll` whenever the run's folder changed or `deadline` has passed. Every command is on disk when
    its method returns. `close` stops driving and leaves the agent to itself. One thread uses it.
    """

    def __init__(
        self,
        home: StateHome,
        record: SessionRecord,
        runtime: AgentRuntime,
        store: SessionStore,
        lock: SessionLock,
        *,
        clocks: Clocks | None = None,
        publish: Publish | None = None,
    ) -> None:
        self.record = record
        self.clocks = clocks or Clocks()
        self.trouble: AgentError | None = None
        """Why nothing can be written down now (a full disk); the driver tries again."""
        self._home = home
        self._runtime = runtime
        self._store = store
        self._lock = lock
        self._publish = publish or (lambda driver, events: None)
        self.run_folder = os.path.realpath(home.run_folder(record.session_id, record.run))
        """The folder whose changes call for `poll`."""
        folder = home.folder(record.session_id)
        self._ledger = Ledger(os.path.join(folder, "ledger.jsonl"))
        self._log = EventLog(folder)
        self._process: SessionProcess
        self._known: set[str] = set()
        self._is_open = False
        self._notes_upto = 0
        self._unsent = b""
        self._unlogged: list[Event] = []
        self._logged = 0
        self._begin: Begin
        self._player: Player
        self._redactor = Redactor()
        self._input_closed = False
        self._told: set[str] = set()
        self._wake: float | None = None
        self._cleaning: threading.Thread | None = None
        self._step = -1
        self._step_until = 0.0
        self._asked: dict[str, float] = {}
        self._watch = Stopwatch()

    # -- taking up ------------------------------------------------------------------------------

    @property
    def player(self) -> Player:
        """The session as it stands."""
        return self._player

    @property
    def own_clocks(self) -> Clocks | None:
        """The clocks that the session was started with, None when those of its driver hold."""
        return self._begin.clocks

    @property
    def last_seq(self) -> int:
        """The number of the last event that was told."""
        return self._logged

    @property
    def guard_folder(self) -> str | None:
        """Where the files of its guard are; None when it has none."""
        return None if self._begin.guard is None else self._begin.guard.folder

    @property
    def is_over(self) -> bool:
        """Whether the session's process is gone with all that it started, and all it said was
        taken."""
        cleaning = self._cleaning is not None and self._cleaning.is_alive()
        return self._player.finished and not self._unlogged and not cleaning

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
        self.clocks = begin.clocks or self.clocks
        self._known = {entry.id for entry in entries if isinstance(entry, Accept)}
        self._process = process_of(
            begin.drive,
            self._home.run_folder(self.record.session_id, begin.run),
            self._runtime,
            begin.facts,
        )
        self._process.take_up()
        self._player = self._new_player(begin)
        self._logged = self._log.last_seq()
        self._replay(entries[starts[-1] + 1 :])
        self._is_open = True
        self.poll()

    def _new_player(self, begin: Begin) -> Player:
        holder = self._process.holder
        env = environment(holder) if holder is not None else {}
        self._redactor = Redactor(secrets_in(env or dict(os.environ)))
        recorder = recorder_of(self.record, begin, self._redactor)
        if begin.guard is not None:
            recorder.guard = Guard.of_session(begin.guard)
        return Player(wire_of(begin.drive, self._runtime, begin.facts, recorder), recorder)

    def _replay(self, entries: list[Entry]) -> None:
        player = self._player
        player.begin(self._begin.carried)
        said = bytearray(player.take_bytes())
        waiting = list(reversed(entries))
        self._watch.begin(self._begin)
        while True:
            while waiting and waiting[-1].at <= player.lines:
                entry = waiting.pop()
                self._note(entry)
                player.apply(entry)
                said += player.take_bytes()
            if not waiting:
                break
            lines = self._read()
            if not lines:
                # The journal is shorter than the ledger says: it was tampered with. What was
                # decided is applied all the same.
                waiting = [msgspec.structs.replace(entry, at=0) for entry in waiting]
                continue
            self._feed_replay(lines, waiting, said)
        self._unlogged = [e for e in player.take_events() if e.seq > self._logged]
        given = self._process.input_size() if os.path.isdir(self.run_folder) else len(said)
        while lines := self._read():
            for line in lines:
                self._take_late_notes()
                player.feed(self._redactor.line(line))
            said += player.take_bytes()
        self._unlogged += [e for e in player.take_events() if e.seq > self._logged]
        self._unsent = bytes(said[given:])
        sends = [entry.at for entry in entries if isinstance(entry, Send)]
        if sends and player.lines > sends[-1]:
            # It has spoken since. When that was is not known any more: its silence counts anew.
            self._watch.progressed()

    def _feed_replay(self, lines: list[bytes], waiting: list[Entry], said: bytearray) -> None:
        player = self._player
        for line in lines:
            if not waiting:
                self._take_late_notes()
            player.feed(self._redactor.line(line))
            while waiting and waiting[-1].at <= player.lines:
                entry = waiting.pop()
                self._note(entry)
                player.apply(entry)
            said += player.take_bytes()

    def _take_late_notes(self) -> None:
        """Take what hooks told since the driver before was gone: not before all that it told."""
        if self._begin.guard is not None and self._player.recorder.total().seq >= self._logged:
            self._take_notes()

    def _read(self) -> list[bytes]:
        try:
            return self._process.read_lines(_PIECE)
        except HoldingFailed:
            if os.path.isdir(self.run_folder):
                raise
            return []

    # -- going on -------------------------------------------------------------------------------

    def poll(self) -> bool:
        """Take what happened, keep the clocks, send what is due; True when there is more to take
        right now."""
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
                self._keep_clocks(progressed)
                self._pump()
                self._carry_out()
            self._flush()
        except HoldingFailed as problem:
            self._give_up(problem)
        return self._process.journal_size - before >= _PIECE

    def _hold(self) -> None:
        """Let the process do what is due, where it does not run by itself."""
        process, player = self._process, self._player
        for message_id, state in player.messages.items():
            if state.status == "taken" and message_id not in self._told:
                self._told.add(message_id)
                process.delivered(message_id)
        process.expects = player.recorder.turn_open or player.awaited
        process.stopping = self._stopping()
        process.native_id = player.recorder.native_session_id
        if process.comes_and_goes and isinstance(player.wire, TurnByTurn):
            process.settled_number = player.wire.settled_number
        self._wake = process.work()

    def _settle_turn(self) -> None:
        """Write down what a turn came to, once its process is gone and its events are told."""
        wire, recorder = self._player.wire, self._player.recorder
        if not self._process.comes_and_goes or self.trouble is not None:
            return
        if isinstance(wire, TurnByTurn) and wire.unsettled:
            entry = Settled(
                total=recorder.total(),
                native_session_id=recorder.native_session_id,
                model=recorder.model,
                **self._now(),
            )
            self._decide(entry)

    def _take(self) -> bool:
        lines = self._read()
        # After the lines were read and before they are played: a verdict is written down before the
        # agent hears it, so what a line tells of has its verdict there.
        self._take_notes()
        for line in lines:
            self._player.feed(self._redactor.line(line))
        if lines:
            self._watch.progressed()
        return bool(lines)

    def _take_notes(self) -> None:
        """Take what hooks of the guard told."""
        guard = self._begin.guard
        if guard is None:
            return
        from bridle.guard.lasting import NOTES
        from bridle.guard.notes import read_notes

        for note, upto in read_notes(os.path.join(guard.folder, NOTES), self._notes_upto):
            self._decide(Told(note=note, upto=upto, **self._now()))

    def _look_for_end(self) -> None:
        ended = self._exit()
        if ended is None:
            return
        if ended.code is None:
            # Its holder is gone, but it may still be there and write: it must not any more.
            kill_marked(self.record.session_id)
        # What it said last may have come between the two looks.
        while lines := self._read():
            self._take_notes()
            for line in lines:
                self._player.feed(self._redactor.line(line))
        if last := self._process.last_words():
            self._player.feed(self._redactor.line(last))
        self._end(ended)

    def _exit(self) -> ProcessExit | None:
        if not os.path.isdir(self.run_folder):
            return ProcessExit(code=None)
        return self._process.exit(self._redactor)

    def _end(self, ended: ProcessExit) -> None:
        self._player.finish(ended)
        self._unsent = b""
        if not self.record.is_over:
            self._cleaning = _in_background(
                self._process, self.record.session_id, self._begin.private_dirs
            )

    def _give_up(self, problem: AgentError) -> None:
        """The files are gone: what the agent says cannot be seen any more, so it must not act."""
        self._player.recorder.fail(problem)
        self._end(ProcessExit(code=None))
        self._flush()

    def _flush(self) -> None:
        """Give the agent what is for it, and write down what happened."""
        if not (self._player.has_output or self._unsent or self._unlogged or self.trouble):
            return
        self._unsent += self._player.take_bytes()
        self._unlogged += [e for e in self._player.take_events() if e.seq > self._logged]
        if self._unsent:
            before = self._process.input_size()
            try:
                self._process.write(self._unsent)
                self._unsent = b""
            except HoldingFailed as problem:
                self._unsent = self._unsent[self._process.input_size() - before :]
                self.trouble = problem
                return
        if self._unlogged:
            try:
                self._log.append(self._unlogged)
            except OSError as problem:
                self.trouble = Unavailable(f"events cannot be written: {problem.strerror}")
                return
            events, self._unlogged = self._unlogged, []
            self._logged = events[-1].seq
            self._update_record(events)
            self._publish(self, events)
        self.trouble = None
        if self._player.recorder.is_ready or self._player.finished:
            self._log.rest()

    def _update_record(self, events: list[Event]) -> None:
        recorder = self._player.recorder
        changed = brought_up_to_date(self.record, events, recorder, self._process)
        if changed is not self.record:
            self.record = changed
            self._store.put(changed)

    # -- commands -------------------------------------------------------------------------------

    def accept(
        self, message_id: str, kind: MessageKind, text: str, images: tuple[str, ...] = ()
    ) -> MessageState:
        """Take a message; it is on disk when this returns. The same id again changes nothing."""
        known = self._player.messages.get(message_id)
        if known is not None:
            return known
        if message_id in self._known:
            raise WrongUse(f"message {message_id} belongs to an earlier process of this session")
        self._refuse_if_over()
        entry = Accept(id=message_id, kind=kind, text=text, images=images, **self._now())
        self._decide(entry, durable=True)
        self._known.add(message_id)
        self.poll()
        return self._player.messages[message_id]

    def abort(self, reason: str) -> bool:
        """Bring the open turn to its end; False when there is none."""
        self._refuse_if_over()
        if not self._player.recorder.turn_open:
            return False
        self._watch.aborted_at = time.monotonic()
        self._decide(Abort(reason=reason, **self._now()))
        self.poll()
        return True

    def clear_queue(self, reason: str) -> list[str]:
        """Drop the messages that wait; returns their ids."""
        dropped = [message.id for message in self._player.queue]
        for message_id in dropped:
            self._decide(Drop(id=message_id, reason=reason, **self._now()))
        return dropped

    def answer(self, request_id: str, allowed: bool, by: str, reason: str = "") -> None:
        """Answer a permission request; `WrongUse` when none of that id waits."""
        if request_id not in self._player.questions:
            raise WrongUse(
                f"no permission request {request_id} waits",
                hint="it was answered, or the agent did not wait for it",
            )
        entry = Answer(request_id=request_id, allowed=allowed, by=by, reason=reason, **self._now())
        self._decide(entry)
        self.poll()

    def set_model(self, model: str) -> None:
        """Use another model from the next turn on."""
        from bridle.drives.live import ModelSwitch

        self._refuse_if_over()
        if not isinstance(self._player.wire, ModelSwitch):
            raise WrongUse(f"{self.record.runtime} cannot change its model in a session")
        if not self._player.is_idle:
            raise WrongUse("the agent works", hint="wait until it is idle")
        self._decide(Model(model=model, **self._now()))
        self.poll()

    def compact(self) -> None:
        """Have the agent shorten its context; events tell how that goes."""
        self._refuse_if_over()
        self._refuse_unless_compacts()
        if not self._player.is_idle:
            raise WrongUse("the agent works", hint="wait until it is idle")
        self._decide(Compact(**self._now()))
        self.poll()

    def abort_compaction(self) -> bool:
        """Give up the compaction that runs; False when there is none. One in the midst of a turn
        may take the turn with it."""
        self._refuse_if_over()
        if self._player.recorder.state != "compacting":
            return False
        self._refuse_unless_compacts()
        self._decide(AbortCompaction(**self._now()))
        self.poll()
        return True

    def _refuse_unless_compacts(self) -> None:
        from bridle.drives.live import CompactionControl

        if not isinstance(self._player.wire, CompactionControl):
            name = self.record.runtime
            raise UnsupportedOption(
                name,
                "compact",
                compacting_runtimes(name),
                reason=f"not over the drive {self.record.drive}",
            )

    def leave(self, reason: str) -> None:
        """End the session; politely when it is idle. No effect when it is over."""
        if self._player.finished or self._player.recorder.leaving is not None:
            return
        self._watch.left_at = time.monotonic()
        self._decide(Leave(reason=reason, **self._now()))
        self.poll()

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
        if self._cleaning is not None:
            self._cleaning.join(seconds)
        return self.is_over

    def close(self) -> None:
        """Stop driving; the agent goes on by itself. What guarded one that is gone goes too."""
        self._log.rest()
        if self._is_open and self._player.finished and self.guard_folder is not None:
            shutil.rmtree(self.guard_folder, ignore_errors=True)
        cleaning = self._cleaning
        if cleaning is None or not cleaning.is_alive():
            self._lock.release()
            return

        def release_later() -> None:
            # The next process of the session would be ended with what this one left behind.
            cleaning.join()
            self._lock.release()

        threading.Thread(target=release_later).start()

    def _refuse_if_over(self) -> None:
        if self._player.finished:
            raise SessionOver(self.record)
        if self._player.recorder.leaving is not None:
            raise SessionOver(msgspec.structs.replace(self.record, state="stopped"))

    def _decide(self, entry: Entry, *, durable: bool = False) -> None:
        try:
            self._ledger.append(entry, durable=durable)
        except OSError as problem:
            raise Unavailable(
                f"cannot write the session's ledger: {problem.strerror}",
                hint="free some disk space and try again; nothing was sent",
            ) from None
        self._note(entry)
        self._player.apply(entry)

    def _note(self, entry: Entry) -> None:
        """What must be known of an entry, made now or played again."""
        self._watch.note(entry)
        if isinstance(entry, Told):
            self._notes_upto = entry.upto

    def _now(self) -> "_Stamp":
        return {"at": self._player.lines, "ts": time.time()}

    def _pump(self) -> None:
        """Send the messages whose time has come."""
        player, recorder = self._player, self._player.recorder
        if recorder.leaving is not None:
            return
        for message in player.queue:
            if recorder.turn_open and not player.awaited:
                if message.kind != "steer" or not self._begin.can_steer:
                    return
                self._decide(Send(id=message.id, steer=True, **self._now()))
            elif recorder.is_ready and not player.awaited:
                self._decide(Send(id=message.id, **self._now()))
            else:
                return

    # -- clocks and stopping --------------------------------------------------------------------

    def deadline(self) -> float | None:
        """When to `poll` at the latest (monotonic), None when only a change calls for it."""
        if self._player.finished:
            return None if self.is_over else time.monotonic() + _CLEANING
        waits = [until for _, until, _ in self._running_clocks()]
        if self._wake is not None:
            waits.append(self._wake)
        waits += [asked + self.clocks.permission for asked in self._asked.values()]
        if self._step >= 0 or self._stopping():
            waits.append(self._step_until)
        if self._watch.left_at is not None:
            waits.append(self._watch.left_at + self.clocks.leave)
        return min(waits) if waits else None

    def _running_clocks(self) -> list[tuple[Clock, float, float]]:
        return self._watch.running(self._player, self.clocks, self._begin)

    def _keep_clocks(self, progressed: bool) -> None:
        player, recorder = self._player, self._player.recorder
        now = time.monotonic()
        if not recorder.turn_open:
            self._watch.aborted_at = None
        for clock, until, seconds in self._running_clocks():
            if now >= until and not progressed:
                if clock in TURN_CLOCKS and not recorder.turn_open:
                    # A prompt that was never taken: there is no turn to abort.
                    clock = "startup"
                self._decide(Expire(clock=clock, seconds=seconds, **self._now()))
                break
        for request_id in player.questions:
            self._asked.setdefault(request_id, now)
        for request_id, asked in list(self._asked.items()):
            if request_id not in player.questions:
                del self._asked[request_id]
            elif now >= asked + self.clocks.permission:
                self._decide(
                    Answer(
                        request_id=request_id,
                        allowed=False,
                        by="bridle",
                        reason=_NO_ANSWER,
                        **self._now(),
                    )
                )

    def _stopping(self) -> bool:
        """Whether the agent's process is to be ended by signals."""
        recorder = self._player.recorder
        if recorder.stop_requested is not None:
            return True
        if recorder.leaving is None:
            return False
        late = (
            self._watch.left_at is None
            or time.monotonic() >= self._watch.left_at + self.clocks.leave
        )
        return recorder.turn_open or late

    def _carry_out(self) -> None:
        recorder = self._player.recorder
        if recorder.input_done and not self._input_closed:
            self._flush()
            self._input_closed = True
            self._process.close_input()
        if not self._stopping():
            self._step = -1
            return
        now = time.monotonic()
        if self._step >= 0 and now < self._step_until:
            return
        steps = self._begin.stop
        self._step += 1
        if self._step < len(steps):
            step = steps[self._step]
            self._process.signal(step.signal, step.to)
            self._step_until = now + step.grace
        else:
            self._process.signal(9, "group")
            self._step_until = now + 2.0


class _Stamp(TypedDict):
    at: int
    ts: float


def _in_background(
    process: "SessionProcess", session_id: str, folders: tuple[str, ...]
) -> threading.Thread:
    """End what the agent left running and remove what was made for it alone, without keeping other
    sessions waiting for it."""

    def clean_up() -> None:
        process.end_leftovers(session_id)
        remove_folders(folders)

    thread = threading.Thread(target=clean_up)
    thread.start()
    return thread
