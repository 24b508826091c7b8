"""The process contract: what to start, how to stop it, how it ended."""

import signal
from typing import Literal

import msgspec


class StopStep(msgspec.Struct, frozen=True, kw_only=True):
    """One step of ending an agent: send a signal, then wait up to `grace` seconds."""

    signal: int
    grace: float
    to: Literal["process", "group"] = "process"


POLITE_STOP = (
    StopStep(signal=signal.SIGTERM, grace=3.0),
    StopStep(signal=signal.SIGKILL, grace=2.0, to="group"),
)
"""For an agent that cleans up on SIGTERM. After any sequence Bridle kills the process group and
every process that carries the session's mark in its environment."""


class ProcessSpec(msgspec.Struct, frozen=True, kw_only=True):
    """A process to start in its own session and process group."""

    argv: tuple[str, ...]
    env: dict[str, str]
    """The whole environment of the child; it must hold the session's mark (`SESSION_MARK`)."""
    cwd: str
    stdin: bytes | None = None
    """What to write to its stdin; None connects /dev/null."""
    keep_stdin: bool = False
    """Keep stdin open after `stdin` is written, for an agent that asks on its stdout. It is
    closed when the adapter sets `Recorder.input_done`, or when the agent is stopped."""
    watch_stderr: bool = False
    """Pass each line of stderr to the normalizer too (`StderrReader`), for an agent that reports
    some things only there."""
    stop: tuple[StopStep, ...] = POLITE_STOP


SESSION_MARK = "BRIDLE_SESSION_ID"
"""The environment variable that identifies the processes of a session. Tools run in their own
sessions and process groups, so leftover processes cannot be found by group or parent."""

MAX_LINE = 64 * 1024 * 1024
"""Longest line that Bridle accepts from an agent; a longer one is a `ProtocolDrift`."""


_COMPLAINT = 300
"""Characters of the last output that go into an error's message."""
_COMPLAINT_LINES = 3


class ProcessExit(msgspec.Struct, frozen=True, kw_only=True):
    """How a process ended."""

    code: int | None
    """Exit status; negative if a signal killed it; None if unknown."""
    stderr_tail: str = ""
    """The end of its stderr, or of its screen in a terminal, redacted."""
    stdout_tail: str = ""
    """The end of what it printed on stdout outside its protocol, redacted."""

    @property
    def last_words(self) -> str:
        """What it printed last for people: the end of its stderr, otherwise of its stdout."""
        return self.stderr_tail if self.stderr_tail.strip() else self.stdout_tail

    @property
    def complaint(self) -> str:
        """The part of its last output that most likely explains the failure, as one short line: the
        first line that mentions an error, otherwise the last lines; empty if there is no output."""
        output = f"{self.stderr_tail}\n{self.stdout_tail}"
        lines = [" ".join(line.split()) for line in output.splitlines()]
        lines = [line for line in lines if any(letter.isalpha() for letter in line)]
        errors = [line for line in lines if "error" in line.lower() or "failed" in line.lower()]
        return " / ".join(errors[:1] or lines[-_COMPLAINT_LINES:])[:_COMPLAINT]

    @property
    def signal_name(self) -> str | None:
        """Name of the signal that killed it; None if it exited by itself."""
        if self.code is None or self.code >= 0:
            return None
        try:
            return signal.Signals(-self.code).name
        except ValueError:
            return f"SIG{-self.code}"

    @property
    def words(self) -> str:
        """How it ended, as a phrase that follows the word `process`."""
        if self.code is None:
            return "is gone"
        return f"was killed by {self.signal_name}" if self.code < 0 else f"exited {self.code}"
