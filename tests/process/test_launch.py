"""Children that outlive the process which started them: none is dropped, the ended are reaped."""

import subprocess
import sys

from bridle.process import launch

WAITS = [sys.executable, "-c", "input()"]


class _Joined(subprocess.Popen[bytes]):
    """A child that another one joins while its status is asked for, as from another thread."""

    other: "subprocess.Popen[bytes] | None" = None

    def poll(self) -> int | None:
        if self.other is None:
            self.other = subprocess.Popen(WAITS, stdin=subprocess.PIPE)
            launch.leave_running(self.other)
        return super().poll()


def test_a_child_that_comes_while_an_ended_one_is_reaped_is_kept() -> None:
    ended = _Joined(WAITS, stdin=subprocess.PIPE)
    launch.leave_running(ended)
    ended.communicate(b"\n")
    launch.reap()
    other = ended.other
    assert other is not None
    assert ended not in launch._left_running
    assert other in launch._left_running
    other.communicate(b"\n")
    launch.reap()
    assert other not in launch._left_running
