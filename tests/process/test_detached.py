"""The detached holder on real processes: nothing is lost, whoever is killed."""

import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from bridle.core.errors import Crashed, NotInstalled, WrongUse
from bridle.core.ids import new_session_id
from bridle.process.detached import DetachedProcess
from bridle.process.process_tree import kill_marked, marked_processes
from bridle.process.run_files import HoldingFailed, RunFiles
from bridle.process.spec import SESSION_MARK, ProcessSpec

ECHO = """
import sys
for line in sys.stdin.buffer:
    sys.stdout.buffer.write(b"got %d %s\\n" % (len(line), line[:20].strip()))
    sys.stdout.buffer.flush()
sys.stdout.write("bye")
"""


@pytest.fixture
def session() -> Iterator[str]:
    """A session's id; whatever carries it is ended after the test."""
    name = new_session_id()
    yield name
    kill_marked(name)


def spec(session: str, *argv: str, cwd: str = "/") -> ProcessSpec:
    return ProcessSpec(argv=argv, env={"PATH": os.environ["PATH"], SESSION_MARK: session}, cwd=cwd)


def wait(done: Callable[[], bool], seconds: float = 30.0) -> None:
    until = time.monotonic() + seconds
    while not done():
        assert time.monotonic() < until, "waited in vain"
        time.sleep(0.01)


def lines_until(held: DetachedProcess, count: int) -> list[bytes]:
    lines: list[bytes] = []

    def enough() -> bool:
        lines.extend(held.read_lines())
        return len(lines) >= count

    wait(enough)
    return lines


def test_talk_and_leave(tmp_path: Path, session: str) -> None:
    held = DetachedProcess(str(tmp_path / "run"))
    held.start(spec(session, sys.executable, "-c", ECHO))
    held.write(b"one\n")
    assert lines_until(held, 1) == [b"got 4 one"]
    big = b"x" * (1 << 20) + b"\n"
    held.write(big[:70000])
    another = DetachedProcess(held.folder)
    assert another.input_size() == 4 + 70000
    another.write(big[70000:])
    assert lines_until(held, 1) == [b"got 1048577 " + b"x" * 20]
    assert held.exit() is None
    held.close_input()
    wait(lambda: held.exit() is not None)
    ended = held.exit()
    assert ended is not None
    assert ended.code == 0
    assert held.read_lines() == []
    assert held.last_words() == b"bye"
    assert [line.split()[1] for line in another.read_lines()] == [b"4", b"1048577"]
    wait(lambda: not marked_processes(session))


def test_its_files_are_private(tmp_path: Path, session: str) -> None:
    held = DetachedProcess(str(tmp_path / "run"))
    held.start(spec(session, sys.executable, "-c", ECHO))
    wait(lambda: held.pid is not None)
    assert os.stat(held.folder).st_mode & 0o777 == 0o700
    for name in os.listdir(held.folder):
        assert os.stat(os.path.join(held.folder, name)).st_mode & 0o077 == 0, name


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGKILL, signal.SIGHUP])
def test_signals_reach_the_agent_and_are_told(tmp_path: Path, session: str, number: int) -> None:
    held = DetachedProcess(str(tmp_path / "run"))
    held.start(spec(session, "/bin/sh", "-c", "echo up; exec sleep 60"))
    assert lines_until(held, 1) == [b"up"]
    held.signal(number)
    wait(lambda: held.exit() is not None)
    ended = held.exit()
    assert ended is not None
    assert ended.code == -number


def test_an_agent_keeps_default_signals(tmp_path: Path, session: str) -> None:
    held = DetachedProcess(str(tmp_path / "run"))
    held.start(spec(session, "/bin/sh", "-c", "grep SigIgn /proc/self/status || echo none"))
    [line] = lines_until(held, 1)
    ignored = int(line.split()[-1], 16) if b"SigIgn" in line else 0
    assert not ignored & (1 << 0 | 1 << 1 | 1 << 2 | 1 << 14)


def test_a_group_signal_reaches_the_children(tmp_path: Path, session: str) -> None:
    held = DetachedProcess(str(tmp_path / "run"))
    held.start(spec(session, "/bin/sh", "-c", "sleep 60 & echo up; wait"))
    assert lines_until(held, 1) == [b"up"]
    held.signal(signal.SIGKILL, to="group")
    wait(lambda: held.exit() is not None)
    wait(lambda: not marked_processes(session))


