"""What Codex's session files ("rollouts") say was used.

Newer versions write a `token_usage_record` for each model call, also for one that compacts. Older
ones write only `token_count`, a running total that is repeated and that an overflow resets: there
its growth counts. Once a file has records, totals are ignored.

A fork names its source; older versions copy the source's lines into it. A sub-agent has a file of
its own that names the root session.
"""

import os
from collections.abc import Mapping, Sequence
from typing import Any

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

_MARKS = (b"session_meta", b"token_usage_record", b"turn_context", b"token_count")


class _Counts(msgspec.Struct, gc=False):
    """Codex counts cached and cache-written tokens inside its input."""

    input_tokens: int = 0
    cached_input_tokens: int = 0
    cache_write_input_tokens: int = 0
    output_tokens: int = 0
    reasoning_output_tokens: int = 0


class _Info(msgspec.Struct, gc=False):
    total_token_usage: _Counts | None = None


class _Payload(msgspec.Struct, gc=False):
    type: str = ""
    id: str = ""
    session_id: str = ""
    cwd: str = ""
    source: Any = None
    parent_thread_id: str | None = None
    forked_from_id: str | None = None
    agent_nickname: str | None = None
    agent_role: str | None = None
    turn_id: str | None = None
    model: str | None = None
    response_id: str = ""
    usage: _Counts | None = None
    info: _Info | None = None


class _Line(msgspec.Struct, gc=False):
    type: str
    payload: _Payload
    timestamp: str = ""


class _State(msgspec.Struct, array_like=True):
    id: str = ""
    root: str = ""
    project: str = ""
    agent: str = ""
    parent: str = ""
    model: str = ""
    copied: bool = False
    """Whether the current turn was copied from the source of this thread."""
    recorded: bool = False
    total: tuple[int, int, int, int, int] = (0, 0, 0, 0, 0)
    steps: int = 0


_decode = structs.decoder(_Line).decode


def _wanted(line: bytes) -> bool:
    head = line[:240]
    return any(mark in head for mark in _MARKS)


def _values(counts: _Counts) -> tuple[int, int, int, int, int]:
    read, write = counts.cached_input_tokens, counts.cache_write_input_tokens
    fresh = max(0, counts.input_tokens - read - write)
    return fresh, counts.output_tokens, read, write, counts.reasoning_output_tokens


class _Reader:
    version = 1

    def places(self, env: Mapping[str, str]) -> Sequence[Place]:
        """Sessions by day, and those that the user archived."""
        home = home_of(env, "CODEX_HOME", ".codex")
        return (
            Place(os.path.join(home, "sessions"), "*/*/*/rollout-*.jsonl"),
            Place(os.path.join(home, "archived_sessions"), "rollout-*.jsonl"),
        )

    def depends(self, env: Mapping[str, str]) -> Sequence[str]:
        """Nothing but the environment decides the places."""
        return ()

    def read(self, path: str, tail: Tail | None) -> Reading:
        """See `UsageReader.read`."""
        state = structs.unpack(tail.state, _State) if tail else _State()
        lines = Lines(path, tail, _wanted)
        requests: list[Request] = []
        settled, before = 0, b""
        for raw in lines:
            if lines.is_loose:
                settled, before = len(requests), msgspec.msgpack.encode(state)
            try:
                line = _decode(raw)
            except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
                lines.skip()
                continue
            _take(line, state, requests)
        if not lines.is_loose:
            settled, before = len(requests), msgspec.msgpack.encode(state)
        if not state.id and not requests:
            raise NotUsage("not a session of Codex")
        part = Part(
            session=state.root or state.id,
            project=state.project,
            agent=state.agent,
            parent=state.parent,
            requests=requests,
        )
        loose = len(requests) - settled
        return Reading([part], lines.blocks.tail(before), lines.notes(), loose)


def _take(line: _Line, state: _State, requests: list[Request]) -> None:
    payload = line.payload
    if line.type == "session_meta":
        if not state.id:  # a copy repeats the header of its source after its own
            _begin(payload, state)
    elif line.type == "turn_context":
        state.model = payload.model or state.model
        for request in reversed(requests):  # a call may be recorded before its turn is described
            if request.model:
                break
            request.model = state.model
        turn = (payload.turn_id or "").lower()
        # Ids begin with the time of their creation: what is older than a copy is not its own.
        state.copied = bool(state.parent and turn) and turn < state.id.lower()
    elif line.type == "token_usage_record" and payload.usage is not None:
        state.recorded = True
        fresh, output, read, write, reasoning = _values(payload.usage)
        requests.append(
            Request(
                payload.response_id,
                seconds_of(line.timestamp),
                state.model,
                fresh,
                output,
                read,
                write,
                reasoning,
                inherited=state.copied,
            )
        )
    elif payload.type == "token_count" and payload.info is not None:
        _grow(payload.info.total_token_usage, line.timestamp, state, requests)


def _begin(header: _Payload, state: _State) -> None:
    state.id, state.project = header.id, header.cwd
    state.parent = header.forked_from_id or ""
    spawned = header.source.get("subagent") if isinstance(header.source, dict) else None
    if spawned:
        state.root = header.session_id or header.parent_thread_id or ""
        state.agent = header.agent_nickname or header.agent_role or header.id


def _grow(counts: _Counts | None, timestamp: str, state: _State, requests: list[Request]) -> None:
    if counts is None:
        return
    total = _values(counts)
    fresh, output, read, write, reasoning = (
        now - then for now, then in zip(total, state.total, strict=True)
    )
    grown = fresh + output + read + write
    state.total = total
    if state.recorded or state.copied or grown <= 0:
        return
    state.steps += 1
    requests.append(
        Request(
            f"{state.id}:{state.steps}",
            seconds_of(timestamp),
            state.model,
            max(0, fresh),
            max(0, output),
            max(0, read),
            max(0, write),
            max(0, reasoning),
        )
    )


READER = _Reader()
