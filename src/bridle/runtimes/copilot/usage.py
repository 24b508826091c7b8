"""What Copilot's session files say was used: a `session.usage_record` for each model call.

The cost in a record counts premium requests, not dollars, so it is not used.
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


class _Usage(msgspec.Struct, gc=False, rename="camel"):
    """`inputTokens` includes the cached tokens, `outputTokens` includes reasoning."""

    model: str = ""
    input_tokens: int | None = 0
    output_tokens: int | None = 0
    cache_read_tokens: int | None = 0
    cache_write_tokens: int | None = 0
    reasoning_tokens: int | None = 0


class _Context(msgspec.Struct, gc=False):
    cwd: str = ""


class _Data(msgspec.Struct, gc=False, rename="camel"):
    usage: _Usage | None = None
    session_id: str = ""
    context: _Context | None = None


class _Line(msgspec.Struct, gc=False):
    type: str = ""
    id: str = ""
    timestamp: str = ""
    data: _Data | None = None


class _State(msgspec.Struct, array_like=True):
    session: str = ""
    project: str = ""


_decode = structs.decoder(_Line).decode


def _wanted(line: bytes) -> bool:
    return b'"session.usage_record"' in line or b'"session.start"' in line


class _Reader:
    version = 1

    def places(self, env: Mapping[str, str]) -> Sequence[Place]:
        """One folder for each session."""
        root = os.path.join(home_of(env, "COPILOT_HOME", ".copilot"), "session-state")
        return (Place(root, "*/events.jsonl"),)

    def depends(self, env: Mapping[str, str]) -> Sequence[str]:
        """Nothing but the environment decides the places."""
        return ()

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
                line = _decode(raw)
            except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
                lines.skip()
                continue
            if line.type == "session.start" and line.data is not None:
                state.session = state.session or line.data.session_id
                state.project = state.project or (
                    line.data.context.cwd if line.data.context else ""
                )
            elif line.type == "session.usage_record" and line.data and line.data.usage:
                requests.append(_request(line, line.data.usage))
        if not state.session and not requests:
            raise NotUsage("not a session of Copilot")
        session = state.session or os.path.basename(os.path.dirname(path))
        part = Part(session=session, project=state.project, requests=requests)
        loose = len(requests) - settled if settled >= 0 else 0
        resume = lines.blocks.tail(msgspec.msgpack.encode(state))
        return Reading([part], resume, lines.notes(), loose)


def _request(line: _Line, usage: _Usage) -> Request:
    read, write = usage.cache_read_tokens or 0, usage.cache_write_tokens or 0
    return Request(
        line.id,
        seconds_of(line.timestamp),
        usage.model,
        # Never negative: a provider may count its cache separately after all.
        max(0, (usage.input_tokens or 0) - read - write),
        usage.output_tokens or 0,
        read,
        write,
        usage.reasoning_tokens or 0,
    )


READER = _Reader()
