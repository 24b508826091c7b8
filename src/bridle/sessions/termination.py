"""Ends the process of a session, and everything that it left behind."""

import threading
import time
from collections.abc import Callable

from bridle.process.private_folders import remove_folders
from bridle.process.spec import StopStep

TYPE_CHECKING = False
if TYPE_CHECKING:
    from bridle.sessions.replay import SessionProcess

_LAST_GRACE = 2.0
"""Seconds between SIGKILLs, once all stop steps were taken."""


class StopSequence:
    """The signals that end an agent, one step at a time.

    Contract: call `advance` while the agent has to end, at the latest when `until` has passed; it
    never waits.
    """

    def __init__(self, process: "SessionProcess", steps: tuple[StopStep, ...]) -> None:
        self.until = 0.0
        """When the next step is due (monotonic)."""
        self._process = process
        self._steps = steps
        self._step = -1

    @property
    def has_begun(self) -> bool:
        """Whether a signal was sent."""
        return self._step >= 0

    def reset(self) -> None:
        """Begin with the first step next time: what had to end has ended."""
        self._step = -1

    def advance(self, *, at_once: bool = False) -> None:
        """Send the next signal, if it is due; with `at_once` SIGKILL alone."""
        now = time.monotonic()
        if self.has_begun and now < self.until:
            return
        self._step = len(self._steps) if at_once else self._step + 1
        if self._step < len(self._steps):
            step = self._steps[self._step]
            self._process.signal(step.signal, step.to)
            self.until = now + step.grace
        else:
            self._process.signal(9, "group")
            self.until = now + _LAST_GRACE


class Cleanup:
    """Ends what an agent left running and removes its private folders, in its own thread, so that
    other sessions do not wait for it.

    Contract: `start` at most once.
    """

    def __init__(self) -> None:
        self._thread: threading.Thread | None = None

    @property
    def is_running(self) -> bool:
        """Whether something may still be there."""
        return self._thread is not None and self._thread.is_alive()

    def start(self, process: "SessionProcess", session_id: str, folders: tuple[str, ...]) -> None:
        """Begin, once the process has ended."""

        def clean_up() -> None:
            process.end_leftovers(session_id)
            remove_folders(folders)

        self._thread = threading.Thread(target=clean_up)
        self._thread.start()

    def wait(self, seconds: float) -> None:
        """Wait for it at most `seconds`."""
        if self._thread is not None:
            self._thread.join(seconds)

    def then(self, act: Callable[[], None]) -> None:
        """Call `act` when it has ended: now if it has, otherwise later in another thread."""
        thread = self._thread
        if thread is None or not thread.is_alive():
            act()
            return

        def later() -> None:
            thread.join()
            act()

        threading.Thread(target=later).start()
