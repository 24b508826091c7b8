"""What Cline's session files say was used: one JSON file of messages for each session."""

import os
from collections.abc import Mapping, Sequence

import msgspec

from bridle.core import structs
from bridle.runtimes.usage_reader import (
    LONGEST_LINE,
    NotUsage,
    Part,
    Place,
    Reading,
    Request,
    Tail,
    home_of,
)


class _Metrics(msgspec.Struct, gc=False, rename="camel"):
    """`inputTokens` includes the cached tokens, `outputTokens` includes reasoning."""

    input_tokens: int | None = 0
    output_tokens: int | None = 0
    cache_read_tokens: int | None = 0
    cache_write_tokens: int | None = 0
    reasoning_tokens: int | None = 0
    cost: float | None = None


class _Model(msgspec.Struct, gc=False):
    id: str = ""
    provider: str = ""


class _Message(msgspec.Struct, gc=False, rename="camel"):
    id: str = ""
    role: str = ""
    ts: float = 0.0
    model_info: _Model | None = None
    metrics: _Metrics | None = None


class _Transcript(msgspec.Struct, rename="camel"):
    session_id: str
    agent: str = ""
    messages: list[_Message] = []


class _Record(msgspec.Struct):
    cwd: str = ""


_decode = structs.decoder(_Transcript).decode


class _Reader:
    version = 1

    def places(self, env: Mapping[str, str]) -> Sequence[Place]:
        """One folder for each session."""
        home = home_of(env, "CLINE_DIR", ".cline")
        data = env.get("CLINE_DATA_DIR") or os.path.join(home, "data")
        root = env.get("CLINE_SESSION_DATA_DIR") or os.path.join(data, "sessions")
        return (Place(root, "*/*.messages.json"),)

    def depends(self, env: Mapping[str, str]) -> Sequence[str]:
        """Nothing but the environment decides the places."""
        return ()

    def read(self, path: str, tail: Tail | None) -> Reading:
        """See `UsageReader.read`."""
        with open(path, "rb") as file:
            data = file.read(LONGEST_LINE + 1)
        if len(data) > LONGEST_LINE:
            raise NotUsage(f"larger than {LONGEST_LINE >> 20} MB")
        try:
            transcript = _decode(data)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            raise NotUsage("not a session of Cline, or half written") from None
        requests = [
            _request(message, message.metrics)
            for message in transcript.messages
            if message.role == "assistant" and message.metrics is not None
        ]
        agent = "" if transcript.agent in ("", "lead") else transcript.agent
        part = Part(
            session=transcript.session_id, project=_project(path), agent=agent, requests=requests
        )
        return Reading([part])


def _request(message: _Message, metrics: _Metrics) -> Request:
    read, write = metrics.cache_read_tokens or 0, metrics.cache_write_tokens or 0
    return Request(
        f"{message.id}@{message.ts:.0f}" if message.id else "",
        message.ts / 1000,
        message.model_info.id if message.model_info else "",
        # Never negative: a provider may count its cache separately after all.
        max(0, (metrics.input_tokens or 0) - read - write),
        metrics.output_tokens or 0,
        read,
        write,
        metrics.reasoning_tokens or 0,
        0,
        metrics.cost or None,
    )


def _project(path: str) -> str:
    try:
        with open(f"{path.removesuffix('.messages.json')}.json", "rb") as file:
            return structs.decode(file.read(), _Record).cwd
    except (OSError, msgspec.MsgspecError, UnicodeDecodeError):
        return ""


READER = _Reader()
