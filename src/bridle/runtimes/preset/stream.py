"""Plain text on stdout, as events."""

from bridle.core.errors import Crashed
from bridle.process.spec import ProcessExit
from bridle.turns.recorder import Recorder


class PlainTextNormalizer:
    """Takes each line of stdout as a piece of the one message that the program writes.

    Only the exit status says how the work of such a program went, so here, and only here, exit
    status 0 means that it completed.
    """

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self._first = True

    def feed(self, line: bytes) -> None:
        """Take one line of the program's stdout."""
        if not self._recorder.turn_open:
            self._recorder.turn_started(evidence="first output", synthetic=True)
        text = line.removesuffix(b"\r").decode(errors="replace")
        # Its answer or the reason of its failure: the exit status decides.
        self._recorder.stray(text)
        self._recorder.text_delta(text if self._first else f"\n{text}", synthetic=True)
        self._first = False

    def finish(self, exit: ProcessExit) -> None:
        """The program has ended: status 0 is success, every other end a failure."""
        recorder = self._recorder
        if recorder.error is None and exit.code != 0:
            recorder.fail(Crashed(f"{recorder.runtime} {exit.words}{_complaint(exit)}"))
        recorder.message_ended(synthetic=True)
        recorder.turn_ended()
        recorder.finish(exit)


def _complaint(exit: ProcessExit) -> str:
    by_itself = exit.code is not None and exit.code > 0
    lines = (exit.last_words if by_itself else exit.stderr_tail).strip().splitlines()
    return f": {lines[-1].strip()[:200]}" if lines else ""
