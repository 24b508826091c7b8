"""Handing the terminal over, under a real pseudo-terminal."""

import os
import pty
import select
import signal
import sys
import termios
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from bridle.process.process_tree import marked_processes
from tests.conftest import wait_until

HOST = """
import os, sys
sys.path[:0] = sys.argv[3:]
from bridle.process.terminal import run_at_terminal
from bridle.process.spec import SESSION_MARK, ProcessSpec
spec = ProcessSpec(argv=('/bin/sh', '-c', sys.argv[2]), cwd='/',
                   env={SESSION_MARK: sys.argv[1], 'PATH': '/usr/bin:/bin'})
try:
    code = run_at_terminal(spec)
except Exception as problem:
    print('raised', type(problem).__name__, flush=True)
    sys.exit(1)
print('host has', code, os.tcgetpgrp(0) == os.getpgrp(), flush=True)
line = input()
print('host read', line, flush=True)
"""


class Terminal:
    """A host program on a pseudo-terminal of its own, and the keyboard in front of it."""

    def __init__(self, mark: str, script: str) -> None:
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            os.execv(sys.executable, [sys.executable, "-I", "-c", HOST, mark, script, *sys.path])
        self.shown = b""

    def shows(self, text: bytes, *, seconds: float) -> bool:
        until = time.monotonic() + seconds
        while text not in self.shown:
            ready, _, _ = select.select([self.fd], [], [], max(0.0, until - time.monotonic()))
            if not ready:
                return False
            try:
                self.shown += os.read(self.fd, 4096)
            except OSError:
                break
        return text in self.shown

    def expect(self, text: bytes, *, seconds: float = 30.0) -> None:
        assert self.shows(text, seconds=seconds), f"no {text!r} in {self.shown!r}"

    def type(self, keys: bytes) -> None:
        os.write(self.fd, keys)

    def echoes(self) -> bool:
        return bool(termios.tcgetattr(self.fd)[3] & termios.ECHO)

    def status(self) -> int:
        until = time.monotonic() + 30
        while time.monotonic() < until:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                self.pid = 0
                return os.waitstatus_to_exitcode(status)
            time.sleep(0.01)
        raise AssertionError(f"the host did not end; it showed {self.shown!r}")

    def close(self) -> None:
        if self.pid:
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)
        os.close(self.fd)


@pytest.fixture
def open_terminal(no_leftovers: Callable[[], str]) -> Iterator[Callable[[str], Terminal]]:
    opened: list[Terminal] = []

    def open_one(script: str) -> Terminal:
        opened.append(Terminal(no_leftovers(), script))
        return opened[-1]

    yield open_one
    for terminal in opened:
        terminal.close()


Open = Callable[[str], Terminal]


def test_the_agent_has_the_terminal_and_gives_it_back(open_terminal: Open) -> None:
    terminal = open_terminal(
        "test -t 0 && test -t 1 && echo on a tty; read a; echo agent got $a; exit 4"
    )
    terminal.expect(b"on a tty")
    terminal.type(b"hello\n")
    terminal.expect(b"agent got hello")
    terminal.expect(b"host has 4 True")
    terminal.type(b"again\n")
    terminal.expect(b"host read again")
    assert terminal.status() == 0


def test_ctrl_c_goes_to_the_agent_and_not_to_us(open_terminal: Open) -> None:
    terminal = open_terminal(
        "trap 'n=1; echo caught' INT; echo up; while [ -z \"$n\" ]; do sleep 0.02; done; exit 0"
    )
    terminal.expect(b"up")
    terminal.type(b"\x03")
    terminal.expect(b"caught")
    terminal.expect(b"host has 0 True")
    # Afterwards it is ours again. Python can miss the first one, on its way into a read.
    for _ in range(20):
        terminal.type(b"\x03")
        if terminal.shows(b"KeyboardInterrupt", seconds=1.0):
            break
    terminal.expect(b"KeyboardInterrupt")
    assert terminal.status() == -signal.SIGINT


def test_an_agent_killed_by_ctrl_c(open_terminal: Open) -> None:
    terminal = open_terminal("echo up; exec sleep 99")
    terminal.expect(b"up")
    terminal.type(b"\x03")
    terminal.expect(b"host has -2 True")


def test_the_terminal_comes_back_in_its_old_mode(open_terminal: Open) -> None:
    terminal = open_terminal("stty raw -echo; echo up; read a; kill -9 $$")
    terminal.expect(b"up")
    assert not terminal.echoes()
    terminal.type(b"x\n")
    terminal.expect(b"host has -9 True")
    assert terminal.echoes()
    terminal.type(b"back\n")
    terminal.expect(b"host read back")


def test_an_agent_that_took_the_foreground_and_died(open_terminal: Open) -> None:
    script = (
        f"exec {sys.executable} -I -c 'import os,signal;"
        "signal.signal(signal.SIGTTOU, signal.SIG_IGN); os.setpgid(0,0);"
        'os.tcsetpgrp(0, os.getpgrp()); print("mine", flush=True); os._exit(9)\''
    )
    terminal = open_terminal(script)
    terminal.expect(b"mine")
    terminal.expect(b"host has 9 True")


def test_what_it_leaves_behind_is_ended(open_terminal: Open, tmp_path: Path) -> None:
    pid = tmp_path / "pid"
    terminal = open_terminal(
        f"setsid sh -c 'echo $$ > {pid}; exec sleep 99' & while [ ! -s {pid} ]; do sleep 0.01; done"
    )
    terminal.expect(b"host has 0 True")
    assert not Path(f"/proc/{pid.read_text().strip()}/fd").exists() or (
        b"Z" in Path(f"/proc/{pid.read_text().strip()}/stat").read_bytes()
    )


def test_a_terminating_signal_is_passed_on(
    open_terminal: Open, no_leftovers: Callable[[], str]
) -> None:
    terminal = open_terminal("trap 'echo told; exit 6' TERM; echo up; while :; do sleep 0.05; done")
    terminal.expect(b"up")
    os.kill(terminal.pid, signal.SIGTERM)
    terminal.expect(b"told")
    terminal.expect(b"host has 6 True")


def test_a_closed_terminal_ends_everything(no_leftovers: Callable[[], str]) -> None:
    mark = no_leftovers()
    terminal = Terminal(mark, "echo up; exec sleep 99")
    terminal.expect(b"up")
    os.close(terminal.fd)
    terminal.fd = os.open("/dev/null", os.O_RDONLY)
    wait_until(lambda: marked_processes(mark) == [])
    terminal.status()
    terminal.close()
