"""What a driver decided, written down before it is done.

The journal holds what the agent said; the ledger holds all else that shaped the session: messages
that were accepted, when each was handed to the wire, answers, aborts, clocks that ran out. Each
entry says after how many lines of the journal it took place (`at`). Journal and ledger together
give the same events and the same bytes to the agent every time they are played, which is how a new
driver takes up where a killed one was.
"""

import os
from typing import Any, Literal

import msgspec

from bridle.core.events import Drive
from bridle.process.spec import StopStep
from bridle.sessions.clocks import Clock, Clocks
from bridle.turns.guard_contract import GuardFacts, HookNote
from bridle.turns.usage_totals import Before
from bridle.turns.wire import LiveFacts

MessageKind = Literal["prompt", "steer", "follow_up"]


class _Entry(msgspec.Struct, frozen=True, kw_only=True, tag_field="do", omit_defaults=True):
    at: int = 0
    ts: float = 0.0
    """Wall clock; for people, and for clocks that go on after a restart."""


class Begin(_Entry, frozen=True, kw_only=True, tag="begin"):
    """A process of the session is about to be started."""

    run: int
    drive: Drive
    facts: LiveFacts
    before: Before
    options: dict[str, Any] = {}
    """The options that events depend on; no secret, no environment."""
    stop: tuple[StopStep, ...] = ()
    can_steer: bool = False
    carried: "tuple[Accept, ...]" = ()
    """Messages that the process before did not take."""
    clocks: Clocks | None = None
    """The session's own clocks; None leaves them to whoever drives it."""
    guard: GuardFacts | None = None
    """What guards the agent; None when nothing does."""
    file_instructions: str = ""
    """What the agent's instruction files said of the completion marker when it was started."""
    private_dirs: tuple[str, ...] = ()
    """Folders that were made for this process alone; removed when it is gone."""


class Accept(_Entry, frozen=True, kw_only=True, tag="accept"):
    """A message for the agent was taken into the queue."""

    id: str
    kind: MessageKind
    text: str
    images: tuple[str, ...] = ()


class Send(_Entry, frozen=True, kw_only=True, tag="send"):
    """A message of the queue was handed to the wire."""

    id: str
    steer: bool = False


class Drop(_Entry, frozen=True, kw_only=True, tag="drop"):
    """A message of the queue will not be sent."""

    id: str
    reason: str = ""


class Answer(_Entry, frozen=True, kw_only=True, tag="answer"):
    """A permission request was answered."""

    request_id: str
    allowed: bool
    by: str
    reason: str = ""


class Abort(_Entry, frozen=True, kw_only=True, tag="abort"):
    """The open turn was to end."""

    reason: str


class Expire(_Entry, frozen=True, kw_only=True, tag="expire"):
    """A clock ran out."""

    clock: Clock
    seconds: float


class Leave(_Entry, frozen=True, kw_only=True, tag="leave"):
    """The session was to end."""

    reason: str


class Model(_Entry, frozen=True, kw_only=True, tag="model"):
    """The model was to change."""

    model: str


class Compact(_Entry, frozen=True, kw_only=True, tag="compact"):
    """The context was to be shortened."""


class AbortCompaction(_Entry, frozen=True, kw_only=True, tag="abort_compaction"):
    """The compaction that ran was to be given up."""


class Told(_Entry, frozen=True, kw_only=True, tag="told"):
    """A hook of the guard's told something, above all a verdict."""

    note: HookNote
    upto: int
    """How many bytes of the guard's notes were taken with it."""


class Settled(_Entry, frozen=True, kw_only=True, tag="settled"):
    """A turn was over and its process gone: what the session had come to then. For wires whose
    agent tells some of that only in files, which change."""

    total: Before
    native_session_id: str | None = None
    model: str | None = None


Entry = (
    Begin
    | Accept
    | Send
    | Drop
    | Answer
    | Abort
    | Expire
    | Leave
    | Model
    | Compact
    | AbortCompaction
    | Told
    | Settled
)

_decoder: "msgspec.json.Decoder[Entry] | None" = None


class Ledger:
    """One session's ledger file.

    Contract: `append` returns when the entry is in the file; `durable` waits until it is on the
    disk too. A last line that a crash left unfinished never happened and is cut off.
    """

    def __init__(self, path: str) -> None:
        self._path = path

    def read(self, *, cut: bool = False) -> list[Entry]:
        """Every entry, the oldest first. With `cut`, which only the session's driver may say, an
        unfinished last line is taken away; for others it may be one that is just being written."""
        global _decoder
        if _decoder is None:
            _decoder = msgspec.json.Decoder(Entry)
        try:
            with open(self._path, "rb") as file:
                data = file.read()
        except FileNotFoundError:
            return []
        whole = data.rfind(b"\n") + 1
        if cut and whole < len(data):
            os.truncate(self._path, whole)
        return [_decoder.decode(line) for line in data[:whole].split(b"\n") if line]

    def append(self, entry: Entry, *, durable: bool = False) -> None:
        """Write an entry; raises `OSError` when it cannot be, and then it never happened."""
        line = msgspec.json.encode(entry) + b"\n"
        # Opened each time: a thousand idle sessions must not hold a thousand files.
        handle = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        try:
            size = os.fstat(handle).st_size
            try:
                view = memoryview(line)
                while view:
                    view = view[os.write(handle, view) :]
                if durable:
                    _to_disk(handle)
            except OSError:
                os.ftruncate(handle, size)
                raise
        finally:
            os.close(handle)


_to_disk = getattr(os, "fdatasync", os.fsync)
