"""What Pi's session files say was used.

Every branch of a conversation counts, failed and hidden messages too, and compactions that tell
their usage. A fork copies its parent's entries with their ids and times. A capture of `--mode json`
begins like a session file, but its lines are events: a message is on many of them, whole each time,
and counts at its `message_end`.
"""

import os
from collections.abc import Mapping, Sequence

import msgspec

from bridle.core import structs
from bridle.core.times import seconds_of
from bridle.runtimes.usage_reader import (
    Lines,
    NotUsage,
    Part,
    Place,
    Reading,
    Request,
    Tail,
    home_of,
)

_COUNTED = frozenset({"message", "message_end", "compaction", "branch_summary", "usage"})


class _Cost(msgspec.Struct, gc=False):
    total: float = 0.0


class _Usage(msgspec.Struct, gc=False, rename="camel"):
    input: int = 0
    output: int = 0
    cache_read: int = 0
    cache_write: int = 0
    reasoning: int | None = 0
    hour: int | None = msgspec.field(name="cacheWrite1h", default=0)
    cost: _Cost = msgspec.field(default_factory=_Cost)


class _Message(msgspec.Struct, gc=False, rename="camel"):
    role: str = ""
    provider: str = ""
    model: str = ""
    response_id: str | None = None
    timestamp: float = 0.0
    usage: _Usage | None = None


class _Entry(msgspec.Struct, gc=False, rename="camel"):
    type: str = ""
    id: str = ""
    timestamp: str = ""
    cwd: str = ""
    parent_session: str | None = None
    message: _Message | None = None
    usage: _Usage | None = None


class _State(msgspec.Struct, array_like=True):
    session: str = ""
    project: str = ""
    parent: str = ""
    began: str = ""
    model: str = ""


class _Settings(msgspec.Struct, rename="camel"):
    session_dir: str | None = None


_decode = structs.decoder(_Entry).decode


def _wanted(line: bytes) -> bool:
    return b'"usage"' in line or b'"session"' in line


class _Reader:
    version = 1

    def places(self, env: Mapping[str, str]) -> Sequence[Place]:
        """The folder of the settings, or one folder for each project."""
        home = home_of(env, "PI_CODING_AGENT_DIR", ".pi/agent")
        chosen = env.get("PI_CODING_AGENT_SESSION_DIR") or _configured(home)
        root = os.path.expanduser(chosen) if chosen else os.path.join(home, "sessions")
        if not os.path.isabs(root):
            return ()  # below each project
        return (Place(root, "*/*.jsonl"), Place(root, "*.jsonl"))

    def depends(self, env: Mapping[str, str]) -> Sequence[str]:
        """The settings may name another folder."""
        return (os.path.join(home_of(env, "PI_CODING_AGENT_DIR", ".pi/agent"), "settings.json"),)

    def read(self, path: str, tail: Tail | None) -> Reading:
        """See `UsageReader.read`."""
        state = structs.unpack(tail.state, _State) if tail else _State()
        lines = Lines(path, tail, _wanted)
        requests: list[Request] = []
        settled = -1
        for raw in lines:
            if lines.is_loose:
                settled = len(requests)
            try:
                entry = _decode(raw)
            except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
                lines.skip()
                continue
            if entry.type == "session" and not state.session:
                state.session, state.project = entry.id, entry.cwd
                state.began = entry.timestamp
                parent = os.path.basename(entry.parent_session or "").removesuffix(".jsonl")
                state.parent = parent.rpartition("_")[2]
            elif not state.session:
                raise NotUsage("not a session of Pi")
            elif entry.type in _COUNTED:
                _take(entry, state, requests)
        if not state.session:
            raise NotUsage("not a session of Pi")
        part = Part(
            session=state.session, project=state.project, parent=state.parent, requests=requests
        )
        loose = len(requests) - settled if settled >= 0 else 0
        resume = lines.blocks.tail(msgspec.msgpack.encode(state))
        return Reading([part], resume, lines.notes(), loose)


def _take(entry: _Entry, state: _State, requests: list[Request]) -> None:
    usage, at, key = entry.usage, seconds_of(entry.timestamp), ""
    message = entry.message
    if message is not None:
        if message.role != "assistant":
            return
        state.model = f"{message.provider}/{message.model}" if message.provider else message.model
        usage, at = message.usage, at or message.timestamp / 1000
        key = f"{message.response_id}@{message.timestamp:.0f}" if message.response_id else ""
    if usage is None:
        return
    requests.append(
        Request(
            # Eight digits of an entry are unique within a tree only; copies keep the time.
            f"{entry.id}@{entry.timestamp}" if entry.id else key,
            at,
            state.model,
            usage.input,
            usage.output,
            usage.cache_read,
            usage.cache_write,
            usage.reasoning or 0,
            usage.hour or 0,
            usage.cost.total or None,
            bool(state.parent and entry.timestamp and entry.timestamp < state.began),
        )
    )


def _configured(home: str) -> str | None:
    try:
        with open(os.path.join(home, "settings.json"), "rb") as file:
            return structs.decode(file.read(), _Settings).session_dir
    except (OSError, msgspec.MsgspecError, UnicodeDecodeError):
        return None


READER = _Reader()
