"""Holding a process that must outlive us: files and a FIFO instead of pipes.

The agent runs under a tiny shell of its own session, in a folder that holds all there is:

    input      every byte the agent was ever given, append-only; what stands here is sent
    stdin      the FIFO that is the agent's stdin; a pump copies `input` into it
    bell       a FIFO that wakes the pump when `input` has grown
    journal    the agent's stdout, append-only, written by the agent itself: the source of truth
    errors     its stderr
    pid        its process id
    exit       how it ended, written by the shell (or by a driver that finds it gone: "lost")
    closed     there when nothing will follow what `input` held at the start

No byte passes through us, so killing us loses none. Since input is a file and not only a FIFO, a
new driver sees to the byte what was sent, even when the old one died in the middle of a message.
The shell traps signals rather than ignoring them: an agent would inherit the ignoring.
"""

import contextlib
import os
import subprocess
import time

from bridle.core.errors import STDERR_TAIL, WrongUse
from bridle.core.files import write_atomic
from bridle.core.redaction import Redactor
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
from bridle.process.starting import Uninterrupted, default_signals, leave_running, reap, start_error

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

The pump waits in a read: a `tail -f` for each session would use up the few watches that a system
has for a user, and from then on copy only once a second."""

_LOST = "lost"
_FAREWELL = 1.5
_START_GRACE = 10.0
"""Seconds for a holder to appear after its folder was made."""


class DetachedProcess(RunFiles):
    """One agent process in its folder, started now or long ago, by us or by somebody else.

    Contract: `start` once in its life; everything else works from any process of the same user at
    any time. Nothing here blocks for longer than a file operation takes.
    """

    # -- starting -------------------------------------------------------------------------------

    def start(self, spec: ProcessSpec, *, fed: bool = False) -> None:
        """Start the agent in this new folder; raises an `AgentError` that says why it could not.

        The environment must hold the session's mark. Its stdin stays open, and what it is given is
        written later. With `fed` it is given what a run would be: `spec.stdin`, and nothing after
        that unless its stdin is to be kept open.
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
            # Before there is a process: whoever starts it may be killed right after.
            self._append("input", spec.stdin)
        if fed and not spec.keep_stdin:
            write_atomic(self.path("closed"), "")
        try:
            _check_program(spec)
        except (OSError, ValueError) as problem:
            raise start_error(spec, problem) from None
        self._start_shell(_HOLDER, "bridle-holder", spec, *spec.argv)

    def _start_shell(self, script: str, name: str, spec: ProcessSpec, *words: str) -> None:
        """Start the shell that holds what runs in this folder; it outlives us."""
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

    def write(self, data: bytes) -> None:
        """See `RunFiles.write`; the pump is woken."""
        super().write(data)
        self._ring(b"\n")

    def take_up(self) -> None:
        """Wake the pump: the one before may have been killed between writing and waking it."""
        if read_word(self.path("exit")) is None:
            with contextlib.suppress(HoldingFailed):
                self._ring(b"\n")

    def close_input(self) -> None:
        """Close the agent's stdin, once all that was written is in it: the pump leaves, and the
        FIFO has no writer any more."""
        self._ring(b"end\n")

    def _ring(self, word: bytes) -> None:
        # The pump has the bell open, so it can be reached there when somebody removed its name.
        for path in (self.path("bell"), f"/proc/{read_number(self.path('pump'))}/fd/3"):
            try:
                # Opened for both, it neither waits for the pump nor fails when that is gone.
                handle = os.open(path, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
            except OSError:
                continue
            try:
                os.write(handle, word)
            except BlockingIOError:
                # So many calls wait already that one more changes nothing.
                return
            finally:
                os.close(handle)
            return
        raise HoldingFailed("the agent's input cannot be reached", hint=FILES_HINT)

    # -- how it is ------------------------------------------------------------------------------

    @property
    def pid(self) -> int | None:
        """The agent's process id, None before it is known."""
        return read_number(self.path("pid"))

    @property
    def holder(self) -> int | None:
        """The holder's process id while it lives."""
        return read_number(self.path("holder")) if self._holder_lives() else None

    def end_fd(self) -> int | None:
        """A descriptor that tells of the holder's end, which follows the agent's."""
        pid = read_number(self.path("holder"))
        handle = exit_fd(pid) if pid is not None else None
        # Looked at after it was opened: the number may have been given to a stranger before.
        if handle is not None and not self._holder_lives():
            os.close(handle)
            return None
        return handle

    def exit(self, redactor: Redactor | None = None) -> ProcessExit | None:
        """How the agent ended; None while it lives.

        A holder that was killed leaves no word: `code` is then None for good, whether the agent
        still runs or not, since nobody could learn of its end; `end_leftovers` ends it.
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
        """Send a signal to the agent, or with `to="group"` to it and all below it."""
        pid = self.pid
        if pid is None or not self._is_ours(pid):
            return
        below = descendants(pid) if to == "group" else []
        send_signal(pid, number)
        for process in below:
            send_signal(process.pid, number)

    def end_leftovers(self, session_id: str, also: tuple[Process, ...] = ()) -> list[int]:
        """End everything of the session that still runs, the holder too."""
        return end_marked(session_id, also=also, grace=_FAREWELL)

    # -- inside ---------------------------------------------------------------------------------

    def _holder_lives(self) -> bool:
        reap()
        pid = read_number(self.path("holder"))
        if pid is None:
            # It is started right now, or its starter died before it could be.
            return _age(self.path("stdin")) < _START_GRACE
        # The folder in its command tells it from a stranger that got its number since.
        return self.path("") in command_words(pid)

    def _is_ours(self, pid: int) -> bool:
        """Whether that number still is a child of our holder."""
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
    """Say what the shell could only say too late: no such folder or program."""
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
    # A shell tells a death by signal as 128 and more.
    return 128 - code if 128 < code <= 192 else code


def _age(path: str) -> float:
    """Seconds since a file was changed; for ever when it is not there."""
    try:
        return max(0.0, time.time() - os.lstat(path).st_mtime)
    except OSError:
        return float("inf")
