"""What a session used, from the files that agents keep themselves.

Only for agents whose protocol does not tell. Each reader gives the session's whole total; what one
run added is the difference between two readings. Nothing is ever written.
"""

import os
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

import msgspec

from bridle.core.usage import NO_USAGE, Usage

if TYPE_CHECKING:
    from bridle.core.results import TranscriptSummary


class History(msgspec.Struct, frozen=True, kw_only=True):
    """Totals of a session."""

    usage: Usage
    model: str | None = None
    cost_usd: float = 0.0


def _home(env: Mapping[str, str]) -> str:
    return env.get("HOME") or os.path.expanduser("~")


# -- Cline ----------------------------------------------------------------------------------------


class _Metrics(msgspec.Struct, frozen=True, rename="camel"):
    input_tokens: int = 0
    output_tokens: int = 0
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0


class _ModelInfo(msgspec.Struct, frozen=True):
    id: str = ""


class _ClineMessage(msgspec.Struct, frozen=True, rename="camel"):
    role: str = ""
    metrics: _Metrics | None = None
    model_info: _ModelInfo | None = None


class _ClineFile(msgspec.Struct, frozen=True):
    messages: list[_ClineMessage] = []


def cline_sessions(env: Mapping[str, str]) -> str:
    """The folder of Cline's sessions, one folder each."""
    data = env.get("CLINE_DATA_DIR") or os.path.join(
        env.get("CLINE_DIR") or os.path.join(_home(env), ".cline"), "data"
    )
    return os.path.join(data, "sessions")


def read_cline_file(path: str) -> History | None:
    """What a `<id>.messages.json` tells; None when it cannot be read."""
    try:
        with open(path, "rb") as file:
            told = msgspec.json.decode(file.read(), type=_ClineFile)
    except (OSError, msgspec.MsgspecError, UnicodeDecodeError):
        return None
    usage, model = NO_USAGE, None
    for message in told.messages:
        if message.metrics is None:
            continue
        counts = message.metrics
        # Cline's input includes what was read from and written to the cache.
        cached = counts.cache_read_tokens + counts.cache_write_tokens
        usage += Usage(
            input_tokens=max(0, counts.input_tokens - cached),
            output_tokens=counts.output_tokens,
            cache_read_tokens=counts.cache_read_tokens,
            cache_write_tokens=counts.cache_write_tokens,
        )
        model = (message.model_info.id if message.model_info else None) or model
    return History(usage=usage, model=model)


def _read_cline(env: Mapping[str, str], session_id: str) -> History | None:
    folder = os.path.join(cline_sessions(env), session_id)
    return read_cline_file(os.path.join(folder, f"{session_id}.messages.json"))


# -- OpenCode -------------------------------------------------------------------------------------


class _Cache(msgspec.Struct, frozen=True):
    read: int = 0
    write: int = 0


class _Tokens(msgspec.Struct, frozen=True):
    input: int = 0
    output: int = 0
    reasoning: int = 0
    cache: _Cache = _Cache()


class _OpencodeMessage(msgspec.Struct, frozen=True):
    role: str = ""
    model_id: str = msgspec.field(name="modelID", default="")
    provider_id: str = msgspec.field(name="providerID", default="")
    cost: float = 0.0
    tokens: _Tokens = _Tokens()


def opencode_data(env: Mapping[str, str]) -> str:
    """The folder of OpenCode's database."""
    base = env.get("XDG_DATA_HOME") or os.path.join(_home(env), ".local", "share")
    return os.path.join(base, "opencode")


def _read_opencode(env: Mapping[str, str], session_id: str) -> History | None:
    import sqlite3

    path = os.path.join(opencode_data(env), "opencode.db")
    if not os.path.exists(path):
        return None
    usage, model, cost = NO_USAGE, None, 0.0
    try:
        with sqlite3.connect(f"file:{path}?mode=ro", uri=True, timeout=5.0) as store:
            rows = store.execute("SELECT data FROM message WHERE session_id = ?", (session_id,))
            for (data,) in rows.fetchall():
                told = msgspec.json.decode(data, type=_OpencodeMessage)
                tokens = told.tokens
                if told.role != "assistant":
                    continue
                usage += Usage(
                    input_tokens=tokens.input,
                    output_tokens=tokens.output + tokens.reasoning,
                    cache_read_tokens=tokens.cache.read,
                    cache_write_tokens=tokens.cache.write,
                    reasoning_tokens=tokens.reasoning,
                )
                cost += told.cost
                model = f"{told.provider_id}/{told.model_id}" if told.model_id else model
        store.close()
    except (sqlite3.Error, msgspec.MsgspecError):
        return None
    return History(usage=usage, model=model, cost_usd=cost)


# -- Codex ----------------------------------------------------------------------------------------


def _read_codex(env: Mapping[str, str], session_id: str) -> History | None:
    """Codex's own runtime reads the thread, which may be told of in several folders by day."""
    from bridle.runtimes.registry import get_runtime

    home = env.get("CODEX_HOME") or os.path.join(_home(env), ".codex")
    ending = f"-{session_id}.jsonl"
    for folder, _, names in os.walk(os.path.join(home, "sessions")):
        for name in names:
            if not name.endswith(ending):
                continue
            told = get_runtime("codex").parse_transcript(os.path.join(folder, name))
            return None if told is None else History(usage=_usage_of(told), model=told.model)
    return None


def _usage_of(told: "TranscriptSummary") -> Usage:
    return Usage(
        input_tokens=told.input_tokens,
        output_tokens=told.output_tokens,
        cache_read_tokens=told.cache_read_tokens,
        cache_write_tokens=told.cache_write_tokens,
        reasoning_tokens=told.reasoning_tokens,
    )


READERS: dict[str, Callable[[Mapping[str, str], str], History | None]] = {
    "cline": _read_cline,
    "codex": _read_codex,
    "opencode": _read_opencode,
}
"""Readers by the row's `history`: the agent's environment and a session's id in, totals out."""


FOLDERS: dict[str, Callable[[Mapping[str, str]], str]] = {
    "cline": cline_sessions,
    "opencode": opencode_data,
}
"""Where those agents keep what is read."""


# -- transcripts for others -----------------------------------------------------------------------


def summarize(path: str) -> "TranscriptSummary | None":
    """What a Cline session's file says was used; None when it is none."""
    from bridle.core.results import TranscriptSummary

    told = read_cline_file(path)
    if told is None or told.usage == NO_USAGE:
        return None
    return TranscriptSummary(
        input_tokens=told.usage.input_tokens,
        output_tokens=told.usage.output_tokens,
        cache_read_tokens=told.usage.cache_read_tokens,
        cache_write_tokens=told.usage.cache_write_tokens,
        reasoning_tokens=told.usage.reasoning_tokens,
        model=told.model or "",
    )
