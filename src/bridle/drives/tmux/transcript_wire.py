"""Reads a conversation from the transcript that an agent writes about itself.

A `TranscriptWire` is a `LiveWire` whose lines come from the runtime's transcript and whose messages
go through a pane: `Recorder.reply` stays unused. The driver pastes the text of a message
(`Terminal.begin_delivery`) after `prompt` or `steer`, and presses keys after `abort`
(`Terminal.interrupt`) and `leave`.
"""

from typing import Protocol

import msgspec

from bridle.core.errors import Aborted, AgentError, Crashed, Unavailable
from bridle.drives.tmux.errors import NotDelivered, PaneGone
from bridle.drives.tmux.hook_reports import HookEvidence, Report
from bridle.drives.tmux.permission_dialogs import PaneQuestions
from bridle.process.spec import ProcessExit
from bridle.turns.recorder import Recorder
from bridle.turns.wire import LiveFacts, LiveWire, Outgoing

_SHOWN = 2000
"""Bytes that are kept of a line that cannot be read."""


class TranscriptWire(LiveWire, Protocol):
    """Reads one conversation from its transcript.

    Contract: as `LiveWire`, and repeatable. `prompt` and `steer` say that this text went to the
    pane: the matching entry in the transcript is the receipt (`message_taken`). An entry without a
    match was typed by a person, and begins a turn too.
    """

    @property
    def waits(self) -> bool:
        """Whether a message went to the pane and is not yet in the transcript."""

    def ready(self, evidence: str) -> None:
        """The pane is ready for its first prompt."""

    def undelivered(self, message_id: str, error: AgentError) -> None:
        """The pane did not take a message that `prompt` or `steer` announced."""

    def rewound(self) -> None:
        """The agent removed its last lines: an undone prompt."""

    def settle(self) -> None:
        """The pane has shown its prompt for a while and the transcript did not grow: close a turn
        whose end the transcript does not contain. No effect between turns."""

    def report(self, report: Report) -> None:
        """A hook of the agent reported: evidence for what the transcript may lack."""

    def due(self) -> None:
        """The transcript had time to contain what hooks reported so far."""

    def permission_shown(self, request_id: str, shown: str, answerable: bool) -> None:
        """The pane shows a permission dialog; `shown` is its text. `answerable` says that its keys
        are known."""

    def permission_gone(self, request_id: str) -> None:
        """The dialog disappeared without keys from Bridle."""


class UnseenMessages:
    """Messages that went to the pane and are not yet in the transcript."""

    def __init__(self) -> None:
        self._texts: dict[str, str] = {}

    def add(self, message_id: str, text: str) -> None:
        """`text` went to the pane."""
        self._texts[message_id] = plain(text)

    def all(self) -> list[str]:
        """The ids of all messages."""
        return list(self._texts)

    def drop(self, message_id: str) -> bool:
        """Forget a message; returns whether it was known."""
        return self._texts.pop(message_id, None) is not None

    def take(self, text: str) -> str | None:
        """Remove and return the id of the oldest message with this text; None if a person typed
        it."""
        shown = plain(text)
        for message_id, given in self._texts.items():
            if given == shown:
                del self._texts[message_id]
                return message_id
        return None

    def take_oldest(self) -> str | None:
        """Remove and return the oldest id, for an entry that does not repeat its text."""
        for message_id in self._texts:
            del self._texts[message_id]
            return message_id
        return None


def plain(text: str) -> str:
    """A text in the form that a terminal preserves: tabs, line ends and outer spaces may change."""
    return "\n".join(line.expandtabs(4).rstrip() for line in text.strip().splitlines())