def test_a_killed_holder_is_a_lost_agent(tmp_path: Path, session: str) -> None:
    held = DetachedProcess(str(tmp_path / "run"))
    held.start(spec(session, "/bin/sh", "-c", "echo up; exec sleep 60"))
    assert lines_until(held, 1) == [b"up"]
    holder = int((tmp_path / "run" / "holder").read_text())
    os.kill(holder, signal.SIGKILL)
    wait(lambda: held.exit() is not None)
    ended = DetachedProcess(held.folder).exit()
    assert ended is not None
    assert ended.code is None
    held.end_leftovers(session)
    assert marked_processes(session) == []


def test_a_program_that_is_missing(tmp_path: Path, session: str) -> None:
    held = DetachedProcess(str(tmp_path / "run"))
    with pytest.raises(NotInstalled):
        held.start(spec(session, "/nowhere/agent"))
    with pytest.raises(Crashed, match="working directory"):
        DetachedProcess(str(tmp_path / "two")).start(
            spec(session, sys.executable, cwd=str(tmp_path / "gone"))
        )
    with pytest.raises(WrongUse):
        DetachedProcess(str(tmp_path / "three")).start(ProcessSpec(argv=("x",), env={}, cwd="/"))


def test_files_that_vanish(tmp_path: Path, session: str) -> None:
    held = DetachedProcess(str(tmp_path / "run"))
    held.start(spec(session, sys.executable, "-c", ECHO))
    held.write(b"one\n")
    assert lines_until(held, 1)
    os.unlink(tmp_path / "run" / "stdin")
    held.write(b"two\n")
    assert lines_until(held, 1) == [b"got 4 two"], "an open FIFO needs no name"
    os.unlink(tmp_path / "run" / "bell")
    held.write(b"again\n")
    assert lines_until(held, 1) == [b"got 6 again"]
    (tmp_path / "run" / "journal").write_bytes(b"")
    with pytest.raises(HoldingFailed, match="cut short"):
        held.read_lines()
    os.unlink(tmp_path / "run" / "journal")
    with pytest.raises(HoldingFailed, match="cannot be read"):
        held.read_lines()
    os.unlink(tmp_path / "run" / "input")
    with pytest.raises(HoldingFailed):
        held.write(b"three\n")


def test_a_driver_that_died_before_it_woke_the_pump(tmp_path: Path, session: str) -> None:
    held = DetachedProcess(str(tmp_path / "run"))
    held.start(spec(session, sys.executable, "-c", ECHO))
    held.write(b"one\n")
    assert lines_until(held, 1) == [b"got 4 one"]
    with open(tmp_path / "run" / "input", "ab") as file:
        file.write(b"two\n")
    DetachedProcess(held.folder).take_up()
    assert lines_until(held, 1) == [b"got 4 two"]


@pytest.mark.skipif(sys.platform != "linux", reason="inotify is Linux's")
def test_an_agent_uses_up_no_watch(tmp_path: Path, session: str) -> None:
    held = DetachedProcess(str(tmp_path / "run"))
    held.start(spec(session, sys.executable, "-c", ECHO))
    held.write(b"one\n")
    assert lines_until(held, 1) == [b"got 4 one"]
    pids = marked_processes(session)
    assert len(pids) >= 3
    files = [os.readlink(f) for pid in pids for f in Path(f"/proc/{pid}/fd").iterdir()]
    assert files
    assert not [file for file in files if "inotify" in file]


def test_standard_error_is_kept(tmp_path: Path, session: str) -> None:
    held = DetachedProcess(str(tmp_path / "run"))
    held.start(spec(session, "/bin/sh", "-c", "echo oh no >&2; exit 3"))
    wait(lambda: held.exit() is not None)
    ended = held.exit()
    assert ended is not None
    assert (ended.code, ended.stderr_tail) == (3, "oh no\n")


def test_a_line_longer_than_what_is_read_at_once_is_one_line(tmp_path: Path) -> None:
    files = RunFiles(str(tmp_path / "run"))
    files.make()
    journal = Path(files.path("journal"))
    journal.write_bytes(b"x" * 100 + b"\nshort\nunfin")
    assert files.read_lines(16) == [b"x" * 100, b"short"]
    assert files.read_lines(16) == []
    with journal.open("ab") as file:
        file.write(b"ished\n")
    assert files.read_lines(16) == [b"unfinished"]
    assert files.last_words() == b""
