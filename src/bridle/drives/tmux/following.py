"""Following what an agent writes down about itself, line by line as it appends them.

A `TranscriptWire` is a `LiveWire` whose lines come from the runtime's transcript and whose words
go through a pane: `Recorder.reply` stays unused, and whoever drives it pastes the text of a message
(`Terminal.begin_delivery`) after `prompt` or `steer`, presses the interrupt keys after `abort`
(`Terminal.interrupt`) and the leaving ones after `leave`.
"""

import os
import zlib
from typing import Protocol

import msgspec

from bridle.core.errors import Aborted, AgentError, Crashed, Unavailable
from bridle.drives.tmux.asking import PaneQuestions
from bridle.drives.tmux.errors import NotDelivered, PaneGone
from bridle.drives.tmux.evidence import HookEvidence
from bridle.drives.tmux.reports import Report
from bridle.process.spec import ProcessExit
from bridle.turns.recorder import Recorder
from bridle.turns.wire import LiveFacts, LiveWire, Outgoing

_CHUNK = 1 << 20
_SHOWN = 2000
"""Bytes that are kept of a line nobody can read."""


class TranscriptWire(LiveWire, Protocol):
    """Reads one conversation from its transcript.

    Contract: as `LiveWire`, repeatable too. `prompt` and `steer` say that this text was given to
    the pane: the entry in the transcript that matches it is the receipt (`message_taken`); an
    entry that matches none was typed by a person, and is a turn all the same.
    """

    @property
    def waits(self) -> bool:
        """Whether a message was given to the pane and not yet seen in the transcript."""

    def ready(self, evidence: str) -> None:
        """The pane was seen to be ready for its first prompt."""

    def undelivered(self, message_id: str, error: AgentError) -> None:
        """The pane would not take a message that `prompt` or `steer` announced."""

    def rewound(self) -> None:
        """The agent took back the last lines it had written: an undone prompt."""

    def settle(self) -> None:
        """The pane has shown its prompt for a while and nothing was written meanwhile: close a
        turn whose end the transcript does not tell. No effect when none is open."""

    def report(self, report: Report) -> None:
        """A hook of the agent told something: evidence for what the transcript may leave out."""

    def due(self) -> None:
        """The transcript had its time to tell what hooks reported so far."""

    def permission_shown(self, request_id: str, shown: str, answerable: bool) -> None:
        """The pane asks whether the agent may act; `shown` is the dialog's text. `answerable`
        says that keys are known which answer it."""

    def permission_gone(self, request_id: str) -> None:
        """That dialog went away without our keys."""


class _Seen(msgspec.Struct, frozen=True):
    end: int
    check: int


class TranscriptFollower:
    """The new lines of a file that another program appends to, and now and then rewrites.

    Contract: `read` never blocks and never raises; a file that is not there yet has no lines. Only
    whole lines are handed over, each once, also when the file was written anew with others before
    them. When lines that were handed over are gone from it, `rewound` is true after that call.
    """

    def __init__(self, path: str, *, skip: int = 0) -> None:
        """The first `skip` lines are passed over: those of a conversation before it was resumed
        (`lines_in`)."""
        self.path = path
        self.count = 0
        """Lines handed over or passed over so far."""
        self._skip = skip
        self.rewound = False
        self._seen: list[_Seen] = []
        self._offset = 0
        self._doubt: tuple[int, int] | None = None

    def read(self) -> list[bytes]:
        """The lines since the last call, without their newlines."""
        self.rewound = False
        try:
            with open(self.path, "rb") as file:
                fd = file.fileno()
                if self._stands(fd):
                    self._doubt = None
                    return self._appended(fd)
                about = os.fstat(fd)
                doubt, self._doubt = self._doubt, (about.st_size, about.st_mtime_ns)
                # Half-written, it would look as if lines were taken back: it must stand still.
                return self._rewritten(fd) if doubt == self._doubt else []
        except OSError:
            return []

    def _stands(self, fd: int) -> bool:
        """Whether the last line that was seen is still where it was."""
        if not self._seen:
            return True
        start = self._seen[-2].end if len(self._seen) > 1 else 0
        data = os.pread(fd, self._offset - start, start)
        return data[-1:] == b"\n" and zlib.crc32(data[:-1]) == self._seen[-1].check

    def _appended(self, fd: int) -> list[bytes]:
        lines = _whole_lines(fd, self._offset)
        self._note(lines)
        passed = max(0, min(len(lines), self._skip - self.count))
        self.count += len(lines)
        return lines[passed:]

    def _rewritten(self, fd: int) -> list[bytes]:
        """Agents put lines in at the front, and cut lines off at the end: what was seen before is
        known by what it says, not by where it stands."""
        left: dict[int, int] = {}
        for seen in self._seen:
            left[seen.check] = left.get(seen.check, 0) + 1
        self._seen, self._offset = [], 0
        lines = _whole_lines(fd, 0)
        self._note(lines)
        fresh = []
        for line in lines:
            check = zlib.crc32(line)
            if left.get(check, 0):
                left[check] -= 1
            else:
                fresh.append(line)
        self.rewound = any(left.values())
        self.count = len(lines)
        return fresh

    def _note(self, lines: list[bytes]) -> None:
        for line in lines:
            self._offset += len(line) + 1
            self._seen.append(_Seen(self._offset, zlib.crc32(line)))


