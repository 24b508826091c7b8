"""Pi's session files: where they are, which one an id means, and what they say was used.

A capture of `--mode json` begins with the same header, but its lines are events: a message is on
many of them, whole each time, and ends with its `message_end`.
"""

import os
from collections.abc import Iterator, Mapping

import msgspec

from bridle.core import structs
from bridle.core.results import TranscriptSummary, transcript_summary
from bridle.core.usage import NO_USAGE
from bridle.runtimes.pi.product import SESSION_DIR_VARIABLE
from bridle.runtimes.pi.wire import WireUsage
from bridle.turns.wire import LiveFacts

_MOST_PARENTS = 64
"""Longest chain of forks that is followed."""


class Header(msgspec.Struct, frozen=True, rename="camel"):
    """The first line of a session file."""

    type: str = ""
    id: str = ""
    cwd: str = ""
    parent_session: str | None = None


class _Message(msgspec.Struct, frozen=True):
    role: str = ""
    provider: str = ""
    model: str = ""
    usage: WireUsage | None = None


class Entry(msgspec.Struct, frozen=True):
    """A later line, as far as usage is concerned."""

    type: str = ""
    id: str = ""
    message: _Message | None = None
    usage: WireUsage | None = None


_EVENTS = frozenset(
    {"message_start", "message_update", "turn_start", "turn_end", "agent_start", "agent_end"}
)
"""Events of a capture that repeat a message which its `message_end` counts."""


class _Settings(msgspec.Struct, frozen=True, rename="camel"):
    session_dir: str | None = None


_decode_header = structs.decoder(Header).decode
_decode_entry = structs.decoder(Entry).decode


def session_dir(agent_dir: str, cwd: str, env: Mapping[str, str]) -> str:
    """The folder where conversations of `cwd` are kept: variable, then settings, then default."""
    configured = env.get(SESSION_DIR_VARIABLE)
    if not configured:
        try:
            with open(os.path.join(agent_dir, "settings.json"), "rb") as file:
                configured = structs.decode(file.read(), _Settings).session_dir
        except (OSError, msgspec.MsgspecError):
            configured = None
    real = os.path.realpath(cwd)
    if configured:
        return os.path.join(real, os.path.expanduser(configured))
    encoded = real.lstrip("/").replace("/", "-").replace("\\", "-").replace(":", "-")
    return os.path.join(agent_dir, "sessions", f"--{encoded}--")


def find_session(folder: str, session_id: str) -> tuple[str, Header] | None:
    """The file of a conversation and its header; only the whole id counts."""
    try:
        names = os.listdir(folder)
    except OSError:
        return None
    for name in sorted(names, reverse=True):
        if name.endswith(f"_{session_id}.jsonl"):
            path = os.path.join(folder, name)
            header = read_header(path)
            if header is not None and header.id == session_id:
                return path, header
    return None


def session_path(facts: LiveFacts) -> str | None:
    """The file of a session in a pane; it appears with the first answer.

    A version that chooses the id itself has the one new file of this folder; None when there are
    several, for it is unknown whose they are.
    """
    folder, session = facts.own["folder"], facts.own["session"]
    if session:
        found = find_session(folder, session)
        return None if found is None else found[0]
    try:
        paths = [os.path.join(folder, name) for name in os.listdir(folder)]
        new = [path for path in paths if os.stat(path).st_mtime >= facts.own["began"]]
    except OSError:
        return None
    fitting = [path for path in new if (header := read_header(path)) and header.cwd == facts.cwd]
    return fitting[0] if len(fitting) == 1 else None


def read_header(path: str) -> Header | None:
    """The header of a session file; None when it is missing or something else."""
    try:
        with open(path, "rb") as file:
            header = _decode_header(file.readline())
    except (OSError, msgspec.MsgspecError, UnicodeDecodeError):
        return None
    return header if header.type == "session" and header.id else None


def entries_of(path: str) -> Iterator[Entry]:
    """The entries of a session file; a line that cannot be read (half-written) is skipped."""
    with open(path, "rb") as file:
        for number, line in enumerate(file):
            if number:
                try:
                    yield _decode_entry(line)
                except (msgspec.MsgspecError, UnicodeDecodeError):
                    continue


def parse_transcript(path: str) -> TranscriptSummary | None:
    """What the conversation in `path` used by itself; `path` may also be a capture of
    `--mode json`.

    Every branch counts, failed and hidden messages too. A fork or clone copies its parent's
    entries with their ids; those count in the parent's file only, when that is still there.
    """
    header = read_header(path)
    if header is None:
        return None
    counted = _inherited_ids(path, header)
    usage, cost, priced, model = NO_USAGE, 0.0, False, ""
    try:
        for entry in entries_of(path):
            if entry.type in _EVENTS:
                continue
            used = entry.usage
            if entry.message is not None and entry.message.role == "assistant":
                message = entry.message
                used = message.usage
                model = f"{message.provider}/{message.model}" if message.provider else message.model
            if used is None or (entry.id and entry.id in counted):
                continue
            counted.add(entry.id)
            usage += used.counted()
            cost += used.cost.total
            priced = priced or used.cost.total > 0
    except OSError:
        return None
    return transcript_summary(usage, model=model, cost_usd=cost if priced else None)


def _inherited_ids(path: str, header: Header) -> set[str]:
    """Ids of the entries in all the files that this one was forked from."""
    found: set[str] = set()
    seen = {os.path.realpath(path)}
    for _ in range(_MOST_PARENTS):
        parent = header.parent_session
        if parent is None or os.path.realpath(parent) in seen:
            break
        seen.add(os.path.realpath(parent))
        above = read_header(parent)
        if above is None:
            break
        try:
            found.update(entry.id for entry in entries_of(parent) if entry.id)
        except OSError:
            break
        header = above
    return found
