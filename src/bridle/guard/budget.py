"""What one verdict may cost: a count of work and a deadline, kept for each thread.

Code that walks an input calls `spend` with about the number of things it looked at. No agent's call
can block the process: past either limit the call is refused. Single calls into C (a regular
expression, a decoder) cannot be interrupted, and block every thread while they run; they must take
linear time.
"""

import math
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from bridle.guard.verdict import Blocked

MOST_WORK = 1_000_000
"""Units of work, of about a microsecond each; the longest everyday commands need a hundredth."""
SECONDS = 5.0
"""Time limit of a verdict, including the wait for the shell parser."""
_LOOK_EVERY = 2_000
"""Units between two checks of the clock."""


class _Account(threading.local):
    open = False
    spent = 0
    ends = 0.0
    next_look = 0


_account = _Account()


@contextmanager
def limited() -> Iterator[None]:
    """A block in which `spend` counts; a nested one counts towards the outer."""
    account = _account
    if account.open:
        yield
        return
    account.open = True
    account.spent = 0
    account.next_look = _LOOK_EVERY
    account.ends = time.monotonic() + SECONDS
    try:
        yield
    finally:
        account.open = False


def spend(units: int) -> None:
    """Count work done. Raises `Blocked` when the call has cost too much."""
    account = _account
    account.spent += units
    if account.spent < account.next_look or not account.open:
        return
    if account.spent > MOST_WORK:
        raise Blocked("too-long", "the call has too many parts to be judged")
    account.next_look = account.spent + _LOOK_EVERY
    if time.monotonic() > account.ends:
        raise _late()


def seconds_left() -> float:
    """Time until the deadline; infinite outside such a block. Raises `Blocked` when it has
    passed."""
    if not _account.open:
        return math.inf
    left = _account.ends - time.monotonic()
    if left <= 0:
        raise _late()
    return left


def spent() -> int:
    """Units that the last verdict of this thread cost."""
    return _account.spent


def _late() -> Blocked:
    return Blocked("too-long", "the call took too long to be judged")
