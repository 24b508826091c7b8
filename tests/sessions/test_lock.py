"""The right to drive a session."""

import os
import threading
from pathlib import Path

import pytest

from bridle.sessions.lock import SessionHeld, SessionLock

DEADLINE = 30.0


def driver_that_dies_while_it_starts_a_process(folder: str) -> int:
    """A process took the lock, forked, and is gone; its child, which is no other program yet, ends
    when the returned descriptor is closed."""
    reading, writing = os.pipe()
    driver = os.fork()
    if driver == 0:
        SessionLock(folder, "s")
        if os.fork() == 0:
            os.close(writing)
            os.read(reading, 1)
        os._exit(0)
    os.close(reading)
    os.waitpid(driver, 0)
    return writing


def test_a_copy_that_a_killed_driver_left_is_waited_for(tmp_path: Path) -> None:
    child = driver_that_dies_while_it_starts_a_process(str(tmp_path))
    taken: list[SessionLock] = []
    taking = threading.Thread(target=lambda: taken.append(SessionLock(str(tmp_path), "s")))
    taking.start()
    os.close(child)
    taking.join(DEADLINE)
    assert len(taken) == 1
    taken[0].release()


def test_one_that_lives_is_not_waited_for(tmp_path: Path) -> None:
    lock = SessionLock(str(tmp_path), "s")
    with pytest.raises(SessionHeld):
        SessionLock(str(tmp_path), "s")
    lock.release()
    SessionLock(str(tmp_path), "s").release()
