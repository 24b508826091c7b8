"""The decisions of a driver, written to disk before they take effect.

The journal holds what the agent said; the ledger holds everything else that shaped the session:
accepted messages, when each was sent, answers, aborts, clocks that ran out. Each entry says after
how many lines of the journal it was made (`at`). Journal and ledger together give the same events
and the same bytes to the agent at each replay, so a new driver continues where a killed one
stopped.
"""

import os
from typing import Any, Literal

import msgspec

from bridle.core import structs
from bridle.core.events import Drive
from bridle.process.spec import StopStep
from bridle.sessions.clocks import Clock, Clocks
from bridle.turns.guard_contract import GuardFacts, HookNote, current_note
from bridle.turns.usage_totals import Before
from bridle.turns.wire import LiveFacts

MessageKind = Literal["prompt", "steer", "follow_up"]


class _Entry(msgspec.Struct, frozen=True, kw_only=True, tag_field="do", omit_defaults=True):
    at: int = 0
    ts: float = 0.0
    """Wall clock; for people, and for clocks that continue after a restart."""


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
    """Messages that the previous process did not take."""
    clocks: Clocks | None = None
    """The session's clocks; None leaves them to its driver."""
    guard: GuardFacts | None = None
    """The agent's guard; None without one."""
    file_instructions: str = ""
    """What the agent's instruction files said about the completion marker when it was started."""
    private_dirs: tuple[str, ...] = ()
    """Folders that were made for this process; removed when it has ended."""


class Accept(_Entry, frozen=True, kw_only=True, tag="accept"):
    """A message for the agent was put into the queue."""

    id: str
    kind: MessageKind
    text: str
    images: tuple[str, ...] = ()


class Send(_Entry, frozen=True, kw_only=True, tag="send"):
    """A queued message was passed to the wire."""

    id: str
    steer: bool = False


class Drop(_Entry, frozen=True, kw_only=True, tag="drop"):
    """A queued message was dropped."""

    id: str
    reason: str = ""


class Answer(_Entry, frozen=True, kw_only=True, tag="answer"):
    """A permission request was answered."""

    request_id: str
    allowed: bool
    by: str
    reason: str = ""


class Abort(_Entry, frozen=True, kw_only=True, tag="abort"):
    """The open turn was aborted."""

    reason: str


class Expire(_Entry, frozen=True, kw_only=True, tag="expire"):
    """A clock ran out."""

    clock: Clock
    seconds: float


class Leave(_Entry, frozen=True, kw_only=True, tag="leave"):
    """The session was stopped."""

    reason: str


class Model(_Entry, frozen=True, kw_only=True, tag="model"):
    """The model was changed."""

    model: str


class Compact(_Entry, frozen=True, kw_only=True, tag="compact"):
    """The agent was asked to compact its context."""


class AbortCompaction(_Entry, frozen=True, kw_only=True, tag="abort_compaction"):
    """The running compaction was aborted."""


class Told(_Entry, frozen=True, kw_only=True, tag="told"):
    """A hook of the guard reported something, in most cases a verdict."""

    note: HookNote
    upto: int
    """How many bytes of the guard's notes are in the ledger with this entry."""


class Settled(_Entry, frozen=True, kw_only=True, tag="settled"):
    """A turn and its process ended; these were the session's totals. For wires that read some of
    that from files, which change later."""

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

    Contract: `append` returns when the entry is in the file, with `durable` when it is on the disk.
    A last line that a crash left incomplete counts as never written and is cut off.
    """

    def __init__(self, path: str) -> None:
        self._path = path

    def read(self, *, cut: bool = False) -> list[Entry]:
        """Every entry, oldest first. `cut`, for the session's driver only, removes an incomplete
        last line; any other reader may see a line that is just being written."""
        global _decoder
        if _decoder is None:
            _decoder = structs.decoder(Entry)
        try:
            with open(self._path, "rb") as file:
                data = file.read()
        except FileNotFoundError:
            return []
        whole = data.rfind(b"\n") + 1
        if cut and whole < len(data):
            os.truncate(self._path, whole)
        return [_entry(line, _decoder) for line in data[:whole].split(b"\n") if line]

    def append(self, entry: Entry, *, durable: bool = False) -> None:
        """Append an entry; raises `OSError` when that fails, and then the entry does not exist."""
        line = msgspec.json.encode(entry) + b"\n"
        # Opened each time, so that a thousand idle sessions do not hold a thousand files.
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


def _entry(line: bytes, decoder: "msgspec.json.Decoder[Entry]") -> Entry:
    try:
        return decoder.decode(line)
    except msgspec.ValidationError:
        stored = msgspec.json.decode(line)
        if not isinstance(stored, dict) or "note" not in stored:
            raise
        upgraded = {**stored, "note": current_note(stored["note"])}
        return decoder.decode(msgspec.json.encode(upgraded))


def ledger_entries(folder: str) -> list[Entry]:
    """The complete entries of the session in `folder`; safe while its driver appends."""
    return Ledger(os.path.join(folder, "ledger.jsonl")).read()
