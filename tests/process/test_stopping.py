"""Ending a process: the sequence, from where it may be asked for, and that nothing survives it."""

import fcntl
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from bridle.process import attached
from bridle.process.attached import AttachedProcess
from bridle.process.process_tree import (
    _psutil_look,
    _psutil_marked,
    descendants,
    end_marked,
    marked_processes,
)
from bridle.process.spec import SESSION_MARK, StopStep
from tests.conftest import wait_until
from tests.process.children import (
    all_lines,
    is_gone,
    python_spec,
    sh_spec,
    wait_for,
)

NewMark = Callable[[], str]

TALLY = r"""
import os, signal, sys, time
def heard(number, frame):
    os.write(1, signal.Signals(number).name.encode() + b'\n')
    if signal.Signals(number).name == sys.argv[1]: os._exit(7)
for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP): signal.signal(number, heard)
os.write(1, b'ready\n')
while True: time.sleep(60)
"""

STEPS = (
    StopStep(signal=signal.SIGINT, grace=0.2),
    StopStep(signal=signal.SIGTERM, grace=0.2),
    StopStep(signal=signal.SIGHUP, grace=0.2, to="group"),
)


@pytest.mark.parametrize(
    ("ends_at", "heard", "code"),
    [
        ("SIGINT", [b"SIGINT"], 7),
        ("SIGTERM", [b"SIGINT", b"SIGTERM"], 7),
        ("SIGHUP", [b"SIGINT", b"SIGTERM", b"SIGHUP"], 7),
        ("never", [b"SIGINT", b"SIGTERM", b"SIGHUP"], -9),
    ],
)
def test_steps_come_in_order_and_only_as_far_as_needed(
    ends_at: str, heard: list[bytes], code: int, no_leftovers: NewMark
) -> None:
    process = AttachedProcess(python_spec(TALLY, no_leftovers(), ends_at, stop=STEPS))
    process.start()
    wait_for(process, b"ready")
    process.request_stop()
    assert all_lines(process) == heard
    process.close()
    assert process.exit is not None
    assert process.exit.code == code


def test_now_skips_the_steps(no_leftovers: NewMark) -> None:
    process = AttachedProcess(python_spec(TALLY, no_leftovers(), "never", stop=STEPS))
    process.start()
    wait_for(process, b"ready")
    process.request_stop(now=True)
    assert all_lines(process) == []
    assert process.exit is not None
    assert process.exit.code == -9
    process.close()


def test_a_stop_that_was_asked_for_before_the_start(no_leftovers: NewMark) -> None:
    process = AttachedProcess(sh_spec("sleep 60", no_leftovers()))
    process.request_stop()
    process.start()
    assert all_lines(process) == []
    process.close()


def test_a_stop_asked_for_by_another_thread(no_leftovers: NewMark) -> None:
    process = AttachedProcess(sh_spec("echo up; exec sleep 60", no_leftovers()))
    process.start()
    wait_for(process, b"up")
    threads = [threading.Thread(target=process.request_stop) for _ in range(4)]
    for thread in threads:
        thread.start()
    assert all_lines(process) == []
    for thread in threads:
        thread.join()
    process.close()
    assert process.exit is not None
    assert process.exit.signal_name == "SIGTERM"


def test_a_stop_asked_for_by_a_signal_handler(no_leftovers: NewMark) -> None:
    process = AttachedProcess(sh_spec("echo up; exec sleep 60", no_leftovers()))
    process.start()
    wait_for(process, b"up")
    old = signal.signal(signal.SIGUSR1, lambda *_: process.request_stop())
    timer = threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGUSR1))
    timer.start()
    try:
        assert all_lines(process) == []
    finally:
        timer.join()
        signal.signal(signal.SIGUSR1, old)
        process.close()


def test_asking_often_never_blocks(no_leftovers: NewMark) -> None:
    process = AttachedProcess(sh_spec("exec sleep 60", no_leftovers()))
    process.start()
    for _ in range(100_000):
        process.request_stop()
    assert all_lines(process) == []
    process.close()


# -- who must not survive -------------------------------------------------------------------------

# Whoever is left holds the lock: a witness that does not depend on how Bridle looks for processes.
FORK = """
import fcntl, os, signal, sys, time
lock = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT)
os.set_inheritable(lock, True)
fcntl.flock(lock, fcntl.LOCK_EX)
"""
STUBBORN = "for n in (1,2,3,15): signal.signal(n, signal.SIG_IGN)\n"

