"""Holding a process: what goes in, what comes out, how much memory and time that takes."""

import hashlib
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from bridle.core.errors import AgentError, Crashed, NotInstalled, ProtocolDrift
from bridle.core.redaction import REDACTED, Redactor
from bridle.process import attached
from bridle.process.attached import AttachedProcess
from bridle.process.spec import SESSION_MARK, ProcessSpec
from tests.process.children import (
    all_lines,
    children_of_ours,
    memory_peak,
    open_fds,
    python_spec,
    reset_memory_peak,
    sh_spec,
    wait_for,
)

MIB = 1 << 20
NewMark = Callable[[], str]


@contextmanager
def held(spec: ProcessSpec, redactor: Redactor | None = None) -> Iterator[AttachedProcess]:
    process = AttachedProcess(spec, redactor)
    try:
        process.start()
        yield process
    finally:
        process.close()


def said(spec: ProcessSpec) -> list[bytes]:
    with held(spec) as process:
        return all_lines(process)


def test_it_has_a_session_and_group_of_its_own(no_leftovers: NewMark) -> None:
    code = "import os; print(os.getpid(), os.getsid(0), os.getpgrp())"
    with held(python_spec(code, no_leftovers())) as process:
        pid, session, group = all_lines(process)[0].split()
        assert pid == session == group == str(process.pid).encode()
        assert process.exit is not None
        assert process.exit.code == 0


# -- stdin ----------------------------------------------------------------------------------------


def test_no_input_is_an_empty_one(no_leftovers: NewMark) -> None:
    assert said(sh_spec("wc -c", no_leftovers())) == [b"0"]
    assert said(sh_spec("wc -c", no_leftovers(), stdin=b"")) == [b"0"]


def test_a_hundred_megabytes_of_input_arrive(no_leftovers: NewMark) -> None:
    data = os.urandom(MIB) * 100
    code = (
        "import sys,hashlib\n"
        "d=hashlib.sha256()\n"
        "while b:=sys.stdin.buffer.read(1<<20): d.update(b)\n"
        "print(d.hexdigest())"
    )
    assert said(python_spec(code, no_leftovers(), stdin=data)) == [
        hashlib.sha256(data).hexdigest().encode()
    ]


def test_input_that_is_never_read_does_not_block(no_leftovers: NewMark) -> None:
    spec = sh_spec("echo hello; sleep 0.2; echo bye", no_leftovers(), stdin=b"x" * (100 * MIB))
    assert said(spec) == [b"hello", b"bye"]


def test_a_child_that_closes_its_input_goes_on(no_leftovers: NewMark) -> None:
    code = "import os,time\nos.read(0,10); os.close(0); print('closed', flush=True); print('on')"
    assert said(python_spec(code, no_leftovers(), stdin=b"x" * (5 * MIB))) == [b"closed", b"on"]


def test_input_kept_open_is_answered_and_closed(no_leftovers: NewMark) -> None:
    script = 'echo ask; read a; echo "got $a"; read b; echo "got $b"; read c || echo closed'
    with held(sh_spec(script, no_leftovers(), stdin=b"", keep_stdin=True)) as process:
        wait_for(process, b"ask")
        process.write(b"one\n")
        wait_for(process, b"got one")
        process.write(b"two\n")
        process.close_input()
        assert all_lines(process) == [b"got two", b"closed"]
        process.write(b"too late\n")


# -- stdout ---------------------------------------------------------------------------------------


def test_lines_end_at_newlines_alone(no_leftovers: NewMark) -> None:
    odd = "a\u2028b\u0085c".encode() + b"\r\x0b\x0c\x1c\0 \xff\xfe"
    code = f"import sys; sys.stdout.buffer.write({odd!r} + b'\\n\\n' + b'x\\r\\n' + b'last')"
    assert said(python_spec(code, no_leftovers())) == [odd, b"", b"x\r", b"last"]


@pytest.mark.parametrize("size", [10 * MIB, 40 * MIB])
def test_a_long_line_arrives_whole(size: int, no_leftovers: NewMark) -> None:
    code = f"import sys\nsys.stdout.buffer.write(b'first\\n' + b'y'*{size} + b'\\nafter\\n')"
    reset_memory_peak()
    before = memory_peak()
    first, long, after = said(python_spec(code, no_leftovers()))
    assert (first, len(long), long.strip(b"y"), after) == (b"first", size, b"", b"after")
    assert memory_peak() - before < 3 * size