def _whole_lines(fd: int, start: int) -> list[bytes]:
    """The lines from `start` on that have their newline."""
    lines: list[bytes] = []
    rest, at = b"", start
    while data := os.pread(fd, _CHUNK, at):
        at += len(data)
        *whole, rest = (rest + data).split(b"\n")
        lines += whole
    return lines


def lines_in(path: str) -> int:
    """How many whole lines a transcript has now; 0 when it is not there."""
    follower = TranscriptFollower(path)
    follower.read()
    return follower.count


class Pending:
    """Messages that were given to the pane and not yet seen in the transcript."""

    def __init__(self) -> None:
        self._texts: dict[str, str] = {}

    def add(self, message_id: str, text: str) -> None:
        """`text` was handed to the pane."""
        self._texts[message_id] = plain(text)

    def all(self) -> list[str]:
        """The ids of all that were not seen yet."""
        return list(self._texts)

    def drop(self, message_id: str) -> bool:
        """Forget a message; whether it was waited for."""
        return self._texts.pop(message_id, None) is not None

    def take(self, text: str) -> str | None:
        """The id of the message that the transcript shows as `text`; None when a person typed
        it. The oldest one that fits is meant."""
        shown = plain(text)
        for message_id, given in self._texts.items():
            if given == shown:
                del self._texts[message_id]
                return message_id
        return None

    def take_oldest(self) -> str | None:
        """The id of the message that must be meant by an entry that does not repeat its text."""
        for message_id in self._texts:
            del self._texts[message_id]
            return message_id
        return None


def plain(text: str) -> str:
    """A text as far as a terminal keeps it: tabs, line ends and spaces at the ends may change."""
    return "\n".join(line.expandtabs(4).rstrip() for line in text.strip().splitlines())


