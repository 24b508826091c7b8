"""Brings the process of a session to its end, and clears away what it left behind."""

import threading
import time
from collections.abc import Callable

from bridle.process.private_folders import remove_folders
from bridle.process.spec import StopStep

TYPE_CHECKING = False
if TYPE_CHECKING:
    from bridle.sessions.holding import SessionProcess

_LAST_GRACE = 2.0
"""Seconds between the signals that nobody survives, once the steps are used up."""


class Stopping:
    """The signals that end an agent, one step at a time.

    Contract: `go_on` whenever the agent is to be ended and `until` may have passed; it waits for
    nothing itself.
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

    def begin_anew(self) -> None:
        """What was to be ended is gone: the next time begins with the first step."""
        self._step = -1

    def go_on(self, *, at_once: bool = False) -> None:
        """Send the next signal, if its time has come; `at_once` only those that nobody survives."""
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


class Cleaning:
    """Ends what an agent left running and removes what was made for it alone, in a thread of its
    own, so that other sessions need not wait for it.

    Contract: `start` at most once.
    """

    def __init__(self) -> None:
        self._thread: threading.Thread | None = None

    @property
    def is_running(self) -> bool:
        """Whether something may still be there."""
        return self._thread is not None and self._thread.is_alive()

    def start(self, process: "SessionProcess", session_id: str, folders: tuple[str, ...]) -> None:
        """Begin, once the process is gone."""

        def clean_up() -> None:
            process.end_leftovers(session_id)
            remove_folders(folders)

        self._thread = threading.Thread(target=clean_up)
        self._thread.start()

    def wait(self, seconds: float) -> None:
        """Give it so much time to end."""
        if self._thread is not None:
            self._thread.join(seconds)

    def then(self, act: Callable[[], None]) -> None:
        """Do something when all is clean: now, if it is; else later, in another thread."""
        thread = self._thread
        if thread is None or not thread.is_alive():
            act()
            return

        def later() -> None:
            thread.join()
            act()

        threading.Thread(target=later).start()
