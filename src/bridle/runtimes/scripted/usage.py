"""What the scripted agent's transcripts say was used."""

import os
from collections.abc import Mapping, Sequence

import msgspec

from bridle.core import structs
from bridle.core.files import state_dir
from bridle.core.times import seconds_of
from bridle.core.usage import Usage
from bridle.runtimes.usage_reader import Lines, NotUsage, Part, Place, Reading, Request, Tail


class _Record(msgspec.Struct, gc=False):
    type: str = ""
    ts: str = ""
    id: str | None = ""
    cwd: str = ""
    usage: Usage | None = None
    model: str | None = None
    cost_usd: float | None = None


class _State(msgspec.Struct, array_like=True):
    session: str = ""
    project: str = ""
    number: int = 0


_decode = structs.decoder(_Record).decode


class _Reader:
    version = 1

    def places(self, env: Mapping[str, str]) -> Sequence[Place]:
        """One file for each conversation."""
        return (Place(os.path.join(state_dir(env), "scripted"), "*.jsonl"),)

    def depends(self, env: Mapping[str, str]) -> Sequence[str]:
        """Nothing but the environment decides the places."""
        return ()

    def read(self, path: str, tail: Tail | None) -> Reading:
        """See `UsageReader.read`."""
        state = structs.unpack(tail.state, _State) if tail else _State()
        lines = Lines(path, tail)
        requests: list[Request] = []
        for raw in lines:
            if lines.is_loose:
                lines.skip()  # every record is written with its newline
                break
            try:
                record = _decode(raw)
            except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
                lines.skip()
                continue
            if record.type == "session" and not state.session:
                state.session, state.project = record.id or "", record.cwd
            elif record.type == "assistant" and record.usage is not None:
                requests.append(_request(record, record.usage, state))
        if not state.session:
            raise NotUsage("not a conversation of the scripted agent")
        part = Part(session=state.session, project=state.project, requests=requests)
        resume = lines.blocks.tail(msgspec.msgpack.encode(state))
        return Reading([part], resume, lines.notes())


def _request(record: _Record, usage: Usage, state: _State) -> Request:
    state.number += 1
    return Request(
        f"{state.session}:{state.number}",
        seconds_of(record.ts),
        record.model or "scripted",
        usage.input_tokens,
        usage.output_tokens,
        usage.cache_read_tokens,
        usage.cache_write_tokens,
        usage.reasoning_tokens,
        0,
        record.cost_usd,
    )


READER = _Reader()
