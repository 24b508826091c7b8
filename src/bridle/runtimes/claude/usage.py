"""What Claude Code's session files say was used.

A message has as many lines as blocks, each with the whole usage: the last one counts. A fork copies
the lines of its source, ids and times included, below its own first line. Sub-agents have files of
their own. The call that compacts a session is in no file.

Most of a file is text that does not matter, so a line is decoded without its content: its beginning
up to the content, joined to its end from the usage on. The result is valid JSON only if both are
parts of the same object; otherwise the whole line is decoded.
"""

import os
from collections.abc import Mapping, Sequence
from datetime import datetime

import msgspec

from bridle.core import structs
from bridle.runtimes.usage_reader import Blocks, Part, Place, Reading, Request, Tail, home_of

_HEAD = 1024
"""Bytes from a line's beginning in which its content begins."""
_END = 1100
"""Bytes before a line's end in which its usage begins."""


class _Writes(msgspec.Struct, gc=False):
    hour: int | None = msgspec.field(name="ephemeral_1h_input_tokens", default=0)


class _Details(msgspec.Struct, gc=False):
    thinking: int | None = msgspec.field(name="thinking_tokens", default=0)


class _Usage(msgspec.Struct, gc=False):
    input: int | None = msgspec.field(name="input_tokens", default=0)
    output: int | None = msgspec.field(name="output_tokens", default=0)
    read: int | None = msgspec.field(name="cache_read_input_tokens", default=0)
    write: int | None = msgspec.field(name="cache_creation_input_tokens", default=0)
    writes: _Writes | None = msgspec.field(name="cache_creation", default=None)
    details: _Details | None = msgspec.field(name="output_tokens_details", default=None)


class _Message(msgspec.Struct, gc=False):
    id: str = ""
    model: str = ""
    usage: _Usage | None = None


class _Line(msgspec.Struct, gc=False, rename="camel"):
    type: str = ""
    timestamp: str = ""
    request_id: str | None = ""
    uuid: str = ""
    cwd: str = ""
    agent_id: str | None = ""
    attribution_agent: str | None = ""
    message: _Message | None = None
    cost: float | None = msgspec.field(name="costUSD", default=None)


class _Stamped(msgspec.Struct, gc=False):
    timestamp: str = ""


class _State(msgspec.Struct, array_like=True):
    began: str = ""
    project: str = ""
    agent: str = ""


_decode = structs.decoder(_Line).decode
_stamp = structs.decoder(_Stamped).decode
_BAD = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)


class _File:
    """The requests of one file, or of its end."""

    def __init__(self, state: _State) -> None:
        self.state = state
        self.found: dict[str, Request] = {}
        self.broken = 0

    def take(self, line: _Line) -> None:
        message, usage = line.message, line.message.usage if line.message else None
        if message is None or usage is None or line.type != "assistant":
            return
        if message.model == "<synthetic>":
            return
        state = self.state
        if not state.project:
            state.project = line.cwd
            state.agent = line.attribution_agent or line.agent_id or ""
        stamp = line.timestamp
        try:
            at = datetime.fromisoformat(stamp).timestamp()
        except (ValueError, OverflowError):
            at = 0.0
        writes, details = usage.writes, usage.details
        key = f"{message.id}:{line.request_id}" if message.id else line.uuid
        self.found[key] = Request(
            key,
            at,
            message.model,
            usage.input or 0,
            usage.output or 0,
            usage.read or 0,
            usage.write or 0,
            (details.thinking or 0) if details is not None else 0,
            (writes.hour or 0) if writes is not None else 0,
            line.cost or None,
            # Compared as text: all are UTC in the same format.
            stamp < state.began,
        )

    def block(self, data: bytes) -> None:
        """Take the whole lines of a block."""
        find = data.find
        position, end = 0, find(b"\n")
        waiting: list[tuple[int, int, int, int]] = []
        """Lines of the same message; the last of them counts."""
        current = b""
        while end >= 0:
            start, position = position, end + 1
            first = find(b'"type":"user"', start, start + 256)
            if first < 0 or find(b"{", start + 1, first) >= 0:
                # Not a user's line, in which nothing opens before the type.
                used = find(b'"usage":', max(start, end - _END), end)
                content = find(b'"content":', start, start + _HEAD) if used >= 0 else -1
                if 0 <= content < used:
                    # Model, id and role of the message, in whichever order.
                    message = data[find(b'"message":', start, content) : content]
                    if waiting and (message != current or b'"id":' not in message):
                        self._last_of(data, waiting)
                        waiting.clear()
                    current = message
                    waiting.append((start, content, used, end))
                elif used >= 0 or find(b'"output_tokens"', start, end) >= 0:
                    self.whole(data[start:end])
            end = find(b"\n", position)
        if waiting:
            self._last_of(data, waiting)

    def _last_of(self, data: bytes, lines: list[tuple[int, int, int, int]]) -> None:
        """Take the last of the lines that can be read."""
        for start, content, used, end in reversed(lines):
            try:
                line = _decode(data[start:content] + data[used:end])
            except _BAD:
                line = None
            if line is not None and line.type and line.message is not None and line.message.id:
                self.take(line)
                return
            if self.whole(data[start:end]):
                return

    def whole(self, raw: bytes) -> bool:
        """Take a line, all of it decoded; false if it cannot be read."""
        try:
            self.take(_decode(raw))
        except _BAD:
            self.broken += 1
            return False
        return True


class _Reader:
    version = 1

    def places(self, env: Mapping[str, str]) -> Sequence[Place]:
        """Sessions in the folder of their project, their sub-agents in a folder below."""
        root = os.path.join(home_of(env, "CLAUDE_CONFIG_DIR", ".claude"), "projects")
        return (Place(root, "*/*.jsonl"), Place(root, "*/*/subagents/*.jsonl"))

    def depends(self, env: Mapping[str, str]) -> Sequence[str]:
        """Nothing but the environment decides the places."""
        return ()

    def read(self, path: str, tail: Tail | None) -> Reading:
        """See `UsageReader.read`."""
        state = structs.unpack(tail.state, _State) if tail else _State()
        file = _File(state)
        blocks = Blocks(path, tail.offset if tail else 0, tail.check if tail else b"")
        for block in blocks:
            if not state.began:
                state.began = _first_time(block)
            file.block(block)
        settled, cut, broken = len(file.found), False, file.broken
        resume = blocks.tail(msgspec.msgpack.encode(state))
        if blocks.rest:
            cut = not file.whole(blocks.rest)
        requests = list(file.found.values())
        folder, name = os.path.split(path)
        agent = os.path.basename(folder) == "subagents"
        session = os.path.basename(os.path.dirname(folder)) if agent else name[: -len(".jsonl")]
        part = Part(
            session=session,
            project=state.project,
            agent=(state.agent or name[: -len(".jsonl")]) if agent else "",
            requests=requests,
        )
        return Reading([part], resume, blocks.notes(broken, cut=cut), len(requests) - settled)


def _first_time(block: bytes) -> str:
    """The time of the first line that has one."""
    start, end = 0, block.find(b"\n")
    while end >= 0:
        try:
            found = _stamp(block[start:end]).timestamp
        except _BAD:
            found = ""
        if found:
            return found
        start, end = end + 1, block.find(b"\n", end + 1)
    return ""


READER = _Reader()
