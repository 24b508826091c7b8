"""How one thread ends what another is waiting in: a turn that is aborted ends at once."""

from __future__ import annotations

# Not `threading`: an idle agent should weigh as little as it can.
from _thread import allocate_lock

from .parts import Failure

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable


class Interrupt:
    """A request to give up the turn that is played. Any thread may make it; a turn looks for it
    at every step and waits with it instead of sleeping."""

    def __init__(self) -> None:
        self.requested = False
        self._gate = allocate_lock()
        self._gate.acquire()
        self._closing: Callable[[], None] | None = None

    def request(self) -> None:
        """End the turn: whoever waits is woken, what is being read is closed."""
        if not self.requested:
            self.requested = True
            self._gate.release()
        closing = self._closing
        if closing is not None:
            closing()

    def reset(self) -> None:
        """A new turn begins, which nobody has asked to end."""
        if self.requested:
            self.requested = False
            self._gate.acquire()

    def check(self) -> None:
        """Raise when the turn is to end."""
        if self.requested:
            raise Failure("the turn was aborted", kind="aborted")

    def wait(self, seconds: float | None) -> None:
        """Sleep, unless the turn is to end: then raise."""
        if seconds and self._gate.acquire(timeout=seconds):
            self._gate.release()
        self.check()

    def close_with(self, closing: Callable[[], None] | None) -> None:
        """Name what must be closed for a reader to wake up; None when nothing is read."""
        self._closing = closing
        if closing is not None and self.requested:
            closing()