class BaseTranscriptWire:
    """The common part of all transcript wires; a runtime's wire adds `_take` for one line.

    `_final` says whether the last message ends a turn.
    """

    def __init__(self, facts: LiveFacts, recorder: Recorder) -> None:
        self.facts = facts
        self.recorder = recorder
        self._pending = UnseenMessages()
        self._final = False
        self._evidence = HookEvidence(recorder)
        self._questions = PaneQuestions(recorder, self._evidence)

    # -- the driver -----------------------------------------------------------------------------

    @property
    def waits(self) -> bool:
        """Whether a message went to the pane and is not yet in the transcript."""
        return bool(self._pending.all())

    def begin(self) -> None:
        """Nothing to send: the pane shows readiness (`ready`)."""

    def ready(self, evidence: str) -> None:
        """The pane is ready for the first prompt."""
        self.recorder.session_started(self.facts.own.get("session"))
        self.recorder.ready(evidence)

    def prompt(self, message: Outgoing) -> None:
        """The driver pastes and submits this text."""
        if message.images:
            self.recorder.message_refused(
                message.id, Unavailable("images cannot be pasted into a terminal")
            )
            return
        self._pending.add(message.id, message.text)

    def steer(self, message: Outgoing) -> None:
        """Like `prompt`, while a turn is open."""
        self.prompt(message)

    def undelivered(self, message_id: str, error: AgentError) -> None:
        """The pane did not take a message."""
        if self._pending.drop(message_id):
            self.recorder.message_refused(message_id, error)

    def abort(self) -> None:
        """The driver presses the interrupt keys; transcript or pane show the turn's end."""

    def leave(self) -> None:
        """The driver presses the keys that end the program."""

    def rewound(self) -> None:
        """An interrupted prompt was undone: its turn is over."""
        self._aborted("the prompt was undone")

    def report(self, report: Report) -> None:
        """Keep the report until it is due or the turn ends."""
        self._evidence.add(report)

    def due(self) -> None:
        """Record what hooks reported and the transcript lacks."""
        self._evidence.begin_tools()

    def _take_prompts(self) -> None:
        """Count messages as taken that hooks reported and the transcript will never contain.

        Only when the agent is idle: what it has not written it would not remember after a resume,
        so the message would have to be sent again. And only messages from Bridle: others cannot be
        distinguished from turns that the transcript contains.
        """
        for report in self._evidence.take_prompts():
            message_id = self._pending.take(report.text)
            if message_id is not None:
                self.recorder.turn_started(evidence=f"{report.event} hook")
                self.recorder.message_taken(message_id)

    def permission_shown(self, request_id: str, shown: str, answerable: bool) -> None:
        """Make a permission request; a dialog without a known key is refused."""
        self.due()
        self._questions.ask(request_id, shown, answerable)

    def permission_gone(self, request_id: str) -> None:
        """A person answered it, or it ended with its turn."""
        self._questions.gone(request_id)

    def settle(self) -> None:
        """Judge by the pane, which waits for a prompt, and by the transcript so far."""
        recorder = self.recorder
        self._take_prompts()
        self.due()
        for message_id in self._pending.all():
            self.undelivered(
                message_id, NotDelivered("it was submitted, but is not in the agent's transcript")
            )
        if recorder.turn_open:
            if not (self._final or self._evidence.stopped) and recorder.error is None:
                recorder.fail(self._unfinished())
            self._end_turn()

    def finish(self, exit: ProcessExit) -> None:
        """The process has ended: a turn whose last message was final had ended before."""
        for message_id in self._pending.all():
            self.undelivered(message_id, PaneGone("the agent ended before it took the message"))
        if self.recorder.turn_open and (self._final or self._evidence.stopped):
            self._end_turn()
        self._close_message()
        self._evidence.end_turn()
        self._questions.end_turn()
        self.recorder.finish(exit)

    # -- the transcript -------------------------------------------------------------------------

    def feed(self, line: bytes) -> None:
        """Take one line; a line that cannot be read becomes `unknown`."""
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
        """Close an open message with all that is known about it."""

    def _unfinished(self) -> AgentError:
        return Crashed("the agent waits for a prompt again, but did not report the end of its turn")

    def _told(self, text: str, evidence: str) -> None:
        """The agent took a message, from Bridle or typed by a person."""
        recorder = self.recorder
        self._close_message()
        if self._final and recorder.turn_open:
            self._end_turn()
        recorder.turn_started(evidence=evidence)
        self._final = False
        self._user_said(text)

    def _user_said(self, text: str) -> None:
        """A user message is part of the open turn: from Bridle, otherwise from a person."""
        message_id = self._receipt(text)
        if message_id is not None:
            self.recorder.message_taken(message_id)
        else:
            self.recorder.typed(text)

    def _receipt(self, text: str) -> str | None:
        """Which message from Bridle the agent recorded as `text`."""
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
        """A complete block of the open message."""
        if kind == "text":
            self.recorder.text_delta(text, synthetic=True)
        else:
            self.recorder.thinking_delta(text, synthetic=True)
        self.recorder.block_ended(synthetic=True)