FAMILIES = {
    "own session": FORK
    + "if not os.fork(): os.setsid(); print(os.getpid(),flush=True); time.sleep(99)",
    "double fork": FORK
    + "if not os.fork():\n os.setsid()\n if os.fork(): os._exit(0)\n"
    + " print(os.getpid(),flush=True); time.sleep(99)",
    "ignores TERM": FORK + STUBBORN + "print(os.getpid(),flush=True)",
    "grandchild ignores TERM": FORK
    + "if not os.fork():\n os.setsid()\n "
    + STUBBORN
    + " print(os.getpid(),flush=True); time.sleep(99)",
    "no environment": FORK
    + "if not os.fork():\n os.setsid(); print(os.getpid(),flush=True)\n"
    + " os.execve('/bin/sleep',['sleep','99'],{})",
    "keeps forking": FORK
    + "if not os.fork():\n os.setsid(); print(os.getpid(),flush=True)\n"
    + " for _ in range(5000):\n"
    + "  if os.fork(): time.sleep(0.002)\n  else: time.sleep(0.5); os._exit(0)",
    "hops from fork to fork": FORK
    + "if not os.fork():\n os.setsid(); print(os.getpid(),flush=True)\n"
    + " for _ in range(500):\n  if os.fork(): os._exit(0)\n  time.sleep(0.02)",
}


def lock_is_free(path: Path) -> bool:
    with path.open("r+") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
    return True


@pytest.mark.parametrize("way", ["stop", "now", "close"])
@pytest.mark.parametrize("family", FAMILIES)
def test_nothing_survives(family: str, way: str, no_leftovers: NewMark, tmp_path: Path) -> None:
    mark, lock = no_leftovers(), tmp_path / "lock"
    code = FAMILIES[family] + "\nwhile True: time.sleep(99)"
    stop = (StopStep(signal=signal.SIGTERM, grace=0.5),)
    process = AttachedProcess(python_spec(code, mark, str(lock), stop=stop))
    process.start()
    pids: list[int] = []
    while not pids:
        pids += [int(line) for line in process.next_lines(time.monotonic() + 20) or []]
    assert not lock_is_free(lock)
    if way != "close":
        process.request_stop(now=way == "now")
        all_lines(process)
    process.close()
    wait_until(lambda: lock_is_free(lock), seconds=4.0)
    assert process.exit is not None
    assert process.exit.code is not None
    assert all(is_gone(pid) for pid in pids)
    assert marked_processes(mark) == []


def test_an_agent_that_ends_leaves_nothing_either(no_leftovers: NewMark, tmp_path: Path) -> None:
    mark = no_leftovers()
    script = "setsid sh -c 'echo $$ > pid; exec sleep 99' >/dev/null 2>&1 & "
    script += "while [ ! -s pid ]; do sleep 0.01; done; echo done"
    process = AttachedProcess(sh_spec(script, mark, cwd=tmp_path))
    process.start()
    assert all_lines(process) == [b"done"]
    process.close()
    assert is_gone(int((tmp_path / "pid").read_text()))


def test_a_child_that_holds_stdout_does_not_hold_us(no_leftovers: NewMark) -> None:
    script = "setsid sh -c 'echo $$; while :; do echo more; sleep 0.05; done' & sleep 0.3; exit 5"
    process = AttachedProcess(sh_spec(script, no_leftovers()))
    process.start()
    lines = all_lines(process, seconds=20)
    process.close()
    assert process.exit is not None
    assert process.exit.code == 5
    assert is_gone(int(lines[0]))


