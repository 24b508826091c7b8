"""Holds a process that must outlive Bridle: files and a FIFO instead of pipes.

The agent runs under a small shell (the holder) in a separate session, with a folder that contains
everything:

    input      every byte that the agent received, append-only; what is in here is sent
    stdin      the FIFO that is the agent's stdin; a pump copies `input` into it
    bell       a FIFO that wakes the pump when `input` has grown
    journal    the agent's stdout, append-only, written by the agent itself: the source of truth
    errors     its stderr
    pid        its process id
    exit       how it ended, written by the shell (or by a driver that finds it missing: "lost")
    closed     exists if nothing follows what `input` contained at the start

No byte passes through Bridle, so killing Bridle loses none. The input is a file and not only a
FIFO, so a new driver knows exactly which bytes were sent, even if the previous one died in the
middle of a message. The shell traps signals instead of ignoring them: an agent would inherit
ignored signals.
"""

import contextlib
import os
import subprocess
import time

from bridle.core.errors import STDERR_TAIL, WrongUse
from bridle.core.files import write_atomic
from bridle.core.redaction import Redactor
from bridle.process.launch import Uninterrupted, default_signals, leave_running, reap, start_error
from bridle.process.process_tree import (
    Process,
    command_words,
    descendants,
    end_marked,
    exit_fd,
    look,
    send_signal,
)
from bridle.process.run_files import (
    FILES_HINT,
    HoldingFailed,
    RunFiles,
    read_number,
    read_word,
)
from bridle.process.spec import SESSION_MARK, ProcessExit, ProcessSpec

_HOLDER = """
d=$1; shift
umask 077
trap : HUP INT TERM QUIT
echo $$ >"${d}holder.new"
mv "${d}holder.new" "${d}holder"
(
  exec 3<>"${d}bell" 4<"${d}input"
  cat <&4
  test -e "${d}closed" && exit
  while read -r word <&3; do
    cat <&4
    test "$word" = end && exit
  done
) >"${d}stdin" 2>/dev/null </dev/null &
pump=$!
echo $pump >"${d}pump"
sh -c 'd=$1; shift; echo $$ >"${d}pid.new"; mv "${d}pid.new" "${d}pid"; exec "$@"' agent "$d" "$@" \
  <"${d}stdin" >>"${d}journal" 2>>"${d}errors"
code=$?
echo $code >"${d}exit.new"
mv "${d}exit.new" "${d}exit"
kill $pump 2>/dev/null
"""
"""The agent is a foreground child: a background one would start with SIGINT ignored.

The pump waits in a read: a `tail -f` per session would use up the user's inotify watches, and then
copy only once a second."""

_LOST = "lost"
_FAREWELL = 1.5
_START_GRACE = 10.0
"""Seconds for a holder to appear after its folder was created."""


