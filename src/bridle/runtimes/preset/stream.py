"""Plain text on stdout, as events."""

from bridle.core.errors import Crashed
from bridle.process.spec import ProcessExit
from bridle.turns.recorder import Recorder


class PlainTextNormalizer:
    """Takes each line of stdout as a piece of the one message the program writes.

    Nothing but the exit status tells how such a program's work went, so here, and only here, exit
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
        # Its answer or the reason of its failure: only the exit status tells which.
        self._recorder.stray(text)
        self._recorder.text_delta(text if self._first else f"\n{text}", synthetic=True)
        self._first = False

    def finish(self, exit: ProcessExit) -> None:
        """The program has ended: 0 is success, everything else is not."""
        recorder = self._recorder
        if recorder.error is None and exit.code != 0:
            recorder.fail(Crashed(f"{recorder.runtime} {_how(exit)}{_complaint(exit)}"))
        recorder.message_ended(synthetic=True)
        recorder.turn_ended()
        recorder.finish(exit)


def _how(exit: ProcessExit) -> str:
    if exit.signal_name is not None:
        return f"was killed by {exit.signal_name}"
    return "is gone" if exit.code is None else f"exited {exit.code}"


def _complaint(exit: ProcessExit) -> str:
    by_itself = exit.code is not None and exit.code > 0
    lines = (exit.last_words if by_itself else exit.stderr_tail).strip().splitlines()
    return f": {lines[-1].strip()[:200]}" if lines else ""
