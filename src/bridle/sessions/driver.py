"""Drives one session over its detached process: reads, decides, writes decisions to disk, sends.

At most one driver holds a session, by a lock on its folder. It can be killed at any moment. The
next driver replays journal and ledger (`player`), compares the result with what the agent received
and with the event file, completes both, and continues.
"""

import os
import shutil
import time
from collections.abc import Callable
from typing import Any, TypedDict

import msgspec

from bridle.core.errors import (
    AgentError,
    BridleError,
    Crashed,
    Unavailable,
    UnsupportedOption,
    WrongUse,
)
from bridle.core.events import Event, MessageUpdate
from bridle.core.redaction import Redactor, secrets_in
from bridle.guard.hooks.guard_folder import read_notes
from bridle.process.process_tree import environment, kill_marked
from bridle.process.run_files import HoldingFailed
from bridle.process.spec import ProcessExit
from bridle.runtimes.alternatives import compacting_runtimes
from bridle.runtimes.contract import Adapter
from bridle.sessions.clocks import Clocks, Stopwatch
from bridle.sessions.event_log import EventLog
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
    MessageKind,
    Send,
    Settled,
    Told,
)
from bridle.sessions.lock import SessionLock, SessionOver
from bridle.sessions.replay import MessageState, SessionPlayer, player_of, process_of
from bridle.sessions.store import SessionRecord, SessionStore, TurnRow, after_events, turns_in
from bridle.sessions.termination import Cleanup, StopSequence
from bridle.sessions.verbs import Command
from bridle.turns.guard_contract import NOTES, WireCall
from bridle.turns.wire import CompactionControl, TurnByTurn

TYPE_CHECKING = False
if TYPE_CHECKING:
    from bridle.sessions.replay import SessionProcess

_CHUNK = 1 << 20
"""Bytes of the journal read at once, so that one busy session does not starve the others."""
_CLEANING = 0.05
"""Seconds between checks whether everything that an agent left behind has ended."""
_NO_ANSWER = "nobody answered in time; do without it"

Publish = Callable[["SessionDriver", list[Event]], None]


class Stamp(TypedDict):
    """When a ledger entry is made: after how many journal lines, and at what time."""

    at: int
    ts: float