class DetachedProcess(RunFiles):
    """One agent process in its folder, started by this process or an earlier one.

    Contract: `start` is called once; everything else works from any process of the same user at any
    time. Nothing blocks longer than a file operation.
    """

    # -- starting -------------------------------------------------------------------------------

    def start(self, spec: ProcessSpec, *, fed: bool = False) -> None:
        """Start the agent in this new folder; raises an `AgentError` if that fails.

        The environment must contain the session's mark. The stdin stays open for later input. With
        `fed` the agent gets the input of a run: `spec.stdin`, and nothing more unless
        `spec.keep_stdin` is set.
        """
        if SESSION_MARK not in spec.env:
            raise WrongUse(f"the environment of a detached agent needs {SESSION_MARK}")
        self.make()
        os.mkfifo(self.path("bell"), 0o600)
        if fed and spec.stdin is None and not spec.keep_stdin:
            os.symlink(os.devnull, self.path("stdin"))
        else:
            os.mkfifo(self.path("stdin"), 0o600)
        if fed and spec.stdin:
            # Before the start: this process may be killed right after it.
            self._append("input", spec.stdin)
        if fed and not spec.keep_stdin:
            write_atomic(self.path("closed"), "")
        try:
            _check_program(spec)
        except (OSError, ValueError) as problem:
            raise start_error(spec, problem) from None
        self._start_shell(_HOLDER, "bridle-holder", spec, *spec.argv)

    def _start_shell(self, script: str, name: str, spec: ProcessSpec, *words: str) -> None:
        """Start the holder of this folder; it outlives this process."""
        with Uninterrupted():
            try:
                holder = subprocess.Popen(
                    ("/bin/sh", "-c", script, name, self.path(""), *words),
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                    cwd=spec.cwd,
                    env=spec.env,
                    start_new_session=True,
                    preexec_fn=default_signals(),
                )
            except (OSError, ValueError) as problem:
                raise start_error(spec, problem) from None
            leave_running(holder)

    def _announce(self) -> None:
        """Wake the pump."""
        self._ring(b"\n")

    def take_up(self) -> None:
        """Wake the pump: the previous driver may have been killed before it did."""
        if read_word(self.path("exit")) is None:
            with contextlib.suppress(HoldingFailed):
                self._announce()

    def close_input(self) -> None:
        """Close the agent's stdin after all input was copied: the pump exits, and the FIFO has no
        writer."""
        self._ring(b"end\n")

    def _ring(self, word: bytes) -> None:
        # The pump has the bell open, so it can be reached even if the file was removed.
        for path in (self.path("bell"), f"/proc/{read_number(self.path('pump'))}/fd/3"):
            try:
                # Opened for both directions, this neither waits for the pump nor fails without it.
                handle = os.open(path, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
            except OSError:
                continue
            try:
                os.write(handle, word)
            except BlockingIOError:
                # The FIFO is full of wake-ups: one more changes nothing.
                return
            finally:
                os.close(handle)
            return
        raise HoldingFailed("the agent's input cannot be reached", hint=FILES_HINT)

    # -- state ----------------------------------------------------------------------------------

    @property
    def pid(self) -> int | None:
        """The agent's process id; None while unknown."""
        return read_number(self.path("pid"))

    @property
    def holder(self) -> int | None:
        """The holder's process id; None if it has ended."""
        return read_number(self.path("holder")) if self._holder_lives() else None

    def end_fd(self) -> int | None:
        """A descriptor for the end of the holder, which follows the end of the agent."""
        pid = read_number(self.path("holder"))
        handle = exit_fd(pid) if pid is not None else None
        # Checked after opening: the process id may have been reused before.
        if handle is not None and not self._holder_lives():
            os.close(handle)
            return None
        return handle

    def exit(self, redactor: Redactor | None = None) -> ProcessExit | None:
        """How the agent ended; None while it runs.

        A killed holder leaves no exit status: `code` is then None for good, whether the agent still
        runs or not; `end_leftovers` ends it.
        """
        word = read_word(self.path("exit"))
        if word is None:
            if self._holder_lives():
                return None
            word = read_word(self.path("exit")) or self._declare_lost()
        tail = self._stderr_tail(redactor or Redactor())
        return ProcessExit(code=_exit_code(word), stderr_tail=tail)

    def _declare_lost(self) -> str:
        write_atomic(self.path("exit"), _LOST)
        return _LOST

    def signal(self, number: int, to: str = "process") -> None:
        """Send a signal to the agent, or with `to="group"` also to all its descendants."""
        pid = self.pid
        if pid is None or not self._is_ours(pid):
            return
        below = descendants(pid) if to == "group" else []
        send_signal(pid, number)
        for process in below:
            send_signal(process.pid, number)

    def end_leftovers(self, session_id: str, also: tuple[Process, ...] = ()) -> list[int]:
        """End all processes of the session that still run, including the holder."""
        return end_marked(session_id, also=also, grace=_FAREWELL)

    # -- helpers --------------------------------------------------------------------------------

    def _holder_lives(self) -> bool:
        reap()
        pid = read_number(self.path("holder"))
        if pid is None:
            # It is being started, or the driver died before starting it.
            return _age(self.path("stdin")) < _START_GRACE
        # The folder in its command distinguishes it from a process that reused its id.
        return self.path("") in command_words(pid)

    def _is_ours(self, pid: int) -> bool:
        """Whether this process id is still a child of the holder."""
        process = look(pid)
        holder = read_number(self.path("holder"))
        return process is not None and process.parent == holder and self._holder_lives()

    def _stderr_tail(self, redactor: Redactor) -> str:
        try:
            with open(self.path("errors"), "rb") as file:
                file.seek(max(0, os.fstat(file.fileno()).st_size - 4 * STDERR_TAIL))
                return redactor.text(file.read().decode(errors="replace"))[-STDERR_TAIL:]
        except OSError:
            return ""


def _check_program(spec: ProcessSpec) -> None:
    """Check for a missing folder or program, which the shell would report too late."""
    if not os.path.isdir(spec.cwd):
        raise FileNotFoundError(2, "no such directory", spec.cwd)
    program = spec.argv[0]
    if os.path.sep in program and not os.access(program, os.X_OK):
        code = 13 if os.path.exists(program) else 2
        raise OSError(code, os.strerror(code), program)


def _exit_code(word: str) -> int | None:
    if not word.isdigit():
        return None
    code = int(word)
    # A shell reports death by a signal as 128 plus its number.
    return 128 - code if 128 < code <= 192 else code


def _age(path: str) -> float:
    """Seconds since a file was changed; infinite if it does not exist."""
    try:
        return max(0.0, time.time() - os.lstat(path).st_mtime)
    except OSError:
        return float("inf")