def test_a_line_over_the_limit_is_a_typed_failure(
    no_leftovers: NewMark, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(attached, "MAX_LINE", 4 * MIB)
    code = (
        "import sys\n"
        "sys.stdout.buffer.write(b'fine\\n'); sys.stdout.flush()\n"
        "while True: sys.stdout.buffer.write(b'z' * 65536)"
    )
    reset_memory_peak()
    before = memory_peak()
    with held(python_spec(code, no_leftovers())) as process:
        assert all_lines(process) == [b"fine"]
        assert isinstance(process.failure, ProtocolDrift)
        assert process.exit is not None
        assert process.exit.signal_name == "SIGTERM"
    assert memory_peak() - before < 24 * MIB


def test_the_limit_counts_the_line_alone(
    no_leftovers: NewMark, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(attached, "MAX_LINE", 100_000)
    exact = "import sys; sys.stdout.buffer.write(b'z' * 100000 + b'\\nnext\\n')"
    assert [len(line) for line in said(python_spec(exact, no_leftovers()))] == [100_000, 4]
    over = "import sys; sys.stdout.buffer.write(b'z' * 100001 + b'\\nnext\\n')"
    with held(python_spec(over, no_leftovers())) as process:
        assert all_lines(process) == []
        assert isinstance(process.failure, ProtocolDrift)


def test_a_death_in_the_middle_of_a_line_keeps_what_was_said(no_leftovers: NewMark) -> None:
    script = "printf 'whole\\nhalf a li'; kill -9 $$"
    with held(sh_spec(script, no_leftovers())) as process:
        assert all_lines(process) == [b"whole", b"half a li"]
        assert process.exit is not None
        assert (process.exit.code, process.exit.signal_name) == (-9, "SIGKILL")


def test_a_reader_that_comes_late_gets_everything(
    no_leftovers: NewMark, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The child is gone and the time for its last words over, with a full pipe still to be read.
    monkeypatch.setattr(attached, "_DRAIN_GRACE", 0.0)
    monkeypatch.setattr(attached, "_CHUNK", 512)
    code = "import sys\nfor n in range(20000): sys.stdout.write(f'{n}\\n')"
    with held(python_spec(code, no_leftovers())) as process:
        assert [int(line) for line in all_lines(process)] == list(range(20000))


def test_a_slow_reader_slows_the_child_instead_of_filling_memory(
    no_leftovers: NewMark, tmp_path: Path
) -> None:
    count = tmp_path / "count"
    code = (
        "import os,sys\n"
        "block = b'w' * 1023 + b'\\n'\n"
        "f = os.open(sys.argv[1], os.O_CREAT | os.O_RDWR)\n"
        "for n in range(100 * 1024):\n"
        "    os.write(1, block); os.pwrite(f, str(n).encode(), 0)\n"
    )
    with held(python_spec(code, no_leftovers(), str(count))) as process:
        taken = 0
        reset_memory_peak()
        before = memory_peak()
        for _ in range(20):
            lines = process.next_lines(time.monotonic() + 20)
            assert lines
            taken += len(lines)
            written = int(count.read_text() or "0")
            # What the child got rid of is at most what was taken and what a pipe and a chunk hold.
            assert written <= taken + 256
        assert memory_peak() - before < 8 * MIB
        process.request_stop(now=True)


# -- stderr ---------------------------------------------------------------------------------------


def test_a_flood_on_stderr_is_drained_and_its_end_kept(no_leftovers: NewMark) -> None:
    code = (
        "import sys\n"
        "for _ in range(100): sys.stderr.write('e' * (1<<20))\n"
        "sys.stderr.write('the key is sk-secret-12345678 and the end')\n"
        "print('done')"
    )
    reset_memory_peak()
    before = memory_peak()
    redactor = Redactor(["sk-secret-12345678"])
    with held(python_spec(code, no_leftovers()), redactor) as process:
        assert all_lines(process) == [b"done"]
        assert process.exit is not None
        tail = process.exit.stderr_tail
    assert tail.endswith(f"eethe key is {REDACTED} and the end")
    assert len(tail) == 4096
    assert memory_peak() - before < 16 * MIB


# -- starting -------------------------------------------------------------------------------------


def start_failure(spec: ProcessSpec) -> AgentError:
    before = open_fds()
    process = AttachedProcess(spec)
    with pytest.raises(AgentError) as caught:
        process.start()
    process.close()
    assert process.next_lines() is None
    assert open_fds() == before
    return caught.value


def test_why_it_could_not_be_started(tmp_path: Path, no_leftovers: NewMark) -> None:
    def spec(*argv: str, cwd: Path = tmp_path, **env: str) -> ProcessSpec:
        return ProcessSpec(
            argv=argv, env={SESSION_MARK: no_leftovers(), "PATH": "/bin", **env}, cwd=str(cwd)
        )

    plain = tmp_path / "plain"
    plain.write_text("#!/bin/sh\necho never\n")
    orphan = tmp_path / "orphan"
    orphan.write_text("#!/no/such/interpreter\n")
    orphan.chmod(0o755)
    empty = tmp_path / "noformat"
    empty.write_bytes(b"\x7fnot a program")
    empty.chmod(0o755)

    missing = start_failure(spec("/no/such/program"))
    assert isinstance(missing, NotInstalled)
    assert "/no/such/program" in missing.message
    assert isinstance(start_failure(spec(str(plain))), NotInstalled)
    assert "interpreter" in start_failure(spec(str(orphan))).message
    assert isinstance(start_failure(spec(str(empty))), NotInstalled)
    gone = start_failure(spec("/bin/sh", cwd=tmp_path / "gone"))
    assert isinstance(gone, Crashed)
    assert "working directory" in gone.message
    long = start_failure(spec("/bin/sh", "-c", "x" * (1 << 21)))
    assert isinstance(long, Crashed)
    assert "too long" in long.message
    assert isinstance(start_failure(spec("/bin/sh", "nul\0byte")), Crashed)
    assert isinstance(start_failure(spec("/bin/sh", "\udcff\ud800")), Crashed)


# -- what is left ---------------------------------------------------------------------------------


def test_many_runs_leak_no_descriptor_and_no_zombie(no_leftovers: NewMark) -> None:
    said(sh_spec("echo warm", no_leftovers()))
    before, others = open_fds(), set(children_of_ours())
    for number in range(40):
        with held(sh_spec("echo out; echo err >&2", no_leftovers(), stdin=b"x")) as process:
            if number % 4:
                all_lines(process)
    unused = [AttachedProcess(sh_spec("true", "unused")) for _ in range(20)]
    assert open_fds() == before
    assert set(children_of_ours()) == others
    for process in unused:
        process.close()


def test_closing_twice_and_in_any_state(no_leftovers: NewMark) -> None:
    never = AttachedProcess(sh_spec("true", no_leftovers()))
    never.request_stop()
    never.close()
    never.close()
    never.request_stop(now=True)
    process = AttachedProcess(sh_spec("echo hi; exec sleep 60", no_leftovers()))
    process.start()
    wait_for(process, b"hi")
    process.close()
    process.close()
    process.request_stop()
    assert process.exit is not None
    assert process.exit.signal_name == "SIGTERM"
    assert process.next_lines() is None


def test_waiting_costs_no_time_and_the_end_is_noticed_at_once(
    no_leftovers: NewMark, monkeypatch: pytest.MonkeyPatch
) -> None:
    with held(sh_spec("echo go; exec sleep 2", no_leftovers())) as process:
        wait_for(process, b"go")
        assert process._exit_fd is not None
        used = time.process_time()
        selects = 0
        assert process._selector is not None
        select = process._selector.select

        def counted(timeout: float | None = None) -> object:
            nonlocal selects
            selects += 1
            return select(timeout)

        monkeypatch.setattr(process._selector, "select", counted)
        all_lines(process)
        # Woken by the end of stdout and of the process, not by a clock.
        assert selects <= 3
        assert time.process_time() - used < 0.2


def test_without_a_descriptor_for_the_end_it_is_found_by_looking(
    no_leftovers: NewMark, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(attached, "exit_fd", lambda pid: None)
    monkeypatch.setattr(attached, "has_ended", lambda pid: None)
    with held(sh_spec("echo a; sleep 0.1; echo b; exit 3", no_leftovers())) as process:
        assert all_lines(process) == [b"a", b"b"]
        assert process.exit is not None
        assert process.exit.code == 3
