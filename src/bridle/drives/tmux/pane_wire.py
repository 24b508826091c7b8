"""The wire of a terminal session, which can be replayed from the session's journal.

`PaneProcess` writes the journal: the lines of the agent's transcript as they were read, and between
them observations of the pane and reports of hooks (`records`).
"""

from bridle.drives.tmux.errors import NotDelivered, NotReady
from bridle.drives.tmux.records import Order, observation_in, record_line
from bridle.drives.tmux.transcript_wire import TranscriptWire
from bridle.process.spec import ProcessExit
from bridle.turns.recorder import Recorder
from bridle.turns.wire import Outgoing


class PaneWire:
    """The `LiveWire` of a terminal session, around the runtime's reader of its transcript."""

    def __init__(self, inner: TranscriptWire, recorder: Recorder) -> None:
        self._inner = inner
        self._recorder = recorder

    @property
    def waits(self) -> bool:
        """Whether a message went to the pane and is not yet in the transcript."""
        return self._inner.waits

    def begin(self) -> None:
        """Nothing to send: `PaneProcess` brings the pane to its prompt."""
        self._inner.begin()

    def feed(self, line: bytes) -> None:
        """Take a line of the transcript, or an observation."""
        seen = observation_in(line)
        if seen is None:
            self._inner.feed(line)
        elif seen.kind == "ready":
            self._inner.ready(seen.evidence)
        elif seen.kind == "not_ready":
            self._recorder.request_stop(NotReady(seen.error, hint=seen.hint))
        elif seen.kind == "undelivered":
            self._inner.undelivered(seen.id, NotDelivered(seen.error, hint=seen.hint))
        elif seen.kind == "rewound":
            self._inner.rewound()
        elif seen.kind == "settled":
            self._inner.settle()
        elif seen.kind == "hook" and seen.report is not None:
            self._inner.report(seen.report)
        elif seen.kind == "due":
            self._inner.due()
        elif seen.kind == "permission":
            self._inner.permission_shown(seen.id, seen.evidence, seen.answerable)
        elif seen.kind == "gone":
            self._inner.permission_gone(seen.id)

    def prompt(self, message: Outgoing) -> None:
        """Order the text to be pasted and submitted."""
        self._inner.prompt(message)
        self._deliver(message)

    def steer(self, message: Outgoing) -> None:
        """Like `prompt`, while a turn is open."""
        self._inner.steer(message)
        self._deliver(message)

    def _deliver(self, message: Outgoing) -> None:
        if message.id not in [each.id for each in self._recorder.deliveries]:
            self._recorder.reply(record_line(Order(do="deliver", id=message.id, text=message.text)))

    def abort(self) -> None:
        """Order the keys that end a turn."""
        self._inner.abort()
        self._recorder.reply(record_line(Order(do="interrupt")))

    def leave(self) -> None:
        """Order the keys that end the program."""
        self._inner.leave()
        self._recorder.reply(record_line(Order(do="leave")))

    def finish(self, exit: ProcessExit) -> None:
        """The process has ended."""
        self._inner.finish(exit)
