"""The files of one agent process: the journal of its output and the input it received."""

import os

from bridle.core.errors import Crashed

_CHUNK = 1 << 20
FILES_HINT = "resume the session; what the agent said before is in its own transcript"


class HoldingFailed(Crashed):
    """The folder of an agent was changed: a file is missing or cannot be written."""


class RunFiles:
    """`journal` and `input` of one process, in a private folder.

    Contract: works from any process of the same user at any time; nothing blocks longer than a file
    operation. The driver of a session calls `take_up` first, then `work` before each read of the
    journal; both have no effect for a process that writes its journal itself.
    """

    comes_and_goes = False
    """Whether the session may live while no agent process runs."""

    def __init__(self, folder: str, prefix: str = "") -> None:
        """`prefix` begins the file names, so that a folder can contain several processes."""
        self.folder = os.path.realpath(folder)
        self._prefix = prefix
        self.expects = False
        """Set by the driver while a turn is open or a message is sent."""
        self.stopping = False
        """Set by the driver while it stops the agent."""
        self.native_id: str | None = None
        """Set by the driver: the native id of the conversation."""
        self.settled_number = 0
        """Set by the driver of an agent with many processes; see `TurnByTurn`."""
        self._journal = self.path("journal")
        self._journal_at = 0
        self._partial = bytearray()

    def make(self) -> None:
        """Create the private folder and files; they must not exist."""
        os.makedirs(self.folder, mode=0o700, exist_ok=bool(self._prefix))
        for name in ("input", "journal", "errors"):
            os.close(os.open(self.path(name), os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))

    def path(self, name: str) -> str:
        """The path of a file of this process."""
        return os.path.join(self.folder, self._prefix + name)

    def take_up(self) -> None:
        """Restore the state of the previous driver; called once, before the journal is read."""

    def work(self) -> float | None:
        """Do what is due; returns when to call again (monotonic), None if only after a change in
        the folder."""
        return None

    def end_fd(self) -> int | None:
        """A new descriptor that becomes readable when the agent or its holder has ended; None if
        there is none and the caller must poll. The caller closes it."""
        return None

    @property
    def takes_messages(self) -> bool:
        """Whether the agent can take a message now."""
        return True

    def delivered(self, message_id: str) -> None:
        """The agent took the message: nothing more to do for it."""

    # -- output ---------------------------------------------------------------------------------

    def read_lines(self, most: int = _CHUNK) -> list[bytes]:
        """The next complete lines of the journal, up to about `most` bytes; [] if there are none.
        Raises `HoldingFailed` if the journal is missing or shorter than before, unless the whole
        folder was deleted: that counts as an agent that has ended."""
        try:
            handle = os.open(self._journal, os.O_RDONLY | os.O_CLOEXEC)
            try:
                if os.fstat(handle).st_size < self._journal_at:
                    raise HoldingFailed("the journal was cut short", hint=FILES_HINT)
                data = b""
                while b"\n" not in data:
                    # A line may be longer than one read.
                    self._partial += data
                    data = os.pread(handle, most, self._journal_at)
                    self._journal_at += len(data)
                    if not data:
                        return []
            finally:
                os.close(handle)
        except OSError as problem:
            if not os.path.isdir(self.folder):
                return []
            raise HoldingFailed(
                f"the journal cannot be read: {problem.strerror}", hint=FILES_HINT
            ) from None
        first, *rest = data.split(b"\n")
        lines = [bytes(self._partial) + first, *rest]
        self._partial = bytearray(lines.pop())
        return lines

    def last_words(self) -> bytes:
        """The incomplete last line; call this after the agent has ended."""
        words, self._partial = bytes(self._partial), bytearray()
        return words

    @property
    def journal_size(self) -> int:
        """Bytes of the journal that were read."""
        return self._journal_at

    # -- input ----------------------------------------------------------------------------------

    def input_size(self) -> int:
        """How many bytes the agent received so far."""
        try:
            return os.stat(self.path("input")).st_size
        except OSError as problem:
            raise HoldingFailed(
                f"the input file is gone: {problem.strerror}", hint=FILES_HINT
            ) from None

    def write(self, data: bytes) -> None:
        """Send bytes to the agent; they arrive even if this process is killed after the return.

        On a full disk a part may be written before `HoldingFailed` is raised; `input_size` shows
        how much.
        """
        try:
            self._append("input", data)
        except OSError as problem:
            raise HoldingFailed(
                f"the agent's input cannot be written: {problem.strerror}",
                hint="free some disk space; the session then continues by itself",
            ) from None
        self._announce()

    def _announce(self) -> None:
        """Wake what waits for input, if anything does."""

    def _append(self, name: str, data: bytes) -> None:
        handle = os.open(self.path(name), os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC)
        try:
            view = memoryview(data)
            while view:
                view = view[os.write(handle, view) :]
        finally:
            os.close(handle)


def read_word(path: str) -> str | None:
    """The content of a small file; None if it is missing or empty."""
    try:
        with open(path, encoding="ascii") as file:
            return file.read().strip() or None
    except (OSError, UnicodeDecodeError):
        return None


def read_number(path: str) -> int | None:
    """The number in a small file; None if there is none."""
    word = read_word(path)
    return int(word) if word and word.isdigit() else None