class SessionDriver:
    """The driver of one session.

    Contract: the caller holds the lock and passes it in; the driver releases it. `open` brings the
    session up to date. Then call `poll` whenever the run's folder changed or `deadline` has passed,
    and the commands (`accept`, `perform`, `clear_queue`, `leave`) on request. A command is on disk
    before it takes effect; one that is not possible now raises and changes nothing. `close` stops
    driving and lets the agent run on. One thread uses it.
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
        self.judge: Callable[[WireCall], None] | None = None
        """Requests the verdict on a tool call that waits on the agent's wire; it arrives as a
        note."""
        self.trouble: AgentError | None = None
        """Why nothing can be written now (a full disk); the driver tries again at each poll."""
        self.last_seq = 0
        """The number of the last event in the event file."""
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
        self._watch = Stopwatch()
        self._cleanup = Cleanup()
        self._process: SessionProcess
        self._begin: Begin
        self._redactor: Redactor
        self._player: SessionPlayer
        self._stopping: StopSequence
        self._is_open = False
        self._known_messages: set[str] = set()
        """Ids of the messages that any process of the session was given."""
        self._acknowledged: set[str] = set()
        """Ids of the messages whose delivery was reported to the process."""
        self._notes_read = 0
        """Bytes of the guard's notes that are in the ledger."""
        self._unsent = b""
        """Bytes still to be sent to the agent."""
        self._unlogged: list[Event] = []
        """Events that are not in the event file yet."""
        self._replayed: list[Event] = []
        """Events of a replay that the event file already holds."""
        self._unsaved = False
        self._unsaved_turns: list[TurnRow] = []
        self._input_closed = False
        self._wake: float | None = None

    # -- state ----------------------------------------------------------------------------------

    @property
    def player(self) -> SessionPlayer:
        """The session's current state."""
        return self._player

    @property
    def own_clocks(self) -> Clocks | None:
        """The clocks that the session was started with; None when the driver's apply."""
        return self._begin.clocks

    @property
    def guard_folder(self) -> str | None:
        """The folder with the files of its guard; None when it has no guard."""
        return None if self._begin.guard is None else self._begin.guard.folder

    @property
    def is_over(self) -> bool:
        """Whether the process and everything it started have ended, and all output is logged."""
        finished = self._player.finished and not self._unlogged
        return finished and not self._cleanup.is_running

    def is_idle_now(self) -> bool:
        """Whether the agent waits for a prompt and none is on its way; checks its process first."""
        while self._player.is_idle and not self._player.finished:
            before = self._process.journal_size
            self.poll()
            if self._process.journal_size == before:
                # The journal did not grow, so this poll checked the process too.
                break
        return self._player.is_idle

    def wait_over(self, seconds: float) -> bool:
        """Give the agent's leftovers at most `seconds` to end; returns `is_over`."""
        self._cleanup.wait(seconds)
        return self.is_over

    def end_fd(self) -> int | None:
        """A new descriptor that becomes readable when the process ends; then call `poll`. None
        where only polling shows it. The caller closes it."""
        return None if self._player.finished else self._process.end_fd()

    # -- opening and closing --------------------------------------------------------------------

    def open(self) -> None:
        """Replay the session, and complete what the last driver left half done."""
        entries = self._ledger.read(cut=True)
        starts = [at for at, entry in enumerate(entries) if isinstance(entry, Begin)]
        if not starts:
            raise WrongUse(f"session {self.record.session_id} was never started")
        begin = entries[starts[-1]]
        assert isinstance(begin, Begin)
        self._begin = begin
        self.clocks = (begin.clocks or self.clocks).with_turn(begin.options.get("timeout"))
        folder = self._home.run_folder(self.record.session_id, begin.run)
        self._process = process_of(begin, folder, self._runtime)
        self._process.take_up()
        holder = self._process.holder
        env = environment(holder) if holder is not None else {}
        self._redactor = Redactor(secrets_in(env or dict(os.environ)))
        self._player = player_of(self.record, begin, self._runtime, self._redactor)
        self._known_messages = {entry.id for entry in entries if isinstance(entry, Accept)}
        self._stopping = StopSequence(self._process, begin.stop)
        self.last_seq = self._log.last_seq()
        self._replay(entries[starts[-1] + 1 :])
        self._is_open = True
        self.poll()

    def _replay(self, entries: list[Entry]) -> None:
        """Play the entries since `Begin` and the journal lines, interleaved as they happened: each
        entry says after how many lines it was made (`at`)."""
        self._watch.begin(self._begin.ts)
        player = self._player
        player.begin(self._begin.carried)
        sent = bytearray(player.take_bytes())
        waiting = list(reversed(entries))

        def apply_due() -> None:
            while waiting and waiting[-1].at <= player.lines:
                entry = waiting.pop()
                self._note(entry)
                player.apply(entry)
            sent.extend(player.take_bytes())

        while True:
            apply_due()
            lines = self._process.read_lines(_CHUNK)
            if not lines and not waiting:
                break
            if not lines:
                # Someone shortened the journal: the ledger is ahead of it. Decisions still apply.
                waiting = [msgspec.structs.replace(each, at=0) for each in waiting]
            for line in lines:
                if not waiting and player.recorder.total().seq >= self.last_seq:
                    # The last driver ended before it read these notes of hooks.
                    self._take_hook_notes()
                self._player.feed(self._redactor.line(line))
                apply_due()
        received = self._process.input_size() if self._has_files else len(sent)
        self._unsent = bytes(sent[received:])
        sends = [entry.at for entry in entries if isinstance(entry, Send)]
        if sends and player.lines > sends[-1]:
            # The agent has spoken since, at an unknown time: its silence counts from now.
            self._watch.progressed()

    def close(self) -> None:
        """Stop driving; the agent runs on. The guard's files are removed once the process has
        ended."""
        self._log.rest()
        if self._is_open and self._player.finished and self.guard_folder is not None:
            shutil.rmtree(self.guard_folder, ignore_errors=True)
        # Clean-up would kill the session's next process too, so that one may start only afterwards.
        self._cleanup.then(self._lock.release)

    # -- decisions ------------------------------------------------------------------------------

    def _now(self) -> Stamp:
        return {"at": self._player.lines, "ts": time.time()}

    def _decide(self, entry: Entry, *, durable: bool = False) -> None:
        """Write a decision to the ledger, then carry it out. `durable` makes it survive a crash of
        the machine. Raises `Unavailable` when it cannot be written; it then has no effect."""
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
        """Keep clocks and offsets in step with an entry, made now or replayed."""
        match entry:
            case Send():
                self._watch.prompted(entry.ts)
            case Abort():
                self._watch.aborted(entry.ts)
            case Expire():
                self._watch.expired(entry.clock, entry.ts)
            case Leave():
                self._watch.left(entry.ts)
            case Compact():
                self._watch.compacting(entry.ts)
            case AbortCompaction():
                self._watch.compaction_aborted(entry.ts)
            case Told():
                self._notes_read = entry.upto
            case _:
                pass

    def _take_hook_notes(self) -> None:
        """Put what the guard's hooks reported since the last such entry into the ledger."""
        if self.guard_folder is None:
            return
        for note, upto in read_notes(os.path.join(self.guard_folder, NOTES), self._notes_read):
            self._decide(Told(note=note, upto=upto, **self._now()))

    # -- commands -------------------------------------------------------------------------------

    def accept(
        self, message_id: str, kind: MessageKind, text: str, images: tuple[str, ...] = ()
    ) -> MessageState:
        """Take a message into the queue. The same id again changes nothing."""
        known = self._player.messages.get(message_id)
        if known is not None:
            return known
        if message_id in self._known_messages:
            raise WrongUse(f"message {message_id} belongs to an earlier process of this session")
        self._refuse_if_over()
        entry = Accept(id=message_id, kind=kind, text=text, images=images, **self._now())
        self._decide(entry, durable=True)
        self._known_messages.add(message_id)
        self.poll()
        return self._player.messages[message_id]

    def perform(self, command: Command[Any]) -> bool:
        """Carry out a command by its row in `verbs`; False when there is nothing to do."""
        recorder = self._player.recorder
        if command.needs == "question":
            self._refuse_unless_asked(command)
        else:
            self._refuse_if_over()
        if command.needs == "turn" and not recorder.turn_open:
            return False
        if command.needs == "compaction" and recorder.state != "compacting":
            return False
        self._refuse_unless_able(command)
        if command.needs == "idle" and not self._player.is_idle:
            raise WrongUse("the agent works", hint="wait until it is idle")
        self._decide(command.decision(**self._now()))
        self.poll()
        return True

    def clear_queue(self, reason: str) -> list[str]:
        """Drop the queued messages; returns their ids."""
        dropped = [message.id for message in self._player.queue]
        for message_id in dropped:
            self._decide(Drop(id=message_id, reason=reason, **self._now()))
        return dropped

    def leave(self, reason: str) -> None:
        """End the session: by its protocol when the agent is idle, else by signals. No effect on a
        session that is over."""
        if self._player.finished or self._player.recorder.leaving is not None:
            return
        self._decide(Leave(reason=reason, **self._now()))
        self.poll()

    def _refuse_if_over(self) -> None:
        if self._player.finished:
            raise SessionOver(self.record)
        if self._player.recorder.leaving is not None:
            raise SessionOver(msgspec.structs.replace(self.record, state="stopped"))

    def _refuse_unless_asked(self, command: Command[Any]) -> None:
        request_id = getattr(command, "request_id", "")
        if request_id not in self._player.questions:
            raise WrongUse(
                f"no permission request {request_id} waits",
                hint="it was answered, or the agent did not wait for it",
            )

    def _refuse_unless_able(self, command: Command[Any]) -> None:
        """Refuse what the wire of this session has no method for."""
        wire, name = self._player.wire, self.record.runtime
        if command.ability is None:
            return
        if command.ability is CompactionControl and not isinstance(wire, CompactionControl):
            raise UnsupportedOption(
                name,
                "compact",
                compacting_runtimes(name),
                reason=f"not over the drive {self.record.drive}",
            )
        if not isinstance(wire, command.ability):
            raise WrongUse(f"{name} cannot change its model in a session")
        if isinstance(wire, TurnByTurn) and wire.is_spent:
            raise WrongUse(
                f"this session has had its one turn: {name} cannot resume it",
                hint="start a new session with that model",
            )

    # -- polling --------------------------------------------------------------------------------

    def poll(self) -> bool:
        """Read new output, check the clocks, send what is due; True when there is more to read."""
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
            self._work()
            progressed = self._take_output()
            self._flush()
            self._close_turn()
            if not progressed:
                self._check_end()
            if not self._player.finished:
                self._judge_calls()
                self._check_clocks(progressed)
                self._send_due()
                self._stop_if_due()
            self._flush()
        except HoldingFailed as problem:
            self._give_up(problem)
        except (BridleError, OSError):
            raise
        except Exception as problem:
            # A bug in Bridle must not take down the other sessions of this engine.
            self._give_up(Crashed(f"Bridle failed in this session: {problem!r}"))
        return self._process.journal_size - before >= _CHUNK

    def _work(self) -> None:
        """Let a process that does not run by itself (print, tmux) do what is due."""
        process, player = self._process, self._player
        for message_id, state in player.messages.items():
            if state.status == "taken" and message_id not in self._acknowledged:
                self._acknowledged.add(message_id)
                process.delivered(message_id)
        process.expects = player.recorder.turn_open or player.awaited
        process.stopping = self._must_stop()
        process.native_id = player.recorder.native_session_id
        if process.comes_and_goes:
            assert isinstance(player.wire, TurnByTurn)
            process.settled_number = player.wire.settled_number
        self._wake = process.work()

    def _close_turn(self) -> None:
        """Put a turn's outcome into the ledger, once its process has ended and its events are
        logged."""
        wire, recorder = self._player.wire, self._player.recorder
        if not self._process.comes_and_goes or self.trouble is not None:
            return
        assert isinstance(wire, TurnByTurn)
        if wire.unsettled:
            entry = Settled(
                total=recorder.total(),
                native_session_id=recorder.native_session_id,
                model=recorder.model,
                **self._now(),
            )
            self._decide(entry)

    def _judge_calls(self) -> None:
        """Request verdicts on the tool calls that wait on the wire."""
        guard = self._player.recorder.guard
        if guard is None or self.judge is None:
            return
        for call in guard.take_unjudged():
            self.judge(call)

    def _send_due(self) -> None:
        """Send the queued messages that are due."""
        player, can_steer = self._player, self._begin.can_steer
        if player.recorder.leaving is not None or not self._process.takes_messages:
            return
        while (message := player.next_message(can_steer)) is not None:
            steer = player.recorder.turn_open
            self._decide(Send(id=message.id, steer=steer, **self._now()))

    # -- input from the agent -------------------------------------------------------------------

    @property
    def _has_files(self) -> bool:
        """Whether the files of the run still exist."""
        return os.path.isdir(self.run_folder)

    def _take_output(self) -> bool:
        """Read and play the next lines; False when there are none."""
        lines = self._process.read_lines(_CHUNK)
        # Read notes after the lines and before playing them: a verdict is on disk before the agent
        # hears it, so every line finds the verdict that it depends on.
        self._take_hook_notes()
        for line in lines:
            self._player.feed(self._redactor.line(line))
        if lines:
            self._watch.progressed()
        return bool(lines)

    def _check_end(self) -> None:
        """Finish the session if its process has ended."""
        ended = self._process.exit(self._redactor) if self._has_files else ProcessExit(code=None)
        if ended is None:
            return
        if ended.code is None:
            # Its holder is gone, but the agent may still run and write: end it.
            kill_marked(self.record.session_id)
        # The last lines may have come after the last read.
        while self._take_output():
            pass
        if last := self._process.last_words():
            self._player.feed(self._redactor.line(last))
        self._finish(ended)

    def _finish(self, ended: ProcessExit) -> None:
        self._player.finish(ended)
        self._unsent = b""
        if not self.record.is_over:
            self._cleanup.start(self._process, self.record.session_id, self._begin.private_dirs)

    def _give_up(self, problem: AgentError) -> None:
        """End an agent whose output cannot be read any more."""
        self._player.recorder.fail(problem)
        self._finish(ProcessExit(code=None))
        self._flush()

    # -- output: bytes to the agent, events to the event file ------------------------------------

    def _flush(self) -> None:
        """Send bytes to the agent, append events to the file, then update record and listeners.
        What cannot be written is kept, in order; `trouble` says why."""
        player = self._player
        if player.has_output:
            self._unsent += player.take_bytes()
            for event in player.take_events():
                (self._unlogged if event.seq > self.last_seq else self._replayed).append(event)
        if not (self._unsent or self._unlogged or self._replayed or self.trouble):
            return
        missed = self._take_missed()
        self.trouble = None
        received = self._process.input_size() if self._unsent else 0
        try:
            if self._unsent:
                self._process.write(self._unsent)
                self._unsent = b""
            if self._unlogged:
                self._log.append(self._unlogged)
        except HoldingFailed as problem:
            self._unsent = self._unsent[self._process.input_size() - received :]
            self.trouble = problem
        except OSError as problem:
            self.trouble = Unavailable(f"events cannot be written: {problem.strerror}")
        events: list[Event] = []
        if self.trouble is None and self._unlogged:
            events, self._unlogged = self._unlogged, []
            self.last_seq = events[-1].seq
        if missed or events:
            self._update_record([*missed, *events])
        if events:
            self._publish(self, events)
        if self.trouble is None and (player.recorder.is_ready or player.finished):
            self._log.rest()

    def _take_missed(self) -> list[Event]:
        """Replayed events that the file holds but the record does not include yet: the last driver
        may have been killed in between. Taken as the file has them."""
        replayed, self._replayed = self._replayed, []
        after = self.record.seq
        if not replayed or replayed[-1].seq <= after:
            return []
        return [event for event in self._log.read(after) if event.seq <= replayed[-1].seq]

    def _update_record(self, events: list[Event]) -> None:
        """Bring the record up to date. Text updates alone change only the time of the last event,
        which is kept to the second."""
        record, recorder, process = self.record, self._player.recorder, self._process
        same_second = (record.last_activity or "")[:19] == events[-1].ts[:19]
        if record.pid is not None and all(type(each) is MessageUpdate for each in events):
            changed = record if same_second else after_events(record, events)
        else:
            changed = after_events(record, events, recorder.cost_source)
            leaving = recorder.leaving
            changed = msgspec.structs.replace(
                changed,
                native_session_id=recorder.native_session_id or record.native_session_id,
                model=recorder.model or record.model,
                pid=process.pid if process.comes_and_goes else record.pid or process.pid,
                stop_reason=None if leaving is None else recorder.redactor.text(leaving),
            )
            kept = {"last_activity": record.last_activity, "seq": record.seq}
            if same_second and msgspec.structs.replace(changed, **kept) == record:
                changed = record
        self._unsaved_turns += turns_in(events, changed.model, recorder.cost_source)
        if changed is not record:
            self.record = changed
            self._save_record()

    def _save_record(self) -> None:
        """Store the record. A failed write is tried again at each poll; events are published all
        the same."""
        try:
            self._store.put(self.record)
            if self._unsaved_turns:
                self._store.put_turns(self.record.session_id, self._unsaved_turns)
                self._unsaved_turns = []
            self._unsaved = False
        except BridleError:
            self._unsaved = True

    # -- clocks and stopping --------------------------------------------------------------------

    def deadline(self) -> float | None:
        """When to `poll` at the latest (monotonic); None when only a change calls for it."""
        if self._player.finished:
            return None if self.is_over else time.monotonic() + _CLEANING
        waits = self._watch.deadlines(self._player, self.clocks)
        if self._wake is not None:
            waits.append(self._wake)
        if self._stopping.has_begun or self._must_stop():
            waits.append(self._stopping.until)
        return min(waits) if waits else None

    def _check_clocks(self, progressed: bool) -> None:
        player, watch = self._player, self._watch
        ran_out = watch.ran_out(player, self.clocks)
        if ran_out is not None and not progressed:
            clock, seconds = ran_out
            self._decide(Expire(clock=clock, seconds=seconds, **self._now()))
        for request_id in watch.unanswered(player, self.clocks):
            entry = Answer(
                request_id=request_id, allowed=False, by="bridle", reason=_NO_ANSWER, **self._now()
            )
            self._decide(entry)

    def _must_stop(self) -> bool:
        """Whether to end the agent's process by signals."""
        recorder = self._player.recorder
        if recorder.stop_requested is not None:
            return True
        if recorder.leaving is None:
            return False
        return recorder.turn_open or self._watch.is_late_to_leave(self.clocks)

    def _stop_if_due(self) -> None:
        """Close the agent's input and send the next stop signal, each when it is due."""
        recorder = self._player.recorder
        if recorder.input_done and not self._input_closed:
            self._flush()
            self._input_closed = True
            self._process.close_input()
        if self._must_stop():
            self._stopping.advance(at_once=recorder.stops_at_once)
        else:
            self._stopping.reset()