def test_an_agent_that_closes_stdout_and_stays_is_stopped(
    no_leftovers: NewMark, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(attached, "_CLOSED_GRACE", 0.2)
    process = AttachedProcess(sh_spec("echo bye; exec >&-; exec sleep 99", no_leftovers()))
    process.start()
    assert all_lines(process) == [b"bye"]
    process.close()
    assert process.exit is not None
    assert process.exit.signal_name == "SIGTERM"


NESTED = """
import os, signal, subprocess, sys, time
env = {'BRIDLE_SESSION_ID': 'another', 'PATH': os.environ['PATH']}
inner = subprocess.Popen(['sleep', '99'], env=env, start_new_session=True)
def end(*_):
    inner.kill(); inner.wait(); open(sys.argv[1], 'w').write('clean'); os._exit(0)
signal.signal(signal.SIGTERM, end)
print(inner.pid, flush=True)
while True: time.sleep(60)
"""


@pytest.mark.parametrize("ended", ["by itself", "stopped", "stubborn"])
def test_a_nested_holder_can_end_its_own_agents(
    ended: str, no_leftovers: NewMark, tmp_path: Path
) -> None:
    """What an agent started hears SIGTERM before it is killed, however the agent itself ends."""
    sign = tmp_path / "sign"
    nested = tmp_path / "nested.py"
    nested.write_text(NESTED)
    start = f"{sys.executable} -I -S {nested} {sign}"
    script = {
        "by itself": f"{start} & sleep 0.5; exit 0",
        "stopped": f"{start} & echo up; wait",
        "stubborn": f"trap '' TERM; {start} & while :; do sleep 1; done",
    }[ended]
    stop = (StopStep(signal=15, grace=0.3), StopStep(signal=9, grace=5.0, to="group"))
    process = AttachedProcess(sh_spec(script, no_leftovers(), stop=stop))
    process.start()
    lines: list[bytes] = []
    while not any(line.isdigit() for line in lines):
        lines += process.next_lines(time.monotonic() + 20) or []
    if ended != "by itself":
        process.request_stop()
    all_lines(process)
    process.close()
    assert sign.read_text() == "clean"
    assert is_gone(next(int(line) for line in lines if line.isdigit()))


# -- interrupts -----------------------------------------------------------------------------------

HOST = """
import os, sys, signal, threading, time
sys.path[:0] = sys.argv[4:]
from bridle.process.attached import AttachedProcess
from bridle.process.spec import ProcessSpec, SESSION_MARK
spec = ProcessSpec(argv=('/bin/sh', '-c', 'setsid sleep 99 & echo up; exec sleep 99'),
                   env={SESSION_MARK: sys.argv[1], 'PATH': '/usr/bin:/bin'}, cwd='/')
delay = float(sys.argv[2])
def interrupt():
    time.sleep(delay)
    os.kill(os.getpid(), signal.SIGINT)
threading.Thread(target=interrupt, daemon=True).start()
how = sys.argv[3]
process = AttachedProcess(spec)
def play():
    try:
        process.start()
        while process.next_lines() is not None: pass
    finally:
        process.close()
if how == 'closed': play()
else:
    process.start()
    while process.next_lines() is not None: pass
"""


@pytest.mark.parametrize("how", ["closed", "left to the end of the program"])
@pytest.mark.parametrize("delay", [0.0, 0.002, 0.004, 0.006, 0.01, 0.3])
def test_an_interrupt_at_any_moment_leaves_nothing(
    delay: float, how: str, no_leftovers: NewMark
) -> None:
    mark = no_leftovers()
    done = subprocess.run(
        [sys.executable, "-I", "-c", HOST, mark, str(delay), how, *sys.path],
        capture_output=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == -signal.SIGINT
    assert b"KeyboardInterrupt" in done.stderr
    wait_until(lambda: marked_processes(mark) == [], seconds=0.1)


def test_a_second_interrupt_while_closing_kills_at_once(no_leftovers: NewMark) -> None:
    stop = (StopStep(signal=signal.SIGTERM, grace=60.0),)
    process = AttachedProcess(python_spec(TALLY, no_leftovers(), "never", stop=stop))
    process.start()
    wait_for(process, b"ready")
    timer = threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT))
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        process.close()
    timer.join()
    assert process.exit is not None
    assert process.exit.code == -9


# -- looking at processes -------------------------------------------------------------------------


def test_both_ways_to_look_agree(no_leftovers: NewMark) -> None:
    mark = no_leftovers()
    process = AttachedProcess(sh_spec("setsid sleep 99 & echo up; wait", mark))
    process.start()
    wait_for(process, b"up")
    wait_until(lambda: len(marked_processes(mark)) == 2)
    found = marked_processes(mark)
    assert sorted(found) == sorted(_psutil_marked(mark))
    assert process.pid is not None
    below = descendants(process.pid)
    assert {process.pid, *(each.pid for each in below)} == set(found)
    for each in below:
        other = _psutil_look(each.pid)
        assert other is not None
        assert (other.pid, other.parent, other.group) == (each.pid, each.parent, each.group)
    process.close()
    assert _psutil_marked(mark) == []


def test_no_mark_means_nobody() -> None:
    with subprocess.Popen(["sleep", "99"], env={SESSION_MARK: ""}) as other:
        try:
            assert marked_processes("") == []
            assert end_marked("") == []
            assert other.poll() is None
        finally:
            other.kill()
