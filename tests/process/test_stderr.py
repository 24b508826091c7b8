"""Standard error that an adapter watches: handed over line by line while the agent still runs."""

import sys
import uuid
from pathlib import Path

from bridle.core.errors import Unavailable
from bridle.core.options import RunOptions
from bridle.core.redaction import Redactor
from bridle.drives.print_run import PrintRun
from bridle.process.spec import SESSION_MARK, ProcessExit, ProcessSpec
from bridle.turns.recorder import Recorder

WAITS = """
import sys, time
sys.stderr.write("first secret-value-1\\nsec")
sys.stderr.flush()
time.sleep(0.3)
sys.stderr.write("ond\\n" + "x" * 100_000 + "\\nSTOP\\nno newline")
sys.stderr.flush()
time.sleep(300)
"""
ENDS = 'import sys; sys.stderr.write("one\\ntwo"); print("out")'


class Watcher:
    """Notes what it is given, and stops the agent at a word or stumbles over one."""

    def __init__(self, recorder: Recorder) -> None:
        self.recorder = recorder
        self.out: list[bytes] = []
        self.errors: list[bytes] = []

    def feed(self, line: bytes) -> None:
        self.out.append(line)

    def feed_stderr(self, line: bytes) -> None:
        self.errors.append(line)
        if line == b"STOP":
            self.recorder.request_stop(Unavailable("seen on standard error"))
        if line == b"two":
            raise ValueError("an adapter's mistake")

    def finish(self, exit: ProcessExit) -> None:
        self.recorder.finish(exit)


def run(code: str, folder: Path, *, watch: bool = True) -> tuple[Watcher, PrintRun]:
    recorder = Recorder(
        runtime="t",
        session_id="s",
        options=RunOptions(prompt="p", timeout=60.0),
        redactor=Redactor(["secret-value-1"]),
    )
    spec = ProcessSpec(
        argv=(sys.executable, "-c", code),
        env={SESSION_MARK: str(uuid.uuid4())},
        cwd=str(folder),
        watch_stderr=watch,
    )
    watcher = Watcher(recorder)
    played = PrintRun(spec, lambda: watcher, recorder)
    for _ in played.events():
        pass
    return watcher, played


def test_a_line_is_heard_while_the_agent_runs(tmp_path: Path) -> None:
    watcher, played = run(WAITS, tmp_path)
    assert played.result.error is not None
    assert played.result.error.kind == "unavailable"
    assert watcher.errors[:2] == [b"first [redacted]", b"second"]
    assert len(watcher.errors[2]) < 100_000, "a line that is too long is cut"
    assert watcher.errors[3:] == [b"STOP", b"no newline"]


def test_what_was_said_last_is_heard_too_and_a_mistake_is_kept(tmp_path: Path) -> None:
    watcher, played = run(ENDS, tmp_path)
    assert watcher.errors == [b"one", b"two"]
    assert watcher.out == [b"out"]
    assert played.result.error is not None
    assert played.result.error.stderr_tail == "one\ntwo"


def test_unwatched_it_is_only_kept(tmp_path: Path) -> None:
    watcher, _ = run(ENDS, tmp_path, watch=False)
    assert watcher.errors == []
    assert watcher.out == [b"out"]