class FollowingWire:
    """What the readers of all transcripts share; a runtime's adds `_take` for one line.

    `_final` says whether the last message was one that ends a turn.
    """

    def __init__(self, facts: LiveFacts, recorder: Recorder) -> None:
        self.facts = facts
        self.recorder = recorder
        self._pending = Pending()
        self._final = False
        self._evidence = HookEvidence(recorder)
        self._questions = PaneQuestions(recorder, self._evidence)

    # -- what the driver tells ------------------------------------------------------------------

    @property
    def waits(self) -> bool:
        """Whether a message was given to the pane and not yet seen in the transcript."""
        return bool(self._pending.all())

    def begin(self) -> None:
        """Nothing to say: readiness is seen on the pane (`ready`)."""

    def ready(self, evidence: str) -> None:
        """The pane was seen to be ready for the first prompt."""
        self.recorder.session_started(self.facts.own.get("session"))
        self.recorder.ready(evidence)

    def prompt(self, message: Outgoing) -> None:
        """This text is being pasted and submitted."""
        if message.images:
            self.recorder.message_refused(
                message.id, Unavailable("images cannot be pasted into a terminal")
            )
            return
        self._pending.add(message.id, message.text)

    def steer(self, message: Outgoing) -> None:
        """The same, while a turn is open."""
        self.prompt(message)

    def undelivered(self, message_id: str, error: AgentError) -> None:
        """The pane would not take a message."""
        if self._pending.drop(message_id):
            self.recorder.message_refused(message_id, error)

    def abort(self) -> None:
        """The interrupt keys are being pressed; the transcript or the pane tells when it ended."""

    def leave(self) -> None:
        """The leaving keys are being pressed."""

    def rewound(self) -> None:
        """An interrupted prompt was taken back: its turn is over, and never was for the agent."""
        self._aborted("the prompt was taken back")

    def report(self, report: Report) -> None:
        """Keep it until it is due, or the turn ends."""
        self._evidence.add(report)

    def due(self) -> None:
        """Act on what hooks told and the transcript did not."""
        self._evidence.begin_tools()

    def _take_prompts(self) -> None:
        """Take messages for received that hooks told of and the transcript never will.

        Not before the agent has come to rest: what it has not written down it would not remember
        when it is resumed, so the message must be given again then. And only what Bridle itself
        gave: nothing else could be told apart from a turn that the transcript has told.
        """
        for report in self._evidence.take_prompts():
            message_id = self._pending.take(report.text)
            if message_id is not None:
                self.recorder.turn_started(evidence=f"{report.event} hook")
                self.recorder.message_taken(message_id)

    def permission_shown(self, request_id: str, shown: str, answerable: bool) -> None:
        """Ask whoever decides; what cannot be answered by a key is refused."""
        self.due()
        self._questions.ask(request_id, shown, answerable)

    def permission_gone(self, request_id: str) -> None:
        """A person answered it, or the turn took it away."""
        self._questions.gone(request_id)

    def settle(self) -> None:
        """Judge by the pane, which waits for a prompt, and by what was written so far."""
        recorder = self.recorder
        self._take_prompts()
        self.due()
        for message_id in self._pending.all():
            self.undelivered(
                message_id, NotDelivered("it was submitted, but the agent did not write it down")
            )
        if recorder.turn_open:
            if not (self._final or self._evidence.stopped) and recorder.error is None:
                recorder.fail(self._unfinished())
            self._end_turn()

    def finish(self, exit: ProcessExit) -> None:
        """The process is gone: a turn whose last message was a final one had ended."""
        for message_id in self._pending.all():
            self.undelivered(message_id, PaneGone("the agent ended before it took the message"))
        if self.recorder.turn_open and (self._final or self._evidence.stopped):
            self._end_turn()
        self._close_message()
        self._evidence.end_turn()
        self._questions.end_turn()
        self.recorder.finish(exit)

    # -- what the transcript tells --------------------------------------------------------------

    def feed(self, line: bytes) -> None:
        """Take one line; what cannot be read is kept as `unknown`."""
        if not line.strip():
            return
        try:
            self._take(line)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            self.recorder.unknown({"line": line[:_SHOWN].decode(errors="replace")})
        self._questions.settle()

    def _take(self, line: bytes) -> None:
        raise NotImplementedError

    def _close_message(self) -> None:
        """Close an open message with all that is known of it."""

    def _unfinished(self) -> AgentError:
        return Crashed("the agent waits for a prompt again, but told no end of its turn")

    def _told(self, text: str, evidence: str) -> None:
        """The agent took a message: from Bridle, or typed by a person."""
        recorder = self.recorder
        self._close_message()
        if self._final and recorder.turn_open:
            self._end_turn()
        recorder.turn_started(evidence=evidence)
        self._final = False
        self._user_said(text)

    def _user_said(self, text: str) -> None:
        """A message of the user is part of the open turn: one of ours, or else a person's."""
        message_id = self._receipt(text)
        if message_id is not None:
            self.recorder.message_taken(message_id)
        else:
            self.recorder.typed(text)

    def _receipt(self, text: str) -> str | None:
        """Which of our messages the agent wrote down as `text`."""
        return self._pending.take(text)

    def _aborted(self, reason: str) -> None:
        if self.recorder.turn_open:
            self.recorder.fail(Aborted(self._questions.refusal or reason))
            self._end_turn()

    def _end_turn(self) -> None:
        self._close_message()
        self._final = False
        self._evidence.end_turn()
        if self.recorder.turn_open:
            self._questions.end_turn()
            self.recorder.turn_ended()

    def _say(self, kind: str, text: str) -> None:
        """A whole block of the open message."""
        if kind == "text":
            self.recorder.text_delta(text, synthetic=True)
        else:
            self.recorder.thinking_delta(text, synthetic=True)
        self.recorder.block_ended(synthetic=True)
