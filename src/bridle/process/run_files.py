"""The files of one agent process: what it said and what it was told, whoever holds it."""

import os

from bridle.core.errors import Crashed

_CHUNK = 1 << 20
FILES_HINT = "resume the session; what the agent said before is in its own transcript"


class HoldingFailed(Crashed):
    """The folder that holds an agent was changed under us: a file is gone or cannot be written."""


class RunFiles:
    """`journal` and `input` of one process, in a folder of their own.

    Contract: works from any process of the same user at any time; nothing blocks for longer than a
    file operation takes. Whoever drives the session calls `take_up` first, then `work` before each
    look at the journal; a process whose journal fills itself has nothing to do in either.
    """

    comes_and_goes = False
    """Whether the agent's process may be gone while the session lives."""

    def __init__(self, folder: str, prefix: str = "") -> None:
        """With a `prefix`, which the names of its files begin with, a folder holds several."""
        self.folder = os.path.realpath(folder)
        self._prefix = prefix
        self.expects = False
        """Set by the driver while a turn is open or a message is on its way."""
        self.stopping = False
        """Set by the driver while the agent is to end."""
        self.native_id: str | None = None
        """Set by the driver: the conversation that the agent is in."""
        self.settled_number = 0
        """Set by the driver of an agent with many processes; see `TurnByTurn`."""
        self._journal = self.path("journal")
        self._journal_at = 0
        self._partial = bytearray()

    def make(self) -> None:
        """Make the folder and the files, private; they must not be there yet."""
        os.makedirs(self.folder, mode=0o700, exist_ok=bool(self._prefix))
        for name in ("input", "journal", "errors"):
            os.close(os.open(self.path(name), os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))

    def path(self, name: str) -> str:
        """A file of this process."""
        return os.path.join(self.folder, self._prefix + name)

    def take_up(self) -> None:
        """Go on where the driver before was, once, before the journal is read."""

    def work(self) -> float | None:
        """Do what is due; returns when to come again (monotonic), None when only a change of the
        folder calls for it."""
        return None

    def end_fd(self) -> int | None:
        """A new descriptor that becomes readable when the agent or what holds it has ended; None
        when there is no such thing, and only a look from time to time tells. The caller closes
        it."""
        return None

    @property
    def takes_messages(self) -> bool:
        """Whether a message can be given to the agent now."""
        return True

    def delivered(self, message_id: str) -> None:
        """The agent has a message: nothing more is to be done for it."""

    # -- what the agent says --------------------------------------------------------------------

    def read_lines(self, most: int = _CHUNK) -> list[bytes]:
        """The next whole lines of the journal, up to about `most` bytes of them; [] when none was
        finished since. Raises `HoldingFailed` when the journal is gone or shorter than it was."""
        try:
            handle = os.open(self._journal, os.O_RDONLY | os.O_CLOEXEC)
            try:
                if os.fstat(handle).st_size < self._journal_at:
                    raise HoldingFailed("the journal was cut short", hint=FILES_HINT)
                data = b""
                while b"\n" not in data:
                    # A line may be longer than what is read at once.
                    self._partial += data
                    data = os.pread(handle, most, self._journal_at)
                    self._journal_at += len(data)
                    if not data:
                        return []
            finally:
                os.close(handle)
        except OSError as problem:
            raise HoldingFailed(
                f"the journal cannot be read: {problem.strerror}", hint=FILES_HINT
            ) from None
        first, *rest = data.split(b"\n")
        lines = [bytes(self._partial) + first, *rest]
        self._partial = bytearray(lines.pop())
        return lines

    def last_words(self) -> bytes:
        """The line that the agent did not finish; to be taken once it is gone."""
        words, self._partial = bytes(self._partial), bytearray()
        return words

    @property
    def journal_size(self) -> int:
        """Bytes of the journal that were read."""
        return self._journal_at

    # -- what it is told ------------------------------------------------------------------------

    def input_size(self) -> int:
        """How many bytes the agent was given so far."""
        try:
            return os.stat(self.path("input")).st_size
        except OSError as problem:
            raise HoldingFailed(
                f"the input file is gone: {problem.strerror}", hint=FILES_HINT
            ) from None

    def write(self, data: bytes) -> None:
        """Give the agent bytes; they are sent when this returns, whatever happens to us.

        On a full disk what could be written stays and `HoldingFailed` is raised; the caller sees by
        `input_size` how much that was.
        """
        try:
            self._append("input", data)
        except OSError as problem:
            raise HoldingFailed(
                f"the agent's input cannot be written: {problem.strerror}",
                hint="free some disk space; the session goes on by itself",
            ) from None

    def _append(self, name: str, data: bytes) -> None:
        handle = os.open(self.path(name), os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC)
        try:
            view = memoryview(data)
            while view:
                view = view[os.write(handle, view) :]
        finally:
            os.close(handle)


def read_word(path: str) -> str | None:
    """What stands in a small file, None when it is not there or empty."""
    try:
        with open(path, encoding="ascii") as file:
            return file.read().strip() or None
    except (OSError, UnicodeDecodeError):
        return None


def read_number(path: str) -> int | None:
    """The number that stands in a small file."""
    word = read_word(path)
    return int(word) if word and word.isdigit() else None
